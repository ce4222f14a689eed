//! The events of a streamed response, put together into chunks.

use std::collections::{BTreeMap, VecDeque};

use domain::event::Usage;
use domain::limits::MODEL_MEMORY_BYTES_MAX;
use serde::Deserialize;
use serde_json::Value;

use crate::dialect::{Ending, Reply, Stage};
use crate::error::ModelError;
use crate::inputs::{self, Room};
use crate::memory::Piece;
use crate::model::{Chunk, ModelStop};
use crate::refusal;

/// What has come of an answer so far.
#[derive(Default)]
pub(super) struct ResponsesReply {
    /// The output's items by their place in it.
    items: BTreeMap<u64, Item>,
    room: Room,
    usage: Option<Usage>,
    end: Option<End>,
    has_begun: bool,
    has_refused: bool,
    has_thought: bool,
    kept_bytes: usize,
}

/// One item of the output.
enum Item {
    Text(String),
    Call {
        name: String,
        input: String,
    },
    /// A reasoning item as it came, once it has come.
    Reasoning(Option<Value>),
}

/// How the response ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    Length,
    Filter,
}

impl Reply for ResponsesReply {
    fn take(&mut self, data: &str, ready: &mut VecDeque<Chunk>) -> Result<(), ModelError> {
        let data = data.trim();
        if data.is_empty() || data == "[DONE]" || self.end.is_some() {
            return Ok(());
        }
        let event: Event = serde_json::from_str(data).map_err(|_| ModelError::Unusable {
            what: "an event is not the JSON of a response",
        })?;
        self.has_begun = true;
        match event.kind.as_str() {
            "response.output_text.delta" => self.say(event, ready),
            "response.refusal.delta" => {
                self.has_refused = true;
                self.say(event, ready);
            }
            "response.reasoning_summary_part.added" if self.has_thought => {
                ready.push_back(Chunk::Thought("\n\n".to_owned()));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                if let Some(thought) = event.delta.filter(|thought| !thought.is_empty()) {
                    self.has_thought = true;
                    ready.push_back(Chunk::Thought(thought));
                }
            }
            "response.function_call_arguments.delta" => self.go_on(&event)?,
            "response.output_item.added" | "response.output_item.done" => {
                let item = event.item.unwrap_or_default();
                self.take_item(event.output_index, item)?;
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                return self.finish(&event.kind, event.response.unwrap_or_default(), ready);
            }
            "error" => return Err(refusal::in_stream(&event.error())),
            // Parts begun and ended, and what is added one day.
            _ => {}
        }
        Ok(())
    }

    fn heard(&self) -> usize {
        let end = usize::from(self.end.is_some());
        self.room.taken() + self.kept_bytes + self.items.len() + end
    }

    fn stage(&self) -> Stage {
        // Usage comes with the end itself.
        self.end.map_or(Stage::Open, |_| Stage::Done)
    }

    fn end(&mut self) -> Result<Ending, ModelError> {
        if !self.has_begun {
            return Err(ModelError::Empty);
        }
        let end = self.end.ok_or(ModelError::Cut)?;
        let mut chunks = Vec::new();
        let mut pieces = Vec::new();
        for item in std::mem::take(&mut self.items).into_values() {
            match item {
                Item::Text(text) if !text.is_empty() => pieces.push(Piece::Text(text)),
                Item::Reasoning(Some(item)) => pieces.push(Piece::Sealed(item)),
                Item::Call { name, input } => {
                    if let Some(call) = inputs::complete(name, input, end == End::Length) {
                        pieces.push(Piece::Call(call.id.clone()));
                        chunks.push(Chunk::ToolCall(call));
                    }
                }
                Item::Text(_) | Item::Reasoning(None) => {}
            }
        }
        let stop = match end {
            End::Length => ModelStop::MaxTokens,
            End::Filter => ModelStop::Refusal,
            End::Completed if self.has_refused => ModelStop::Refusal,
            End::Completed if !chunks.is_empty() => ModelStop::ToolUse,
            End::Completed => ModelStop::EndTurn,
        };
        chunks.extend(self.usage.take().map(Chunk::Usage));
        chunks.push(Chunk::Stop(stop));
        if self.kept_bytes > MODEL_MEMORY_BYTES_MAX {
            pieces.clear();
        }
        Ok(Ending { chunks, pieces })
    }
}

