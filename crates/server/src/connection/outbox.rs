//! Frames on their way to one client.
//!
//! Streams of sessions wait for room here, so that a slow client costs its own cursor and not our
//! memory. Answers do not wait: their number is bounded by the requests in flight, and the reader
//! pauses ([`Outbox::answers_have_room`]) when a client asks without reading. A client that comes
//! and goes between requests has outboxes with a [`record`] of what was sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::Cursor;
use tokio::sync::Notify;

mod record;

pub(crate) use record::{Conflict, Mark, Marked, Reader};
use record::{Place, Record};

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
    answers: Arc<AnswerRoom>,
    /// Rung when there is something to write.
    filled: Notify,
    /// Rung when there is room again.
    drained: Notify,
    /// Rung when a reader wants to go on from an earlier place.
    rewind: Notify,
}

/// How much of one client's answers waits, in all its outboxes.
#[derive(Default)]
struct AnswerRoom {
    bytes: AtomicUsize,
    drained: Notify,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Queued>,
    stream_bytes: usize,
    closed: Option<Close>,
    /// What was sent, where a reader may come back for it.
    record: Option<Box<Record>>,
}

struct Queued {
    frame: Frame,
    is_stream: bool,
    place: Place,
    _counted: meters::QueuedBytes,
}

/// One message, and whether it can be had again.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) text: String,
    pub(crate) kind: Kind,
}

/// Whether a frame can be had again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only here: an answer, a request of ours, or how things stand.
    Once,
    /// How something stands for a moment; soon there is a newer one, so it is not kept.
    Passing,
    /// From the journal: where the client stands after it, unless more of the same event follows.
    Update {
        /// The cursor after it.
        cursor: Cursor,
        /// More frames of the same event follow.
        more: bool,
    },
}

impl Frame {
    /// A frame that only exists here.
    pub(crate) fn once(text: String) -> Self {
        let kind = Kind::Once;
        Self { text, kind }
    }

    /// A frame that is soon outdated.
    pub(crate) fn passing(text: String) -> Self {
        let kind = Kind::Passing;
        Self { text, kind }
    }

