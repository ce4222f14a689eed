//! `offline`: the embedded assistant for when there is no model. It is deterministic and says so.
//!
//! [`Request::understand`] turns a prompt into a request, [`answer`] words the replies. It keeps
//! no state: what to say follows from the conversation alone.

use futures_util::stream;

use crate::model::{
    Chunk, ChunkStream, Message, Model, ModelRequest, ModelStop, Provider, ToolCall, ToolOutcome,
    fresh_call_id, last_prompt,
};

mod answer;
mod request;
mod summary;

use request::Request;

/// What people read in the greeting.
const LABEL: &str = "offline assistant, not an AI model";

/// The provider of the embedded assistant.
pub(crate) struct OfflineProvider;

impl Provider for OfflineProvider {
    fn label(&self) -> &str {
        LABEL
    }

    fn open(&self) -> Box<dyn Model> {
        Box::new(OfflineModel)
    }
}

struct OfflineModel;

impl Model for OfflineModel {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        Box::pin(stream::iter(reply(&request).into_iter().map(Ok)))
    }
}

/// The whole reply to the end of the conversation.
fn reply(request: &ModelRequest) -> Vec<Chunk> {
    let tools: Vec<&str> = request
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    let asked = Request::understand(last_prompt(&request.messages));
    match request.messages.last() {
        // The tool changes only files that were read.
        Some(Message::ToolResults(outcomes))
            if asked.is_edit() && has_only_read(&request.messages, outcomes) =>
        {
            call(asked.tool())
        }
        Some(Message::ToolResults(outcomes)) => {
            let texts: Vec<String> = outcomes.iter().map(|one| report(&asked, one)).collect();
            say(&texts.join("\n\n"))
        }
        Some(Message::User { .. } | Message::Assistant { .. }) | None => match asked.tool() {
            Some((name, _)) if tools.contains(&name) => call(asked.first_tool()),
            Some((name, _)) => say(&answer::tool_is_missing(name, &tools)),
            None => say(&answer::without_tool(&asked, &tools)),
        },
    }
}

/// A call of that tool with that input.
fn call(tool: Option<(&'static str, serde_json::Value)>) -> Vec<Chunk> {
    let calls = tool.into_iter().map(|(name, input)| {
        Chunk::ToolCall(ToolCall {
            id: fresh_call_id(),
            name: name.to_owned(),
            input,
        })
    });
    calls.chain([Chunk::Stop(ModelStop::ToolUse)]).collect()
}

/// Whether the last answer called `read`, and it worked.
fn has_only_read(messages: &[Message], outcomes: &[ToolOutcome]) -> bool {
    let mut before = messages.iter().rev().skip(1);
    let is_read = match before.next() {
        Some(Message::Assistant { calls, .. }) => calls.iter().all(|call| call.name == "read"),
        Some(Message::User { .. } | Message::ToolResults(_)) | None => false,
    };
    is_read && outcomes.iter().all(|outcome| !outcome.failed)
}

fn report(asked: &Request<'_>, outcome: &ToolOutcome) -> String {
    if outcome.failed {
        answer::failed(asked, &outcome.text)
    } else {
        answer::after(asked, &outcome.text)
    }
}

/// A text as chunks of one word each, and the end.
fn say(text: &str) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut start = 0;
    let mut was_space = false;
    for (at, letter) in text.char_indices() {
        let is_space = letter.is_whitespace();
        if was_space && !is_space {
            chunks.push(Chunk::Text(text[start..at].to_owned()));
            start = at;
        }
        was_space = is_space;
    }
    if start < text.len() {
        chunks.push(Chunk::Text(text[start..].to_owned()));
    }
    chunks.push(Chunk::Stop(ModelStop::EndTurn));
    chunks
}

#[cfg(test)]
mod tests;
