//! What a client waits for in a session: the ends of its prompts, and its close.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::event::TurnStarted;
use domain::{EventSeq, MessageId, TurnId};
use session::Accepted;
use tokio::sync::Notify;
use wire::rpc::RequestId;

/// What a client waits for in a session. Filled by the session before it shows the change that
/// the pump then meets.
#[derive(Default)]
pub(crate) struct Waiting {
    inner: Mutex<WaitingInner>,
    /// Rung when something should end that the stream itself may not tell.
    pub(crate) bell: Notify,
}

#[derive(Default)]
struct WaitingInner {
    turns: HashMap<TurnId, Vec<RequestId>>,
    queued: HashMap<EventSeq, Vec<RequestId>>,
    /// Prompts of this client, which it needs no echo of.
    own: HashSet<MessageId>,
    /// Prompts on their way to the session.
    sent: HashSet<RequestId>,
    /// Prompts the client has taken back before they were accepted.
    withdrawn: HashSet<RequestId>,
    closing: Option<(RequestId, EventSeq)>,
}

/// Where an accepted prompt of this client stands.
pub(crate) enum Standing {
    /// On its way; it will be cancelled when it arrives.
    Sent,
    Running,
    Queued(EventSeq),
}

impl Waiting {
    /// Notes a prompt about to be sent.
    pub(crate) fn prompt_sent(&self, id: &RequestId, message: MessageId) {
        let mut inner = self.lock();
        inner.sent.insert(id.clone());
        inner.own.insert(message);
    }

    /// Notes where an accepted prompt's end will come from. Says whether it was taken back.
    pub(crate) fn prompt_accepted(&self, id: &RequestId, accepted: &Accepted) -> bool {
        let mut inner = self.lock();
        inner.sent.remove(id);
        match accepted {
            Accepted::Turn(turn) => inner.turns.entry(*turn).or_default().push(id.clone()),
            Accepted::Queued(seq) => inner.queued.entry(*seq).or_default().push(id.clone()),
            Accepted::Over(_) => {}
        }
        inner.withdrawn.remove(id)
    }

    /// Forgets a prompt that was refused.
    pub(crate) fn prompt_refused(&self, id: &RequestId, message: &MessageId) {
        let mut inner = self.lock();
        inner.sent.remove(id);
        inner.withdrawn.remove(id);
        inner.own.remove(message);
    }

    /// Where the prompt `id` stands; one that is on its way is marked as taken back.
    pub(crate) fn take_back(&self, id: &RequestId) -> Option<Standing> {
        let mut inner = self.lock();
        if inner.sent.contains(id) {
            inner.withdrawn.insert(id.clone());
            return Some(Standing::Sent);
        }
        if inner.turns.values().flatten().any(|waiting| waiting == id) {
            return Some(Standing::Running);
        }
        let queued = inner.queued.iter().find(|(_, ids)| ids.contains(id));
        queued.map(|(seq, _)| Standing::Queued(*seq))
    }

    /// Has the pump answer `id` and end once it has passed `seq`.
    pub(crate) fn close_after(&self, id: RequestId, seq: EventSeq) {
        self.lock().closing = Some((id, seq));
        self.bell.notify_one();
    }

    pub(super) fn started(&self, started: &TurnStarted) {
        let mut inner = self.lock();
        if let Some(ids) = started.queued.and_then(|seq| inner.queued.remove(&seq)) {
            inner.turns.entry(started.turn).or_default().extend(ids);
        }
    }

    pub(super) fn ended(&self, turn: TurnId) -> Vec<RequestId> {
        self.lock().turns.remove(&turn).unwrap_or_default()
    }

    pub(super) fn dropped(&self, queued: EventSeq) -> Vec<RequestId> {
        self.lock().queued.remove(&queued).unwrap_or_default()
    }

    pub(super) fn all(&self) -> Vec<RequestId> {
        let mut inner = self.lock();
        let turns = std::mem::take(&mut inner.turns).into_values();
        let queued = std::mem::take(&mut inner.queued).into_values();
        turns.chain(queued).flatten().collect()
    }

    pub(super) fn is_own(&self, message: Option<&MessageId>) -> bool {
        message.is_some_and(|message| self.lock().own.remove(message))
    }

    pub(super) fn closing(&self, passed: EventSeq) -> Option<RequestId> {
        let mut inner = self.lock();
        inner
            .closing
            .take_if(|(_, seq)| passed >= *seq)
            .map(|(id, _)| id)
    }

    fn lock(&self) -> MutexGuard<'_, WaitingInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
