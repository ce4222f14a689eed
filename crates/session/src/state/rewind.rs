//! Undoing: a session goes on from the end of an earlier turn.
//!
//! Nothing is erased. What lies between is passed over by the model's context and by whoever comes
//! new; a client that has seen part of it is told to drop that part.

use domain::event::SessionRewound;
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
        let end = ends.rev().find(|end| **end <= to);
        let to = end.copied().unwrap_or(EventSeq(1)).min(self.head);
        let undoes_a_turn = self.turn_ends.back().is_some_and(|last| *last > to);
        if !undoes_a_turn {
            return Err(Rejected::Nothing);
        }
        let rewound: Event = SessionRewound { to }.into();
        Ok(vec![Entry::Event(rewound)])
    }
}
