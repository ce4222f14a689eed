//! One call of a scripted model: its steps as a stream of chunks.
//!
//! Written by hand and not as an `async` block: chunks that need no wait come out one per poll
//! without touching a timer, because benchmarks measure what is around them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use domain::Limits;
use futures_util::Stream;
use tokio::time::{Instant, Sleep};

use super::fill::Blanks;
use super::{Saying, Step};
use crate::deadline::{Deadlines, Progress};
use crate::error::ModelError;
use crate::model::{Chunk, Message, ModelStop, ToolCall, fresh_call_id};

/// Where in its entry a call is.
pub(super) struct Playback {
    entry: Arc<[Step]>,
    messages: Arc<Vec<Message>>,
    deadlines: Deadlines,
    next_step: usize,
    saying: Option<Repeat>,
    sleeping: Option<Pin<Box<Sleep>>>,
    /// What to report when the sleep is over, if it is cut short by a deadline.
    expired: Option<ModelError>,
    default_stop: ModelStop,
    is_over: bool,
}

/// Words that are said some times over.
struct Repeat {
    kind: Saying,
    text: String,
    left: u32,
    every: Duration,
    is_due: bool,
}

impl Playback {
    pub(super) fn start(entry: Arc<[Step]>, messages: Arc<Vec<Message>>, limits: &Limits) -> Self {
        Self {
            entry,
            messages,
            deadlines: Deadlines::start(limits),
            next_step: 0,
            saying: None,
            sleeping: None,
            expired: None,
            default_stop: ModelStop::EndTurn,
            is_over: false,
        }
    }

    /// The next chunk that needs no wait; `None` when a sleep or another step has begun instead.
    fn advance(&mut self) -> Option<Result<Chunk, ModelError>> {
        if let Some(repeat) = &mut self.saying {
            if repeat.left == 0 {
                self.saying = None;
            } else if repeat.is_due {
                return Some(Ok(repeat.say()));
            } else {
                repeat.is_due = true;
                let every = repeat.every;
                self.sleep(every);
                return None;
            }
        }
        let entry = Arc::clone(&self.entry);
        let Some(step) = entry.get(self.next_step) else {
            self.is_over = true;
            return Some(Ok(Chunk::Stop(self.default_stop)));
        };
        self.next_step += 1;
        self.carry_out(step)
    }

    fn carry_out(&mut self, step: &Step) -> Option<Result<Chunk, ModelError>> {
        let messages = Arc::clone(&self.messages);
        let blanks = Blanks(&messages);
        match step {
            Step::Say {
                kind,
                text,
                repeat,
                every,
            } => {
                let text = blanks.fill(text).into_owned();
                self.saying = Some(Repeat {
                    kind: *kind,
                    // No chunk is ever empty.
                    left: if text.is_empty() { 0 } else { *repeat },
                    text,
                    every: *every,
                    is_due: true,
                });
                None
            }
            Step::Tool { name, input } => {
                self.default_stop = ModelStop::ToolUse;
                Some(Ok(Chunk::ToolCall(ToolCall {
                    id: fresh_call_id(),
                    name: blanks.fill(name).into_owned(),
                    input: blanks.fill_value(input),
                })))
            }
            Step::Sleep(time) => {
                self.sleep(*time);
                None
            }
            Step::Fail { status, message } => {
                self.is_over = true;
                Some(Err(ModelError::failed(*status, &blanks.fill(message))))
            }
            Step::Stop(stop) => {
                self.is_over = true;
                Some(Ok(Chunk::Stop(*stop)))
            }
            #[cfg(debug_assertions)]
            Step::Panic(_) => panic!("the script says so"),
        }
    }

    /// Begins a sleep that ends early if a deadline of model calls comes first.
    fn sleep(&mut self, time: Duration) {
        let wakes = Instant::now() + time;
        let (deadline, error) = self.deadlines.next();
        self.expired = (deadline < wakes).then_some(error);
        let until = wakes.min(deadline);
        self.deadlines
            .waited(until.saturating_duration_since(Instant::now()));
        self.sleeping = Some(Box::pin(tokio::time::sleep_until(until)));
    }
}

impl Repeat {
    fn say(&mut self) -> Chunk {
        self.left -= 1;
        self.is_due = self.every.is_zero();
        let text = if self.left == 0 {
            std::mem::take(&mut self.text)
        } else {
            self.text.clone()
        };
        match self.kind {
            Saying::Text => Chunk::Text(text),
            Saying::Thought => Chunk::Thought(text),
        }
    }
}

impl Stream for Playback {
    type Item = Result<Chunk, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(sleep) = &mut self.sleeping {
                ready!(sleep.as_mut().poll(context));
                self.sleeping = None;
            }
            if let Some(error) = self.expired.take() {
                self.is_over = true;
                return Poll::Ready(Some(Err(error)));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            if let Some(chunk) = self.advance() {
                self.deadlines.heard(Progress::Content);
                return Poll::Ready(Some(chunk));
            }
        }
    }
}
