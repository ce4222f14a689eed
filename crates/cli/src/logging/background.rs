//! Writing lines to stderr on a thread of its own.
//!
//! Whoever logs hands over a line and goes on. When nobody reads stderr, lines that find no room
//! are dropped and counted; the count is written when there is room again.

use std::io::{self, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

use crate::safe_text::without_hidden;

/// Lines that may wait: a few seconds of a busy server, and little memory.
const LINES_MAX: usize = 1_024;

/// How long the program's end waits for the last lines.
const FLUSH_TIME_MAX: Duration = Duration::from_millis(500);

/// How often that is looked at.
const FLUSH_LOOK: Duration = Duration::from_millis(1);

/// The readers of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// Those at a terminal: hidden characters are shown by their number.
    People,
    /// Whatever reads a pipe or a file, byte for byte.
    Programs,
}

/// Where lines are handed over.
#[derive(Clone)]
pub(super) struct Lines {
    queue: SyncSender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

/// The thread that writes. Dropping it waits, but not for ever, until all is written.
pub(crate) struct Flush {
    queue: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread; without one, lines go nowhere.
pub(super) fn start(readers: Readers) -> (Lines, Flush) {
    let (queue, waiting) = sync_channel(LINES_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    let lines = Lines {
        queue: queue.clone(),
        dropped: Arc::clone(&dropped),
    };
    let thread = std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || write_all(&waiting, &dropped, readers))
        .ok();
    let queue = Some(queue);
    (lines, Flush { queue, thread })
}

fn write_all(waiting: &Receiver<Vec<u8>>, dropped: &AtomicU64, readers: Readers) {
    while let Ok(line) = waiting.recv() {
        // An empty line asks to stop: those who log hold the queue open for ever.
        if line.is_empty() {
            return;
        }
        // A log that cannot be written is nobody's concern but the reader's.
        let _ = match readers {
            Readers::Programs => stderr().write_all(&line),
            Readers::People => {
                let line = without_hidden(&String::from_utf8_lossy(&line));
                stderr().write_all(line.as_bytes())
            }
        };
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                stderr(),
                "{lost} lines of the log were lost: nobody read them"
            );
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (Some(queue), Some(thread)) = (self.queue.take(), self.thread.take()) else {
            return;
        };
        let deadline = Instant::now() + FLUSH_TIME_MAX;
        let mut is_told = false;
        while !thread.is_finished() && Instant::now() < deadline {
            is_told = is_told || queue.try_send(Vec::new()).is_ok();
            std::thread::sleep(FLUSH_LOOK);
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// Takes one line, which comes whole.
pub(super) struct Line<'a>(&'a Lines);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if !line.is_empty() && self.0.queue.try_send(line.to_vec()).is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
