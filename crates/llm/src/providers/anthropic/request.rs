//! A conversation as the Messages API wants it.

use serde_json::{Value, json};

use super::thinking;
use crate::content::{self, Part};
use crate::dialect::{Asked, Extras};
use crate::inputs;
use crate::known;
use crate::memory::{Memory, Piece};
use crate::model::{Message, ToolCall, ToolOutcome, ToolSpec};

/// Tokens of one answer that are asked for at most: an answer with its thinking fits, and what the
/// model reads has room beside it.
const OUTPUT_MAX: u64 = 32_000;

/// The request's body.
pub(super) fn body(asked: &Asked<'_>) -> Vec<u8> {
    let request = asked.request;
    let mut body = json!({
        "model": asked.model,
        "max_tokens": known::output_max(asked.model).min(OUTPUT_MAX),
        "stream": true,
    });
    if !request.system.is_empty() {
        let mut system = text_block(&request.system);
        mark(&mut system);
        body["system"] = json!([system]);
    }
    if !request.tools.is_empty() && asked.extras.tools {
        let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
        tools.last_mut().map(mark);
        body["tools"] = Value::Array(tools);
    }
    body["messages"] = Value::Array(messages(&request.messages, asked.memory, asked.extras));
    if asked.extras.thoughts
        && may_think(&request.messages, asked.memory)
        && let Some(thinking) = thinking::wanted(asked.model)
    {
        body["thinking"] = thinking;
    }
    body.to_string().into_bytes()
}

/// The conversation, with the end of the last user message marked: all before it is the same next
/// time and comes from the cache.
fn messages(conversation: &[Message], memory: &Memory, extras: Extras) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::with_capacity(conversation.len());
    for message in conversation {
        let (role, content) = match message {
            Message::User { text, blocks } => ("user", user_content(text, blocks)),
            Message::Assistant { text, calls } => ("assistant", assistant(text, calls, memory)),
            Message::ToolResults(outcomes) => {
                let ended = outcomes.iter().map(|outcome| tool_result(outcome, extras));
                ("user", ended.collect())
            }
        };
        if content.is_empty() {
            continue;
        }
        // A prompt after tool results, or after a prompt without an answer, is one message with it.
        match messages.last_mut() {
            Some(last) if last["role"] == role => {
                if let Some(together) = last["content"].as_array_mut() {
                    together.extend(content);
                }
            }
            _ => messages.push(json!({ "role": role, "content": content })),
        }
    }
    let last_user = messages.iter_mut().rev().find(|one| one["role"] == "user");
    if let Some(content) = last_user.and_then(|user| user["content"].as_array_mut()) {
        content.last_mut().map(mark);
    }
    messages
}

/// In the middle of a tool loop a model must see its thinking again, or may not think.
fn may_think(conversation: &[Message], memory: &Memory) -> bool {
    match conversation {
        [
            ..,
            Message::Assistant { calls, .. },
            Message::ToolResults(_),
        ] => memory.recall(calls).is_some(),
        _ => true,
    }
}

fn user_content(text: &str, blocks: &[Value]) -> Vec<Value> {
    let parts = content::parts(text, blocks);
    // An empty text block is refused.
    let parts = parts
        .iter()
        .filter(|part| **part != Part::Text(String::new()));
    parts.map(part).collect()
}

fn part(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) => text_block(text),
        Part::Image { mime, data } => {
            let source = json!({ "type": "base64", "media_type": mime, "data": data });
            json!({ "type": "image", "source": source })
        }
    }
}

fn assistant(text: &str, calls: &[ToolCall], memory: &Memory) -> Vec<Value> {
    if let Some(pieces) = memory.recall(calls) {
        let mut calls = calls.iter();
        let blocks = pieces.iter().filter_map(|piece| match piece {
            Piece::Sealed(block) => Some(block.clone()),
            Piece::Text(text) => Some(text_block(text)),
            Piece::Call(_) => calls.next().map(tool_use),
        });
        return blocks.collect();
    }
    // Text that is nothing but white space is refused.
    let text = Some(text).filter(|text| !text.trim().is_empty());
    let text = text.map(text_block);
    text.into_iter().chain(calls.iter().map(tool_use)).collect()
}

fn tool_use(call: &ToolCall) -> Value {
    let input = inputs::object(&call.input);
    json!({ "type": "tool_use", "id": call.id.as_str(), "name": call.name, "input": input })
}

fn tool_result(outcome: &ToolOutcome, extras: Extras) -> Value {
    let mut result = json!({ "type": "tool_result", "tool_use_id": outcome.call.as_str() });
    let (text, images) = content::found(outcome, extras);
    if !images.is_empty() {
        let text = Some(text).filter(|text| !text.trim().is_empty());
        let text = text.as_deref().map(text_block);
        result["content"] = text.into_iter().chain(images.iter().map(part)).collect();
    } else if !text.is_empty() {
        result["content"] = Value::from(text);
    }
    if outcome.failed {
        result["is_error"] = Value::Bool(true);
    }
    result
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
    })
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Marks the end of something to be cached.
fn mark(block: &mut Value) {
    // Thoughts cannot be marked, and are never last in a user message.
    block["cache_control"] = json!({ "type": "ephemeral" });
}

#[cfg(test)]
mod tests;
