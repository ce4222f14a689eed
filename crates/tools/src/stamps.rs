//! Whether anything has changed on a part of the disk since it was read.
//!
//! Most of what is looked for is not there. A directory tells of all that is not in it: a name that
//! comes into it changes its time, so one question to it stands for one about each name.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use domain::clock::Timestamp;

/// How old a directory's last change must be for its time to tell the next one from it: no
/// filesystem counts in longer steps.
const TICK_SECONDS_MAX: f64 = 2.0;

/// What was looked at, there or not, and how it was then.
#[derive(Debug, Default)]
pub struct Stamps {
    seen: Vec<(PathBuf, Stamp)>,
    missing: Vec<Gap>,
}

/// Tells one version of a file or directory from another: one that is replaced is another inode,
/// one that is written has another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
    bytes: u64,
}

/// What is not there, in one directory or in others that are missing in it.
#[derive(Debug)]
struct Gap {
    within: PathBuf,
    /// How the directory is as long as nothing new is in it, if that can be told.
    settled: Mutex<Option<Stamp>>,
    paths: Vec<PathBuf>,
}

impl Stamps {
    /// Remembers how `path` is. To be called before it is read.
    pub fn note(&mut self, path: PathBuf) {
        if let Some(stamp) = stamp(&path) {
            return self.seen.push((path, stamp));
        }
        let within = nearest(&path);
        match self.missing.iter_mut().find(|gap| gap.within == within) {
            Some(gap) => gap.paths.push(path),
            None => self.missing.push(Gap {
                within,
                settled: Mutex::default(),
                paths: vec![path],
            }),
        }
    }

    /// Whether all of it still is as it was.
    #[must_use]
    pub fn are_fresh(&self) -> bool {
        self.are_fresh_at(Timestamp::now())
    }

    fn are_fresh_at(&self, now: Timestamp) -> bool {
        let is_same = |(path, then): &(PathBuf, Stamp)| stamp(path) == Some(*then);
        self.seen.iter().all(is_same) && self.missing.iter().all(|gap| gap.holds_at(now))
    }
}

impl Gap {
    fn holds_at(&self, now: Timestamp) -> bool {
        let found = stamp(&self.within);
        let settled = *self.lock();
        if settled.is_some() && settled == found {
            return true;
        }
        let holds = self.paths.iter().all(|path| stamp(path).is_none());
        // Found before the names were looked for, so whatever comes after that shows. What stands
        // where a name would begin, a link or a directory, may lead to it without a trace here.
        let is_telling = holds && !self.paths.iter().any(|path| begins(&self.within, path));
        *self.lock() = found.filter(|found| is_telling && found.is_settled_at(now));
        holds
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Stamp>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stamp {
    fn is_settled_at(&self, now: Timestamp) -> bool {
        let (seconds, nanos) = self.changed.max(self.modified);
        #[expect(clippy::cast_precision_loss, reason = "seconds fit 53 bits for now")]
        let since = seconds as f64 + nanos as f64 / 1e9;
        now.0 - since > TICK_SECONDS_MAX
    }
}

/// The deepest directory above `path` that is there.
fn nearest(path: &Path) -> PathBuf {
    let above = path.ancestors().skip(1);
    let mut there = above.filter(|directory| directory.is_dir());
    there.next().unwrap_or(Path::new("/")).to_owned()
}

/// Whether anything has the name that `path` has first beneath `within`.
fn begins(within: &Path, path: &Path) -> bool {
    let beneath = path.strip_prefix(within).ok();
    let first = beneath.and_then(|beneath| beneath.components().next());
    first.is_none_or(|first| within.join(first).symlink_metadata().is_ok())
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        place: (metadata.dev(), metadata.ino()),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
        bytes: metadata.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When whatever happens now is long past.
    fn later() -> Timestamp {
        Timestamp(Timestamp::now().0 + 2.0 * TICK_SECONDS_MAX)
    }

    /// A directory whose next change has another time, however soon it comes.
    fn rested() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let opened = std::fs::File::open(home.path()).unwrap();
        opened
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        home
    }

    fn noted(path: &Path) -> Stamps {
        let mut stamps = Stamps::default();
        stamps.note(path.to_owned());
        stamps
    }

    fn is_settled(stamps: &Stamps) -> bool {
        stamps.missing.iter().all(|gap| gap.lock().is_some())
    }

    #[test]
    fn what_comes_is_seen_however_soon() {
        let home = tempfile::tempdir().unwrap();
        let stamps = noted(&home.path().join("name"));
        assert!(stamps.are_fresh());
        assert!(
            !is_settled(&stamps),
            "a time that has just come says little"
        );
        std::fs::write(home.path().join("name"), "").unwrap();
        assert!(!stamps.are_fresh());
    }

    #[test]
    fn what_comes_into_a_directory_that_rested_is_seen() {
        let home = rested();
        let stamps = noted(&home.path().join("name"));
        assert!(stamps.are_fresh_at(later()));
        assert!(is_settled(&stamps));
        std::fs::write(home.path().join("other"), "").unwrap();
        assert!(stamps.are_fresh_at(later()), "another name is no matter");
        std::fs::write(home.path().join("name"), "").unwrap();
        assert!(!stamps.are_fresh());
    }

    #[test]
    fn what_comes_step_by_step_is_seen() {
        let home = rested();
        let path = home.path().join("not/there/name");
        let stamps = noted(&path);
        assert!(stamps.are_fresh_at(later()));
        assert!(is_settled(&stamps));
        for directory in ["not", "not/there"] {
            std::fs::create_dir(home.path().join(directory)).unwrap();
            assert!(stamps.are_fresh_at(later()), "a directory alone is nothing");
        }
        std::fs::write(path, "").unwrap();
        assert!(!stamps.are_fresh());
    }

    #[test]
    fn where_a_link_comes_to_lead_is_seen() {
        let (home, elsewhere) = (rested(), tempfile::tempdir().unwrap());
        let target = elsewhere.path().join("target");
        std::os::unix::fs::symlink(&target, home.path().join("link")).unwrap();
        let stamps = noted(&home.path().join("link"));
        assert!(stamps.are_fresh_at(later()));
        std::fs::write(target, "").unwrap();
        assert!(!stamps.are_fresh());
    }

    #[test]
    fn what_changes_and_what_goes_is_seen() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("name");
        std::fs::write(&path, "one").unwrap();
        let stamps = noted(&path);
        assert!(stamps.are_fresh());
        std::fs::write(&path, "three").unwrap();
        assert!(!stamps.are_fresh());
        std::fs::remove_file(&path).unwrap();
        assert!(!stamps.are_fresh());
    }
}
