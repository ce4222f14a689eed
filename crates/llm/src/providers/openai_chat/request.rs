//! A conversation as chat completions want it.

use serde_json::{Value, json};

use crate::model::{Message, ModelRequest, ToolCall, ToolOutcome, ToolSpec};

/// The request's body.
pub(super) fn body(model: &str, request: &ModelRequest) -> Vec<u8> {
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
            Message::ToolResults(outcomes) => messages.extend(outcomes.iter().map(tool_result)),
        }
    }
    let mut body = json!({
        "model": model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": messages,
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body.to_string().into_bytes()
}

/// Plain text stays a string, which every server takes; only other content needs parts.
fn user_content(text: &str, blocks: &[Value]) -> Value {
    let is_text = |block: &Value| block["type"] == "text";
    if blocks.iter().all(is_text) {
        return Value::from(text);
    }
    let mut parts: Vec<Value> = blocks.iter().map(part).collect();
    if !text.is_empty() && !blocks.iter().any(is_text) {
        parts.insert(0, text_part(text));
    }
    Value::Array(parts)
}

/// One ACP content block as a part. What a server cannot be given is named instead.
fn part(block: &Value) -> Value {
    let field = |name: &str| block[name].as_str().unwrap_or("");
    match field("type") {
        "text" => text_part(field("text")),
        "image" if !field("data").is_empty() => {
            let url = format!("data:{};base64,{}", field("mimeType"), field("data"));
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        "audio" => {
            let format = field("mimeType").rsplit('/').next().unwrap_or("wav");
            let format = if format == "mpeg" { "mp3" } else { format };
            let audio = json!({ "data": field("data"), "format": format });
            json!({ "type": "input_audio", "input_audio": audio })
        }
        "resource" => {
            let resource = &block["resource"];
            let uri = resource["uri"].as_str().unwrap_or("");
            match resource["text"].as_str() {
                Some(text) => text_part(&format!("<resource uri=\"{uri}\">\n{text}\n</resource>")),
                None => text_part(&format!("[attached, not text: {uri}]")),
            }
        }
        "resource_link" | "image" => text_part(&format!("[{}]({})", field("name"), field("uri"))),
        other => text_part(&format!("[content of type {other}]")),
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
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
    // An input that is a string is what the model wrote when it failed to write JSON.
    let written = call.input.as_str().map(str::to_owned);
    let arguments = written.unwrap_or_else(|| call.input.to_string());
    json!({
        "id": call.id.as_str(),
        "type": "function",
        "function": { "name": call.name, "arguments": arguments },
    })
}

fn tool_result(outcome: &ToolOutcome) -> Value {
    let content = if outcome.failed {
        format!("The tool did not succeed: {}", outcome.text)
    } else {
        outcome.text.clone()
    };
    json!({ "role": "tool", "tool_call_id": outcome.call.as_str(), "content": content })
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
        serde_json::from_slice(&body("m", request)).unwrap()
    }

    fn user(text: &str, blocks: Vec<Value>) -> Message {
        Message::User {
            text: text.to_owned(),
            blocks,
        }
    }
}
