//! The events of a streamed message, put together into chunks.

use std::collections::{BTreeMap, VecDeque};

use domain::event::Usage;
use domain::limits::MODEL_MEMORY_BYTES_MAX;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dialect::{Ending, Reply, Stage};
use crate::error::ModelError;
use crate::inputs::{self, Room};
use crate::memory::Piece;
use crate::model::{Chunk, ModelStop};
use crate::refusal;

/// What has come of an answer so far.
#[derive(Default)]
pub(super) struct MessagesReply {
    blocks: BTreeMap<u64, Block>,
    room: Room,
    usage: UsageBody,
    stop: Option<String>,
    has_begun: bool,
    is_done: bool,
    /// Bytes of text and thoughts kept to be given back.
    kept_bytes: usize,
}

/// One block of the answer, by its index.
enum Block {
    Text(String),
    Thinking {
        thinking: String,
        signature: String,
    },
    /// Thinking that nobody may read.
    Redacted(Value),
    Call {
        name: String,
        input: String,
        whole: Value,
    },
    /// A kind that we did not ask for.
    Other,
}

impl Reply for MessagesReply {
    fn take(&mut self, data: &str, ready: &mut VecDeque<Chunk>) -> Result<(), ModelError> {
        if data.trim().is_empty() || self.is_done {
            return Ok(());
        }
        let event: Event = serde_json::from_str(data).map_err(|_| ModelError::Unusable {
            what: "an event is not the JSON of a message",
        })?;
        match event {
            Event::MessageStart { message } => {
                self.has_begun = true;
                self.usage.update(message.usage);
                // The input is paid for now, whatever becomes of the answer.
                ready.extend(self.usage.counted().map(Chunk::Usage));
            }
            Event::ContentBlockStart { index, block } => self.begin(index, block, ready)?,
            Event::ContentBlockDelta { index, delta } => self.go_on(index, delta, ready)?,
            Event::MessageDelta { delta, usage } => {
                self.usage.update(usage);
                self.stop = delta.stop_reason.or(self.stop.take());
            }
            Event::MessageStop => self.is_done = true,
            Event::Error { error } => return Err(refusal::in_stream(&error)),
            Event::Other => {}
        }
        Ok(())
    }

    fn heard(&self) -> usize {
        let ends = usize::from(self.stop.is_some()) + usize::from(self.is_done);
        self.room.taken() + self.kept_bytes + self.blocks.len() + ends
    }

    fn stage(&self) -> Stage {
        match self.stop {
            _ if self.is_done => Stage::Done,
            Some(_) => Stage::Complete,
            None => Stage::Open,
        }
    }

    fn end(&mut self) -> Result<Ending, ModelError> {
        if !self.has_begun && self.blocks.is_empty() && self.stop.is_none() {
            return Err(ModelError::Empty);
        }
        if self.stage() == Stage::Open {
            return Err(ModelError::Cut);
        }
        let is_cut_off = matches!(
            self.stop.as_deref(),
            Some("max_tokens" | "model_context_window_exceeded")
        );
        let mut chunks = Vec::new();
        let mut pieces = Vec::new();
        for block in std::mem::take(&mut self.blocks).into_values() {
            match block {
                Block::Text(text) if !text.is_empty() => pieces.push(Piece::Text(text)),
                Block::Thinking {
                    thinking,
                    signature,
                } if !signature.is_empty() => {
                    pieces.push(Piece::Sealed(json!({
                        "type": "thinking", "thinking": thinking, "signature": signature,
                    })));
                }
                Block::Redacted(block) => pieces.push(Piece::Sealed(block)),
                Block::Call { name, input, whole } => {
                    let input = if input.is_empty() {
                        given_whole(&whole)
                    } else {
                        input
                    };
                    if let Some(call) = inputs::complete(name, input, is_cut_off) {
                        pieces.push(Piece::Call(call.id.clone()));
                        chunks.push(Chunk::ToolCall(call));
                    }
                }
                Block::Text(_) | Block::Thinking { .. } | Block::Other => {}
            }
        }
        let stop = stop(self.stop.as_deref(), !chunks.is_empty());
        chunks.extend(self.usage.counted().map(Chunk::Usage));
        chunks.push(Chunk::Stop(stop));
        if self.kept_bytes > MODEL_MEMORY_BYTES_MAX {
            pieces.clear();
        }
        Ok(Ending { chunks, pieces })
    }
}

