//! What a running turn tells the session that owns it.

use std::sync::Arc;

use domain::event::{
    Compaction, HookRan, MessageKind, PlanEntry, QuestionAsked, StopReason, ToolKind, ToolLocation,
    ToolStatus, Usage, UsagePurpose,
};
use domain::ids::PermissionId;
use domain::{CallId, Permit, TurnError};
use llm::{Message, Model};
use serde_json::Value;
use tokio::sync::oneshot;
use tools::PersonQuestion;
use tools::asks::PersonAnswer;

use crate::context::Plan;
use crate::permissions::Ruled;

/// Something for the session to store. The session handles reports in the order they were sent.
pub enum Report {
    /// A piece of the message being streamed.
    Text {
        /// Answer or thought; a change ends the open message.
        kind: MessageKind,
        /// What to append.
        delta: String,
    },
    /// Something happened beside the conversation.
    Note(Note),
    /// The project has another model for this session, which the turn goes on with.
    Model(String),
    /// One model call used this much.
    Usage {
        /// How much.
        usage: Usage,
        /// What for.
        purpose: UsagePurpose,
        /// How much the model takes at once.
        context_window: u64,
    },
    /// The model's view of everything stored so far is wanted.
    Context {
        /// Where to send it.
        reply: oneshot::Sender<Context>,
    },
    /// What could be left out of that view is wanted.
    Plan {
        /// How much of its end a summary must leave as it is.
        keep_tokens: u64,
        /// Where to send it.
        reply: oneshot::Sender<Plan>,
    },
    /// The model is to be shown less from now on.
    Compacted {
        /// What is left out.
        compaction: Compaction,
        /// Told once it is stored.
        stored: oneshot::Sender<()>,
    },
    /// The model wants these calls, in this order.
    Proposed(Vec<Proposal>),
    /// A tool server asks the person while its tool runs.
    Asked(Box<Asking>),
    /// Nobody waits for the answer to that question any more.
    TakenBack(PermissionId),
    /// A call ended.
    Finished(Finished),
    /// The turn is over. Nothing follows.
    Ended(TurnEnd),
}

/// A question of a tool server's.
pub struct Asking {
    /// What is asked.
    pub asked: QuestionAsked,
    /// Where the answer goes; dropped, there is none.
    pub reply: oneshot::Sender<PersonAnswer>,
}

/// The conversation as the model sees it.
#[derive(Clone, Debug)]
pub struct Context {
    /// It.
    pub messages: Arc<Vec<Message>>,
    /// About how many tokens it is.
    pub tokens: u64,
    /// Whether the provider counted, which includes all that stands beside it in a call.
    pub is_counted: bool,
}

/// Something that happens beside the conversation and belongs into the journal.
#[derive(Clone, Debug)]
pub enum Note {
    /// A hook ran.
    Hook(HookRan),
    /// The prompt named a command.
    Expanded {
        /// The command.
        name: String,
        /// What the model reads in place of the prompt.
        text: String,
    },
    /// A person should know this.
    Told(String),
}

/// A call the model wants, with the way to tell the turn whether it may run.
pub struct Proposal {
    /// Its name from now on.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// Its input.
    pub input: Value,
    /// How to show it.
    pub title: String,
    /// What kind of act it is.
    pub kind: ToolKind,
    /// The files it touches.
    pub locations: Vec<ToolLocation>,
    /// What it would do to them.
    pub content: Vec<Value>,
    /// What rules say of it, as it is now.
    pub ruled: Ruled,
    /// Why it is over before anybody judges it, if it is.
    pub refused: Option<Refusal>,
    /// Whether it must be asked about, whatever was allowed: nothing would contain it.
    pub is_uncontained: bool,
    /// What it asks a person, who then gives its outcome in place of a run.
    pub question: Option<PersonQuestion>,
    /// Where the decision goes.
    pub verdict: oneshot::Sender<Verdict>,
}

/// Why a call is over before anybody judges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A hook said no, for this reason.
    Hook(String),
    /// There is no such tool; in words for the model.
    NoTool(String),
    /// It cannot run with this input; in words for the model.
    Input(String),
    /// It was written as text, and is not taken for a call.
    Written(String),
    /// Its result stands above already.
    Repeated(&'static str),
}

impl Refusal {
    /// How the call ends.
    #[must_use]
    pub fn result(&self) -> (ToolStatus, &str) {
        match self {
            Self::Hook(why) => (ToolStatus::Denied, why),
            // Nobody denied anything: there is nothing to run.
            Self::NoTool(why) | Self::Input(why) | Self::Written(why) => (ToolStatus::Failed, why),
            Self::Repeated(why) => (ToolStatus::Completed, why),
        }
    }
}

/// Whether a call may run. One that may not has its outcome already, stored by the session.
#[derive(Debug)]
pub enum Verdict {
    /// It may, once.
    Run(Permit),
    /// It may not.
    Denied,
    /// It need not: it was a question to a person, who gave its outcome.
    Answered,
}

/// How a call ended.
pub struct Finished {
    /// Which one.
    pub call: CallId,
    /// How.
    pub status: ToolStatus,
    /// What came out.
    pub text: String,
    /// What came out besides, for people.
    pub blocks: Vec<Value>,
    /// The places that it found.
    pub locations: Vec<ToolLocation>,
    /// The session's plan from now on, if the call made one.
    pub plan: Option<Vec<PlanEntry>>,
    /// Told once the result is stored.
    pub stored: oneshot::Sender<()>,
}

/// How a turn ended, and what goes back to the session for the next one.
pub struct TurnEnd {
    /// A stop reason, or what went wrong.
    pub outcome: Result<StopReason, TurnError>,
    /// The session's model, which may count its calls.
    pub model: Box<dyn Model>,
}
