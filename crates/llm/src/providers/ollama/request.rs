//! A conversation as Ollama wants it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::content::{self, Part};
use crate::dialect::{self, Asked, Extras};
use crate::inputs;
use crate::model::{Message, ToolCall, ToolOutcome};
use crate::providers::function::Function;

/// The request's body.
pub(super) fn body(asked: &Asked<'_>) -> Vec<u8> {
    let request = asked.request;
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(Said::of("system", Cow::from(&request.system)));
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
    dialect::written(&Body {
        model: asked.model,
        stream: true,
        messages,
        options: Options {
            num_ctx: asked.window,
            num_predict: asked.output.tokens_max,
        },
        think: asked.extras.thoughts.then_some(true),
        tools: Function::all(asked),
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<Said<'a>>,
    options: Options,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<'a>>,
}

#[derive(Serialize)]
struct Options {
    num_ctx: u64,
    num_predict: u64,
}

/// One message: text and images apart, as Ollama has them.
#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: Cow<'a, Value>,
}

impl<'a> Said<'a> {
    fn of(role: &'static str, content: Cow<'a, str>) -> Self {
        Self {
            role,
            tool_name: None,
            content,
            images: Vec::new(),
            tool_calls: Vec::new(),
        }
    }
}

fn user<'a>(text: &'a str, blocks: &'a [Value]) -> Said<'a> {
    let mut words: Vec<Cow<'a, str>> = Vec::new();
    let mut images: Vec<&str> = Vec::new();
    for part in content::parts(text, blocks) {
        match part {
            Part::Text(text) => words.push(text),
            Part::Image { data, .. } => images.push(data),
        }
    }
    let content = match words.as_mut_slice() {
        [text] => std::mem::take(text),
        several => several.join("\n\n").into(),
    };
    Said {
        images,
        ..Said::of("user", content)
    }
}

fn assistant<'a>(text: &'a str, calls: &'a [ToolCall]) -> Said<'a> {
    Said {
        tool_calls: calls.iter().map(call).collect(),
        ..Said::of("assistant", text.into())
    }
}

fn call(call: &ToolCall) -> Call<'_> {
    Call {
        function: Called {
            name: &call.name,
            arguments: inputs::object(&call.input),
        },
    }
}

fn tool_result(outcome: &ToolOutcome, extras: Extras) -> Said<'_> {
    let (content, images) = content::found_or_failed(outcome, extras);
    let data = images.iter().filter_map(|part| match part {
        Part::Image { data, .. } => Some(*data),
        Part::Text(_) => None,
    });
    Said {
        tool_name: Some(&outcome.name),
        images: data.collect(),
        ..Said::of("tool", content)
    }
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
                input_schema: json!({ "type": "object" }).into(),
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
                "options": { "num_ctx": 100_000, "num_predict": 1_000 },
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
