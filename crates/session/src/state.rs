//! What a session is, and what may happen next. Pure: no I/O, no clock.
//!
//! [`SessionState::decide`] says what a command means as entries for the journal;
//! [`SessionState::apply`] folds a stored event in. Loading a session is applying all its events.

use std::collections::VecDeque;

use domain::event::{PermissionOption, StopReason, TurnResult, Usage};
use domain::{
    CallId, EventSeq, MessageId, PrincipalId, PromptId, QueuedPrompt, SessionId, TurnError, TurnId,
};
use journal::Entry;
use serde_json::Value;

use crate::mode::Mode;
use crate::policy::{Always, Remembered};

mod apply;
mod children;
mod command;
mod decide;
mod prompts;
mod questions;
mod rewind;

pub use command::{Command, Proposed, Rejected};
pub use prompts::Fate;
pub use questions::{Asked, Question, Said};
pub use rewind::Rewind;
use rewind::{ContextUse, TurnEnd};

pub(crate) use decide::title_of;

use prompts::PromptLog;

/// Bytes of the newest prompt that are kept: a command is short.
const PROMPT_HEAD_BYTES_MAX: usize = 1024;

/// Everything about a session that its rules need. Small: history stays in the journal.
#[derive(Clone, Debug)]
pub struct SessionState {
    owner: PrincipalId,
    cwd: String,
    additional_directories: Vec<String>,
    real_directories: Vec<String>,
    mode: Mode,
    title: Option<String>,
    /// Whether it was put away.
    archived: bool,
    greeted: bool,
    head: EventSeq,
    turns_started: u64,
    running: Option<Running>,
    /// The newest turn was interrupted, and with it what waited behind it.
    interrupted: bool,
    message_open: bool,
    calls: Vec<OpenCall>,
    questions: Vec<Question>,
    queue: VecDeque<Queued>,
    always: Vec<Remembered>,
    prompts: PromptLog,
    recoveries: Vec<Recovery>,
    /// The model that was chosen for it, if one was.
    model: Option<String>,
    /// The beginning of what was prompted last.
    prompt_head: Box<str>,
    /// What all its model calls used.
    usage: Usage,
    /// Where turns ended that are not undone, oldest first.
    turn_ends: VecDeque<TurnEnd>,
    /// How full the model's window is, as far as that is known.
    context: Option<ContextUse>,
    rewinds: Vec<Rewind>,
    /// The session whose sub-agent it is.
    parent: Option<SessionId>,
    /// The sub-agents that ever worked for it.
    children: Vec<SessionId>,
}

/// The turn that runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// Its number.
    pub turn: TurnId,
    /// The client's name for its prompt.
    pub prompt_id: Option<PromptId>,
    usage: Usage,
}

/// A call without an outcome yet.
#[derive(Clone, Debug)]
struct OpenCall {
    id: CallId,
    /// What a person would allow for good by allowing it always.
    rule: Always,
    /// The event that lets it run; `None` while a person is asked.
    allowed_by: Option<EventSeq>,
}

/// Where a proposed call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStanding {
    /// It may run, because of this event.
    Allowed(EventSeq),
    /// A person is being asked.
    Asked,
    /// It has its outcome.
    Over,
}

/// A prompt that waits for the running turn.
#[derive(Clone, Debug)]
struct Queued {
    seq: EventSeq,
    message_id: Option<MessageId>,
    prompt_id: Option<PromptId>,
    text: String,
    blocks: Vec<Value>,
}

/// Where recovery had to void cursors.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    epoch: u64,
    from: EventSeq,
}

impl Default for SessionState {
    /// A session before its first event; journals without `session.created` belong to `local`.
    fn default() -> Self {
        Self {
            owner: PrincipalId::local(),
            cwd: String::new(),
            additional_directories: Vec::new(),
            real_directories: Vec::new(),
            mode: Mode::default(),
            title: None,
            archived: false,
            greeted: false,
            head: EventSeq(0),
            turns_started: 0,
            running: None,
            interrupted: false,
            message_open: false,
            calls: Vec::new(),
            questions: Vec::new(),
            queue: VecDeque::new(),
            always: Vec::new(),
            prompts: PromptLog::default(),
            recoveries: Vec::new(),
            model: None,
            prompt_head: Box::default(),
            usage: Usage::default(),
            turn_ends: VecDeque::new(),
            context: None,
            rewinds: Vec::new(),
            parent: None,
            children: Vec::new(),
        }
    }
}

