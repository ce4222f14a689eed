//! `server.json`, by which other commands find the running server, and the lock that says it runs.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde_json::{Value, json};

/// `server.json` is a few words; anything longer was not written by us.
const BYTES_MAX: u64 = 4 * 1024;

/// The file while the server runs. Removed when dropped.
pub(crate) struct Announcement {
    path: PathBuf,
    /// Held while the file is ours; a second server on the same data directory stays unannounced.
    _lock: File,
}

impl Announcement {
    /// Tells other commands where this server is, if no other server has told them.
    pub(crate) fn publish(data_dir: &Path, url: &str, unix: Option<&Path>) -> Option<Self> {
        let announced = Self::try_publish(data_dir, url, unix);
        if let Err(error) = &announced {
            tracing::warn!(%error, "not announced: other commands will not find this server by themselves");
        }
        announced.ok()
    }

    fn try_publish(data_dir: &Path, url: &str, unix: Option<&Path>) -> io::Result<Self> {
        let lock = private_file(&data_dir.join("server.lock"))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let path = data_dir.join("server.json");
        let temporary = data_dir.join(".server.json");
        let content = json!({"pid": std::process::id(), "url": url, "unix": unix});
        let mut file = private_file(&temporary)?;
        file.set_len(0)?;
        file.write_all(content.to_string().as_bytes())?;
        std::fs::rename(&temporary, &path)?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // A file that stays behind is recognised by the lock that nobody holds.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The address of the server that runs on `data_dir`, if one does.
pub(crate) fn running(data_dir: &Path) -> Option<String> {
    announced(data_dir, "url")
}

/// The path of its Unix socket, if it has one.
pub(crate) fn running_socket(data_dir: &Path) -> Option<String> {
    announced(data_dir, "unix")
}

fn announced(data_dir: &Path, key: &str) -> Option<String> {
    let lock = File::open(data_dir.join("server.lock")).ok()?;
    // Whoever can share it finds nobody who holds it.
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let file = File::open(data_dir.join("server.json")).ok()?;
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    let announced: Value = serde_json::from_str(&text).ok()?;
    announced[key].as_str().map(str::to_owned)
}

/// Opens a file that only we can read, making it if there is none.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::{Announcement, running};

    #[test]
    fn a_server_is_found_while_it_runs_and_a_dead_ones_file_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(running(directory.path()), None);
        let announced = Announcement::publish(directory.path(), "http://127.0.0.1:7", None);
        assert_eq!(
            running(directory.path()).as_deref(),
            Some("http://127.0.0.1:7")
        );
        let second = Announcement::publish(directory.path(), "http://127.0.0.1:8", None);
        assert!(second.is_none());
        let left_behind = std::fs::read(directory.path().join("server.json")).unwrap();
        drop(announced);
        assert!(!directory.path().join("server.json").exists());
        std::fs::write(directory.path().join("server.json"), left_behind).unwrap();
        assert_eq!(running(directory.path()), None);
    }
}
