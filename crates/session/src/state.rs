//! What a session is, and what may happen next. Pure: no I/O, no clock.
//!
//! [`SessionState::decide`] says what a command means as entries for the journal;
//! [`SessionState::apply`] folds a stored event in. Loading a session is applying all its events.

use std::collections::VecDeque;

use domain::event::{
    AnswerOutcome, MessageStarted, PermissionAsked, PermissionOption, PermissionOptionKind,
    StopReason, ToolUse, TurnResult, TurnStarted, Usage, UserMessage,
};
use domain::limits::TURN_ENDS_REMEMBERED_MAX;
use domain::{
    CallId, Event, EventSeq, MessageId, PrincipalId, PromptId, TurnError, TurnId, ids::PermissionId,
};
use journal::Entry;
use serde_json::Value;

use crate::mode::Mode;
use crate::policy::Always;

mod command;
mod decide;
mod prompts;
mod rewind;

pub use command::{Command, Proposed, Rejected};
pub use prompts::Fate;
pub use rewind::Rewind;

use prompts::PromptLog;

/// Bytes of the newest prompt that are kept: a command is short.
const PROMPT_HEAD_BYTES_MAX: usize = 1024;

/// Everything about a session that its rules need. Small: history stays in the journal.
#[derive(Clone, Debug)]
pub struct SessionState {
    owner: PrincipalId,
    cwd: String,
    additional_directories: Vec<String>,
    mode: Mode,
    title: Option<String>,
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
    always: Vec<Always>,
    prompts: PromptLog,
    recoveries: Vec<Recovery>,
    /// The model that was chosen for it, if one was.
    model: Option<String>,
    /// The beginning of what was prompted last.
    prompt_head: String,
    /// What all its model calls used.
    usage: Usage,
    /// Where turns ended that are not undone, oldest first.
    turn_ends: VecDeque<EventSeq>,
    rewinds: Vec<Rewind>,
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

/// An open permission question.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where it was asked.
    pub seq: EventSeq,
    /// As it was asked.
    pub asked: PermissionAsked,
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
            mode: Mode::default(),
            title: None,
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
            prompt_head: String::new(),
            usage: Usage::default(),
            turn_ends: VecDeque::new(),
            rewinds: Vec::new(),
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

    /// Its turn follows in the same append. If the disk lost that, it never ran, and whoever sends
    /// it again must not have it twice in the conversation.
    fn heard(&mut self, message: &UserMessage) {
        let end = message.text.floor_char_boundary(PROMPT_HEAD_BYTES_MAX);
        self.prompt_head = message.text[..end].to_owned();
        if let Some(prompt_id) = &message.prompt_id {
            self.prompts.set(prompt_id, Fate::interrupted());
        }
    }

    /// Folds in the event stored at `seq`.
    pub fn apply(&mut self, seq: EventSeq, event: &Event) {
        self.head = seq;
        match event {
            Event::SessionCreated(created) => {
                self.owner = created.owner.clone();
                self.cwd.clone_from(&created.cwd);
                self.additional_directories
                    .clone_from(&created.additional_directories);
            }
            Event::SessionUpdated(updated) => {
                if let Some(title) = &updated.title {
                    self.title = Some(title.clone());
                }
                let model = updated
                    .config
                    .as_ref()
                    .and_then(|config| config.get("model"));
                if let Some(model) = model.and_then(Value::as_str) {
                    self.model = Some(model.to_owned());
                }
            }
            Event::PromptQueued(queued) => self.queue.push_back(Queued {
                seq,
                message_id: queued.message_id.clone(),
                prompt_id: queued.prompt_id.clone(),
                text: queued.text.clone(),
                blocks: queued.blocks.clone(),
            }),
            Event::PromptDropped(dropped) => {
                let fate = if self.interrupted {
                    Fate::interrupted()
                } else {
                    Fate::Dropped
                };
                self.take_queued(dropped.queued, fate);
            }
            Event::TurnStarted(started) => self.start_turn(started),
            Event::MessageStarted(MessageStarted { .. }) => self.message_open = true,
            Event::AssistantMessage(_) | Event::AssistantThought(_) => self.message_open = false,
            Event::ToolUse(used) => self.open_call(seq, used),
            Event::ToolResult(result) => self.calls.retain(|call| call.id != result.call_id),
            Event::PermissionAsked(asked) => self.ask(seq, asked),
            Event::PermissionAnswered(answered) => {
                self.settle(
                    seq,
                    &answered.id,
                    answered.outcome,
                    answered.option_id.as_deref(),
                );
            }
            Event::ModeChanged(changed) => {
                // A mode of a later version is not ours to grant: fall back to asking.
                self.mode = changed.mode.parse().unwrap_or_default();
            }
            Event::UsageRecorded(recorded) => {
                self.usage += recorded.usage;
                if let Some(running) = &mut self.running {
                    running.usage += recorded.usage;
                }
            }
            Event::TurnResult(result) => {
                self.end_turn(Fate::Ended(outcome_of(result)));
                self.note_end(seq);
            }
            Event::TurnInterrupted(_) => {
                self.end_turn(Fate::interrupted());
                self.note_end(seq);
                self.interrupted = true;
            }
            Event::SessionRewound(rewound) => self.rewind(rewound.to, seq),
            Event::SessionRecovered(recovered) => {
                self.recoveries.push(Recovery {
                    epoch: recovered.epoch,
                    from: recovered.from,
                });
            }
            Event::Notice(notice) => self.greeted |= notice.kind == "greeting",
            Event::SessionForked(forked) => {
                // A copy belongs to whoever made it, who has allowed nothing for good.
                self.owner = forked.owner.clone().unwrap_or_else(|| self.owner.clone());
                self.always.clear();
            }
            Event::UserMessage(message) => self.heard(message),
            Event::HookRan(_)
            | Event::PromptExpanded(_)
            | Event::PlanUpdated(_)
            | Event::Compaction(_)
            | Event::SessionClosed(_)
            | Event::Unknown(_) => {}
        }
    }

