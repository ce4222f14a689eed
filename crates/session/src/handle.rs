//! What others hold of a session: a handle to act through, and the words used with it.

mod envelope;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent::client_side::ClientSide;
use agent::{Patience, ProjectView, Roots};
use auth::{Line, Principal, Scope, Secret};
use domain::event::SessionUpdated;
use domain::ids::PermissionId;
use domain::{
    Cursor, Event, EventSeq, FailureKind, MessageId, PromptId, QueuedPrompt, SessionId, ToolServer,
    TraceParent, TurnId,
};
use serde_json::{Map, Value};
use tokio::sync::{Notify, mpsc};

use crate::directory::Engine;
use crate::mode::Mode;
use crate::state::{Fate, Question, SessionState};
use crate::subscription::Subscription;

pub(crate) use envelope::{AttachReply, DeleteReply, Envelope};

/// How the session's answer gets back to whoever asked. Called by the session, so it must not
/// block, and before the change is shown to any follower.
pub type Reply<T> = Box<dyn FnOnce(T) + Send>;

/// The right to act on one session, and the reason why it stays in memory.
///
/// Only [`Sessions::attach`](crate::Sessions::attach) and `create` make one; dropping it detaches.
#[derive(Clone)]
pub struct SessionHandle {
    id: SessionId,
    principal: Principal,
    scope: Scope,
    mailbox: Mailbox,
    presence: Arc<Presence>,
}

/// A prompt as a client sent it.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// Its text.
    pub text: String,
    /// Its ACP content blocks.
    pub blocks: Vec<Value>,
    /// The client's name for it.
    pub prompt_id: Option<PromptId>,
    /// Its name as a message, which its sender chose to recognise it in the stream.
    pub message_id: Option<MessageId>,
    /// Wait behind a running turn.
    pub queue: bool,
    /// How long its turn waits for tool servers that are still starting.
    pub patience: Patience,
    /// The client that sent it, if its turn may use the client's own files or terminals.
    pub client: Option<Arc<dyn ClientSide>>,
    /// The caller's trace, which the turn's logs carry.
    pub trace: Option<TraceParent>,
}

/// What became of a prompt when it was received.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// It is this turn, which runs; its end comes with the session's stream.
    Turn(TurnId),
    /// It waits at this event; a later `turn.started` or `prompt.dropped` names it.
    Queued(EventSeq),
    /// It was sent before: what became of it, and the newest event by then.
    Repeated(Fate, EventSeq),
}

/// A client's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The person chose an option.
    Selected(String),
    /// The same, and why.
    Explained {
        /// The option.
        option: String,
        /// Why, in words for the model.
        reason: String,
    },
    /// The person answered in their own words.
    Said(String),
    /// The person filled in a form.
    Filled(Map<String, Value>),
    /// The person dismissed the question.
    Dismissed,
    /// This client cannot answer: it failed, or chose something that was not offered.
    Unable,
}

/// What is set in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The permission mode.
    pub mode: Mode,
    /// The model that its next turn uses.
    pub model: String,
}

impl Config {
    /// Takes note of what `event` changed; says whether it did.
    pub fn take(&mut self, event: &Event) -> bool {
        if let Event::ModeChanged(changed) = event {
            self.mode = changed.mode.parse().unwrap_or_default();
            return true;
        }
        let Event::SessionUpdated(SessionUpdated {
            config: Some(config),
            ..
        }) = event
        else {
            return false;
        };
        if let Some(model) = config.get("model").and_then(Value::as_str) {
            model.clone_into(&mut self.model);
        }
        true
    }

    pub(crate) fn of(state: &SessionState, engine: &Engine) -> Self {
        Self {
            mode: state.mode(),
            model: engine.model_of(state),
        }
    }
}

/// What lists show of a session; `None` leaves a part as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Its title.
    pub title: Option<String>,
    /// Whether it was put away.
    pub archived: Option<bool>,
}

/// How far back a session went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The last event that counts.
    pub to: EventSeq,
    /// The event that says so.
    pub at: EventSeq,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Whoever asks may only look.
    #[error("this token may only observe")]
    Scope,
    /// One turn at a time.
    #[error("a turn is already running")]
    Busy,
    /// Something is full; the name says what.
    #[error("too many: {0}")]
    Limit(&'static str),
    /// What was asked for cannot be; the words say why.
    #[error("{0}")]
    Invalid(&'static str),
    /// The session is not here any more.
    #[error("the session has closed")]
    Closed,
    /// The store or the server cannot take it now.
    #[error("the session could not store the change")]
    Failed(FailureKind),
}

/// Why a session could not be entered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// There is none, or it is somebody else's: the two are not told apart.
    #[error("there is no such session")]
    NotFound,
    /// The given directory is not the session's.
    #[error("cwd differs from the session's")]
    WrongCwd,
    /// Its directories hold the data directory, and no sandbox keeps commands from that.
    #[error(
        "the session's directory holds the server's data directory, and without a sandbox commands \
         could read the server's tokens; use another directory, or set up a sandbox (`fastness \
         doctor` says how)"
    )]
    HoldsDataDirectory,
    /// It is there but cannot be opened.
    #[error("the session could not be opened")]
    Failed(FailureKind),
    /// Too much waits for it.
    #[error("too many: {0}")]
    Limit(&'static str),
}

