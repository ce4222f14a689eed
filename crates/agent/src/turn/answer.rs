//! One model call: the conversation goes in, text streams out, calls are gathered.

use std::sync::Arc;

use domain::CallId;
use domain::event::{MessageKind, Usage, UsagePurpose};
use futures_util::StreamExt as _;
use llm::{Chunk, ChunkStream, Message, ModelRequest, ModelStop, ToolCall};
use meters::ModelCall;
use tokio_util::sync::CancellationToken;
use tools::calls::written::{TEXT_BYTES_MAX, Written, WrittenCall};

use super::{Stopped, Turn, send};
use crate::report::{Context, Report};

/// What the model answered.
pub(super) struct Answered {
    /// The tools it wants.
    pub(super) calls: Vec<ToolCall>,
    /// Why it stopped.
    pub(super) stop: ModelStop,
    /// Why none of the calls runs, if none does.
    pub(super) untaken: Option<&'static str>,
}

/// What the model is told of calls that it wrote at the end of a text.
const WRITTEN_CALL: &str = "Not run: this call was written as text in your answer. If you want it to     run, make it as a tool call, or answer with the call alone and no other text.";

impl Turn {
    /// One model call over the conversation, streamed into reports.
    pub(super) async fn ask_model(&mut self, context: Context) -> Result<Answered, Stopped> {
        let request = ModelRequest {
            system: self.system.as_ref().to_owned(),
            messages: context.messages,
            tools: Arc::clone(&self.tools),
        };
        let mut call = ModelCall::start();
        let mut stream = self.model.stream(request);
        let mut answer = Answer::default();
        let ended = loop {
            let chunk = match next_chunk(&mut stream, &self.cancel).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break Ok(()),
                Err(stopped) => break Err(stopped),
            };
            heard(&mut call, &chunk);
            self.hear(&chunk);
            if let Some(report) = answer.take(chunk) {
                send(&self.reports, report).await?;
            }
        };
        // Lets go of the conversation, so that the session can add to it in place.
        drop(stream);
        close(call, &ended);
        if let Some(usage) = answer.usage {
            self.used(usage, UsagePurpose::Answer).await?;
        }
        ended?;
        // What a refused answer still asks for may be half of what was meant.
        if answer.stop == ModelStop::Refusal {
            answer.calls.clear();
        }
        let Answer {
            calls, stop, text, ..
        } = answer;
        let is_text = calls.is_empty() && stop == ModelStop::EndTurn;
        let mut answered = match is_text && self.model.may_write_calls() {
            true => self.read_calls(&text, stop).await?,
            false => Answered {
                calls,
                stop,
                untaken: None,
            },
        };
        for call in &mut answered.calls {
            let resolved = self.toolbox.resolve(&call.name, call.input.take());
            (call.name, call.input) = (resolved.name, resolved.input);
        }
        Ok(answered)
    }

    /// The calls that the model wrote as text. What repeats an earlier part of the conversation is a
    /// quote: a file or a page must not have the model make calls by being shown.
    async fn read_calls(&mut self, text: &str, stop: ModelStop) -> Result<Answered, Stopped> {
        let (written, untaken) = match self.toolbox.written_calls(text) {
            Written::Text => (Vec::new(), None),
            Written::Calls(calls) => (calls, None),
            Written::Ending(calls) => (calls, Some(WRITTEN_CALL)),
        };
        let mut calls = Vec::new();
        if !written.is_empty() {
            let context = self.context().await?;
            let quoted = written
                .iter()
                .any(|call| is_quoted(call, &context.messages));
            if !quoted {
                calls.extend(written.into_iter().map(|call| ToolCall {
                    id: CallId::random(),
                    name: call.name,
                    input: call.input,
                }));
            }
        }
        Ok(Answered {
            calls,
            stop,
            untaken,
        })
    }

    /// One model call that is no part of the conversation; gives the first `bytes_max` bytes of
    /// what was said.
    pub(super) async fn ask_apart(
        &mut self,
        request: ModelRequest,
        purpose: UsagePurpose,
        bytes_max: usize,
    ) -> Result<String, Stopped> {
        let mut call = ModelCall::start();
        let mut stream = self.model.stream(request);
        let (mut said, mut used) = (String::new(), None);
        let ended = loop {
            let chunk = match next_chunk(&mut stream, &self.cancel).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break Ok(()),
                Err(stopped) => break Err(stopped),
            };
            heard(&mut call, &chunk);
            match chunk {
                Chunk::Text(piece) if said.len() < bytes_max => said.push_str(&piece),
                Chunk::Usage(usage) => used = Some(usage),
                Chunk::Text(_) | Chunk::Thought(_) | Chunk::ToolCall(_) | Chunk::Stop(_) => {}
            }
        };
        close(call, &ended);
        if let Some(usage) = used {
            self.used(usage, purpose).await?;
        }
        ended?;
        said.truncate(said.floor_char_boundary(bytes_max));
        Ok(said)
    }

    /// A call of the model used this much, however it ended: the turn has so much less, and the
    /// session is told.
    pub(super) async fn used(
        &mut self,
        usage: Usage,
        purpose: UsagePurpose,
    ) -> Result<(), Stopped> {
        self.unspent += usage;
        let context_window = self.window();
        self.report(Report::Usage {
            usage,
            purpose,
            context_window,
        })
        .await
    }
}

