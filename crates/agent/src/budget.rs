//! How much a turn may do.

use domain::Limits;
use domain::event::{StopReason, Usage};
use tokio::time::Instant;

/// What a turn has left: model calls, tokens, time. It is spent by value, so nothing of it can be
/// spent twice.
#[derive(Debug)]
pub struct Budget {
    steps: u32,
    /// `None` is as many as it takes.
    tokens: Option<u64>,
    ends: Instant,
    repeats_max: u32,
}

impl Budget {
    /// A full budget for a turn that begins now, in a session that has used `used` tokens.
    #[must_use]
    pub fn new(limits: &Limits, used: u64) -> Self {
        let turn = bound(limits.turn_tokens_max);
        let session = bound(limits.session_tokens_max).map(|max| max.saturating_sub(used));
        Self {
            steps: limits.steps_max,
            tokens: turn.into_iter().chain(session).min(),
            ends: Instant::now() + limits.turn,
            repeats_max: limits.repeats_max,
        }
    }

    /// How many calls in a row may bring nothing new; 0 means any number.
    #[must_use]
    pub fn repeats_max(&self) -> u32 {
        self.repeats_max
    }

    /// The budget with one more model call spent.
    ///
    /// # Errors
    /// If there is nothing left to make it with: why the turn stops.
    pub fn spend_step(self) -> Result<Self, StopReason> {
        if self.tokens == Some(0) {
            return Err(StopReason::MaxTokens);
        }
        let steps = self.steps.checked_sub(1);
        match steps {
            Some(steps) if Instant::now() < self.ends => Ok(Self { steps, ..self }),
            Some(_) | None => Err(StopReason::MaxTurnRequests),
        }
    }

    /// Tokens that are left; `None` is as many as it takes.
    #[must_use]
    pub fn tokens_left(&self) -> Option<u64> {
        self.tokens
    }

    /// The budget after a call that used `usage`. A call may take more than was left: nobody knows
    /// before how long an answer will be.
    #[must_use]
    pub fn spend_tokens(self, usage: Usage) -> Self {
        let tokens = self.tokens;
        Self {
            tokens: tokens.map(|left| left.saturating_sub(usage.tokens())),
            ..self
        }
    }
}

/// A bound of which 0 is none.
fn bound(max: u64) -> Option<u64> {
    (max > 0).then_some(max)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::Limits;
    use domain::event::{StopReason, Usage};

    use super::Budget;

    fn used(tokens: u64) -> Usage {
        Usage {
            input_tokens: tokens,
            ..Usage::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn d_03_a_turn_stops_when_its_steps_tokens_or_time_are_spent() {
        let limits = Limits {
            steps_max: 2,
            turn_tokens_max: 100,
            turn: Duration::from_secs(60),
            ..Limits::default()
        };
        let steps = Budget::new(&limits, 0).spend_step().unwrap();
        let steps = steps.spend_step().unwrap().spend_step();
        assert_eq!(steps.err(), Some(StopReason::MaxTurnRequests));
        let tokens = Budget::new(&limits, 0).spend_tokens(used(99));
        let tokens = tokens.spend_step().unwrap().spend_tokens(used(500));
        assert_eq!(tokens.spend_step().err(), Some(StopReason::MaxTokens));
        let time = Budget::new(&limits, 0);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(time.spend_step().err(), Some(StopReason::MaxTurnRequests));
    }

    #[tokio::test]
    async fn d_03_a_session_s_tokens_bound_each_of_its_turns() {
        let limits = Limits {
            session_tokens_max: 100,
            ..Limits::default()
        };
        let left = Budget::new(&limits, 60).spend_tokens(used(39));
        assert!(left.spend_step().is_ok());
        assert!(Budget::new(&limits, 100).spend_step().is_err());
        let unbounded = Budget::new(&Limits::default(), u64::MAX);
        assert!(unbounded.spend_tokens(used(u64::MAX)).spend_step().is_ok());
    }
}
