//! What can happen in a session: the stored format.
//!
//! Each event is a struct of its fields and a variant of [`Event`]. Variants are added and never
//! change meaning; a type this version does not know, or cannot read, is kept as
//! [`Event::Unknown`]. The journal adds `seq`, `ts` and `crc` around the fields.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::TurnError;
use crate::ids::{
    CallId, EventSeq, MessageId, PermissionId, PrincipalId, PromptId, SessionId, TurnId,
};

mod parts;
mod question;

pub use parts::{
    AnswerOutcome, Asker, CompactionKind, GroundRule, Grounds, HookOutcome, HookPoint, MessageKind,
    PermissionOption, PermissionOptionKind, PlanEntry, PlanPriority, PlanStatus, QuestionOutcome,
    StopReason, Text, ToolKind, ToolLocation, ToolStatus, Usage, UsagePurpose, nano_usd,
};
pub use question::Choice;

/// Declares the event structs and the enum over them from one table of type names.
macro_rules! events {
    ($( $(#[$doc:meta])* $name:literal => $variant:ident { $( $(#[$field_meta:meta])* $field:ident : $type:ty ),* $(,)? } )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[serde(rename_all = "camelCase")]
            pub struct $variant { $( $(#[$field_meta])* pub $field: $type ),* }

            impl From<$variant> for Event {
                fn from(event: $variant) -> Self {
                    Self::$variant(event)
                }
            }
        )*

        /// Something that happened in a session.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $( #[doc = concat!("`", $name, "`")] $variant($variant), )*
            /// A type of a later version or of another tool: kept, and skipped.
            Unknown(Unknown),
        }

        impl Event {
            /// The stored `type`.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $name, )*
                    Self::Unknown(unknown) => &unknown.kind,
                }
            }

            /// The event's own fields as a JSON object, without `seq`, `ts`, `type` and `crc`.
            ///
            /// # Errors
            /// Only if a value cannot be JSON, which the field types rule out.
            pub fn fields_to_string(&self) -> serde_json::Result<String> {
                match self {
                    $( Self::$variant(event) => serde_json::to_string(event), )*
                    Self::Unknown(unknown) => serde_json::to_string(&unknown.fields),
                }
            }

            /// Reads the event of type `kind` from `json`, an object that may hold more fields.
            ///
            /// Never fails on a JSON object: what is not understood is [`Event::Unknown`].
            ///
            /// # Errors
            /// If `json` is not a JSON object.
            pub fn from_json(kind: &str, json: &str) -> serde_json::Result<Self> {
                let known = match kind {
                    $( $name => serde_json::from_str(json).map(Self::$variant).ok(), )*
                    _ => None,
                };
                match known {
                    Some(event) => Ok(event),
                    None => Unknown::from_json(kind, json).map(Self::Unknown),
                }
            }
        }
    };
}

events! {
    /// The first event of every session. `real_directories` says where `cwd` and the others lay
    /// when they were checked, without links, in this order; older sessions have none.
    "session.created" => SessionCreated {
        owner: PrincipalId,
        cwd: String,
        epoch: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        additional_directories: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        real_directories: Vec<String>,
    }
    /// The session's title, settings or shelf changed.
    "session.updated" => SessionUpdated {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        config: Option<Map<String, Value>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        archived: Option<bool>,
    }
    /// A prompt that starts (or belongs to) a turn. `blocks` are ACP content blocks.
    "user.message" => UserMessage {
        text: String,
        blocks: Vec<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_id: Option<PromptId>,
    }
    /// A prompt that waits for the running turn to end.
    "prompt.queued" => PromptQueued {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_id: Option<PromptId>,
        text: String,
        blocks: Vec<Value>,
    }
    /// A queued prompt that will not run; `interrupted` when the process's end is why.
    "prompt.dropped" => PromptDropped {
        queued: EventSeq,
        #[serde(default, skip_serializing_if = "is_false")]
        interrupted: bool,
    }
    /// A turn begins; `queued` names the `prompt.queued` it came from.
    "turn.started" => TurnStarted {
        turn: TurnId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_id: Option<PromptId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queued: Option<EventSeq>,
    }
    /// The assistant starts to stream a message; its text is in `partial` until it ends.
    "message.started" => MessageStarted { message_id: MessageId, kind: MessageKind }
    /// A finished answer; `partial` when it was cut short.
    "assistant.message" => AssistantMessage {
        message_id: MessageId,
        text: Text,
        #[serde(default, skip_serializing_if = "is_false")]
        partial: bool,
    }
    /// A finished thought; `partial` when it was cut short.
    "assistant.thought" => AssistantThought {
        message_id: MessageId,
        text: Text,
        #[serde(default, skip_serializing_if = "is_false")]
        partial: bool,
    }
    /// The model wants a tool to run. Stored before anything happens.
    "tool.use" => ToolUse {
        turn: TurnId,
        call_id: CallId,
        name: String,
        input: Value,
        #[serde(default)]
        title: String,
        #[serde(default)]
        kind: ToolKind,
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        locations: Box<[ToolLocation]>,
        /// What it would do, for a person to see before it runs: ACP tool call content.
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        content: Box<[Value]>,
        /// Why it runs unasked. Without it a question follows, or it does not run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allowed_by: Option<Box<Grounds>>,
    }
    /// How a tool call ended. Stored before anyone sees it.
    "tool.result" => ToolResult {
        call_id: CallId,
        status: ToolStatus,
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blocks: Vec<Value>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        locations: Vec<ToolLocation>,
    }
    /// A command of the operator's or of an approved project ran. `prompt` is what the model reads in
    /// place of the prompt before it, `context` what it reads besides. With `stopped`, what it was asked
    /// about did not happen.
    "hook.event" => HookRan {
        event: HookPoint,
        command: String,
        outcome: HookOutcome,
        ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<TurnId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<CallId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        #[serde(default, skip_serializing_if = "is_false")]
        stopped: bool,
    }
    /// The prompt before this named a command; `text` is what the model reads in its place, as the
    /// command's file was then.
    "prompt.expanded" => PromptExpanded {
        turn: TurnId,
        name: String,
        text: String,
    }
    /// A person is asked whether a call may run.
    "permission.asked" => PermissionAsked {
        id: PermissionId,
        call_id: CallId,
        options: Vec<PermissionOption>,
        #[serde(default)]
        title: String,
        #[serde(default)]
        kind: ToolKind,
        /// The sub-agent that asks, if one does: then `callId` is the task it works on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asker: Option<Box<Asker>>,
        /// The rule that has every such call asked about, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<Box<GroundRule>>,
    }
    /// The first answer to a permission question, or its end without one.
    "permission.answered" => PermissionAnswered {
        id: PermissionId,
        outcome: AnswerOutcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Why, where the client that answered says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// The agent asks the person something; `options` are the answers that it offers, if it does.
    /// With `server`, a tool server asks while the call `callId` of its tool runs; `form` is the JSON
    /// schema of what it wants to know, and without it the server wants to be allowed something.
    "question.asked" => QuestionAsked {
        id: PermissionId,
        call_id: CallId,
        question: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Value>,
    }
    /// The first answer to a question, or its end without one; `content` is a form as it was filled in.
    "question.answered" => QuestionAnswered {
        id: PermissionId,
        outcome: QuestionOutcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Map<String, Value>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    }
    /// The session's permission mode changed.
    "mode.changed" => ModeChanged { mode: String }
    /// The whole plan as it is from here on; it replaces the one before.
    "plan.updated" => PlanUpdated { entries: Vec<PlanEntry> }
    /// Tokens used by one model call. `contextWindow` is how many the model can take at once,
    /// `sessionCostNanoUsd` what the session has cost up to here as far as prices are known.
    "usage" => UsageRecorded {
        turn: TurnId,
        #[serde(default, skip_serializing_if = "UsagePurpose::is_answer")]
        purpose: UsagePurpose,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_cost_nano_usd: Option<u64>,
        #[serde(flatten)]
        usage: Usage,
    }
    /// From here on the model is shown less of what stands up to `upTo`: without the output of
    /// tools, or only `text`, a summary of it. The events themselves stay. Tokens are estimates;
    /// `contextWindow` is how many the model can take at once.
    "compaction" => Compaction {
        kind: CompactionKind,
        up_to: EventSeq,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default)]
        tokens_before: u64,
        #[serde(default)]
        tokens_after: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    }
    /// A turn's end: a stop reason, or an error.
    "result" => TurnResult {
        turn: TurnId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<StopReason>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TurnError>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    }
    /// The process ended while this turn ran.
    "turn.interrupted" => TurnInterrupted { turn: TurnId }
    /// Recovery could not keep all that clients may have seen: cursors at or past `from` are void.
    "session.recovered" => SessionRecovered { epoch: u64, from: EventSeq }
    /// What stands between `to` and here is undone: no model and no newcomer is shown it again.
    /// The events stay, and what their tools did to the world is not taken back. `contextTokens` of
    /// `contextWindow` are in use from here on, as far as that is known.
    "session.rewound" => SessionRewound {
        to: EventSeq,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_tokens: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    }
    /// This session began as a copy of another's first events and belongs to `owner` from here on.
    "session.forked" => SessionForked {
        from: String,
        at: EventSeq,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<PrincipalId>,
    }
    /// A sub-agent works on the call `callId` in a session of its own. The journal of the session that
    /// called names it as `child`; its own journal names that session as `parent`.
    "child.linked" => ChildLinked {
        call_id: CallId,
        agent: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<SessionId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<SessionId>,
    }
    /// The last client closed the session; loading it again goes on after this.
    "session.closed" => SessionClosed {}
    /// Something said by the server itself, not by the model.
    "notice" => Notice {
        kind: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
        text: String,
    }
}