/// What has been gathered of the model's answer.
struct Answer {
    calls: Vec<ToolCall>,
    /// The beginning of its text, long enough to hold calls.
    text: String,
    usage: Option<Usage>,
    stop: ModelStop,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            text: String::new(),
            usage: None,
            stop: ModelStop::EndTurn,
        }
    }
}

impl Answer {
    /// Takes a chunk in; what clients should see at once comes back as a report.
    fn take(&mut self, chunk: Chunk) -> Option<Report> {
        match chunk {
            Chunk::Text(delta) => {
                if self.text.len() <= TEXT_BYTES_MAX {
                    self.text.push_str(&delta);
                }
                return Some(Report::Text {
                    kind: MessageKind::Text,
                    delta,
                });
            }
            Chunk::Thought(delta) => {
                return Some(Report::Text {
                    kind: MessageKind::Thought,
                    delta,
                });
            }
            Chunk::ToolCall(call) => self.calls.push(call),
            // Providers count as they go; the last count is the whole one.
            Chunk::Usage(usage) => self.usage = Some(usage),
            Chunk::Stop(stop) => self.stop = stop,
        }
        None
    }
}

/// Whether a call that was written as text stands in what the user said or a tool returned.
fn is_quoted(call: &WrittenCall, messages: &[Message]) -> bool {
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let source = squeezed(&call.source);
    // Within JSON, quotes are escaped.
    let escaped = source.replace('\\', "\\\\").replace('"', "\\\"");
    let has = |text: &str| {
        let text = squeezed(text);
        text.contains(&source) || text.contains(&escaped)
    };
    messages.iter().any(|message| match message {
        Message::User { text, .. } => has(text),
        Message::ToolResults(results) => results.iter().any(|result| has(&result.text)),
        Message::Assistant { .. } => false,
    })
}

/// A chunk came. A count alone is no answer yet.
pub(super) fn heard(call: &mut ModelCall, chunk: &Chunk) {
    if !matches!(chunk, Chunk::Usage(_)) {
        call.heard();
    }
}

/// Meters how a call ended; one that was dropped counts as cancelled.
pub(super) fn close(call: ModelCall, ended: &Result<(), Stopped>) {
    match ended {
        Ok(()) => call.end(),
        Err(Stopped::Model(_)) => call.fail(),
        Err(Stopped::Cancelled | Stopped::Abandoned | Stopped::Repeats(_)) => drop(call),
    }
}

/// The next chunk, unless the turn is cancelled first. The model's own deadlines end a silence.
pub(super) async fn next_chunk(
    stream: &mut ChunkStream,
    cancel: &CancellationToken,
) -> Result<Option<Chunk>, Stopped> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Stopped::Cancelled),
        chunk = stream.next() => match chunk {
            None => Ok(None),
            Some(Ok(chunk)) => Ok(Some(chunk)),
            Some(Err(error)) => {
                tracing::warn!(%error, "the model call failed");
                Err(Stopped::Model(error))
            }
        },
    }
}
