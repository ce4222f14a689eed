//! A conversation as the Responses API wants it.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Serialize;
use serde_json::Value;

use crate::content::{self, Part};
use crate::dialect::{self, Asked, Extras};
use crate::inputs;
use crate::memory::{Memory, Piece};
use crate::model::{Message, ToolCall, ToolOutcome, ToolSpec};
use crate::schema::Schema;

/// How the names of models begin that reason before they answer.
const REASONING: [&str; 6] = ["gpt-5", "gpt-6", "o1", "o3", "o4", "codex-"];

/// The request's body.
pub(super) fn body(asked: &Asked<'_>) -> Vec<u8> {
    let request = asked.request;
    let tools = request.tools.iter().filter(|_| asked.extras.tools);
    let tools: Vec<_> = tools.map(tool).collect();
    let reasons = REASONING.iter().any(|name| asked.model.starts_with(name));
    let reasons = reasons && asked.extras.thoughts;
    dialect::written(&Body {
        model: asked.model,
        stream: true,
        store: false,
        instructions: Some(request.system.as_str()).filter(|system| !system.is_empty()),
        input: input(&request.messages, asked.memory, asked.extras),
        parallel_tool_calls: (!tools.is_empty()).then_some(true),
        tools,
        reasoning: reasons.then_some(Reasoning { summary: "auto" }),
        include: reasons.then_some(["reasoning.encrypted_content"]),
        max_output_tokens: asked.output.where_default_is_unknown(asked.extras),
        prompt_cache_key: asked.extras.cache_key.then(|| cache_key(&request.messages)),
    })
}

/// What requests share that begin with the same message, and so one conversation's all do, also
/// after a restart: OpenAI sends them where that beginning was read last.
fn cache_key(messages: &[Message]) -> String {
    let mut hash = DefaultHasher::new();
    if let Some(Message::User { text, .. }) = messages.first() {
        text.hash(&mut hash);
    }
    format!("fastness-{:016x}", hash.finish())
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
}

#[derive(Serialize)]
struct Reasoning {
    summary: &'static str,
}

/// One item: ours, or one that goes back as it came.
#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Ours(Ours<'a>),
    Sealed(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Ours<'a> {
    Message {
        role: &'static str,
        content: Vec<ContentPart<'a>>,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: Cow<'a, str>,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Found<'a>,
    },
}

/// What a tool found: words, or parts if there is more.
#[derive(Serialize)]
#[serde(untagged)]
enum Found<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: String },
    OutputText { text: &'a str },
}

#[derive(Serialize)]
struct Function<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Schema,
    strict: bool,
}

fn input<'a>(conversation: &'a [Message], memory: &'a Memory, extras: Extras) -> Vec<Item<'a>> {
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

fn user<'a>(text: &'a str, blocks: &'a [Value]) -> Item<'a> {
    let parts = content::parts(text, blocks).into_iter();
    Item::Ours(Ours::Message {
        role: "user",
        content: parts.map(part).collect(),
    })
}

fn part(part: Part<'_>) -> ContentPart<'_> {
    match part {
        Part::Text(text) => ContentPart::InputText { text },
        Part::Image { mime, data } => {
            let image_url = format!("data:{mime};base64,{data}");
            ContentPart::InputImage { image_url }
        }
    }
}

fn assistant<'a>(
    text: &'a str,
    calls: &'a [ToolCall],
    memory: &'a Memory,
    items: &mut Vec<Item<'a>>,
) {
    if let Some(pieces) = memory.recall(calls) {
        let mut calls = calls.iter();
        items.extend(pieces.iter().filter_map(|piece| match piece {
            Piece::Sealed(item) => Some(Item::Sealed(item)),
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

fn said(text: &str) -> Item<'_> {
    Item::Ours(Ours::Message {
        role: "assistant",
        content: vec![ContentPart::OutputText { text }],
    })
}

fn function_call(call: &ToolCall) -> Item<'_> {
    Item::Ours(Ours::FunctionCall {
        call_id: call.id.as_str(),
        name: &call.name,
        arguments: inputs::written(&call.input),
    })
}

fn tool_result(outcome: &ToolOutcome, extras: Extras) -> Item<'_> {
    let (text, images) = content::found_or_failed(outcome, extras);
    let output = if images.is_empty() {
        Found::Text(text)
    } else {
        let parts = std::iter::once(Part::Text(text)).chain(images);
        Found::Parts(parts.map(part).collect())
    };
    Item::Ours(Ours::FunctionCallOutput {
        call_id: outcome.call.as_str(),
        output,
    })
}

fn tool(tool: &ToolSpec) -> Function<'_> {
    Function {
        r#type: "function",
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.input_schema,
        // The schemas have optional fields, which strict ones may not.
        strict: false,
    }
}

#[cfg(test)]
mod tests;
