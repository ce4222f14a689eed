//! How fast a turn's text is taken: faster than any model writes, and slow enough that one which
//! does not stop leaves the machine to the other sessions.

use std::time::Duration;

use domain::limits::{TEXT_BURST_TIME, TEXT_BYTES_PER_SECOND_MAX};
use tokio::time::Instant;

/// The pace of one turn.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When all that was written would have been, at the highest rate.
    due: Option<Instant>,
}

impl Pace {
    /// Counts what was just written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        let now = Instant::now();
        let from = self.due.map_or(now, |due| due.max(now));
        let nanos = bytes as u64 * 1_000_000_000 / TEXT_BYTES_PER_SECOND_MAX;
        self.due = Some(from + Duration::from_nanos(nanos));
    }

    /// When the next text may be taken, unless that is now.
    pub(super) fn opens_at(&self) -> Option<Instant> {
        let opens_at = self.due?.checked_sub(TEXT_BURST_TIME)?;
        (opens_at > Instant::now()).then_some(opens_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_model_writes_never_waits() {
        let mut pace = Pace::default();
        for _ in 0..10_000 {
            pace.wrote(100);
            assert_eq!(pace.opens_at(), None);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_takes_as_long_as_the_rate_says() {
        let mut pace = Pace::default();
        let started = Instant::now();
        let mut written = 0;
        while written < 4 * TEXT_BYTES_PER_SECOND_MAX {
            pace.wrote(64 * 1024);
            written += 64 * 1024;
            if let Some(opens_at) = pace.opens_at() {
                tokio::time::sleep_until(opens_at).await;
            }
        }
        let took = started.elapsed() + TEXT_BURST_TIME;
        assert!(took >= Duration::from_secs(4), "{took:?}");
        assert!(took < Duration::from_millis(4_100), "{took:?}");
    }
}
