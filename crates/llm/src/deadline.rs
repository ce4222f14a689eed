//! The three deadlines of a model call: first byte, between chunks, whole call.

use std::time::Duration;

use domain::Limits;
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
    first_byte_ends: Option<Instant>,
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
            first_byte_ends: Some(now + limits.model_first_byte),
        }
    }

    /// The request is sent anew: its first byte may take as long again.
    pub(crate) fn try_again(&mut self) {
        self.first_byte_ends = Some(Instant::now() + self.first_byte);
    }

    /// Something of the answer came.
    pub(crate) fn heard(&mut self) {
        self.first_byte_ends = None;
    }

    /// When a wait that begins now must be over, and what is said if it is not.
    pub(crate) fn next(&self) -> (Instant, ModelError) {
        let (silence_ends, wait, limit) = match self.first_byte_ends {
            Some(ends) => (ends, Wait::FirstByte, self.first_byte),
            None => (
                Instant::now() + self.between_chunks,
                Wait::NextChunk,
                self.between_chunks,
            ),
        };
        if self.call_ends < silence_ends {
            let wait = Wait::WholeCall;
            let limit = self.call;
            return (self.call_ends, ModelError::Timeout { wait, limit });
        }
        (silence_ends, ModelError::Timeout { wait, limit })
    }

    /// Waits for `answer`, or until the next deadline.
    pub(crate) async fn within<T>(&self, answer: impl Future<Output = T>) -> Result<T, ModelError> {
        let (ends, error) = self.next();
        timeout_at(ends, answer).await.map_err(|_| error)
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
