//! The deadlines of a model call: its beginning, silence in mid-answer, the whole call.
//!
//! Bytes alone are not progress. A comment of the stream (`: ping`) changes nothing. An event without
//! content, such as Anthropic's `ping`, shows that the model is still at work, so the call may go on
//! without content for longer, but not for ever. Only content begins the wait anew.

use std::time::Duration;

use domain::Limits;
use domain::limits::MODEL_PINGS_FACTOR;
use tokio::time::{Instant, timeout_at};

use crate::error::{ModelError, Wait};

/// How long a call may wait, and since when.
///
/// Only waiting for the model counts as silence: the time a slow consumer takes between two
/// chunks is not held against the model. The whole call is bounded in any case.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    first_byte: Duration,
    between_chunks: Duration,
    call: Duration,
    call_ends: Instant,
    since_event: Silence,
    since_content: Silence,
}

/// What of an answer the newest bytes brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Nothing: a comment, or a part of an event.
    Bytes,
    /// An event without content.
    Event,
    /// Text, thoughts, a tool call, usage, or the end.
    Content,
}

/// How long the model has been waited for since something came.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    waited: Duration,
    /// Whether anything of the kind has come at all.
    has_begun: bool,
}

impl Silence {
    fn end(&mut self) {
        *self = Self {
            waited: Duration::ZERO,
            has_begun: true,
        };
    }
}

impl Deadlines {
    /// A call that starts now.
    pub(crate) fn start(limits: &Limits) -> Self {
        let now = Instant::now();
        Self {
            first_byte: limits.model_first_byte,
            between_chunks: limits.model_between_chunks,
            call: limits.model_call,
            call_ends: now + limits.model_call,
            since_event: Silence::default(),
            since_content: Silence::default(),
        }
    }

    /// The request is sent anew: its first byte may take as long again.
    pub(crate) fn try_again(&mut self) {
        self.since_event = Silence::default();
        self.since_content = Silence::default();
    }

    /// More of the answer came.
    pub(crate) fn heard(&mut self, progress: Progress) {
        if progress >= Progress::Event {
            self.since_event.end();
        }
        if progress >= Progress::Content {
            self.since_content.end();
        }
    }

    /// When a wait that begins now must be over, and what is said if it is not.
    pub(crate) fn next(&self) -> (Instant, ModelError) {
        let event = self.limit(self.since_event, 1);
        let content = self.limit(self.since_content, MODEL_PINGS_FACTOR);
        let (left, wait, limit) = if event.0 <= content.0 { event } else { content };
        let silence_ends = Instant::now() + left;
        if self.call_ends < silence_ends {
            let wait = Wait::WholeCall;
            let limit = self.call;
            return (self.call_ends, ModelError::Timeout { wait, limit });
        }
        (silence_ends, ModelError::Timeout { wait, limit })
    }

    /// How much of `silence` is left, what is waited for, and how long that may take in all.
    fn limit(&self, silence: Silence, factor: u32) -> (Duration, Wait, Duration) {
        let (wait, limit) = if silence.has_begun {
            (Wait::NextChunk, self.between_chunks)
        } else {
            (Wait::FirstByte, self.first_byte)
        };
        let limit = limit.saturating_mul(factor);
        (limit.saturating_sub(silence.waited), wait, limit)
    }

    /// The model was waited for this long.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.since_event.waited += time;
        self.since_content.waited += time;
    }

    /// Waits for `answer`, or until the next deadline.
    pub(crate) async fn within<T>(
        &mut self,
        answer: impl Future<Output = T>,
    ) -> Result<T, ModelError> {
        let (ends, error) = self.next();
        let began = Instant::now();
        let answered = timeout_at(ends, answer).await;
        self.waited(began.elapsed());
        answered.map_err(|_| error)
    }

    /// Sleeps before another try, at most until the end of the whole call.
    pub(crate) async fn pause(&self, time: Duration) -> Result<(), ModelError> {
        let pause = tokio::time::sleep(time);
        timeout_at(self.call_ends, pause)
            .await
            .map_err(|_| ModelError::Timeout {
                wait: Wait::WholeCall,
                limit: self.call,
            })
    }
}
