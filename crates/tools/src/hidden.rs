//! Hidden places, known by what they are and not by their path.
//!
//! A path is hidden by naming it, but a directory above it can be renamed. So the first time that a
//! hidden path exists, this process opens it and keeps the descriptor: the kernel then says where the
//! file or directory is now, whatever was renamed above it.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::limits::HIDDEN_PLACES_MAX;
use rustix::fs::{Mode, OFlags};

/// What is held, by the path under which it was hidden. One for the whole process: a session that
/// begins after a rename must still know what was hidden before it.
static HELD: Mutex<BTreeMap<PathBuf, Vec<Arc<OwnedFd>>>> = Mutex::new(BTreeMap::new());

/// Opens what is at `path` and remembers it, unless that was done before.
pub(crate) fn hold(path: &Path) {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(there) = rustix::fs::open(path, flags, Mode::empty()) else {
        return;
    };
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.len() >= HIDDEN_PLACES_MAX && !held.contains_key(path) {
        return;
    }
    let known = held.entry(path.to_owned()).or_default();
    known.retain(|fd| identity(fd).is_some());
    let new = identity(&there);
    let is_known = known.iter().any(|fd| identity(fd) == new);
    if !is_known && known.len() < HIDDEN_PLACES_MAX {
        known.push(Arc::new(there));
    }
}

/// Where the places hidden as `paths` are now: at those paths, and wherever they were moved.
#[must_use]
pub(crate) fn locations(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut locations = Vec::new();
    for path in paths {
        hold(path);
        locations.push(path.clone());
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        for fd in held.get(path).into_iter().flatten() {
            let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let now = std::fs::read_link(link).ok();
            let now = now.filter(|now| identity(fd).is_some() && !locations.contains(now));
            locations.extend(now);
        }
    }
    locations
}

/// The device and inode of a file that is still on a disk.
fn identity(fd: &OwnedFd) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(fd).ok()?;
    (stat.st_nlink > 0).then_some((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::locations;

    #[test]
    fn a_hidden_directory_is_found_after_its_parent_was_renamed() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let hidden = [top.join("parent/data")];
        fs::create_dir_all(&hidden[0]).unwrap();
        assert_eq!(locations(&hidden), hidden);
        fs::rename(top.join("parent"), top.join("elsewhere")).unwrap();
        let moved = top.join("elsewhere/data");
        assert_eq!(locations(&hidden), [hidden[0].clone(), moved.clone()]);
        // Another one in its old place is hidden as well.
        fs::create_dir_all(&hidden[0]).unwrap();
        assert_eq!(locations(&hidden), [hidden[0].clone(), moved.clone()]);
        fs::rename(top.join("parent"), top.join("third")).unwrap();
        let third = top.join("third/data");
        assert_eq!(locations(&hidden), [hidden[0].clone(), moved, third]);
    }

    #[test]
    fn a_hidden_directory_that_was_removed_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let hidden = [place.path().canonicalize().unwrap().join("data")];
        fs::create_dir(&hidden[0]).unwrap();
        assert_eq!(locations(&hidden), hidden);
        fs::remove_dir(&hidden[0]).unwrap();
        assert_eq!(locations(&hidden), hidden);
    }
}
