//! The proof that a tool call was allowed.

use crate::ids::{CallId, EventSeq};

/// Leave to run one tool call, naming the stored event that gives it.
///
/// Not `Clone`: one permit is one run. The only caller of [`Permit::granted`] is the session
/// actor, after the event is on disk (a tidy test counts the call sites).
#[derive(Debug)]
pub struct Permit {
    call: CallId,
    allowed_by: EventSeq,
}

impl Permit {
    /// Records that the stored event `allowed_by` lets `call` run.
    #[must_use]
    pub fn granted(call: CallId, allowed_by: EventSeq) -> Self {
        Self { call, allowed_by }
    }

    /// The call this permit is for.
    #[must_use]
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// The event to point at when someone asks why the tool ran.
    #[must_use]
    pub fn allowed_by(&self) -> EventSeq {
        self.allowed_by
    }
}
