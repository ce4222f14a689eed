//! Whether anything has changed on a part of the disk since it was read.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// What was looked at, there or not, and how it was then.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    seen: Vec<(PathBuf, Option<Stamp>)>,
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

impl Stamps {
    /// Remembers how `path` is. To be called before it is read.
    pub fn note(&mut self, path: PathBuf) {
        let stamp = stamp(&path);
        self.seen.push((path, stamp));
    }

    /// Whether all of it still is as it was.
    #[must_use]
    pub fn are_fresh(&self) -> bool {
        self.seen.iter().all(|(path, then)| stamp(path) == *then)
    }
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        place: (metadata.dev(), metadata.ino()),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
        bytes: metadata.len(),
    })
}
