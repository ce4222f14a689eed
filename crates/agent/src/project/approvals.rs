//! Which project files a person has approved: `approvals.json` in the data directory.
//!
//! An approval is of one file at one place with one content; a change of a byte ends it. The file
//! is replaced as a whole under a lock, and a running server sees that at its next turn.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use domain::clock::Timestamp;
use serde::{Deserialize, Serialize};

/// Longest file that is read: tens of thousands of approvals.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The approvals of a data directory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Approvals {
    path: PathBuf,
}

/// One approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The file, without links.
    pub path: String,
    /// What it held.
    pub sha256: String,
    /// When, in seconds.
    pub at: f64,
}

#[derive(Default, Serialize, Deserialize)]
struct Stored {
    approvals: Vec<Approval>,
}

impl Approvals {
    /// The approvals of `data_dir`; the file need not exist.
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join("approvals.json"),
        }
    }

    /// Where they are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of them.
    ///
    /// # Errors
    /// If the file is there but cannot be used; nothing is approved by it then.
    pub fn all(&self) -> io::Result<Vec<Approval>> {
        Ok(self.read()?.approvals)
    }

    /// Whether `path` with this content is approved.
    #[must_use]
    pub fn cover(&self, path: &str, sha256: &str) -> bool {
        let is_it = |approval: &Approval| approval.path == path && approval.sha256 == sha256;
        self.all().is_ok_and(|all| all.iter().any(is_it))
    }

    /// Approves `path` with this content, and no other.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn approve(&self, path: &str, sha256: &str, now: Timestamp) -> io::Result<()> {
        self.change(|approvals| {
            approvals.retain(|approval| approval.path != path);
            approvals.push(Approval {
                path: path.to_owned(),
                sha256: sha256.to_owned(),
                at: now.0,
            });
        })
    }

    /// Takes an approval back; says whether there was one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn revoke(&self, path: &str) -> io::Result<bool> {
        self.change(|approvals| {
            let before = approvals.len();
            approvals.retain(|approval| approval.path != path);
            approvals.len() < before
        })
    }

    fn read(&self) -> io::Result<Stored> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stored::default()),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Reads, changes and replaces the file, alone.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Approval>) -> T) -> io::Result<T> {
        let lock = private(&self.path.with_file_name("approvals.lock"))?;
        lock.lock()?;
        let mut stored = self.read()?;
        let changed = change(&mut stored.approvals);
        let text = serde_json::to_string_pretty(&stored)?;
        let temporary = self.path.with_file_name(".approvals.json");
        let mut file = private(&temporary)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)?;
        if let Some(directory) = self.path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(changed)
    }
}

fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use domain::clock::Timestamp;

    use super::Approvals;

    const NOW: Timestamp = Timestamp(1_000.0);

    #[test]
    fn an_approval_is_of_one_place_and_one_content_until_it_is_taken_back() {
        let place = tempfile::tempdir().unwrap();
        let approvals = Approvals::of(place.path());
        assert!(!approvals.cover("/p", "a"));
        approvals.approve("/p", "a", NOW).unwrap();
        approvals.approve("/q", "b", NOW).unwrap();
        assert!(approvals.cover("/p", "a"));
        assert!(!approvals.cover("/p", "b") && !approvals.cover("/q", "a"));
        // Of another content, it takes the place of the former.
        approvals.approve("/p", "c", NOW).unwrap();
        assert!(approvals.cover("/p", "c") && !approvals.cover("/p", "a"));
        assert!(approvals.revoke("/p").unwrap());
        assert!(!approvals.revoke("/p").unwrap() && !approvals.cover("/p", "c"));
        let mode = approvals.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_approves_nothing_and_is_not_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let approvals = Approvals::of(place.path());
        std::fs::write(approvals.path(), "{").unwrap();
        assert!(!approvals.cover("/p", "a"));
        assert!(approvals.approve("/p", "a", NOW).is_err());
        assert_eq!(std::fs::read_to_string(approvals.path()).unwrap(), "{");
    }
}