/// Where to start following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Everything.
    Start,
    /// Only what comes now.
    Head,
    /// After a cursor; without an epoch it counts as current.
    After {
        /// Sequence number and offset; its epoch is the given one.
        cursor: Cursor,
        /// Whether the client named the epoch.
        epoch_given: bool,
    },
}

/// Who wants to enter a session, and how.
#[derive(Clone, Debug)]
pub struct Entrance {
    /// Who.
    pub principal: Principal,
    /// From where on it follows.
    pub from: From,
    /// The directory that it believes the session to be in.
    pub cwd: Option<String>,
    /// The right to come back that it shows.
    pub resume_token: Option<Secret>,
    /// The line of the attachment that this one replaces on the same connection.
    pub after: Option<Line>,
    /// Tool servers that its client named, for a session that comes into memory with this.
    pub servers: Vec<ToolServer>,
}

impl Entrance {
    /// As somebody who is not coming back.
    #[must_use]
    pub fn new(principal: &Principal, from: From) -> Self {
        Self {
            principal: principal.clone(),
            from,
            cwd: None,
            resume_token: None,
            after: None,
            servers: Vec::new(),
        }
    }
}

/// What entering a session gives.
pub struct Attached {
    /// To act.
    pub handle: SessionHandle,
    /// To follow.
    pub subscription: Subscription,
    /// How things stood at that moment.
    pub snapshot: Snapshot,
    /// What is around the session.
    pub view: ProjectView,
    /// To come back.
    pub resume_token: Option<Secret>,
    /// Whether the tool servers that were named are the session's.
    pub are_servers_used: bool,
}

/// A session at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The newest event.
    pub head: EventSeq,
    /// The journal's epoch.
    pub epoch: u64,
    /// Where the client must drop what it holds.
    pub resync_from: Option<EventSeq>,
    /// What is set.
    pub config: Config,
    /// Open questions to ask this client too.
    pub questions: Vec<Question>,
    /// The newest turn.
    pub turn: TurnId,
    /// What it is doing.
    pub phase: TurnPhase,
    /// The client's name for its prompt.
    pub prompt_id: Option<PromptId>,
    /// The prompts that wait, the next one first.
    pub queue: Vec<QueuedPrompt>,
    /// The attach named directories or servers for a session that was loaded already.
    pub was_loaded: bool,
    /// The journal is damaged here: what lies before can be read, and nothing can be added.
    pub damaged_at: Option<EventSeq>,
}

/// What a session's newest turn is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnPhase {
    /// It works.
    Running,
    /// It waits for a person.
    Waiting,
    /// There is none, or it is over.
    Idle,
}

impl SessionHandle {
    pub(crate) fn new(
        id: SessionId,
        (principal, scope): (Principal, Scope),
        mailbox: Mailbox,
        presence: Arc<Presence>,
    ) -> Self {
        Self {
            id,
            principal,
            scope,
            mailbox,
            presence,
        }
    }

    /// The session.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The line of attachments that it belongs to.
    #[must_use]
    pub fn line(&self) -> Line {
        self.presence.line
    }

    /// Prompts. `reply` learns whether it was accepted; the turn's end comes with the stream.
    pub fn prompt(&self, prompt: Prompt, reply: Reply<Result<Accepted, CommandError>>) {
        if !self.may_act() {
            return reply(Err(CommandError::Scope));
        }
        let cancels = self.presence.bell.cancels.load(Ordering::Acquire);
        self.send(Envelope::Prompt {
            prompt: Box::new(prompt),
            cancels,
            from: self.presence.line,
            reply,
        });
    }

    /// Cancels the running turn, and all prompts sent before.
    ///
    /// It waits behind nothing and cannot be refused.
    pub fn cancel(&self) {
        if !self.may_act() {
            meters::IGNORED.of(meters::label::Ignored::Cancel).count();
            return tracing::debug!(session = %self.id, "a cancel by an observer was ignored");
        }
        self.presence.bell.cancels.fetch_add(1, Ordering::AcqRel);
        self.presence.bell.notify.notify_one();
    }

    /// Takes back a queued prompt.
    pub fn drop_queued(&self, queued: EventSeq) {
        self.send_surely(Envelope::DropQueued(queued));
    }

    /// Cancels `turn` if it is the one that runs.
    pub fn cancel_turn(&self, turn: TurnId) {
        if self.may_act() {
            self.send_surely(Envelope::CancelTurn(turn));
        }
    }

