//! How fast one client may talk.

use domain::Limits;
use tokio::time::Instant;

/// Answers and cancels a second beyond which even those are a flood.
const UNCOUNTED_PER_SECOND: f64 = 5_000.0;

/// Two buckets that fill with time: one for requests, one for what is not counted as a request.
#[derive(Debug)]
pub(super) struct Pace {
    requests: Bucket,
    others: Bucket,
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    /// Take it.
    Take,
    /// Refuse it; the next one is welcome after this many milliseconds.
    TooFast(u64),
    /// End the connection.
    Flood,
}

impl Pace {
    pub(super) fn new(limits: &Limits, now: Instant) -> Self {
        Self {
            requests: Bucket::of_requests(limits.requests_per_second, now),
            others: Bucket::new(UNCOUNTED_PER_SECOND, UNCOUNTED_PER_SECOND, now),
        }
    }

    /// Counts a request. A client that goes on after many refusals is flooding.
    pub(super) fn request(&mut self, now: Instant) -> Allowance {
        match self.requests.take(now) {
            Ok(()) => Allowance::Take,
            Err(wait_ms) => match self.others.take(now) {
                Ok(()) => Allowance::TooFast(wait_ms),
                Err(_) => Allowance::Flood,
            },
        }
    }

    /// Counts anything else.
    pub(super) fn other(&mut self, now: Instant) -> Allowance {
        match self.others.take(now) {
            Ok(()) => Allowance::Take,
            Err(_) => Allowance::Flood,
        }
    }
}

/// Fills with time; what is in it may be taken.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: f64,
    size: f64,
    filled: f64,
    at: Instant,
}

impl Bucket {
    /// For requests: a burst of two seconds' worth, then so many a second.
    pub(crate) fn of_requests(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second.max(1));
        Self::new(per_second, 2.0 * per_second, now)
    }

    /// Whether nothing was taken from it lately.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.filled + elapsed * self.per_second >= self.size
    }

    fn new(per_second: f64, size: f64, now: Instant) -> Self {
        Self {
            per_second,
            size,
            filled: size,
            at: now,
        }
    }

    /// Takes one, or says in how many milliseconds there will be one.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), u64> {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.filled = (self.filled + elapsed * self.per_second).min(self.size);
        if self.filled >= 1.0 {
            self.filled -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - self.filled) / self.per_second * 1_000.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few seconds at most"
        )]
        Err(wait.ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::Limits;
    use tokio::time::Instant;

    use super::{Allowance, Pace};

    #[test]
    fn a_burst_passes_then_requests_are_refused_then_it_is_a_flood() {
        let limits = Limits {
            requests_per_second: 10,
            ..Limits::default()
        };
        let start = Instant::now();
        let mut pace = Pace::new(&limits, start);
        for _ in 0..20 {
            assert_eq!(pace.request(start), Allowance::Take);
        }
        assert_eq!(pace.request(start), Allowance::TooFast(100));
        assert_eq!(
            pace.request(start + Duration::from_millis(100)),
            Allowance::Take
        );
        let answers = std::iter::repeat_with(|| pace.request(start + Duration::from_millis(100)));
        let refused = answers
            .take_while(|allowance| *allowance != Allowance::Flood)
            .count();
        assert!((4_900..=5_000).contains(&refused), "{refused}");
        assert_eq!(pace.other(start + Duration::from_secs(2)), Allowance::Take);
    }
}
