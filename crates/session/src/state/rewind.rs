//! Undoing: a session goes on from the end of an earlier turn.
//!
//! Nothing is erased. What lies between is passed over by the model's context and by whoever comes
//! new; a client that has seen part of it is told to drop that part.

use domain::event::{SessionRewound, UsagePurpose, UsageRecorded};
use domain::{Event, EventSeq};
use journal::Entry;

use super::{Rejected, SessionState};

/// One rewinding: what lies after `to` and before `at` is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewind {
    /// The last event that counts.
    pub to: EventSeq,
    /// The `session.rewound` itself.
    pub at: EventSeq,
}

impl Rewind {
    /// Whether the event at `seq` is undone by it.
    #[must_use]
    pub fn undoes(&self, seq: EventSeq) -> bool {
        self.to < seq && seq < self.at
    }
}

/// How full the model's window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContextUse {
    pub(super) tokens: u64,
    pub(super) window: u64,
}

impl ContextUse {
    /// After a call that carried the conversation to a model whose window is known.
    pub(super) fn after(recorded: &UsageRecorded) -> Option<Self> {
        let is_answer = recorded.purpose == UsagePurpose::Answer;
        let window = recorded.context_window.filter(|_| is_answer)?;
        let tokens = recorded.usage.tokens();
        Some(Self { tokens, window })
    }
}

/// The end of a turn, to which a session can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnEnd {
    pub(super) seq: EventSeq,
    pub(super) context: Option<ContextUse>,
}

impl SessionState {
    /// The first event that a client at `cursor` must drop, because it was undone while the client
    /// was away.
    #[must_use]
    pub fn undone_from(&self, cursor: EventSeq) -> Option<EventSeq> {
        let rewinds = self.rewinds.iter();
        let missed = rewinds.filter(|rewind| rewind.undoes(cursor));
        missed.map(|rewind| rewind.to.next()).min()
    }

    /// Goes back to the end of the newest turn that ended at or before `to`; without one, to the
    /// beginning.
    pub(super) fn decide_rewind(&self, to: EventSeq) -> Result<Vec<Entry>, Rejected> {
        if self.running.is_some() || self.has_queue() {
            return Err(Rejected::Busy);
        }
        let ends = self.turn_ends.iter();
        let end = ends.rev().map(|end| end.seq).find(|end| *end <= to);
        let to = end.unwrap_or(EventSeq(1)).min(self.head);
        let undoes_a_turn = self.turn_ends.back().is_some_and(|last| last.seq > to);
        if !undoes_a_turn {
            return Err(Rejected::Nothing);
        }
        let context = self.context_at(to);
        let rewound: Event = SessionRewound {
            to,
            context_tokens: context.map(|context| context.tokens),
            context_window: context.map(|context| context.window),
        }
        .into();
        Ok(vec![Entry::Event(rewound)])
    }

    /// How full the model's window was at the end of the turn that ended at `to`, or before the first.
    pub(super) fn context_at(&self, to: EventSeq) -> Option<ContextUse> {
        let ends = self.turn_ends.iter();
        let end = ends.rev().find(|end| end.seq <= to);
        let before = end.and_then(|end| end.context);
        let window = self.context.map(|context| context.window);
        before.or(window.map(|window| ContextUse { tokens: 0, window }))
    }
}