    /// Changes the permission mode.
    pub fn set_mode(&self, mode: Mode, reply: Reply<Result<(), CommandError>>) {
        // Running everything unasked is for the person at this machine to allow.
        if !self.may_act() || (mode == Mode::Bypass && !self.principal.is_local()) {
            return reply(Err(CommandError::Scope));
        }
        self.send(Envelope::SetMode { mode, reply });
    }

    /// Chooses another model for the turns to come.
    pub fn set_model(&self, model: String, reply: Reply<Result<(), CommandError>>) {
        if !self.may_act() {
            return reply(Err(CommandError::Scope));
        }
        self.send(Envelope::SetModel { model, reply });
    }

    /// Changes what lists show of the session.
    pub fn label(&self, label: Label, reply: Reply<Result<(), CommandError>>) {
        if !self.may_act() {
            return reply(Err(CommandError::Scope));
        }
        self.send(Envelope::Label { label, reply });
    }

    /// Asks what is set.
    pub fn config(&self, reply: Reply<Result<Config, CommandError>>) {
        self.send(Envelope::Config { reply });
    }

    /// Asks which directories it may touch.
    pub fn roots(&self, reply: Reply<Result<Roots, CommandError>>) {
        self.send(Envelope::Roots { reply });
    }

    /// Undoes everything after the turn that ended at, or last before, `to`. Refused while a turn
    /// runs or waits.
    pub fn rewind(&self, to: EventSeq, reply: Reply<Result<Rewound, CommandError>>) {
        if !self.may_act() {
            return reply(Err(CommandError::Scope));
        }
        self.send(Envelope::Rewind { to, reply });
    }

    /// Answers a question.
    pub fn answer(&self, question: PermissionId, answer: Answer) {
        if !self.may_act() {
            return;
        }
        let (from, by) = (self.presence.id, self.principal.id().clone());
        self.send_surely(Envelope::Answer {
            question,
            answer,
            from,
            by,
        });
    }

    /// The client of this attachment is there again, over another connection: calls of the turn
    /// that this attachment started go to it from now on.
    pub fn client_came_back(&self, client: Arc<dyn ClientSide>) {
        let from = self.presence.line;
        self.send_surely(Envelope::ClientBack { client, from });
    }

    /// Whether its holder may do more than look.
    #[must_use]
    pub fn may_act(&self) -> bool {
        self.scope == Scope::Control
    }

    /// Leaves for good: closes the session if nobody else is there. `reply` learns up to which
    /// event to read before leaving.
    pub fn close(&self, reply: Reply<Result<EventSeq, CommandError>>) {
        self.send(Envelope::Close {
            from: self.presence.id,
            line: self.presence.line,
            may_act: self.may_act(),
            reply,
        });
    }

    /// Sends what must not be lost and has no answer. When the mailbox is full it waits in a task;
    /// there are never more of these than questions and prompts of this client.
    fn send_surely(&self, envelope: Envelope) {
        let sent = self.mailbox.try_send(Box::new(envelope));
        if let Err(mpsc::error::TrySendError::Full(envelope)) = sent {
            let mailbox = self.mailbox.clone();
            tokio::spawn(async move { mailbox.send(envelope).await });
        }
    }

    fn send(&self, envelope: Envelope) {
        match self.mailbox.try_send(Box::new(envelope)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(envelope)) => {
                envelope.refuse(CommandError::Limit("commands_waiting"));
            }
            Err(mpsc::error::TrySendError::Closed(envelope)) => {
                envelope.refuse(CommandError::Closed);
            }
        }
    }
}

/// Which attachment something came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttachmentId(pub(crate) u64);

/// A client's being there. The actor holds it weakly; the last handle's drop rings the bell.
pub(crate) struct Presence {
    pub(crate) id: AttachmentId,
    pub(crate) line: Line,
    bell: Arc<Bell>,
    _counted: meters::Held,
}

impl Presence {
    pub(crate) fn new(id: AttachmentId, line: Line, bell: Arc<Bell>) -> Arc<Self> {
        let _counted = meters::ATTACHMENTS.hold();
        Arc::new(Self {
            id,
            line,
            bell,
            _counted,
        })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.bell.notify.notify_one();
    }
}

/// What wakes an actor without going through its mailbox.
#[derive(Default)]
pub(crate) struct Bell {
    pub(crate) notify: Notify,
    pub(crate) cancels: AtomicU64,
}

/// The way into an actor's mailbox.
///
/// Boxed, because a channel has room for 32 messages from the start, in every idle session.
pub(crate) type Mailbox = mpsc::Sender<Box<Envelope>>;

impl std::convert::From<CommandError> for AttachError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Limit(name) => Self::Limit(name),
            CommandError::Failed(kind) => Self::Failed(kind),
            CommandError::Scope
            | CommandError::Busy
            | CommandError::Invalid(_)
            | CommandError::Closed => Self::NotFound,
        }
    }
}
