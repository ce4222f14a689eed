//! A bar on stderr while something long goes on, and nothing where nobody looks.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Cells of the bar.
const CELLS: usize = 24;

/// Shortest time between two pictures: a terminal over a slow line must not hold up the work.
const DRAW_EVERY: Duration = Duration::from_millis(80);

/// How far a piece of work is. Cleared when dropped.
pub(super) struct Progress {
    total: usize,
    what: &'static str,
    is_shown: bool,
    drawn: Option<Instant>,
}

impl Progress {
    /// A bar for `total` things that are called `what`.
    pub(super) fn new(total: usize, what: &'static str) -> Self {
        Self {
            total,
            what,
            is_shown: io::stderr().is_terminal(),
            drawn: None,
        }
    }

    /// `done` things are done.
    pub(super) fn at(&mut self, done: usize) {
        let is_recent = self.drawn.is_some_and(|at| at.elapsed() < DRAW_EVERY);
        if !self.is_shown || is_recent {
            return;
        }
        self.drawn = Some(Instant::now());
        let line = format!("\r{}", line(done, self.total, self.what));
        // A bar that cannot be drawn is no reason to stop.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

fn line(done: usize, total: usize, what: &str) -> String {
    let filled = (done * CELLS)
        .checked_div(total)
        .unwrap_or(CELLS)
        .min(CELLS);
    let (full, empty) = ("█".repeat(filled), "░".repeat(CELLS - filled));
    format!("{full}{empty} {done} of {total} {what}")
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_bar_fills_from_the_left() {
        assert_eq!(
            line(1, 2, "sessions"),
            "████████████░░░░░░░░░░░░ 1 of 2 sessions"
        );
        assert!(line(0, 0, "sessions").starts_with('█'));
    }
}
