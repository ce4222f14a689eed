//! What a client waits for in a session: the ends of its prompts, and its close.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::event::TurnStarted;
use domain::{EventSeq, MessageId, TurnId};
use serde_json::Value;
use session::{Accepted, Fate};
use tokio::sync::Notify;
use wire::rpc::{RequestId, RpcError};

/// Own messages remembered for a stream that goes back; it goes back by seconds, not by hours.
const PASSED_MAX: usize = 64;

/// What a client waits for in a session. Filled by the session before it shows the change that
/// the pump then meets.
#[derive(Default)]
pub(crate) struct Waiting {
    inner: Mutex<Inner>,
    /// Rung when something should be answered that the stream itself may not tell.
    pub(crate) bell: Notify,
}

#[derive(Default)]
struct Inner {
    turns: HashMap<TurnId, Vec<RequestId>>,
    queued: HashMap<EventSeq, Vec<RequestId>>,
    /// Prompts of this client, which it needs no echo of, and the requests they came with.
    own: HashMap<MessageId, RequestId>,
    /// Messages of such prompts that the stream has passed, newest last.
    passed: VecDeque<MessageId>,
    /// Prompts on their way to the session.
    sent: HashSet<RequestId>,
    /// Prompts the client has taken back before they were accepted.
    withdrawn: HashSet<RequestId>,
    /// Answers that are known but must not overtake the stream.
    due: Vec<Due>,
    /// The turn that runs as far as the stream has told; 0 for none.
    running: TurnId,
}

/// An answer that waits for the pump to pass an event.
pub(crate) struct Due {
    after: EventSeq,
    pub(crate) id: RequestId,
    pub(crate) answer: Result<Value, RpcError>,
    /// The client leaves the session with it.
    pub(crate) is_last: bool,
}

/// Where an accepted prompt of this client stands.
pub(crate) enum Standing {
    /// On its way; it will be cancelled when it arrives.
    Sent,
    Running(TurnId),
    Queued(EventSeq),
}

impl Waiting {
    /// Notes a prompt about to be sent.
    pub(crate) fn prompt_sent(&self, id: &RequestId, message: MessageId) {
        let mut inner = self.lock();
        inner.sent.insert(id.clone());
        inner.own.insert(message, id.clone());
    }

    /// Notes where an accepted prompt's end will come from. Says where it stands if it was taken
    /// back meanwhile.
    pub(crate) fn prompt_accepted(&self, id: &RequestId, accepted: &Accepted) -> Option<Standing> {
        let mut inner = self.lock();
        inner.sent.remove(id);
        let standing = match accepted {
            Accepted::Turn(turn) | Accepted::Repeated(Fate::Running(turn), _) => {
                inner.turns.entry(*turn).or_default().push(id.clone());
                Some(Standing::Running(*turn))
            }
            Accepted::Queued(seq) | Accepted::Repeated(Fate::Queued(seq), _) => {
                inner.queued.entry(*seq).or_default().push(id.clone());
                Some(Standing::Queued(*seq))
            }
            Accepted::Repeated(Fate::Ended(_) | Fate::Dropped, _) => None,
        };
        if matches!(accepted, Accepted::Repeated(..)) {
            // No message was stored for it, so none will be met.
            inner.forget_own(id);
        }
        standing.filter(|_| inner.withdrawn.remove(id))
    }

    /// Forgets a prompt that was refused.
    pub(crate) fn prompt_refused(&self, id: &RequestId) {
        let mut inner = self.lock();
        inner.sent.remove(id);
        inner.withdrawn.remove(id);
        inner.forget_own(id);
    }

    /// Where the prompt `id` stands; one that is on its way is marked as taken back.
    pub(crate) fn take_back(&self, id: &RequestId) -> Option<Standing> {
        let mut inner = self.lock();
        if inner.sent.contains(id) {
            inner.withdrawn.insert(id.clone());
            return Some(Standing::Sent);
        }
        let running = inner.turns.iter().find(|(_, ids)| ids.contains(id));
        if let Some((turn, _)) = running {
            return Some(Standing::Running(*turn));
        }
        let queued = inner.queued.iter().find(|(_, ids)| ids.contains(id));
        queued.map(|(seq, _)| Standing::Queued(*seq))
    }

    /// Has the pump give `answer` once it has passed `after`.
    pub(crate) fn answer_after(
        &self,
        after: EventSeq,
        id: RequestId,
        answer: Result<Value, RpcError>,
    ) {
        self.push_due(Due {
            after,
            id,
            answer,
            is_last: false,
        });
    }

    /// Has the pump give `answer` once it has passed `after`, and end.
    pub(crate) fn leave_after(
        &self,
        after: EventSeq,
        id: RequestId,
        answer: Result<Value, RpcError>,
    ) {
        self.push_due(Due {
            after,
            id,
            answer,
            is_last: true,
        });
    }

    /// The turn that runs where the stream begins.
    pub(super) fn finds_running(&self, turn: TurnId) {
        self.lock().running = turn;
    }

    /// The turn that runs as far as the stream has told; none does from now on.
    pub(super) fn take_running(&self) -> Option<TurnId> {
        let turn = std::mem::take(&mut self.lock().running);
        (turn > TurnId(0)).then_some(turn)
    }

    /// From now on own prompts are shown like everybody's: the client asks for the whole story.
    pub(super) fn show_own(&self) {
        self.lock().own.clear();
    }

    pub(super) fn started(&self, started: &TurnStarted) {
        let mut inner = self.lock();
        inner.running = started.turn;
        if let Some(ids) = started.queued.and_then(|seq| inner.queued.remove(&seq)) {
            inner.turns.entry(started.turn).or_default().extend(ids);
        }
    }

    pub(super) fn ended(&self, turn: TurnId) -> Vec<RequestId> {
        let mut inner = self.lock();
        if inner.running == turn {
            inner.running = TurnId(0);
        }
        inner.turns.remove(&turn).unwrap_or_default()
    }

    pub(super) fn dropped(&self, queued: EventSeq) -> Vec<RequestId> {
        let mut inner = self.lock();
        let ids = inner.queued.remove(&queued).unwrap_or_default();
        ids.iter().for_each(|id| inner.forget_own(id));
        ids
    }

    /// Everything that waits, of a session that has ended here.
    pub(super) fn all(&self) -> Vec<RequestId> {
        let mut inner = self.lock();
        let turns = std::mem::take(&mut inner.turns).into_values();
        let queued = std::mem::take(&mut inner.queued).into_values();
        turns.chain(queued).flatten().collect()
    }

    pub(super) fn is_own(&self, message: Option<&MessageId>) -> bool {
        let Some(message) = message else {
            return false;
        };
        let mut inner = self.lock();
        let is_own = inner.own.remove(message).is_some();
        if is_own {
            if inner.passed.len() >= PASSED_MAX {
                inner.passed.pop_front();
            }
            inner.passed.push_back(message.clone());
        }
        is_own
    }

    /// Whether the stream has passed it as the client's own.
    pub(super) fn was_own(&self, message: Option<&MessageId>) -> bool {
        message.is_some_and(|message| self.lock().passed.contains(message))
    }

    /// The answers whose time has come.
    pub(super) fn due(&self, passed: EventSeq) -> Vec<Due> {
        let mut inner = self.lock();
        let (due, later) = std::mem::take(&mut inner.due)
            .into_iter()
            .partition(|due| passed >= due.after);
        inner.due = later;
        due
    }

    fn push_due(&self, due: Due) {
        self.lock().due.push(due);
        self.bell.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget_own(&mut self, id: &RequestId) {
        self.own.retain(|_, of| of != id);
    }
}
