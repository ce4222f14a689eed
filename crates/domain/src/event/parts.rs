//! The small vocabularies that events are made of.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{CallId, EventSeq, SessionId};

/// Whether a streamed message is the answer or the thinking before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// Ends as `assistant.message`.
    Text,
    /// Ends as `assistant.thought`.
    Thought,
}

/// The text of a finished message: in place, or in a file of its own when it is long.
///
/// A long answer is never held in memory whole; whoever needs it reads the blob piece by piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// The text itself.
    Inline(String),
    /// The SHA-256 of the text, which is the name of its blob.
    Blob {
        /// 64 lower-case hexadecimal digits.
        #[serde(rename = "$blob")]
        sha256: String,
    },
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It ran and succeeded.
    Completed,
    /// It ran and failed.
    Failed,
    /// It was not allowed, and did not run.
    Denied,
    /// The turn was cancelled before it could end by itself.
    Cancelled,
    /// It never started.
    NotRun,
    /// The process died while it may have been running.
    Unknown,
}

/// What a tool does, as ACP's `ToolKind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes files.
    Edit,
    /// Removes files.
    Delete,
    /// Moves files.
    Move,
    /// Looks for something.
    Search,
    /// Runs commands.
    Execute,
    /// Thinks aloud.
    Think,
    /// Gets something from the network.
    Fetch,
    /// Anything else.
    #[default]
    #[serde(other)]
    Other,
}

/// A place in a file that a tool call touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolLocation {
    /// An absolute path.
    pub path: String,
    /// A line, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// One way to answer a permission question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    /// What the client sends back.
    pub option_id: String,
    /// What the person reads.
    pub name: String,
    /// What it means.
    pub kind: PermissionOptionKind,
}

/// What choosing an option means, as in ACP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionOptionKind {
    /// This call may run.
    AllowOnce,
    /// This call and others like it may run.
    AllowAlways,
    /// This call may not run.
    RejectOnce,
    /// This call and others like it may not run.
    RejectAlways,
}

impl PermissionOptionKind {
    /// Whether choosing it lets the call run.
    #[must_use]
    pub fn allows(self) -> bool {
        match self {
            Self::AllowOnce | Self::AllowAlways => true,
            Self::RejectOnce | Self::RejectAlways => false,
        }
    }
}

/// A sub-agent that asks for a permission through the session that called it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asker {
    /// What it is called.
    pub agent: String,
    /// Its session.
    pub session_id: SessionId,
    /// Its call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// What the tool is given, without what is long.
    pub input: Value,
    /// What the call would do: ACP tool call content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Value>,
}

/// Why a call was allowed without a question: by rules, by an earlier answer, or else by the mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grounds {
    /// The rules that allow it, one for each part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<GroundRule>,
    /// The answer that allowed it for the rest of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventSeq>,
    /// The mode that lets it run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// A rule that allowed a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroundRule {
    /// As it was written.
    pub rule: String,
    /// Whose it is: `operator` or `project`.
    pub from: String,
}

/// How a permission question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerOutcome {
    /// Someone allowed it.
    Allowed,
    /// Someone refused it, or nobody was left who could allow it.
    Denied,
    /// The turn was cancelled first.
    Cancelled,
    /// Nobody answered in time.
    Expired,
}

/// How a question to a person ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionOutcome {
    /// Someone answered it.
    Answered,
    /// Someone will answer it in the chat.
    Later,
    /// Someone would not answer it, or nobody was left who could be asked.
    Declined,
    /// The turn was cancelled first.
    Cancelled,
    /// Nobody answered in time.
    Expired,
}

/// When a hook runs. The names are those that people write in their settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HookPoint {
    /// Before the first turn since the session came into memory.
    SessionStart,
    /// Before the model sees a prompt.
    UserPromptSubmit,
    /// Before each call of the model.
    BeforeModelCall,
    /// After each call of the model.
    AfterModelCall,
    /// Before a tool call is judged.
    PreToolUse,
    /// After a tool call ended.
    PostToolUse,
    /// Before the conversation is summarised.
    SessionCompacting,
    /// Before a turn ends that the model would end.
    Stop,
    /// When a session that had a turn leaves memory.
    SessionEnd,
}

impl HookPoint {
    /// All of them, in the order in which they come.
    pub const ALL: [Self; 9] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::BeforeModelCall,
        Self::AfterModelCall,
        Self::PreToolUse,
        Self::PostToolUse,
        Self::SessionCompacting,
        Self::Stop,
        Self::SessionEnd,
    ];

    /// Its name, as it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::BeforeModelCall => "BeforeModelCall",
            Self::AfterModelCall => "AfterModelCall",
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::SessionCompacting => "SessionCompacting",
            Self::Stop => "Stop",
            Self::SessionEnd => "SessionEnd",
        }
    }
}

/// What became of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookOutcome {
    /// It had nothing against it.
    Ok,
    /// It changed something.
    Rewrote,
    /// It said no.
    Blocked,
    /// It could not be run, or said something that means nothing.
    Failed,
    /// It took too long.
    TimedOut,
}

/// Why a turn stopped, as in ACP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had nothing more to say.
    EndTurn,
    /// The model or a message ran into its length limit.
    MaxTokens,
    /// The turn used up its steps.
    MaxTurnRequests,
    /// The model refused.
    Refusal,
    /// Somebody cancelled.
    Cancelled,
}

/// Tokens, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache, a part of `input_tokens`.
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Tokens put into the provider's cache, a part of `input_tokens`.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Tokens thought and not shown as an answer, a part of `output_tokens`.
    #[serde(skip_serializing_if = "is_zero")]
    pub thought_tokens: u64,
    /// The price in billionths of a US dollar; `None` where the model's price is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nano_usd: Option<u64>,
}

impl Usage {
    /// The price in US dollars, for people to read.
    #[must_use]
    pub fn cost_usd(&self) -> Option<f64> {
        self.cost_nano_usd.map(nano_usd)
    }

    /// Tokens read and written.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Billionths of a dollar as dollars. Exact up to nine million of them.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nobody pays 2^53 billionths")]
pub fn nano_usd(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.thought_tokens += other.thought_tokens;
        // A sum holds what is known of it: a call without a price adds nothing.
        self.cost_nano_usd = match (self.cost_nano_usd, other.cost_nano_usd) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What a model call was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsagePurpose {
    /// The conversation itself: its tokens say how full the model's window is.
    #[default]
    Answer,
    /// A question about something a tool found.
    Reading,
    /// A summary of the conversation.
    Summary,
    /// The work of a sub-agent, whose own journal has the call itself.
    Task,
    /// What a tool server wanted to have answered.
    Sampling,
}

impl UsagePurpose {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference"
    )]
    pub(super) fn is_answer(&self) -> bool {
        *self == Self::Answer
    }
}

/// How a conversation was made to fit its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompactionKind {
    /// The output of old tool calls was left out.
    Pruned,
    /// A summary stands in for it.
    Summary,
}

/// One thing to be done, as ACP's `PlanEntry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// What.
    pub content: String,
    /// How much it matters; not written if that is as usual.
    #[serde(default, skip_serializing_if = "PlanPriority::is_usual")]
    pub priority: PlanPriority,
    /// How far it is.
    pub status: PlanStatus,
}

/// How much an entry of a plan matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanPriority {
    /// Without it the rest is no use.
    High,
    /// As usual.
    #[default]
    Medium,
    /// Nice to have.
    Low,
}

impl PlanPriority {
    fn is_usual(&self) -> bool {
        *self == Self::Medium
    }
}

/// How far an entry of a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}
