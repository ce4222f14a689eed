//! The events of a streamed chat completion, put together into chunks.

use std::collections::VecDeque;
use std::fmt;

use domain::event::Usage;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::dialect::{Ending, Reply, Stage};
use crate::error::ModelError;
use crate::inputs::{self, Room};
use crate::model::{Chunk, ModelStop};
use crate::refusal;

/// What has come of an answer so far.
#[derive(Default)]
pub(super) struct ChatReply {
    calls: Vec<CallPieces>,
    room: Room,
    usage: Option<Usage>,
    finish: Option<Finish>,
    has_refused: bool,
    has_spoken: bool,
    is_done: bool,
}

/// A tool call whose input is still coming.
struct CallPieces {
    index: Option<u64>,
    id: String,
    name: String,
    input: String,
}

/// What the server gave as the reason for the end.
#[derive(Clone, Copy)]
enum Finish {
    Normal,
    Length,
    Filter,
}

impl Reply for ChatReply {
    fn take(&mut self, data: &str, ready: &mut VecDeque<Chunk>) -> Result<(), ModelError> {
        let data = data.trim();
        if data == "[DONE]" {
            self.is_done = true;
        }
        if data.is_empty() || self.is_done {
            return Ok(());
        }
        let event: EventBody = serde_json::from_str(data).map_err(|_| ModelError::Unusable {
            what: "an event is not the JSON of a chat completion",
        })?;
        if let Some(error) = event.error {
            return Err(refusal::in_stream(&error));
        }
        if let Some(usage) = event.usage {
            self.usage = Some(usage.into());
        }
        // Only one choice was asked for.
        let Some(choice) = event.choices.unwrap_or_default().into_iter().next() else {
            return Ok(());
        };
        if let Some(delta) = choice.delta {
            self.take_delta(delta, ready)?;
        }
        if let Some(reason) = choice.finish_reason {
            self.finish = Some(finish(&reason)?);
        }
        Ok(())
    }

    fn heard(&self) -> usize {
        let ends = usize::from(self.finish.is_some()) + usize::from(self.is_done);
        self.room.taken() + ends
    }

    fn stage(&self) -> Stage {
        match self.finish {
            _ if self.is_done => Stage::Done,
            Some(_) => Stage::Complete,
            None => Stage::Open,
        }
    }

    fn end(&mut self) -> Result<Ending, ModelError> {
        if !self.has_spoken && self.calls.is_empty() && self.finish.is_none() {
            return Err(ModelError::Empty);
        }
        if self.stage() == Stage::Open {
            return Err(ModelError::Cut);
        }
        let is_cut_off = matches!(self.finish, Some(Finish::Length));
        let calls = std::mem::take(&mut self.calls);
        let mut chunks: Vec<Chunk> = calls
            .into_iter()
            .filter_map(|call| inputs::complete(call.name, call.input, is_cut_off))
            .map(Chunk::ToolCall)
            .collect();
        let stop = match self.finish {
            Some(Finish::Length) => ModelStop::MaxTokens,
            Some(Finish::Filter) => ModelStop::Refusal,
            _ if self.has_refused => ModelStop::Refusal,
            _ if !chunks.is_empty() => ModelStop::ToolUse,
            Some(Finish::Normal) | None => ModelStop::EndTurn,
        };
        chunks.extend(self.usage.take().map(Chunk::Usage));
        chunks.push(Chunk::Stop(stop));
        Ok(Ending {
            chunks,
            pieces: Vec::new(),
        })
    }
}

impl ChatReply {
    fn take_delta(&mut self, delta: Delta, ready: &mut VecDeque<Chunk>) -> Result<(), ModelError> {
        // Some servers send the same thought under both names.
        let thought = Some(delta.reasoning_content.0).filter(|text| !text.is_empty());
        let thought = thought.unwrap_or(delta.reasoning.0);
        self.has_refused |= !delta.refusal.0.is_empty();
        let said = [
            (thought, Chunk::Thought as fn(String) -> Chunk),
            (delta.content.0, Chunk::Text),
            (delta.refusal.0, Chunk::Text),
        ];
        for (text, chunk) in said {
            if !text.is_empty() {
                self.has_spoken = true;
                ready.push_back(chunk(text));
            }
        }
        for piece in delta.tool_calls.unwrap_or_default() {
            self.take_call_piece(piece)?;
        }
        Ok(())
    }

    fn take_call_piece(&mut self, piece: CallDelta) -> Result<(), ModelError> {
        let function = piece.function.unwrap_or_default();
        let (name, input) = (function.name.0, function.arguments.0);
        self.room.bytes(name.len() + input.len())?;
        let id = piece.id.0;
        let known = self.calls.iter_mut().rev().find(|call| match piece.index {
            Some(index) => call.index == Some(index),
            // Without an index, an id or a name begins a call and anything else goes on with it.
            None => (id.is_empty() && name.is_empty()) || (!id.is_empty() && call.id == id),
        });
        if let Some(call) = known {
            call.input.push_str(&input);
            if call.name.is_empty() {
                call.name = name;
            }
            return Ok(());
        }
        self.room.call()?;
        self.calls.push(CallPieces {
            index: piece.index,
            id,
            name,
            input,
        });
        Ok(())
    }
}

fn finish(reason: &str) -> Result<Finish, ModelError> {
    Ok(match reason {
        "length" => Finish::Length,
        "content_filter" => Finish::Filter,
        "error" => return Err(ModelError::failed(None, "")),
        // `stop` and `tool_calls`: servers mix them up, so what counts is whether there are calls.
        _ => Finish::Normal,
    })
}

#[derive(Deserialize)]
struct EventBody {
    choices: Option<Vec<Choice>>,
    usage: Option<UsageBody>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Words,
    reasoning_content: Words,
    reasoning: Words,
    refusal: Words,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CallDelta {
    index: Option<u64>,
    id: Words,
    function: Option<FunctionDelta>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FunctionDelta {
    name: Words,
    arguments: Words,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UsageBody {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl From<UsageBody> for Usage {
    fn from(body: UsageBody) -> Self {
        let cached = body
            .prompt_tokens_details
            .and_then(|details| details.cached_tokens);
        let thought = body
            .completion_tokens_details
            .and_then(|details| details.reasoning_tokens);
        Self {
            input_tokens: body.prompt_tokens.unwrap_or(0),
            output_tokens: body.completion_tokens.unwrap_or(0),
            cached_tokens: cached.unwrap_or(0),
            thought_tokens: thought.unwrap_or(0),
            ..Self::default()
        }
    }
}

/// A string where some servers send `null`, a list of parts, or an object.
#[derive(Default)]
struct Words(String);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> de::Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
        Ok(Words(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Words, E> {
        Ok(Words(text))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut parts: A) -> Result<Words, A::Error> {
        let mut words = String::new();
        while let Some(part) = parts.next_element::<Value>()? {
            let text = part.as_str().or_else(|| part["text"].as_str());
            words.push_str(text.unwrap_or(""));
        }
        Ok(Words(words))
    }

    /// A tool input that is not quoted is kept as the JSON it is.
    fn visit_map<A: de::MapAccess<'de>>(self, fields: A) -> Result<Words, A::Error> {
        let object = serde_json::Map::deserialize(de::value::MapAccessDeserializer::new(fields))?;
        Ok(Words(Value::Object(object).to_string()))
    }
}
