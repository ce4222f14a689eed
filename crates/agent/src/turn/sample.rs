//! A tool server has the turn's model answer: one call of its own, without the conversation and without
//! tools, while the tool that wants it goes on.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::event::UsagePurpose;
use futures_util::{Stream, StreamExt as _};
use llm::{Chunk, Message, ModelRequest, ModelStop};
use meters::ModelCall;
use serde_json::json;
use tools::asks::{NotSampled, SampleRequest, Sampled, Speaker};

use super::answer::{close, heard, next_chunk};
use super::desk::Sample;
use super::{Stopped, Turn};

/// Bytes that a token is about.
const TOKEN_BYTES: usize = 4;

impl Turn {
    /// Answers a wish while calls are `running`; those that end meanwhile come `early`.
    pub(super) async fn sample_beside<R>(
        &mut self,
        sample: Sample,
        running: &mut (impl Stream<Item = R> + Unpin),
        early: &mut VecDeque<R>,
    ) -> Result<(), Stopped> {
        let Sample { wish, mut reply } = sample;
        let sampled = {
            let sampling = self.sample(wish);
            tokio::pin!(sampling);
            let mut all_ended = false;
            loop {
                tokio::select! {
                    sampled = &mut sampling => break Some(sampled),
                    // Nobody waits for it any more.
                    () = reply.closed() => break None,
                    ran = running.next(), if !all_ended => match ran {
                        Some(ran) => early.push_back(ran),
                        None => all_ended = true,
                    },
                }
            }
        };
        if let Some(used) = self.sampled.take() {
            self.used(used, UsagePurpose::Sampling).await?;
        }
        let told = match sampled {
            None => return Ok(()),
            Some(Ok(sampled)) => Ok(sampled),
            Some(Err(Stopped::Model(_))) => Err(NotSampled::Failed),
            Some(Err(
                stopped @ (Stopped::Cancelled | Stopped::Abandoned | Stopped::Repeats(_)),
            )) => return Err(stopped),
        };
        // Who is gone needs no answer.
        let _ = reply.send(told);
        Ok(())
    }

    /// One model call over what a server said.
    async fn sample(&mut self, wish: SampleRequest) -> Result<Sampled, Stopped> {
        let bytes_max = wish.tokens_max as usize * TOKEN_BYTES;
        let messages = wish.messages.into_iter().map(message).collect();
        let request = ModelRequest {
            system: wish.system,
            messages: Arc::new(messages),
            tools: Arc::new([]),
        };
        let mut call = ModelCall::start();
        let mut stream = self.model.stream(request);
        let (mut text, mut is_cut) = (String::new(), false);
        let ended = loop {
            let chunk = match next_chunk(&mut stream, &self.cancel).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break Ok(()),
                Err(stopped) => break Err(stopped),
            };
            heard(&mut call, &chunk);
            match chunk {
                Chunk::Text(piece) => text.push_str(&piece),
                Chunk::Usage(usage) => self.sampled = Some(usage),
                Chunk::Stop(stop) => is_cut = stop == ModelStop::MaxTokens,
                Chunk::Thought(_) | Chunk::ToolCall(_) => {}
            }
            is_cut |= text.len() > bytes_max;
            if is_cut {
                break Ok(());
            }
        };
        drop(stream);
        close(call, &ended);
        ended?;
        text.truncate(text.floor_char_boundary(bytes_max));
        Ok(Sampled { text, is_cut })
    }
}

fn message((speaker, text): (Speaker, String)) -> Message {
    match speaker {
        Speaker::Person => {
            let blocks = vec![json!({"type": "text", "text": &text})];
            Message::User { text, blocks }
        }
        Speaker::Model => Message::Assistant {
            text,
            calls: Vec::new(),
        },
    }
}
