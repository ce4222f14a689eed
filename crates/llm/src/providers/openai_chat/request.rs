//! A conversation as chat completions want it.

use std::borrow::Cow;

use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::content::{self, Part};
use crate::dialect::{self, Asked, Extras};
use crate::inputs;
use crate::model::{Message, ModelRequest, ToolCall, ToolOutcome};
use crate::providers::function::Function;

/// The request's body.
pub(super) fn body(asked: &Asked<'_>) -> Vec<u8> {
    dialect::written(&Body {
        model: asked.model,
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
        messages: Messages {
            request: asked.request,
            extras: asked.extras,
        },
        max_tokens: asked.output.where_default_is_unknown(asked.extras),
        tools: Function::all(asked),
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<'a>>,
}

/// All that was said, each message written before the next is looked at.
struct Messages<'a> {
    request: &'a ModelRequest,
    extras: Extras,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { request, extras } = self;
        let mut messages = serializer.serialize_seq(None)?;
        if !request.system.is_empty() {
            let system = Content::Text(Cow::from(&request.system));
            messages.serialize_element(&Said::of("system", system))?;
        }
        for message in request.messages.iter() {
            match message {
                Message::User { text, blocks } => {
                    messages.serialize_element(&Said::of("user", user_content(text, blocks)))?;
                }
                Message::Assistant { text, calls } => {
                    messages.serialize_element(&assistant(text, calls))?;
                }
                Message::ToolResults(outcomes) => {
                    for result in results(outcomes, *extras) {
                        messages.serialize_element(&result)?;
                    }
                }
            }
        }
        messages.end()
    }
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// One message.
#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

/// Plain text stays a string, which every server takes; only other content needs parts.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Nothing,
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

impl<'a> Said<'a> {
    fn of(role: &'static str, content: Content<'a>) -> Self {
        Self {
            role,
            tool_call_id: None,
            content,
            tool_calls: Vec::new(),
        }
    }
}

fn user_content<'a>(text: &'a str, blocks: &'a [Value]) -> Content<'a> {
    if content::is_plain(blocks) {
        return Content::Text(text.into());
    }
    let mut parts = content::parts(text, blocks);
    if let [Part::Text(text)] = parts.as_mut_slice() {
        return Content::Text(std::mem::take(text));
    }
    Content::Parts(parts.into_iter().map(part).collect())
}

fn part(part: Part<'_>) -> ContentPart<'_> {
    match part {
        Part::Text(text) => ContentPart::Text { text },
        Part::Image { mime, data } => {
            let url = format!("data:{mime};base64,{data}");
            let image_url = ImageUrl { url };
            ContentPart::ImageUrl { image_url }
        }
    }
}

fn assistant<'a>(text: &'a str, calls: &'a [ToolCall]) -> Said<'a> {
    let content = if text.is_empty() && !calls.is_empty() {
        Content::Nothing
    } else {
        Content::Text(text.into())
    };
    Said {
        tool_calls: calls.iter().map(call).collect(),
        ..Said::of("assistant", content)
    }
}

fn call(call: &ToolCall) -> Call<'_> {
    Call {
        id: call.id.as_str(),
        r#type: "function",
        function: Called {
            name: &call.name,
            arguments: inputs::written(&call.input),
        },
    }
}

/// What tools found. Only a user's message has images, so one with them follows.
fn results(outcomes: &[ToolOutcome], extras: Extras) -> Vec<Said<'_>> {
    let mut messages = Vec::with_capacity(outcomes.len());
    let mut seen: Vec<ContentPart<'_>> = Vec::new();
    for outcome in outcomes {
        let (content, images) = content::found_or_failed(outcome, extras);
        messages.push(Said {
            tool_call_id: Some(outcome.call.as_str()),
            ..Said::of("tool", Content::Text(content))
        });
        seen.extend(images.into_iter().map(part));
    }
    if !seen.is_empty() {
        let words = Part::Text("[what the tools found as images]".into());
        seen.insert(0, part(words));
        messages.push(Said::of("user", Content::Parts(seen)));
    }
    messages
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
                input_schema: json!({ "type": "object" }).into(),
            }]),
        };
        let function = json!({ "name": "read", "arguments": "{\"path\":\"a\"}" });
        assert_eq!(
            sent(&request),
            json!({
                "model": "m",
                "stream": true,
                "stream_options": { "include_usage": true },
                "max_tokens": 1_000,
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
