//! A conversation as the Messages API wants it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::thinking;
use crate::content::{self, Part};
use crate::dialect::{self, Asked, Extras};
use crate::inputs;
use crate::memory::{Memory, Piece};
use crate::model::{Message, ToolCall, ToolOutcome, ToolSpec};
use crate::schema::Schema;

/// The request's body.
pub(super) fn body(asked: &Asked<'_>) -> Vec<u8> {
    let request = asked.request;
    let mut system = Vec::new();
    if !request.system.is_empty() {
        let mut words = Block::text(request.system.as_str());
        words.mark();
        system.push(words);
    }
    let tools = request.tools.iter().filter(|_| asked.extras.tools);
    let mut tools: Vec<_> = tools.map(tool).collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(Ephemeral::MARK);
    }
    let thinks = asked.extras.thoughts && may_think(&request.messages, asked.memory);
    let thinking = thinks.then(|| thinking::wanted(asked.model));
    dialect::written(&Body {
        model: asked.model,
        max_tokens: asked.output.tokens_max,
        stream: true,
        system,
        tools,
        messages: messages(&request.messages, asked.memory, asked.extras),
        thinking: thinking.flatten(),
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Described<'a>>,
    messages: Vec<Said<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
}

/// What one side said without the other speaking between.
#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

/// A block of a message: ours, or one that goes back as it came.
#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Ours {
        #[serde(flatten)]
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Ephemeral>,
    },
    Sealed(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Found<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    },
}

/// What a tool found: words, or blocks if there is more.
#[derive(Serialize)]
#[serde(untagged)]
enum Found<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Schema,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Ephemeral>,
}

/// Marks the end of something to be cached.
#[derive(Serialize)]
struct Ephemeral {
    r#type: &'static str,
}

impl Ephemeral {
    const MARK: Self = Self {
        r#type: "ephemeral",
    };
}

impl<'a> Block<'a> {
    fn of(content: Content<'a>) -> Self {
        Self::Ours {
            content,
            cache_control: None,
        }
    }

    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::of(Content::Text { text: text.into() })
    }

    fn mark(&mut self) {
        match self {
            Self::Ours { cache_control, .. } => *cache_control = Some(Ephemeral::MARK),
            // Thoughts cannot be marked, and are never last in a user message.
            Self::Sealed(_) => {}
        }
    }
}

/// The conversation, with the end of the last user message marked: all before it is the same next
/// time and comes from the cache.
fn messages<'a>(conversation: &'a [Message], memory: &'a Memory, extras: Extras) -> Vec<Said<'a>> {
    let mut messages: Vec<Said<'a>> = Vec::with_capacity(conversation.len());
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
            Some(last) if last.role == role => last.content.extend(content),
            _ => messages.push(Said { role, content }),
        }
    }
    let last_user = messages.iter_mut().rev().find(|one| one.role == "user");
    if let Some(last) = last_user.and_then(|user| user.content.last_mut()) {
        last.mark();
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

fn user_content<'a>(text: &'a str, blocks: &'a [Value]) -> Vec<Block<'a>> {
    let parts = content::parts(text, blocks).into_iter();
    // An empty text block is refused.
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(part).collect()
}

fn part(part: Part<'_>) -> Block<'_> {
    match part {
        Part::Text(text) => Block::text(text),
        Part::Image { mime, data } => Block::of(Content::Image {
            source: Source {
                r#type: "base64",
                media_type: mime,
                data,
            },
        }),
    }
}

fn assistant<'a>(text: &'a str, calls: &'a [ToolCall], memory: &'a Memory) -> Vec<Block<'a>> {
    if let Some(pieces) = memory.recall(calls) {
        let mut calls = calls.iter();
        let blocks = pieces.iter().filter_map(|piece| match piece {
            Piece::Sealed(block) => Some(Block::Sealed(block)),
            Piece::Text(text) => Some(Block::text(text.as_str())),
            Piece::Call(_) => calls.next().map(tool_use),
        });
        return blocks.collect();
    }
    // Text that is nothing but white space is refused.
    let text = Some(text).filter(|text| !text.trim().is_empty());
    let text = text.map(Block::text);
    text.into_iter().chain(calls.iter().map(tool_use)).collect()
}

fn tool_use(call: &ToolCall) -> Block<'_> {
    Block::of(Content::ToolUse {
        id: call.id.as_str(),
        name: &call.name,
        input: inputs::object(&call.input),
    })
}

fn tool_result(outcome: &ToolOutcome, extras: Extras) -> Block<'_> {
    let (text, images) = content::found(outcome, extras);
    let content = if images.is_empty() {
        Some(text).filter(|text| !text.is_empty()).map(Found::Text)
    } else {
        let text = Some(text).filter(|text| !text.trim().is_empty());
        let blocks = text.map(Block::text).into_iter();
        Some(Found::Blocks(
            blocks.chain(images.into_iter().map(part)).collect(),
        ))
    };
    Block::of(Content::ToolResult {
        tool_use_id: outcome.call.as_str(),
        content,
        is_error: outcome.failed.then_some(true),
    })
}

fn tool(tool: &ToolSpec) -> Described<'_> {
    Described {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.input_schema,
        cache_control: None,
    }
}

#[cfg(test)]
mod tests;
