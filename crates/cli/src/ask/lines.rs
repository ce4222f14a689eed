//! `--stream-json`: what happens, a JSON object per line as it comes.

use client::{ToolCall, Update};
use serde_json::{Value, json};

/// The line that tells of an update; `None` for what is no part of the answer.
pub(super) fn of(update: &Update) -> Option<Value> {
    match update {
        Update::Text { greeting: true, .. } | Update::Turn(_) | Update::Other { .. } => None,
        Update::Text { text, message, .. } => {
            let mut line = json!({"type": "text", "text": text});
            if let Some(message) = message {
                line["messageId"] = json!(message);
            }
            Some(line)
        }
        Update::Thought { text } => Some(json!({"type": "thought", "text": text})),
        Update::ToolCall(call) => Some(tool("tool", call)),
        Update::ToolUpdate(call) => Some(tool("tool_update", call)),
        Update::Notice { text } => Some(json!({"type": "notice", "text": text})),
    }
}

/// Only what the update names.
fn tool(kind: &str, call: &ToolCall) -> Value {
    let mut line = json!({"type": kind, "id": call.id});
    for (key, value) in [
        ("name", &call.name),
        ("title", &call.title),
        ("status", &call.status),
        ("outcome", &call.outcome),
        ("reason", &call.denial),
    ] {
        if let Some(value) = value {
            line[key] = json!(value);
        }
    }
    if let Some(input) = &call.input {
        line["input"] = input.clone();
    }
    line
}
