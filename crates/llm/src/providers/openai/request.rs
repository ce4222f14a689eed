//! A conversation as the Responses API wants it.

use serde_json::{Value, json};

use crate::content::{self, Part};
use crate::dialect::{Asked, Extras};
use crate::inputs;
use crate::memory::{Memory, Piece};
use crate::model::{Message, ToolCall, ToolOutcome, ToolSpec};

/// How the names of models begin that reason before they answer.
const REASONING: [&str; 6] = ["gpt-5", "gpt-6", "o1", "o3", "o4", "codex-"];

/// The request's body.
pub(super) fn body(asked: &Asked<'_>) -> Vec<u8> {
    let request = asked.request;
    let mut body = json!({
        "model": asked.model,
        "stream": true,
        "store": false,
        "input": input(&request.messages, asked.memory, asked.extras),
    });
    if !request.system.is_empty() {
        body["instructions"] = Value::from(request.system.as_str());
    }
    if !request.tools.is_empty() && asked.extras.tools {
        body["tools"] = request.tools.iter().map(tool).collect();
        body["parallel_tool_calls"] = Value::Bool(true);
    }
    let reasons = REASONING.iter().any(|name| asked.model.starts_with(name));
    if reasons && asked.extras.thoughts {
        body["reasoning"] = json!({ "summary": "auto" });
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    body.to_string().into_bytes()
}

fn input(conversation: &[Message], memory: &Memory, extras: Extras) -> Vec<Value> {
    let mut items = Vec::with_capacity(conversation.len());
    for message in conversation {
        match message {
            Message::User { text, blocks } => items.push(user(text, blocks)),
            Message::Assistant { text, calls } => assistant(text, calls, memory, &mut items),
            Message::ToolResults(outcomes) => {
                items.extend(outcomes.iter().map(|outcome| tool_result(outcome, extras)));
            }
        }
    }
    items
}

fn user(text: &str, blocks: &[Value]) -> Value {
    let parts = content::parts(text, blocks);
    let content: Vec<Value> = parts.iter().map(part).collect();
    json!({ "type": "message", "role": "user", "content": content })
}

fn part(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "input_text", "text": text }),
        Part::Image { mime, data } => {
            let url = format!("data:{mime};base64,{data}");
            json!({ "type": "input_image", "image_url": url })
        }
    }
}

fn assistant(text: &str, calls: &[ToolCall], memory: &Memory, items: &mut Vec<Value>) {
    if let Some(pieces) = memory.recall(calls) {
        let mut calls = calls.iter();
        items.extend(pieces.iter().filter_map(|piece| match piece {
            Piece::Sealed(item) => Some(item.clone()),
            Piece::Text(text) => Some(said(text)),
            Piece::Call(_) => calls.next().map(function_call),
        }));
        return;
    }
    if !text.is_empty() {
        items.push(said(text));
    }
    items.extend(calls.iter().map(function_call));
}

fn said(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text }]);
    json!({ "type": "message", "role": "assistant", "content": content })
}

fn function_call(call: &ToolCall) -> Value {
    json!({
        "type": "function_call",
        "call_id": call.id.as_str(),
        "name": call.name,
        "arguments": inputs::written(&call.input),
    })
}

fn tool_result(outcome: &ToolOutcome, extras: Extras) -> Value {
    let (text, images) = content::found_or_failed(outcome, extras);
    let output = match images.is_empty() {
        true => Value::from(text),
        false => [Part::Text(text)].iter().chain(&images).map(part).collect(),
    };
    json!({ "type": "function_call_output", "call_id": outcome.call.as_str(), "output": output })
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        // The schemas have optional fields, which strict ones may not.
        "strict": false,
    })
}

#[cfg(test)]
mod tests;