impl ResponsesReply {
    fn say(&mut self, event: Event, ready: &mut VecDeque<Chunk>) {
        let Some(text) = event.delta.filter(|text| !text.is_empty()) else {
            return;
        };
        self.kept_bytes += text.len();
        let item = self.items.entry(event.output_index);
        if let Item::Text(kept) = item.or_insert_with(|| Item::Text(String::new()))
            && self.kept_bytes <= MODEL_MEMORY_BYTES_MAX
        {
            kept.push_str(&text);
        }
        ready.push_back(Chunk::Text(text));
    }

    /// More of a call's input. Those of several calls may come mixed.
    fn go_on(&mut self, event: &Event) -> Result<(), ModelError> {
        let more = event.delta.as_deref().unwrap_or_default();
        self.room.bytes(more.len())?;
        match self.items.get_mut(&event.output_index) {
            Some(Item::Call { input, .. }) => {
                input.push_str(more);
                Ok(())
            }
            Some(Item::Text(_) | Item::Reasoning(_)) | None => Err(ModelError::Unusable {
                what: "a tool call goes on that never began",
            }),
        }
    }

    /// An item that begins or has ended; what it holds then is all of it.
    fn take_item(&mut self, index: u64, item: Value) -> Result<(), ModelError> {
        let field = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        match item["type"].as_str() {
            Some("function_call") => {
                let (name, input) = (field("name"), field("arguments"));
                self.room.bytes(name.len() + input.len())?;
                let known = self.items.get_mut(&index);
                if let Some(Item::Call {
                    name: kept,
                    input: pieces,
                }) = known
                {
                    *kept = name;
                    if !input.is_empty() {
                        *pieces = input;
                    }
                } else {
                    self.room.call()?;
                    self.items.insert(index, Item::Call { name, input });
                }
            }
            Some("reasoning") => {
                // Without its sealed content it is nothing that could be given back.
                let sealed = item["encrypted_content"].as_str().map(str::len);
                self.kept_bytes += sealed.unwrap_or(0);
                let kept = sealed.map(|_| given_back(item));
                self.items.insert(index, Item::Reasoning(kept));
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(
        &mut self,
        kind: &str,
        response: Response,
        ready: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelError> {
        self.usage = response.usage.map(Into::into);
        if kind == "response.failed" {
            ready.extend(self.usage.take().map(Chunk::Usage));
            return Err(refusal::in_stream(&response.error.unwrap_or_default()));
        }
        // Servers that send no events for items have them here.
        for (index, item) in (0..).zip(response.output) {
            let is_known = self.items.contains_key(&index);
            if !is_known && item["type"] == "message" {
                for part in item["content"].as_array().into_iter().flatten() {
                    let delta = part["text"].as_str().map(str::to_owned);
                    self.say(Event::text(index, delta), ready);
                }
            } else if !is_known || item["type"] == "function_call" {
                self.take_item(index, item)?;
            }
        }
        self.end = Some(match response.incomplete_details {
            _ if kind == "response.completed" => End::Completed,
            Some(details) if details.reason.as_deref() == Some("content_filter") => End::Filter,
            _ => End::Length,
        });
        Ok(())
    }
}

/// A reasoning item as a request may hold it.
fn given_back(mut item: Value) -> Value {
    if let Some(fields) = item.as_object_mut() {
        fields.shift_remove("status");
    }
    item
}

#[derive(Default, Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    output_index: u64,
    delta: Option<String>,
    item: Option<Value>,
    response: Option<Response>,
    code: Option<Value>,
    message: Option<String>,
    error: Option<Value>,
}

impl Event {
    fn text(output_index: u64, delta: Option<String>) -> Self {
        Self {
            output_index,
            delta,
            ..Self::default()
        }
    }

    /// The error that the event is, flat or nested.
    fn error(self) -> Value {
        let flat = || serde_json::json!({ "code": self.code, "message": self.message });
        self.error.clone().unwrap_or_else(flat)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    output: Vec<Value>,
    usage: Option<UsageBody>,
    error: Option<Value>,
    incomplete_details: Option<IncompleteDetails>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UsageBody {
    input_tokens: u64,
    output_tokens: u64,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl From<UsageBody> for Usage {
    fn from(body: UsageBody) -> Self {
        let input = body.input_tokens_details.unwrap_or_default();
        let output = body.output_tokens_details.unwrap_or_default();
        Self {
            input_tokens: body.input_tokens,
            output_tokens: body.output_tokens,
            cached_tokens: input.cached_tokens.unwrap_or(0),
            cache_write_tokens: input.cache_write_tokens.unwrap_or(0),
            thought_tokens: output.reasoning_tokens.unwrap_or(0),
            ..Self::default()
        }
    }
}