    /// A turn ended at `seq`.
    fn note_end(&mut self, seq: EventSeq) {
        if self.turn_ends.len() >= TURN_ENDS_REMEMBERED_MAX {
            self.turn_ends.pop_front();
        }
        self.turn_ends.push_back(seq);
    }

    fn rewind(&mut self, to: EventSeq, at: EventSeq) {
        self.turn_ends.retain(|end| *end <= to);
        self.rewinds.push(Rewind { to, at });
    }

    fn start_turn(&mut self, started: &TurnStarted) {
        self.turns_started = started.turn.0;
        self.interrupted = false;
        if let Some(queued) = started.queued {
            self.take_queued(queued, Fate::Running(started.turn));
        }
        if let Some(prompt_id) = &started.prompt_id {
            self.prompts.set(prompt_id, Fate::Running(started.turn));
        }
        self.running = Some(Running {
            turn: started.turn,
            prompt_id: started.prompt_id.clone(),
            usage: Usage::default(),
        });
    }

    /// A call is allowed by its own record until a question about it is asked beside it.
    fn open_call(&mut self, seq: EventSeq, used: &ToolUse) {
        self.calls.push(OpenCall {
            id: used.call_id.clone(),
            rule: Always::of(&used.name, &used.input),
            allowed_by: Some(seq),
        });
    }

    fn ask(&mut self, seq: EventSeq, asked: &PermissionAsked) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == asked.call_id) {
            call.allowed_by = None;
        }
        self.questions.push(Question {
            seq,
            asked: asked.clone(),
        });
    }

    fn settle(
        &mut self,
        seq: EventSeq,
        id: &PermissionId,
        outcome: AnswerOutcome,
        option_id: Option<&str>,
    ) {
        let Some(at) = self
            .questions
            .iter()
            .position(|question| question.asked.id == *id)
        else {
            return;
        };
        let asked = self.questions.remove(at).asked;
        if outcome != AnswerOutcome::Allowed {
            return;
        }
        let Some(call) = self.calls.iter_mut().find(|call| call.id == asked.call_id) else {
            return;
        };
        call.allowed_by = Some(seq);
        let chosen = option_id.and_then(|id| find_option(&asked.options, id));
        if chosen.is_some_and(|chosen| chosen.kind == PermissionOptionKind::AllowAlways) {
            self.always.push(call.rule.clone());
        }
    }

    fn take_queued(&mut self, seq: EventSeq, fate: Fate) {
        let Some(at) = self.queue.iter().position(|queued| queued.seq == seq) else {
            return;
        };
        if let Some(Queued {
            prompt_id: Some(prompt_id),
            ..
        }) = self.queue.remove(at)
        {
            self.prompts.set(&prompt_id, fate);
        }
    }

    fn end_turn(&mut self, fate: Fate) {
        if let Some(Running {
            prompt_id: Some(prompt_id),
            ..
        }) = self.running.take()
        {
            self.prompts.set(&prompt_id, fate);
        }
        self.running = None;
        self.calls.clear();
        self.questions.clear();
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
