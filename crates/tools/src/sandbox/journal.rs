//! Snapshots on disk, so that a supervisor that is killed leaves word of what it had to look at.
//!
//! A supervisor writes its snapshot before the command begins, and holds a lock on the file for as
//! long as it lives. The next supervisor settles those whose lock is free. A supervisor touches
//! its file every second: what was made later than that is not the command's doing.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use domain::clock::Timestamp;
use domain::limits::{PROTECTED_BYTES_MAX, SNAPSHOTS_MAX};
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW};

use super::put_back::Snapshot;

/// How often a supervisor says that it lives.
pub(super) const TOUCH_EVERY: Duration = Duration::from_secs(1);

/// What a command may have done after the last touch.
const SLACK: Duration = Duration::from_secs(2);

/// The end of a snapshot's name. While it is written it has another.
const END: &str = "snapshot";

/// A snapshot on disk. Removed when it was settled.
#[derive(Debug)]
pub(super) struct Written {
    path: PathBuf,
    file: File,
}

impl Written {
    /// Writes `snapshot` into `directory`.
    pub(super) fn new(directory: &Path, snapshot: &Snapshot) -> io::Result<Self> {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        made?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let draft = directory.join(format!("{id}.new"));
        let mut options = File::options();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&draft)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(&serde_json::to_vec(snapshot)?)?;
        let path = directory.join(format!("{id}.{END}"));
        std::fs::rename(&draft, &path)?;
        Ok(Self { path, file })
    }

    /// Says that the command may still run.
    pub(super) fn touch(&self) {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        // Without it, more of what is new counts as the user's.
        let _ = rustix::fs::futimens(&self.file, &times);
    }

    /// Everything was looked at.
    pub(super) fn remove(&self) {
        // A snapshot that stays is settled again, with nothing to do.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What was found of a command whose supervisor was killed.
#[derive(Debug)]
pub(super) struct Recovery {
    roots: Vec<PathBuf>,
    /// What the user should know, a line each.
    pub(super) told: Vec<String>,
}

impl Recovery {
    /// Whether it is about one of these directories, or something in them.
    pub(super) fn is_about(&self, roots: &[PathBuf]) -> bool {
        let is_within = |own: &PathBuf| roots.iter().any(|root| own.starts_with(root));
        self.roots.iter().any(is_within)
    }
}

/// Settles what killed supervisors left in `directory`. Blocks.
pub(super) fn recover(directory: &Path) -> Vec<Recovery> {
    let mut told = Vec::new();
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.take(SNAPSHOTS_MAX) {
        let path = entry.path();
        let is_written = path.extension().is_some_and(|end| end == END);
        let Ok(file) = File::open(&path) else {
            continue;
        };
        // Its supervisor lives.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if is_written {
            told.extend(settle(&file));
        }
        if is_written || is_old(&file) {
            let _ = std::fs::remove_file(&path);
        }
    }
    told
}

fn settle(file: &File) -> Option<Recovery> {
    let mut text = Vec::new();
    // Bytes take up to four characters each as JSON.
    let most = 8 * PROTECTED_BYTES_MAX;
    let read = file.take(most).read_to_end(&mut text);
    let touched = file.metadata().and_then(|found| found.modified());
    match (read, touched, serde_json::from_slice::<Snapshot>(&text)) {
        (Ok(_), Ok(touched), Ok(mut snapshot)) => Some(Recovery {
            told: snapshot.recover(touched + SLACK),
            roots: snapshot.into_roots(),
        }),
        _ => None,
    }
}

/// Whether a file is so old that its writer is gone.
fn is_old(file: &File) -> bool {
    let then = file.metadata().and_then(|found| found.modified());
    let Some(then) = then
        .ok()
        .and_then(|then| then.duration_since(UNIX_EPOCH).ok())
    else {
        return false;
    };
    Timestamp::now().0 - then.as_secs_f64() > 60.0
}
