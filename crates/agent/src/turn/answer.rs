//! One model call: the conversation goes in, text streams out, calls are gathered.

use std::sync::Arc;

use domain::event::{MessageKind, Usage, UsagePurpose};
use futures_util::StreamExt as _;
use llm::{Chunk, ChunkStream, ModelRequest, ModelStop, ToolCall};
use meters::ModelCall;
use tokio_util::sync::CancellationToken;

use super::{Stopped, Turn, send};
use crate::report::{Context, Report};

/// What the model answered.
pub(super) struct Answered {
    /// The tools it wants.
    pub(super) calls: Vec<ToolCall>,
    /// Why it stopped.
    pub(super) stop: ModelStop,
}

impl Turn {
    /// One model call over the conversation, streamed into reports.
    pub(super) async fn ask_model(&mut self, context: Context) -> Result<Answered, Stopped> {
        let request = ModelRequest {
            system: self.system.as_ref().to_owned(),
            messages: context.messages,
            tools: Arc::clone(&self.tools),
        };
        let mut stream = self.stream(request).await?;
        let mut call = ModelCall::start();
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
        Ok(Answered {
            calls: answer.calls,
            stop: answer.stop,
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
        let mut stream = self.stream(request).await?;
        let mut call = ModelCall::start();
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
    usage: Option<Usage>,
    stop: ModelStop,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
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
        Err(Stopped::Cancelled | Stopped::Abandoned) => drop(call),
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