impl SessionState {
    /// Who owns it.
    #[must_use]
    pub fn owner(&self) -> &PrincipalId {
        &self.owner
    }

    /// Its working directory.
    #[must_use]
    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    /// Its other roots.
    #[must_use]
    pub fn additional_directories(&self) -> &[String] {
        &self.additional_directories
    }

    /// Where its directories lay when they were checked, the working directory first; none for
    /// sessions of older versions.
    #[must_use]
    pub fn real_directories(&self) -> &[String] {
        &self.real_directories
    }

    /// Its permission mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The model that was chosen for it, if one was.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// What was prompted last, as much of it as a command may have.
    #[must_use]
    pub fn prompt_head(&self) -> &str {
        &self.prompt_head
    }

    /// What all its model calls used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// What was undone.
    #[must_use]
    pub fn rewinds(&self) -> &[Rewind] {
        &self.rewinds
    }

    /// The newest event applied.
    #[must_use]
    pub fn head(&self) -> EventSeq {
        self.head
    }

    /// The turn that runs.
    #[must_use]
    pub fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    /// The newest turn's number, 0 before the first.
    #[must_use]
    pub fn last_turn(&self) -> TurnId {
        TurnId(self.turns_started)
    }

    /// The open questions, oldest first.
    #[must_use]
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Where the proposed call `id` stands.
    #[must_use]
    pub fn standing(&self, id: &CallId) -> CallStanding {
        match self
            .calls
            .iter()
            .find(|call| call.id == *id)
            .map(|call| call.allowed_by)
        {
            Some(Some(event)) => CallStanding::Allowed(event),
            Some(None) => CallStanding::Asked,
            None => CallStanding::Over,
        }
    }

    /// What became of the prompt that its client calls `id`, if it is one of the newest.
    pub(crate) fn fate(&self, id: &PromptId) -> Option<&Fate> {
        self.prompts.get(id)
    }

    /// Whether only the journal can say what became of the prompt `id`.
    pub(crate) fn may_have_forgotten(&self, id: &PromptId) -> bool {
        self.prompts.may_have_forgotten(id)
    }

    /// Whether a message is being streamed.
    #[must_use]
    pub fn message_open(&self) -> bool {
        self.message_open
    }

    /// The prompt that runs next.
    #[must_use]
    pub fn next_queued(&self) -> Option<EventSeq> {
        self.queue.front().map(|queued| queued.seq)
    }

    /// The prompts that wait, the next one first.
    #[must_use]
    pub fn queued(&self) -> Vec<QueuedPrompt> {
        let queue = self.queue.iter();
        queue
            .map(|queued| QueuedPrompt::new(queued.seq, queued.prompt_id.as_ref(), &queued.text))
            .collect()
    }

    /// Whether a prompt waits.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The smallest event that a cursor of `epoch` can no longer trust.
    #[must_use]
    pub fn voided_from(&self, epoch: u64) -> Option<EventSeq> {
        self.recoveries
            .iter()
            .filter(|recovery| recovery.epoch > epoch)
            .map(|r| r.from)
            .min()
    }

    /// The journal's epoch, as far as its events tell.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.recoveries
            .iter()
            .map(|recovery| recovery.epoch)
            .max()
            .unwrap_or(0)
    }

    /// Lets go of a turn whose end cannot be stored any more.
    pub fn abandon_turn(&mut self) {
        self.end_turn(Fate::interrupted());
        self.queue.clear();
        self.message_open = false;
    }

    /// Folds in an entry that has been, or is about to be, stored at `seq`.
    pub fn apply_entry(&mut self, seq: EventSeq, entry: &Entry) {
        match entry {
            Entry::Event(event) => self.apply(seq, event),
            Entry::EndMessage { .. } => {
                self.head = seq;
                self.message_open = false;
            }
        }
    }
}

fn find_option<'a>(options: &'a [PermissionOption], id: &str) -> Option<&'a PermissionOption> {
    options.iter().find(|option| option.option_id == id)
}

/// How a stored result ended its turn.
pub fn outcome_of(result: &TurnResult) -> TurnOutcome {
    match (&result.error, result.stop_reason) {
        (Some(error), _) => Err(error.clone()),
        (None, reason) => Ok(reason.unwrap_or(StopReason::EndTurn)),
    }
}

/// A turn's outcome as stored.
pub type TurnOutcome = Result<StopReason, TurnError>;

#[cfg(test)]
mod tests;
