//! How long a search goes on: as long as somebody waits for it, and its time is not up.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use domain::limits::SEARCH_TIME_MAX;

use super::Roots;

/// A watch over one search. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Watch {
    stopped: Arc<AtomicBool>,
    deadline: Instant,
}

/// A file that is read only for as long as its search goes on: one file may be larger than anybody
/// has patience for.
#[derive(Debug)]
pub struct Watched {
    file: File,
    watch: Watch,
    was_stopped: bool,
}

impl Watch {
    pub(super) fn new(stopped: Arc<AtomicBool>) -> Self {
        Self::lasting(SEARCH_TIME_MAX, stopped)
    }

    pub(super) fn lasting(time: Duration, stopped: Arc<AtomicBool>) -> Self {
        Self {
            stopped,
            deadline: Instant::now() + time,
        }
    }

    /// Whether the search is to end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || Instant::now() > self.deadline
    }

    /// `file`, read while the search goes on.
    #[must_use]
    pub fn over(&self, file: File) -> Watched {
        Watched {
            file,
            watch: self.clone(),
            was_stopped: false,
        }
    }
}

impl Watched {
    /// `file`, read while whoever holds `roots` waits.
    #[must_use]
    pub fn of(file: File, roots: &Roots) -> Self {
        Watch::new(Arc::clone(&roots.stopped)).over(file)
    }

    /// Whether it was not read to its end because the search ended first.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        self.was_stopped
    }
}

impl Read for Watched {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.watch.is_over() {
            self.was_stopped = true;
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(bytes)
    }
}
