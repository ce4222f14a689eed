//! A session's stream as `session/update` notifications.
//!
//! [`text_chunk`] is the hot path and writes its frame by hand; everything else goes through
//! [`UpdateParams`], which says the same with derived types.

use std::fmt::Write as _;

use domain::event::{
    ChildLinked, Compaction, PlanEntry, PlanPriority, PlanStatus, SessionUpdated, UsagePurpose,
    UsageRecorded, UserMessage, nano_usd,
};
use domain::event::{MessageKind, Notice, ToolKind, ToolLocation, ToolResult, ToolStatus, ToolUse};
use domain::limits::MERGED_CHUNK_BYTES_MAX;
use domain::{CallId, Event, MessageId, SessionId};
use serde::Serialize;
use serde_json::{Value, json};

use super::content::{TextBlock, block, tool_content};
use super::meta::UpdateMeta;
use crate::rpc;
use crate::text::push_string;

/// A piece of a message that is being streamed or replayed, as a whole frame.
#[must_use]
pub fn text_chunk(
    session: SessionId,
    kind: MessageKind,
    message_id: &MessageId,
    text: &str,
    meta: &UpdateMeta,
) -> String {
    /// What stands around the text, numbers at their longest.
    const AROUND: usize = 384;
    let mut frame = String::with_capacity(AROUND + message_id.as_str().len() + text.len() / 8 * 9);
    frame.push_str(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":""#);
    push_display(&mut frame, session);
    frame.push_str(match kind {
        MessageKind::Text => r#"","update":{"sessionUpdate":"agent_message_chunk","messageId":"#,
        MessageKind::Thought => r#"","update":{"sessionUpdate":"agent_thought_chunk","messageId":"#,
    });
    push_string(&mut frame, message_id.as_str());
    frame.push_str(r#","content":{"type":"text","text":"#);
    push_string(&mut frame, text);
    frame.push_str(r#"}},"_meta":{"fastness":{"seq":"#);
    push_display(&mut frame, meta.seq);
    frame.push_str(r#","epoch":"#);
    push_display(&mut frame, meta.epoch);
    if let Some(offset) = meta.offset {
        frame.push_str(r#","offset":"#);
        push_display(&mut frame, offset);
    }
    if meta.more {
        frame.push_str(r#","more":true"#);
    }
    if let Some(prompt_id) = &meta.prompt_id {
        frame.push_str(r#","promptId":"#);
        push_string(&mut frame, prompt_id.as_str());
    }
    if meta.greeting {
        frame.push_str(r#","greeting":true"#);
    }
    frame.push_str("}}}}");
    frame
}

/// The updates that tell a client of a stored event; none for events that it is not told of here.
///
/// Messages of the assistant are not: the server streams and replays them with [`text_chunk`].
#[must_use]
pub fn event_updates(session: SessionId, event: &Event, meta: &UpdateMeta) -> Vec<String> {
    let one = |update: &Update<'_>| Vec::from_iter(update_frame(session, update, Some(meta)));
    match event {
        Event::UserMessage(message) => user_message(session, message, meta),
        Event::ToolUse(call) => one(&tool_call(call)),
        Event::ToolResult(result) => one(&tool_call_update(result)),
        Event::ModeChanged(changed) => one(&Update::CurrentModeUpdate {
            current_mode_id: &changed.mode,
        }),
        Event::SessionUpdated(SessionUpdated {
            title: Some(title), ..
        }) => one(&Update::SessionInfoUpdate { title }),
        Event::PlanUpdated(plan) => one(&Update::Plan {
            entries: plan.entries.iter().map(PlanStep::of).collect(),
        }),
        Event::UsageRecorded(recorded) => match usage(recorded) {
            Some(update) => one(&update),
            None => Vec::new(),
        },
        Event::ChildLinked(linked) => match linked.child {
            Some(child) => one(&working(linked, child)),
            None => Vec::new(),
        },
        Event::Compaction(compaction) => one(&compacted(compaction, meta)),
        Event::Notice(notice) if notice.kind == "greeting" => greeting(session, notice, meta),
        Event::SessionCreated(_)
        | Event::SessionUpdated(_)
        | Event::PromptQueued(_)
        | Event::PromptExpanded(_)
        | Event::HookRan(_)
        | Event::PromptDropped(_)
        | Event::TurnStarted(_)
        | Event::MessageStarted(_)
        | Event::AssistantMessage(_)
        | Event::AssistantThought(_)
        | Event::PermissionAsked(_)
        | Event::PermissionAnswered(_)
        | Event::QuestionAsked(_)
        | Event::QuestionAnswered(_)
        | Event::TurnResult(_)
        | Event::TurnInterrupted(_)
        | Event::SessionRecovered(_)
        | Event::SessionRewound(_)
        | Event::SessionForked(_)
        | Event::SessionClosed(_)
        | Event::Notice(_)
        | Event::Unknown(_) => Vec::new(),
    }
}

/// What a running call shows of itself. It is no event, so it carries no cursor.
///
/// Gives nothing only if it cannot be JSON, which its field types rule out.
#[must_use]
pub fn tool_progress(session: SessionId, call: &CallId, text: &str) -> Option<String> {
    let content = ToolContent::Text {
        r#type: "content",
        content: TextBlock { text },
    };
    let update = Update::ToolCallUpdate {
        tool_call_id: call,
        status: "in_progress",
        content: vec![content],
        locations: &[],
        raw_output: None,
        meta: None,
    };
    update_frame(session, &update, None)
}

/// A sub-agent has begun to work on a call; whoever wants to see all of it loads its session.
fn working(linked: &ChildLinked, child: SessionId) -> Update<'_> {
    let agent = json!({"name": linked.agent, "sessionId": child});
    Update::ToolCallUpdate {
        tool_call_id: &linked.call_id,
        status: "in_progress",
        content: Vec::new(),
        locations: &[],
        raw_output: None,
        meta: Some(json!({"fastness": {"agent": agent}})),
    }
}

/// An entry of a plan, with all that ACP wants to be said of it.
#[derive(Serialize)]
pub(super) struct PlanStep<'a> {
    content: &'a str,
    priority: PlanPriority,
    status: PlanStatus,
}

impl<'a> PlanStep<'a> {
    fn of(entry: &'a PlanEntry) -> Self {
        Self {
            content: &entry.content,
            priority: entry.priority,
            status: entry.status,
        }
    }
}

/// The kinds of update that we send, spelled as ACP does.
#[derive(Serialize)]
#[serde(
    tag = "sessionUpdate",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
#[expect(clippy::enum_variant_names, reason = "the names are those of ACP")]
pub(super) enum Update<'a> {
    UserMessageChunk {
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<&'a MessageId>,
        content: &'a Value,
    },
    AgentMessageChunk {
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<&'a MessageId>,
        content: TextBlock<'a>,
        #[serde(rename = "_meta")]
        meta: Value,
    },
    ToolCall {
        tool_call_id: &'a CallId,
        title: &'a str,
        name: &'a str,
        kind: ToolKind,
        status: &'static str,
        raw_input: &'a Value,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        locations: &'a [ToolLocation],
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Value>,
    },
    ToolCallUpdate {
        tool_call_id: &'a CallId,
        status: &'static str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<ToolContent<'a>>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        locations: &'a [ToolLocation],
        #[serde(skip_serializing_if = "Option::is_none")]
        raw_output: Option<Value>,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<Value>,
    },
    CurrentModeUpdate {
        current_mode_id: &'a str,
    },
    SessionInfoUpdate {
        title: &'a str,
    },
    Plan {
        entries: Vec<PlanStep<'a>>,
    },
    UsageUpdate {
        used: u64,
        size: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<Value>,
    },
    CompactionUpdate {
        compaction_id: String,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<[TextBlock<'a>; 1]>,
    },
    ConfigOptionUpdate {
        config_options: &'a Value,
    },
    AvailableCommandsUpdate {
        available_commands: &'a Value,
    },
    Notice {
        severity: &'static str,
        title: &'a str,
    },
}

/// An item of a tool call's content.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ToolContent<'a> {
    Text {
        r#type: &'static str,
        content: TextBlock<'a>,
    },
    Stored(Value),
}

/// One `session/update` as a whole frame; `None` stands for a state that carries no cursor.
///
/// Gives nothing only if the update cannot be JSON, which its field types rule out.
pub(super) fn update_frame(
    session: SessionId,
    update: &Update<'_>,
    meta: Option<&UpdateMeta>,
) -> Option<String> {
    let params = UpdateParams {
        session_id: session,
        update,
        meta: meta.map(|fastness| Meta { fastness }),
    };
    rpc::notification("session/update", &params).ok()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams<'a> {
    session_id: SessionId,
    update: &'a Update<'a>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta<'a>>,
}

#[derive(Serialize)]
struct Meta<'a> {
    fastness: &'a UpdateMeta,
}

/// One chunk per block; all but the last say that more of the same event follows.
fn user_message(session: SessionId, message: &UserMessage, meta: &UpdateMeta) -> Vec<String> {
    let blocks = message.blocks.iter().filter_map(block);
    let mut blocks: Vec<Value> = blocks.flat_map(pieces).collect();
    if blocks.is_empty() {
        // Journals of other tools have only the text.
        blocks.extend(pieces(json!({"type": "text", "text": message.text})));
    }
    let last = blocks.len() - 1;
    let frames = blocks.iter().enumerate().map(|(index, content)| {
        let meta = UpdateMeta {
            more: meta.more || index < last,
            prompt_id: message.prompt_id.clone().or_else(|| meta.prompt_id.clone()),
            ..meta.clone()
        };
        let message_id = message.message_id.as_ref();
        let update = Update::UserMessageChunk {
            message_id,
            content,
        };
        update_frame(session, &update, Some(&meta))
    });
    frames.flatten().collect()
}

/// A long text block as several, so that no frame is larger than clients take; others as they are.
fn pieces(block: Value) -> Vec<Value> {
    let Some(text) = block["text"]
        .as_str()
        .filter(|text| text.len() > MERGED_CHUNK_BYTES_MAX)
    else {
        return vec![block];
    };
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(rest.floor_char_boundary(MERGED_CHUNK_BYTES_MAX));
        pieces.push(json!({"type": "text", "text": piece}));
        rest = left;
    }
    pieces
}

fn tool_call(call: &ToolUse) -> Update<'_> {
    let title = if call.title.is_empty() {
        &call.name
    } else {
        &call.title
    };
    Update::ToolCall {
        tool_call_id: &call.call_id,
        title,
        name: &call.name,
        kind: call.kind,
        status: "pending",
        raw_input: &call.input,
        locations: &call.locations,
        content: call.content.iter().filter_map(tool_content).collect(),
    }
}

fn tool_call_update(result: &ToolResult) -> Update<'_> {
    let status = match result.status {
        ToolStatus::Completed => "completed",
        ToolStatus::Failed
        | ToolStatus::Denied
        | ToolStatus::Cancelled
        | ToolStatus::NotRun
        | ToolStatus::Unknown => "failed",
    };
    let text = (!result.text.is_empty()).then_some(ToolContent::Text {
        r#type: "content",
        content: TextBlock { text: &result.text },
    });
    let stored = result.blocks.iter().filter_map(tool_content);
    Update::ToolCallUpdate {
        tool_call_id: &result.call_id,
        status,
        content: text
            .into_iter()
            .chain(stored.map(ToolContent::Stored))
            .collect(),
        locations: &result.locations,
        // ACP knows only two ways to end; ours are told apart here.
        raw_output: Some(json!({"status": result.status})),
        meta: None,
    }
}

/// How full the model's window is. Only calls that carried the conversation, to a model whose
/// window is known, say something about it.
fn usage(recorded: &UsageRecorded) -> Option<Update<'static>> {
    let size = recorded.context_window?;
    let used = recorded.usage.tokens();
    let cost = recorded.session_cost_nano_usd;
    let cost = cost.map(|nanos| json!({"amount": nano_usd(nanos), "currency": "USD"}));
    let update = Update::UsageUpdate { used, size, cost };
    (recorded.purpose == UsagePurpose::Answer).then_some(update)
}

