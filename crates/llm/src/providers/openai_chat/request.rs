//! A conversation as chat completions want it.

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
            Message::User { text, blocks } => {
                messages.push(json!({ "role": "user", "content": user_content(text, blocks) }));
            }
            Message::Assistant { text, calls } => messages.push(assistant(text, calls)),
            Message::ToolResults(outcomes) => add_results(outcomes, asked.extras, &mut messages),
        }
    }
    let mut body = json!({
        "model": asked.model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": messages,
    });
    if !request.tools.is_empty() && asked.extras.tools {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body.to_string().into_bytes()
}

/// Plain text stays a string, which every server takes; only other content needs parts.
fn user_content(text: &str, blocks: &[Value]) -> Value {
    let parts = content::parts(text, blocks);
    if let [Part::Text(text)] = parts.as_slice() {
        return Value::from(text.as_str());
    }
    parts.iter().map(part).collect()
}

fn part(part: &Part<'_>) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image { mime, data } => {
            let url = format!("data:{mime};base64,{data}");
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
    }
}

fn assistant(text: &str, calls: &[ToolCall]) -> Value {
    if calls.is_empty() {
        return json!({ "role": "assistant", "content": text });
    }
    let content = if text.is_empty() {
        Value::Null
    } else {
        Value::from(text)
    };
    let calls: Vec<Value> = calls.iter().map(call).collect();
    json!({ "role": "assistant", "content": content, "tool_calls": calls })
}

fn call(call: &ToolCall) -> Value {
    json!({
        "id": call.id.as_str(),
        "type": "function",
        "function": { "name": call.name, "arguments": inputs::written(&call.input) },
    })
}

/// What tools found. Only a user's message has images, so one with them follows.
fn add_results(outcomes: &[ToolOutcome], extras: Extras, messages: &mut Vec<Value>) {
    let mut seen: Vec<Value> = Vec::new();
    for outcome in outcomes {
        let (content, images) = content::found_or_failed(outcome, extras);
        let id = outcome.call.as_str();
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
        seen.extend(images.iter().map(part));
    }
    if !seen.is_empty() {
        let words = Part::Text("[what the tools found as images]".to_owned());
        seen.insert(0, part(&words));
        messages.push(json!({ "role": "user", "content": seen }));
    }
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
    use crate::dialect::Asked;
    use crate::memory::Memory;
    use crate::model::{Message, ModelRequest, ToolCall, ToolOutcome, ToolSpec};

    #[test]
    fn a_conversation_with_tools_is_told_in_the_words_of_chat_completions() {
        let id = CallId::new("abc");
        let request = ModelRequest {
            system: "Be brief.".to_owned(),
            messages: Arc::new(vec![
                user("read a", vec![json!({ "type": "text", "text": "read a" })]),
                Message::Assistant {
                    text: String::new(),
                    calls: vec![ToolCall {
                        id: id.clone(),
                        name: "read".to_owned(),
                        input: json!({ "path": "a" }),
                    }],
                },
                Message::ToolResults(vec![ToolOutcome {
                    call: id,
                    name: "read".to_owned(),
                    text: "no such file".to_owned(),
                    failed: true,
                    images: Vec::new(),
                }]),
                Message::Assistant {
                    text: "It is not there.".to_owned(),
                    calls: vec![],
                },
            ]),
            tools: Arc::new([ToolSpec {
                name: "read".to_owned(),
                description: "Reads.".to_owned(),
                input_schema: json!({ "type": "object" }),
            }]),
        };
        let function = json!({ "name": "read", "arguments": "{\"path\":\"a\"}" });
        assert_eq!(
            sent(&request),
            json!({
                "model": "m",
                "stream": true,
                "stream_options": { "include_usage": true },
                "messages": [
                    { "role": "system", "content": "Be brief." },
                    { "role": "user", "content": "read a" },
                    { "role": "assistant", "content": null, "tool_calls": [
                        { "id": "abc", "type": "function", "function": function } ] },
                    { "role": "tool", "tool_call_id": "abc",
                      "content": "The tool did not succeed: no such file" },
                    { "role": "assistant", "content": "It is not there." },
                ],
                "tools": [{ "type": "function", "function": {
                    "name": "read", "description": "Reads.", "parameters": { "type": "object" } } }],
            })
        );
    }

    #[test]
    fn images_and_resources_become_parts_and_no_tools_means_no_field() {
        let blocks = vec![
            json!({ "type": "text", "text": "what is this?" }),
            json!({ "type": "image", "mimeType": "image/png", "data": "QUJD" }),
            json!({ "type": "resource", "resource": { "uri": "file:a", "text": "A" } }),
            json!({ "type": "resource_link", "name": "b", "uri": "file:b" }),
        ];
        let request = ModelRequest {
            system: String::new(),
            messages: Arc::new(vec![user("what is this?", blocks)]),
            tools: Arc::new([]),
        };
        let sent = sent(&request);
        assert_eq!(sent.get("tools"), None);
        assert_eq!(
            sent["messages"][0]["content"],
            json!([
                { "type": "text", "text": "what is this?" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,QUJD" } },
                { "type": "text", "text": "<resource uri=\"file:a\">\nA\n</resource>" },
                { "type": "text", "text": "[b](file:b)" },
            ])
        );
    }

    fn sent(request: &ModelRequest) -> Value {
        let memory = Memory::default();
        let asked = Asked::of("m", request, &memory);
        serde_json::from_slice(&body(&asked)).unwrap()
    }

    fn user(text: &str, blocks: Vec<Value>) -> Message {
        Message::User {
            text: text.to_owned(),
            blocks,
        }
    }
}
