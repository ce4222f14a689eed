//! The lines of Ollama's answer, put together into chunks.

use std::collections::VecDeque;

use domain::event::Usage;
use serde::Deserialize;
use serde_json::Value;

use crate::dialect::{Ending, Reply, Stage};
use crate::error::ModelError;
use crate::inputs::{self, Room};
use crate::model::{Chunk, ModelStop, ToolCall};
use crate::refusal;

/// What has come of an answer so far.
#[derive(Default)]
pub(super) struct OllamaReply {
    calls: Vec<ToolCall>,
    room: Room,
    has_begun: bool,
    end: Option<End>,
}

/// The last line.
struct End {
    is_cut_off: bool,
    usage: Option<Usage>,
}

impl Reply for OllamaReply {
    fn take(&mut self, data: &str, ready: &mut VecDeque<Chunk>) -> Result<(), ModelError> {
        if self.end.is_some() {
            return Ok(());
        }
        let line: Line = serde_json::from_str(data).map_err(|_| ModelError::Unusable {
            what: "a line is not the JSON of a chat",
        })?;
        if let Some(error) = &line.error {
            return Err(refusal::in_stream(error));
        }
        self.has_begun = true;
        let message = line.message.unwrap_or_default();
        let said = [
            (message.thinking, Chunk::Thought as fn(String) -> Chunk),
            (message.content, Chunk::Text),
        ];
        for (text, chunk) in said {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                ready.push_back(chunk(text));
            }
        }
        for call in message.tool_calls.unwrap_or_default() {
            let input = inputs::written(&call.function.arguments);
            self.room.call()?;
            self.room.bytes(call.function.name.len() + input.len())?;
            self.calls.extend(inputs::complete(
                call.function.name,
                input.into_owned(),
                false,
            ));
        }
        if line.done {
            let count = |count: Option<u64>| count.unwrap_or(0);
            let is_counted = line.prompt_eval_count.or(line.eval_count).is_some();
            let usage = Usage {
                input_tokens: count(line.prompt_eval_count),
                output_tokens: count(line.eval_count),
                ..Usage::default()
            };
            self.end = Some(End {
                is_cut_off: line.done_reason.as_deref() == Some("length"),
                usage: is_counted.then_some(usage),
            });
        }
        Ok(())
    }

    fn heard(&self) -> usize {
        self.room.taken() + usize::from(self.end.is_some())
    }

    fn stage(&self) -> Stage {
        self.end.as_ref().map_or(Stage::Open, |_| Stage::Done)
    }

    fn end(&mut self) -> Result<Ending, ModelError> {
        if !self.has_begun {
            return Err(ModelError::Empty);
        }
        let end = self.end.take().ok_or(ModelError::Cut)?;
        let calls = std::mem::take(&mut self.calls).into_iter();
        let mut chunks: Vec<Chunk> = calls.map(Chunk::ToolCall).collect();
        let stop = if end.is_cut_off {
            ModelStop::MaxTokens
        } else if chunks.is_empty() {
            ModelStop::EndTurn
        } else {
            ModelStop::ToolUse
        };
        chunks.extend(end.usage.map(Chunk::Usage));
        chunks.push(Chunk::Stop(stop));
        Ok(Ending {
            chunks,
            pieces: Vec::new(),
        })
    }
}

#[derive(Deserialize)]
struct Line {
    message: Option<Said>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Said {
    content: Option<String>,
    thinking: Option<String>,
    tool_calls: Option<Vec<Called>>,
}

#[derive(Deserialize)]
struct Called {
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}
