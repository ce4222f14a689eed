//! Calls that bring nothing new, and when a turn has made too many of them.
//!
//! A call that only reads is not run again while its result stands above and nothing has changed.
//! Any other call may be repeated (waiting for something is legitimate), but a call that ends as it did
//! before counts. The newest few calls are compared, so that two that alternate are found, too.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use domain::limits::{REPEATED_CALLS_KEPT, UNSEEN_CHANGE_TIME};
use domain::{FailureKind, TurnError};
use llm::ToolCall;
use serde_json::Value;
use tokio::time::Instant;
use tools::Freshness;

/// What the model is told in place of a result that it has already.
pub(super) const RESULT_IS_ABOVE: &str = "Not run again: you made exactly this call before, and \
    nothing has changed since. Its result is above. Go on with it, or do something else.";

/// The newest calls of a turn.
pub(super) struct Repeats {
    /// How many calls in a row may bring nothing new; 0 means any number.
    max: u32,
    in_a_row: u32,
    calls: VecDeque<KnownCall>,
    /// The tool of the newest call that brought nothing new.
    tool: String,
}

struct KnownCall {
    name: String,
    input: Value,
    /// A number for how it ended, once it has.
    result: Option<u64>,
    /// What it looked at, if its result still stands above.
    seen: Option<Seen>,
}

struct Seen {
    freshness: Freshness,
    at: Instant,
}

impl Repeats {
    pub(super) fn new(max: u32) -> Self {
        Self {
            max,
            in_a_row: 0,
            calls: VecDeque::new(),
            tool: String::new(),
        }
    }

    /// Whether the result of a call that only reads stands above and is still right.
    pub(super) fn has_result(&self, call: &ToolCall, freshness: &Freshness) -> bool {
        let known = self.find(call);
        let seen = known.and_then(|at| self.calls.get(at)?.seen.as_ref());
        seen.is_some_and(|seen| match freshness {
            Freshness::File(_) => seen.freshness == *freshness,
            Freshness::Unseen => {
                seen.freshness == *freshness && seen.at.elapsed() < UNSEEN_CHANGE_TIME
            }
            Freshness::Unknown => false,
        })
    }

    /// A call is about to be judged.
    pub(super) fn proposed(&mut self, call: &ToolCall) {
        self.entry(call);
    }

    /// A call that only reads is about to run.
    pub(super) fn looks(&mut self, call: &ToolCall, freshness: Freshness) {
        let at = Instant::now();
        self.entry(call).seen = Some(Seen { freshness, at });
    }

    /// A call that reads was not run again.
    pub(super) fn not_run(&mut self, call: &ToolCall) {
        self.in_a_row += 1;
        self.tool.clone_from(&call.name);
    }

    /// A call ended with `result`.
    pub(super) fn ended(&mut self, call: &ToolCall, result: &str, is_good: bool) {
        let mut hasher = DefaultHasher::new();
        (result, is_good).hash(&mut hasher);
        let number = Some(hasher.finish());
        let known = self.entry(call);
        let before = std::mem::replace(&mut known.result, number);
        if !is_good {
            // It may go better next time.
            known.seen = None;
        }
        if before == number {
            self.in_a_row += 1;
            self.tool.clone_from(&call.name);
        } else if before.is_some() {
            self.in_a_row = 0;
        }
    }

    /// Something may be different from now on, or results no longer stand above.
    pub(super) fn forget_looks(&mut self) {
        for call in &mut self.calls {
            call.seen = None;
        }
    }

    /// The user has said something new.
    pub(super) fn begin_anew(&mut self) {
        self.in_a_row = 0;
    }

    /// Why the turn ends, if too many calls in a row brought nothing new.
    pub(super) fn error(&self) -> Option<TurnError> {
        if self.max == 0 || self.in_a_row < self.max {
            return None;
        }
        let text = format!(
            "the turn was stopped: the model repeated itself, and its last {} calls (the newest of \
             `{}`) brought nothing new; tell it what to do differently, or raise the limit \
             `repeats_max`",
            self.in_a_row, self.tool
        );
        Some(TurnError::new(FailureKind::ModelError, text).retryable(false))
    }

    fn find(&self, call: &ToolCall) -> Option<usize> {
        let is_same = |known: &KnownCall| known.name == call.name && known.input == call.input;
        self.calls.iter().position(is_same)
    }

    fn entry(&mut self, call: &ToolCall) -> &mut KnownCall {
        let known = match self.find(call).and_then(|at| self.calls.remove(at)) {
            Some(known) => known,
            None => {
                // Calls of one answer end in any order, so a new one counts when it is proposed.
                self.in_a_row = 0;
                KnownCall {
                    name: call.name.clone(),
                    input: call.input.clone(),
                    result: None,
                    seen: None,
                }
            }
        };
        if self.calls.len() >= REPEATED_CALLS_KEPT {
            self.calls.pop_front();
        }
        self.calls.push_back(known);
        let newest = self.calls.len() - 1;
        &mut self.calls[newest]
    }
}
