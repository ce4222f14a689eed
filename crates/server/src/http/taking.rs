//! Whether a client takes its answer over HTTP/2, where a closed window does not block the socket.
//!
//! HTTP/2 asks an answer's body for more once the client has made room for what it got. So a body
//! that has given a piece ([`Pieces`]) and is not asked again is one that the client does not take;
//! after the stall time its task is dropped ([`unless_stalled`]), and with it the body.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Frame;
use tokio::time::{Instant, Sleep, sleep};

/// Bytes given at once: what the slowest client that counts as reading takes within the stall time.
/// Less than the lines of decades ago, and still few pieces for a window of 64 KiB.
const PIECE_BYTES_MAX: usize = 4 * 1024;

tokio::task_local! {
    /// How the answer of this task comes along; only HTTP/2 has a task for each.
    static ANSWER: Arc<Answer>;
}

/// How an answer comes along.
#[derive(Default)]
struct Answer {
    given: AtomicU64,
    /// It was not asked for more since it gave a piece.
    is_waiting: AtomicBool,
}

impl Answer {
    fn asked(&self) {
        self.is_waiting.store(false, Relaxed);
    }

    fn gave(&self) {
        self.given.fetch_add(1, Relaxed);
        self.is_waiting.store(true, Relaxed);
    }

    /// How many pieces it has given, if the client is to take the last one.
    fn waits_after(&self) -> Option<u64> {
        let is_waiting = self.is_waiting.load(Relaxed);
        is_waiting.then(|| self.given.load(Relaxed))
    }
}

/// Runs the `task` of one answer to its end, or until its client has taken nothing of it for the
/// `stall` time.
pub(super) async fn unless_stalled(stall: Duration, task: impl Future<Output = ()>) {
    let answer = Arc::new(Answer::default());
    let mut task = pin!(task);
    let mut alarm: Option<Pin<Box<Sleep>>> = None;
    let mut seen = 0;
    poll_fn(|context| {
        let run = || task.as_mut().poll(context);
        if ANSWER.sync_scope(Arc::clone(&answer), run).is_ready() {
            return Poll::Ready(());
        }
        let Some(given) = answer.waits_after() else {
            alarm = None;
            return Poll::Pending;
        };
        let alarm = alarm.get_or_insert_with(|| Box::pin(sleep(stall)));
        if given != seen {
            seen = given;
            alarm.as_mut().reset(Instant::now() + stall);
        }
        ready!(alarm.as_mut().poll(context));
        tracing::debug!("an answer was not taken");
        Poll::Ready(())
    })
    .await;
}

/// What a body has given and is not passed on yet. Over HTTP/2 it goes in small pieces, so that
/// whoever takes little at a time is seen to take something.
#[derive(Default)]
pub(super) struct Pieces {
    rest: Bytes,
}

/// What a body gives when it is polled.
type Polled<E> = Poll<Option<Result<Frame<Bytes>, E>>>;

impl Pieces {
    /// The next piece of what `body` gives.
    pub(super) fn poll<E>(&mut self, body: impl FnOnce() -> Polled<E>) -> Polled<E> {
        let Ok(answer) = ANSWER.try_with(Arc::clone) else {
            return body();
        };
        answer.asked();
        if self.rest.is_empty() {
            match ready!(body()) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        answer.gave();
        let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES_MAX));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    /// How much is not passed on yet.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }
}

#[cfg(test)]
mod tests;