impl MessagesReply {
    fn begin(
        &mut self,
        index: u64,
        block: BlockBody,
        ready: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelError> {
        self.has_begun = true;
        match block {
            BlockBody::Text { text } => {
                self.blocks.insert(index, Block::Text(String::new()));
                self.go_on(index, Delta::Text { text }, ready)?;
            }
            BlockBody::Thinking {
                thinking,
                signature,
            } => {
                let block = Block::Thinking {
                    thinking: String::new(),
                    signature,
                };
                self.blocks.insert(index, block);
                self.go_on(index, Delta::Thinking { thinking }, ready)?;
            }
            BlockBody::RedactedThinking { data } => {
                self.kept_bytes += data.len();
                let block = json!({ "type": "redacted_thinking", "data": data });
                self.blocks.insert(index, Block::Redacted(block));
            }
            BlockBody::ToolUse { name, input } => {
                self.room.call()?;
                self.room.bytes(name.len())?;
                let block = Block::Call {
                    name,
                    input: String::new(),
                    whole: input,
                };
                self.blocks.insert(index, block);
            }
            BlockBody::Other => {
                self.blocks.insert(index, Block::Other);
            }
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        index: u64,
        delta: Delta,
        ready: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelError> {
        match delta {
            Delta::Text { text } => {
                let block = self.blocks.entry(index);
                let block = block.or_insert_with(|| Block::Text(String::new()));
                if let Block::Text(kept) = block {
                    keep(kept, &text, &mut self.kept_bytes);
                }
                say(Chunk::Text, text, ready);
            }
            Delta::Thinking { thinking } => {
                let block = self.blocks.entry(index).or_insert_with(|| Block::Thinking {
                    thinking: String::new(),
                    signature: String::new(),
                });
                if let Block::Thinking { thinking: kept, .. } = block {
                    keep(kept, &thinking, &mut self.kept_bytes);
                }
                say(Chunk::Thought, thinking, ready);
            }
            Delta::Signature { signature } => {
                if let Some(Block::Thinking {
                    signature: kept, ..
                }) = self.blocks.get_mut(&index)
                {
                    keep(kept, &signature, &mut self.kept_bytes);
                }
            }
            Delta::InputJson { partial_json } => {
                self.room.bytes(partial_json.len())?;
                match self.blocks.get_mut(&index) {
                    Some(Block::Call { input, .. }) => input.push_str(&partial_json),
                    Some(_) => {}
                    None => {
                        return Err(ModelError::Unusable {
                            what: "a tool call goes on that never began",
                        });
                    }
                }
            }
            Delta::Other => {}
        }
        Ok(())
    }
}

/// The input that a call began with. Servers that do not stream it give it whole; an empty object
/// only holds its place.
fn given_whole(whole: &Value) -> String {
    if whole.as_object().is_some_and(Map::is_empty) {
        return String::new();
    }
    whole.to_string()
}

/// Keeps more of a block, until there is too much of it to be given back anyway.
fn keep(kept: &mut String, more: &str, kept_bytes: &mut usize) {
    *kept_bytes += more.len();
    if *kept_bytes <= MODEL_MEMORY_BYTES_MAX {
        kept.push_str(more);
    }
}

fn say(chunk: fn(String) -> Chunk, text: String, ready: &mut VecDeque<Chunk>) {
    if !text.is_empty() {
        ready.push_back(chunk(text));
    }
}

fn stop(reason: Option<&str>, has_calls: bool) -> ModelStop {
    match reason {
        Some("max_tokens" | "model_context_window_exceeded") => ModelStop::MaxTokens,
        Some("refusal") => ModelStop::Refusal,
        _ if has_calls => ModelStop::ToolUse,
        // `end_turn`, `stop_sequence`; `pause_turn` comes only with tools that the server runs.
        _ => ModelStop::EndTurn,
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: MessageBody,
    },
    ContentBlockStart {
        index: u64,
        #[serde(rename = "content_block")]
        block: BlockBody,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    MessageDelta {
        delta: MessageDelta,
        usage: Option<UsageBody>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    /// `ping`, `content_block_stop`, and what is added one day.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageBody {
    usage: Option<UsageBody>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockBody {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageDelta {
    stop_reason: Option<String>,
}

/// Counts so far; each event that has one replaces the one before.
#[derive(Default, Deserialize)]
#[serde(default)]
struct UsageBody {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

impl UsageBody {
    fn update(&mut self, newer: Option<Self>) {
        let newer = newer.unwrap_or_default();
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        let written = newer.cache_creation_input_tokens;
        self.cache_creation_input_tokens = written.or(self.cache_creation_input_tokens);
        let read = newer.cache_read_input_tokens;
        self.cache_read_input_tokens = read.or(self.cache_read_input_tokens);
    }

    /// What was used; cached tokens are not a part of the input here, but are for us.
    fn counted(&self) -> Option<Usage> {
        let fresh = self.input_tokens;
        let (written, read) = (
            self.cache_creation_input_tokens,
            self.cache_read_input_tokens,
        );
        if fresh.is_none() && self.output_tokens.is_none() {
            return None;
        }
        let all = [fresh, written, read].map(Option::unwrap_or_default);
        Some(Usage {
            input_tokens: all.into_iter().fold(0, u64::saturating_add),
            output_tokens: self.output_tokens.unwrap_or(0),
            cached_tokens: read.unwrap_or(0),
            cache_write_tokens: written.unwrap_or(0),
            ..Usage::default()
        })
    }
}
