//! When a server is started, started again, and left alone. Rules only: time comes in, nothing waits.
//!
//! ```text
//! Starting ──► Ready ──ends──► BackingOff ──due──► Starting …
//!     └─fails──► BackingOff ──too often──► Failed ──wanted, after a rest──► Starting
//!     ├─refused──► Disabled
//!     └─needs a login──► LoginNeeded ──somebody logged in──► Starting …
//! ```

use std::time::Duration;

use domain::limits::{MCP_BACKOFF_MAX, MCP_BACKOFF_MIN, MCP_FAILURES_MAX, MCP_REST, MCP_STEADY};
use tokio::time::Instant;

/// How things stand with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being reached.
    Starting,
    /// Its tools can be called.
    Ready,
    /// It failed, and is tried again at that time.
    BackingOff {
        /// When.
        until: Instant,
    },
    /// It failed too often; after that time it is tried again if somebody wants it.
    Failed {
        /// When.
        until: Instant,
    },
    /// It does not let us in; it is tried again once somebody has logged in.
    LoginNeeded,
    /// It will not be tried again.
    Disabled,
}

/// The rules for one server.
#[derive(Clone, Debug)]
pub(crate) struct Supervision {
    phase: Phase,
    /// Failures in a row.
    failures: u32,
    ready_since: Option<Instant>,
    /// Spreads tries over time: between a half and the whole of a wait, in parts of 256.
    spread: u8,
}

impl Supervision {
    /// A server that is about to be started.
    pub(crate) fn new(spread: u8) -> Self {
        Self {
            phase: Phase::Starting,
            failures: 0,
            ready_since: None,
            spread,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// It is there.
    pub(crate) fn ready(&mut self, now: Instant) {
        self.phase = Phase::Ready;
        self.ready_since = Some(now);
    }

    /// It could not be reached, and another try would end the same way.
    pub(crate) fn refused(&mut self) {
        self.phase = Phase::Disabled;
    }

    /// It does not let us in.
    pub(crate) fn turned_away(&mut self) {
        self.phase = Phase::LoginNeeded;
    }

    /// Somebody has logged in.
    pub(crate) fn logged_in(&mut self) {
        if self.phase == Phase::LoginNeeded {
            self.phase = Phase::Starting;
        }
    }

    /// It could not be reached.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures += 1;
        self.phase = match self.failures >= MCP_FAILURES_MAX {
            true => Phase::Failed {
                until: now + MCP_REST,
            },
            false => Phase::BackingOff {
                until: now + self.wait(),
            },
        };
    }

    /// The connection ended. One that lasted is made again at once; one that did not has failed.
    pub(crate) fn ended(&mut self, now: Instant) {
        let lasted = self.ready_since.take();
        let lasted = lasted.is_some_and(|since| now.duration_since(since) >= MCP_STEADY);
        if lasted {
            self.failures = 0;
            self.phase = Phase::Starting;
        } else if self.failures == 0 {
            // Once is an accident.
            self.failures = 1;
            self.phase = Phase::Starting;
        } else {
            self.failed(now);
        }
    }

    /// Time has passed.
    pub(crate) fn due(&mut self, now: Instant) {
        if let Phase::BackingOff { until } = self.phase
            && now >= until
        {
            self.phase = Phase::Starting;
        }
    }

    /// Somebody wants to call a tool.
    pub(crate) fn wanted(&mut self, now: Instant) {
        if let Phase::Failed { until } = self.phase
            && now >= until
        {
            // One more try; if it fails the rest begins anew.
            self.failures = MCP_FAILURES_MAX - 1;
            self.phase = Phase::Starting;
        }
    }

    fn wait(&self) -> Duration {
        let doubled =
            MCP_BACKOFF_MIN * 2_u32.saturating_pow(self.failures.saturating_sub(1).min(16));
        let whole = doubled.min(MCP_BACKOFF_MAX);
        whole / 2 + whole / 512 * u32::from(self.spread)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::limits::{
        MCP_BACKOFF_MAX, MCP_BACKOFF_MIN, MCP_FAILURES_MAX, MCP_REST, MCP_STEADY,
    };
    use tokio::time::Instant;

    use super::{Phase, Supervision};

    fn wait(supervision: &Supervision, now: Instant) -> Duration {
        let phase = supervision.phase();
        let Phase::BackingOff { until } = phase else {
            panic!("it does not back off: {phase:?}");
        };
        until - now
    }

    #[test]
    fn waits_grow_up_to_a_bound_and_then_it_is_left_alone_until_wanted() {
        let mut now = Instant::now();
        let mut it = Supervision::new(255);
        let mut last = Duration::ZERO;
        for _ in 1..MCP_FAILURES_MAX {
            it.failed(now);
            let next = wait(&it, now);
            assert!(
                next > last && next <= MCP_BACKOFF_MAX,
                "{next:?} after {last:?}"
            );
            it.due(now + next / 2);
            assert!(matches!(it.phase(), Phase::BackingOff { .. }), "too early");
            now += next;
            it.due(now);
            assert_eq!(it.phase(), Phase::Starting);
            last = next;
        }
        it.failed(now);
        assert_eq!(
            it.phase(),
            Phase::Failed {
                until: now + MCP_REST
            }
        );
        it.due(now + MCP_REST * 10);
        it.wanted(now);
        assert_eq!(
            it.phase(),
            Phase::Failed {
                until: now + MCP_REST
            },
            "it rests"
        );
        now += MCP_REST;
        it.wanted(now);
        assert_eq!(it.phase(), Phase::Starting, "one more try");
        it.failed(now);
        assert_eq!(
            it.phase(),
            Phase::Failed {
                until: now + MCP_REST
            }
        );
    }

    #[test]
    fn a_connection_that_lasted_is_made_again_at_once_however_often() {
        let mut now = Instant::now();
        let mut it = Supervision::new(0);
        for _ in 0..20 {
            it.ready(now);
            now += MCP_STEADY;
            it.ended(now);
            assert_eq!(it.phase(), Phase::Starting);
        }
    }

    #[test]
    fn a_server_that_begins_and_dies_is_not_started_without_end() {
        let mut now = Instant::now();
        let mut it = Supervision::new(0);
        let mut starts = 0;
        while it.phase() == Phase::Starting {
            starts += 1;
            it.ready(now);
            it.ended(now);
            if let Phase::BackingOff { until } = it.phase() {
                assert!(until - now >= MCP_BACKOFF_MIN / 2);
                now = until;
                it.due(now);
            }
        }
        assert_eq!(starts, MCP_FAILURES_MAX);
        assert!(matches!(it.phase(), Phase::Failed { .. }));
    }

    #[test]
    fn what_is_refused_is_not_tried_again() {
        let now = Instant::now();
        let mut it = Supervision::new(0);
        it.refused();
        it.due(now + MCP_REST);
        it.wanted(now + MCP_REST);
        assert_eq!(it.phase(), Phase::Disabled);
    }
}