/// The update that says how full the model's window is after the conversation became shorter.
#[must_use]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other events leave the conversation as long as it is"
)]
pub fn context_update(session: SessionId, event: &Event, meta: &UpdateMeta) -> Option<String> {
    let (used, size) = match event {
        Event::Compaction(compaction) => (compaction.tokens_after, compaction.context_window?),
        Event::SessionRewound(rewound) => (rewound.context_tokens?, rewound.context_window?),
        _ => return None,
    };
    let cost = None;
    update_frame(
        session,
        &Update::UsageUpdate { used, size, cost },
        Some(meta),
    )
}

/// A compaction is told once it is stored, and so only ever as done.
fn compacted<'a>(compaction: &'a Compaction, meta: &UpdateMeta) -> Update<'a> {
    let summary = compaction.text.as_deref();
    Update::CompactionUpdate {
        compaction_id: format!("compaction-{}", meta.seq),
        status: "completed",
        summary: summary.map(|text| [TextBlock { text }]),
    }
}

fn greeting(session: SessionId, notice: &Notice, meta: &UpdateMeta) -> Vec<String> {
    let update = Update::AgentMessageChunk {
        message_id: notice.message_id.as_ref(),
        content: TextBlock { text: &notice.text },
        meta: json!({"fastness": {"greeting": true}}),
    };
    let meta = UpdateMeta {
        greeting: true,
        ..meta.clone()
    };
    Vec::from_iter(update_frame(session, &update, Some(&meta)))
}

fn push_display(frame: &mut String, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(frame, "{value}");
}
