//! What can be asked of a session, and why it may refuse.

use agent::permissions::Ruled;
use agent::{Note, PersonQuestion, Refusal};
use domain::event::{
    ChildLinked, Compaction, MessageStarted, PermissionAsked, PlanEntry, QuestionAsked, ToolKind,
    ToolLocation, ToolResult, Usage, UsagePurpose,
};
use domain::ids::PermissionId;
use domain::{CallId, EventSeq, FailureKind, MessageId, PrincipalId, PromptId};
use serde_json::Value;

use super::{Fate, Said, TurnOutcome};
use crate::handle::Label;
use crate::mode::Mode;

/// Something somebody wants to happen.
#[derive(Clone, Debug)]
pub enum Command {
    /// A client prompts.
    Prompt {
        /// The prompt's text.
        text: String,
        /// The prompt as ACP content blocks.
        blocks: Vec<Value>,
        /// Its name as a message.
        message_id: MessageId,
        /// The client's name for it.
        prompt_id: Option<PromptId>,
        /// Wait behind a running turn instead of being refused.
        queue: bool,
        /// What to say before the first prompt.
        greeting: Option<String>,
        /// The session has used up its tokens.
        is_spent: bool,
    },
    /// The oldest queued prompt's time has come.
    StartQueued {
        /// What to say before the first prompt.
        greeting: Option<String>,
    },
    /// A client takes back a queued prompt.
    DropQueued(EventSeq),
    /// A client cancels the running turn and all that waits behind it.
    Cancel,
    /// A client changes the mode.
    SetMode(Mode),
    /// A client chooses another model, which is on offer.
    SetModel(String),
    /// A client changes what lists show.
    Label(Label),
    /// A client goes back to the end of the turn that ended at, or last before, this event.
    Rewind(EventSeq),
    /// A client answers a question.
    Answer {
        /// Which one.
        question: PermissionId,
        /// How.
        said: Said,
        /// Who answered.
        by: PrincipalId,
    },
    /// Nobody is left who could answer.
    Deny(PermissionId),
    /// Nobody answered in time.
    Expire(PermissionId),
    /// The running turn wants tools.
    Propose(Vec<Proposed>),
    /// A tool ended.
    Finish {
        /// How, and with what.
        result: ToolResult,
        /// And with this as the plan from now on.
        plan: Option<Vec<PlanEntry>>,
    },
    /// The running turn's model used tokens.
    RecordUsage {
        /// How many.
        usage: Usage,
        /// What for.
        purpose: UsagePurpose,
        /// How many the model takes at once.
        context_window: u64,
    },
    /// A sub-agent is about to work for the running turn.
    LinkChild(ChildLinked),
    /// A sub-agent asks.
    AskForChild(Box<PermissionAsked>),
    /// A tool server asks.
    AskForServer(Box<QuestionAsked>),
    /// A question beside a call was settled elsewhere, or nobody waits for its answer.
    Withdraw(PermissionId),
    /// The running turn has the model shown less.
    Compact(Compaction),
    /// Something happened beside the conversation.
    Note(Note),
    /// The running turn's streamed message is complete.
    EndMessage,
    /// The running turn says all of a message at once.
    Say {
        /// The message.
        message: MessageStarted,
        /// All of it.
        text: String,
    },
    /// The running turn ended.
    End(TurnOutcome),
    /// The process ends, or ended, while the turn ran.
    Interrupt,
    /// The store failed under the turn, and can be written again.
    Fail(FailureKind),
    /// The last client closes the session.
    Close,
}

/// A call that a turn wants, as it is to be stored.
#[derive(Clone, Debug)]
pub struct Proposed {
    /// Its name.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// Its input.
    pub input: Value,
    /// How it is shown.
    pub title: String,
    /// What kind of act it is.
    pub kind: ToolKind,
    /// The files it touches.
    pub locations: Vec<ToolLocation>,
    /// What it would do to them.
    pub content: Vec<Value>,
    /// What rules say of it.
    pub ruled: Ruled,
    /// Why it must not run, whatever the rules say.
    pub refused: Option<Refusal>,
    /// Whether a person decides, whatever the rules allow: nothing would contain it.
    pub is_uncontained: bool,
    /// What it asks a person, who then gives its outcome.
    pub question: Option<PersonQuestion>,
}

/// Why a command changes nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejected {
    /// One turn at a time.
    #[error("a turn is already running")]
    Busy,
    /// Too many prompts wait.
    #[error("too many prompts are waiting")]
    QueueFull,
    /// The session may use no more tokens.
    #[error("the session has used up its tokens")]
    Spent,
    /// It is a sub-agent's session.
    #[error("a sub-agent takes no prompts; fork its session to go on from there")]
    SubAgent,
    /// There is nothing to undo.
    #[error("no turn ended after that event")]
    Nothing,
    /// This prompt was stored before; this is what became of it.
    #[error("this prompt was sent before")]
    Repeated(Fate),
    /// It concerns something that is over: a late answer, a late report. Nothing to do.
    #[error("its time has passed")]
    Late,
}