impl MessageStarted {
    /// The event that ends the message.
    #[must_use]
    pub fn ended(self, text: Text, partial: bool) -> Event {
        let message_id = self.message_id;
        match self.kind {
            MessageKind::Text => AssistantMessage {
                message_id,
                text,
                partial,
            }
            .into(),
            MessageKind::Thought => AssistantThought {
                message_id,
                text,
                partial,
            }
            .into(),
        }
    }

    /// Whether `event` ends the message.
    #[must_use]
    pub fn is_ended_by(&self, event: &Event) -> bool {
        match self.kind {
            MessageKind::Text => {
                matches!(event, Event::AssistantMessage(end) if end.message_id == self.message_id)
            }
            MessageKind::Thought => {
                matches!(event, Event::AssistantThought(end) if end.message_id == self.message_id)
            }
        }
    }
}

/// An event of a type this version does not know.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// The stored `type`.
    pub kind: String,
    /// Everything else that stood in the record, without the journal's own keys.
    pub fields: Map<String, Value>,
}

impl Unknown {
    fn from_json(kind: &str, json: &str) -> serde_json::Result<Self> {
        let mut fields: Map<String, Value> = serde_json::from_str(json)?;
        for key in ["seq", "ts", "type", "crc"] {
            fields.shift_remove(key);
        }
        Ok(Self {
            kind: kind.to_owned(),
            fields,
        })
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests;