    /// A frame that the journal can give again.
    pub(crate) fn update(text: String, cursor: Cursor) -> Self {
        let more = false;
        let kind = Kind::Update { cursor, more };
        Self { text, kind }
    }
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
    /// The one outbox of a client that is there as long as its connection.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self::with(bytes_max, Arc::default(), None)
    }

    /// An outbox whose readers come and go.
    pub(crate) fn recording(bytes_max: usize) -> Self {
        Self::with(bytes_max, Arc::default(), Some(Box::default()))
    }

    /// Another such outbox of the same client.
    pub(crate) fn beside(&self, bytes_max: usize) -> Self {
        let answers = Arc::clone(&self.inner.answers);
        Self::with(bytes_max, answers, Some(Box::default()))
    }

    /// Queues an answer or a request of ours. Lost if the client left, which is not an error.
    pub(crate) fn answer(&self, text: String) {
        let mut queue = self.queue();
        if queue.closed.is_some() {
            return;
        }
        self.inner
            .answers
            .bytes
            .fetch_add(text.len(), Ordering::Relaxed);
        queue.push(Frame::once(text), false);
        drop(queue);
        self.inner.filled.notify_one();
    }

    /// Queues frames of a session's stream, in order, each once there is room. Cancel safe: what
    /// was not queued is left in `frames`.
    ///
    /// # Errors
    /// If the client left.
    pub(crate) async fn stream(&self, frames: &mut VecDeque<Frame>) -> Result<(), Gone> {
        while !frames.is_empty() {
            // Registered before looking, so that room made in between is not missed.
            let drained = self.inner.drained.notified();
            self.fill(frames)?;
            self.inner.filled.notify_one();
            if !frames.is_empty() {
                drained.await;
            }
        }
        Ok(())
    }

    /// Returns once the client has read enough of its answers.
    pub(crate) async fn answers_have_room(&self) {
        loop {
            let drained = self.inner.answers.drained.notified();
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
            let mut frames = Vec::new();
            match self.take(|_, queued| frames.push(queued.frame.text)) {
                Taken::Some => return Next::Frames(frames),
                Taken::Closed(Close::Gone) => return Next::Close(1000),
                Taken::Closed(Close::After(code)) => return Next::Close(code),
                Taken::None => {}
            }
            filled.await;
        }
    }

    /// Ends the connection. The first call decides how.
    pub(crate) fn close(&self, close: Close) {
        let mut queue = self.queue();
        queue.closed.get_or_insert(close);
        drop(queue);
        self.inner.filled.notify_waiters();
        self.inner.filled.notify_one();
        self.inner.drained.notify_waiters();
        self.inner.answers.drained.notify_waiters();
    }

    fn with(bytes_max: usize, answers: Arc<AnswerRoom>, record: Option<Box<Record>>) -> Self {
        let queue = Queue {
            record,
            ..Queue::default()
        };
        let inner = Inner {
            queue: Mutex::new(queue),
            bytes_max,
            answers,
            filled: Notify::new(),
            drained: Notify::new(),
            rewind: Notify::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Whether the client has read enough of its answers.
    pub(crate) fn has_answer_room(&self) -> bool {
        self.inner.answers.bytes.load(Ordering::Relaxed) < self.inner.bytes_max
            || self.queue().closed.is_some()
    }

    /// Bytes that wait for the client: of streams here, and of its answers wherever they are.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.stream_bytes() + self.inner.answers.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of streams that wait here.
    pub(crate) fn stream_bytes(&self) -> usize {
        self.queue().stream_bytes
    }

    /// Hands as many frames to `each` as are written at once.
    fn take(&self, mut each: impl FnMut(&mut Queue, Queued)) -> Taken {
        let mut queue = self.queue();
        let (mut bytes, mut answer_bytes) = (0, 0);
        while bytes < TAKE_BYTES_MAX
            && let Some(queued) = queue.frames.pop_front()
        {
            let len = queued.frame.text.len();
            bytes += len;
            if queued.is_stream {
                queue.stream_bytes -= len;
            } else {
                answer_bytes += len;
            }
            each(&mut queue, queued);
        }
        let closed = queue.closed;
        drop(queue);
        if bytes > 0 {
            let answers = &self.inner.answers;
            answers.bytes.fetch_sub(answer_bytes, Ordering::Relaxed);
            answers.drained.notify_waiters();
            self.inner.drained.notify_waiters();
            return Taken::Some;
        }
        closed.map_or(Taken::None, Taken::Closed)
    }

    /// Queues as many frames as there is room for; one always fits an empty queue.
    fn fill(&self, frames: &mut VecDeque<Frame>) -> Result<(), Gone> {
        let mut queue = self.queue();
        if queue.closed.is_some() {
            return Err(Gone);
        }
        while let Some(frame) = frames.front() {
            let bytes = queue.stream_bytes + frame.text.len();
            if queue.stream_bytes > 0 && bytes > self.inner.bytes_max {
                break;
            }
            let Some(frame) = frames.pop_front() else {
                break;
            };
            queue.push(frame, true);
        }
        Ok(())
    }

    /// The queue is whole at every step, so a panic elsewhere does not spoil it.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.inner
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, frame: Frame, is_stream: bool) {
        let queued = match &mut self.record {
            Some(record) => match record.note(frame, is_stream) {
                Some(queued) => queued,
                None => return,
            },
            None => Queued::new(frame, is_stream),
        };
        if let Kind::Update { cursor, .. } = queued.frame.kind {
            while let Some(held) = self.record.as_mut().and_then(|r| r.held_before(cursor)) {
                self.enqueue(held);
            }
        }
        self.enqueue(queued);
    }

    fn enqueue(&mut self, queued: Queued) {
        if queued.is_stream {
            self.stream_bytes += queued.frame.text.len();
        }
        self.frames.push_back(queued);
    }
}

impl Queued {
    fn new(frame: Frame, is_stream: bool) -> Self {
        Self {
            _counted: meters::QueuedBytes::new(frame.text.len()),
            frame,
            is_stream,
            place: Place::default(),
        }
    }
}

enum Taken {
    Some,
    None,
    Closed(Close),
}

/// The client left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::{Close, Frame, Gone, Next, Outbox};

    fn one(text: &str) -> VecDeque<Frame> {
        VecDeque::from([Frame::once(text.to_owned())])
    }

    #[tokio::test]
    async fn a_stream_waits_for_a_slow_reader_and_answers_do_not() {
        let outbox = Outbox::new(10);
        outbox.stream(&mut one("0123456789")).await.unwrap();
        let waiting = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.stream(&mut one("more")).await }
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
        assert_eq!(outbox.stream(&mut one("x")).await, Err(Gone));
        assert!(matches!(outbox.next().await, Next::Frames(frames) if frames == ["last"]));
        assert!(matches!(outbox.next().await, Next::Close(1001)));
        outbox.answers_have_room().await;
    }
}
