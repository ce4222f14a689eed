//! Frames on their way to one client.
//!
//! Streams of sessions wait for room here, so that a slow client costs its own cursor and not our
//! memory. Answers do not wait: their number is bounded by the requests in flight, and the reader
//! pauses ([`Outbox::answers_have_room`]) when a client asks without reading.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Bytes the writer takes at once: enough to fill a socket, little enough to keep count.
const TAKE_BYTES_MAX: usize = 64 * 1024;

/// One client's outgoing frames. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outbox {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Mutex<Queue>,
    bytes_max: usize,
    /// Rung when there is something to write.
    filled: Notify,
    /// Rung when there is room again.
    drained: Notify,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    stream_bytes: usize,
    answer_bytes: usize,
    closed: Option<Close>,
}

struct Frame {
    text: String,
    is_stream: bool,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// The client left; nothing can be sent any more.
    Gone,
    /// After what waits has been sent, with this WebSocket close code.
    After(u16),
}

/// What the writer gets to do next.
pub(crate) enum Next {
    /// Write these.
    Frames(Vec<String>),
    /// Nothing is left; end the connection with this code.
    Close(u16),
}

impl Outbox {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let inner = Inner {
            queue: Mutex::default(),
            bytes_max,
            filled: Notify::new(),
            drained: Notify::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Queues an answer or a request of ours. Lost if the client left, which is not an error.
    pub(crate) fn answer(&self, text: String) {
        let mut queue = self.queue();
        if queue.closed.is_some() {
            return;
        }
        queue.answer_bytes += text.len();
        queue.frames.push_back(Frame {
            text,
            is_stream: false,
        });
        drop(queue);
        self.inner.filled.notify_one();
    }

    /// Queues frames of a session's stream, in order, each once there is room.
    ///
    /// # Errors
    /// If the client left.
    pub(crate) async fn stream(
        &self,
        frames: impl IntoIterator<Item = String>,
    ) -> Result<(), Gone> {
        for mut text in frames {
            loop {
                // Registered before looking, so that room made in between is not missed.
                let drained = self.inner.drained.notified();
                match self.try_stream(text)? {
                    None => break,
                    Some(back) => text = back,
                }
                self.inner.filled.notify_one();
                drained.await;
            }
        }
        self.inner.filled.notify_one();
        Ok(())
    }

    /// Returns once the client has read enough of its answers.
    pub(crate) async fn answers_have_room(&self) {
        loop {
            let drained = self.inner.drained.notified();
            if self.has_answer_room() {
                return;
            }
            drained.await;
        }
    }

    /// For the writer: what to send next, waiting for it if need be.
    pub(crate) async fn next(&self) -> Next {
        loop {
            let filled = self.inner.filled.notified();
            if let Some(next) = self.take() {
                return next;
            }
            filled.await;
        }
    }

    /// Ends the connection. The first call decides how.
    pub(crate) fn close(&self, close: Close) {
        let mut queue = self.queue();
        queue.closed.get_or_insert(close);
        drop(queue);
        self.inner.filled.notify_one();
        self.inner.drained.notify_waiters();
    }

    fn has_answer_room(&self) -> bool {
        let queue = self.queue();
        queue.answer_bytes < self.inner.bytes_max || queue.closed.is_some()
    }

    fn take(&self) -> Option<Next> {
        let mut queue = self.queue();
        let mut frames = Vec::new();
        let mut bytes = 0;
        while bytes < TAKE_BYTES_MAX
            && let Some(frame) = queue.frames.pop_front()
        {
            bytes += frame.text.len();
            if frame.is_stream {
                queue.stream_bytes -= frame.text.len();
            } else {
                queue.answer_bytes -= frame.text.len();
            }
            frames.push(frame.text);
        }
        if !frames.is_empty() {
            drop(queue);
            self.inner.drained.notify_waiters();
            return Some(Next::Frames(frames));
        }
        match queue.closed? {
            Close::Gone => Some(Next::Close(1000)),
            Close::After(code) => Some(Next::Close(code)),
        }
    }

    /// Queues `text` if there is room, else gives it back; one frame always fits an empty queue.
    fn try_stream(&self, text: String) -> Result<Option<String>, Gone> {
        let mut queue = self.queue();
        if queue.closed.is_some() {
            return Err(Gone);
        }
        if queue.stream_bytes > 0 && queue.stream_bytes + text.len() > self.inner.bytes_max {
            return Ok(Some(text));
        }
        queue.stream_bytes += text.len();
        queue.frames.push_back(Frame {
            text,
            is_stream: true,
        });
        Ok(None)
    }

    /// The queue is whole at every step, so a panic elsewhere does not spoil it.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.inner
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

#[cfg(test)]
mod tests {
    use super::{Close, Gone, Next, Outbox};

    #[tokio::test]
    async fn a_stream_waits_for_a_slow_reader_and_answers_do_not() {
        let outbox = Outbox::new(10);
        outbox.stream(["0123456789".to_owned()]).await.unwrap();
        let waiting = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.stream(["more".to_owned()]).await }
        });
        outbox.answer("answer".to_owned());
        let Next::Frames(frames) = outbox.next().await else {
            panic!("closed")
        };
        assert_eq!(frames[..2], ["0123456789", "answer"]);
        waiting.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn closing_sends_what_waits_first_and_ends_every_wait() {
        let outbox = Outbox::new(4);
        outbox.answer("last".to_owned());
        outbox.close(Close::After(1001));
        outbox.close(Close::After(1008));
        assert_eq!(outbox.stream(["x".to_owned()]).await, Err(Gone));
        assert!(matches!(outbox.next().await, Next::Frames(frames) if frames == ["last"]));
        assert!(matches!(outbox.next().await, Next::Close(1001)));
        outbox.answers_have_room().await;
    }
}
