//! A conversation as Ollama wants it.

use serde_json::{Value, json};

use crate::content::{self, Part};
use crate::dialect::{Asked, Extras};
use crate::inputs;
use crate::model::{Message, ToolCall, ToolOutcome, ToolSpec};

/// The request's body.
pub(super) fn body(asked: &Asked<'_>) -> Vec<u8> {
    let request = asked.request;
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for message in request.messages.iter() {
        match message {
            Message::User { text, blocks } => messages.push(user(text, blocks)),
            Message::Assistant { text, calls } => messages.push(assistant(text, calls)),
            Message::ToolResults(outcomes) => {
                let ended = outcomes.iter();
                messages.extend(ended.map(|outcome| tool_result(outcome, asked.extras)));
            }
        }
    }
    let mut body = json!({
        "model": asked.model,
        "stream": true,
        "messages": messages,
        "options": { "num_ctx": asked.window },
    });
    if asked.extras.thoughts {
        body["think"] = Value::Bool(true);
    }
    if !request.tools.is_empty() && asked.extras.tools {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body.to_string().into_bytes()
}

/// Text and images apart, as Ollama has them.
fn user(text: &str, blocks: &[Value]) -> Value {
    let parts = content::parts(text, blocks);
    let mut words: Vec<&str> = Vec::new();
    let mut images: Vec<&str> = Vec::new();
    for part in &parts {
        match part {
            Part::Text(text) => words.push(text),
            Part::Image { data, .. } => images.push(data),
        }
    }
    let mut message = json!({ "role": "user", "content": words.join("\n\n") });
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}

fn assistant(text: &str, calls: &[ToolCall]) -> Value {
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = calls.iter().map(call).collect();
    }
    message
}

fn call(call: &ToolCall) -> Value {
    let arguments = inputs::object(&call.input);
    json!({ "function": { "name": call.name, "arguments": arguments } })
}

fn tool_result(outcome: &ToolOutcome, extras: Extras) -> Value {
    let (content, images) = content::found_or_failed(outcome, extras);
    let mut message = json!({ "role": "tool", "tool_name": outcome.name, "content": content });
    if !images.is_empty() {
        let data = images.iter().filter_map(|part| match part {
            Part::Image { data, .. } => Some(*data),
            Part::Text(_) => None,
        });
        message["images"] = data.collect();
    }
    message
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::CallId;
    use serde_json::{Value, json};

    use super::body;
    use crate::dialect::{Asked, Extra};
    use crate::memory::Memory;
    use crate::model::{Message, ModelRequest, ToolCall, ToolOutcome, ToolSpec};

    #[test]
    fn a_conversation_with_tools_is_told_in_ollamas_words() {
        let image = json!({ "type": "image", "mimeType": "image/png", "data": "QUJD" });
        let words = json!({ "type": "text", "text": "read a" });
        let messages = vec![
            Message::User {
                text: "read a".to_owned(),
                blocks: vec![words, image],
            },
            Message::Assistant {
                text: String::new(),
                calls: vec![ToolCall {
                    id: CallId::new("abc"),
                    name: "read".to_owned(),
                    input: json!({ "path": "a" }),
                }],
            },
            Message::ToolResults(vec![ToolOutcome {
                call: CallId::new("abc"),
                name: "read".to_owned(),
                text: "A".to_owned(),
                failed: false,
                images: Vec::new(),
            }]),
        ];
        let request = ModelRequest {
            system: "Be brief.".to_owned(),
            messages: Arc::new(messages),
            tools: Arc::new([ToolSpec {
                name: "read".to_owned(),
                description: "Reads.".to_owned(),
                input_schema: json!({ "type": "object" }),
            }]),
        };
        let memory = Memory::default();
        let mut asked = Asked::of("mock", &request, &memory);
        let sent: Value = serde_json::from_slice(&body(&asked)).unwrap();
        let call = json!({ "function": { "name": "read", "arguments": { "path": "a" } } });
        assert_eq!(
            sent,
            json!({
                "model": "mock",
                "stream": true,
                "messages": [
                    { "role": "system", "content": "Be brief." },
                    { "role": "user", "content": "read a", "images": ["QUJD"] },
                    { "role": "assistant", "content": "", "tool_calls": [call] },
                    { "role": "tool", "tool_name": "read", "content": "A" },
                ],
                "options": { "num_ctx": 100_000 },
                "think": true,
                "tools": [{ "type": "function", "function": { "name": "read",
                    "description": "Reads.", "parameters": { "type": "object" } } }],
            })
        );
        asked.extras = asked.extras.without(Extra::Thoughts).without(Extra::Tools);
        let sent: Value = serde_json::from_slice(&body(&asked)).unwrap();
        assert_eq!((sent.get("think"), sent.get("tools")), (None, None));
    }
}
