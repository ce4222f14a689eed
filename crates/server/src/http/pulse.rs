//! Whether a connection is waiting, asking or being answered: what deadlines are counted from.
//!
//! The socket ([`Beating`]), the requests ([`InProgress`]) and the task that keeps the time share
//! one [`Pulse`]. It knows no time itself; whoever keeps it looks whenever it [changes](Pulse::changed).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, timeout};

use super::protect::NOSNIFF;
use super::sniff::Sniffed;
use super::socket::Socket;
use super::taking::Pieces;

/// How often within the stall time is looked whether the client has taken something.
const LOOKS: u32 = 8;

/// What a connection is doing, as an observer sees it. Two equal looks mean that nothing moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) doing: Doing,
    /// Requests so far.
    begun: u64,
    /// Writes that went through so far, while one does not.
    written: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing has come since it was opened.
    Fresh,
    /// A request has begun to arrive.
    Asking,
    /// At least one request is being answered.
    Busy,
    /// The client does not take what is written to it.
    Blocked,
    /// It was of use, and may be again.
    Waiting,
}

/// The state of one connection.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    open: AtomicU64,
    begun: AtomicU64,
    written: AtomicU64,
    is_heard: AtomicBool,
    is_blocked: AtomicBool,
    changed: Notify,
}

impl Pulse {
    /// Looks. A race with the other side only means looking once more.
    pub(super) fn look(&self) -> Look {
        let begun = self.begun.load(Relaxed);
        let is_blocked = self.is_blocked.load(Relaxed);
        let doing = if is_blocked {
            Doing::Blocked
        } else if self.open.load(Relaxed) > 0 {
            Doing::Busy
        } else if self.is_heard.load(Relaxed) {
            Doing::Asking
        } else if begun == 0 {
            Doing::Fresh
        } else {
            Doing::Waiting
        };
        let written = if is_blocked {
            self.written.load(Relaxed)
        } else {
            0
        };
        Look {
            doing,
            begun,
            written,
        }
    }

    /// What can be seen of the writing alone.
    pub(super) fn progress(self: &Arc<Self>) -> Progress {
        Progress(Arc::clone(self))
    }

    /// Returns when there is something new to see.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A request is there.
    pub(super) fn begin(self: &Arc<Self>) -> InProgress {
        self.begun.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        self.is_heard.store(false, Relaxed);
        self.changed.notify_one();
        InProgress(Arc::clone(self))
    }

    /// Bytes have come. While a request is being answered they may be its own, and say nothing.
    fn heard(&self) {
        if self.open.load(Relaxed) == 0 && !self.is_heard.swap(true, Relaxed) {
            self.changed.notify_one();
        }
    }

    fn wrote<T>(&self, outcome: &Poll<T>) {
        let is_blocked = outcome.is_pending();
        if !is_blocked {
            self.written.fetch_add(1, Relaxed);
        }
        if self.is_blocked.swap(is_blocked, Relaxed) != is_blocked {
            self.changed.notify_one();
        }
    }
}

/// How far the writing to a client has come, for who waits for it after this is a connection of
/// requests no more.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Arc<Pulse>);

impl Progress {
    /// Waits for `sending` as long as the client takes something of it, however slowly; `None` once
    /// it has taken nothing for the `stall` time.
    pub(crate) async fn while_taken<T>(
        &self,
        stall: Duration,
        sending: impl Future<Output = T>,
    ) -> Option<T> {
        let mut sending = std::pin::pin!(sending);
        let writes = || self.0.written.load(Relaxed);
        let (mut seen, mut since) = (writes(), Instant::now());
        loop {
            if let Ok(sent) = timeout(stall / LOOKS, &mut sending).await {
                return Some(sent);
            }
            if writes() != seen {
                (seen, since) = (writes(), Instant::now());
            } else if since.elapsed() >= stall {
                return None;
            }
        }
    }
}

/// A request that is being answered, until this is dropped.
pub(super) struct InProgress(Arc<Pulse>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
        self.0.changed.notify_one();
    }
}

/// The body of an answer; the request is over when it is.
pub(super) struct Answering {
    body: Body,
    pieces: Pieces,
    _request: InProgress,
}

impl Answering {
    pub(super) fn new(body: Body, request: InProgress) -> Self {
        let pieces = Pieces::default();
        Self {
            body,
            pieces,
            _request: request,
        }
    }
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, pieces, .. } = self.get_mut();
        pieces.poll(|| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.len() == 0 && self.body.is_end_stream()
    }

    /// Asked for before the first piece is given.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket whose reads and writes are felt, and the permit to have it open.
pub(super) struct Beating {
    pub(super) socket: Socket,
    /// What was read already, until it is given on.
    pub(super) sniffed: Option<Sniffed>,
    pub(super) pulse: Arc<Pulse>,
    /// With what hyper refused bytes that are no request. Its answer has no body; it is kept back,
    /// so that whoever carries the connection can give one that has.
    pub(super) refused: Option<StatusCode>,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl Beating {
    /// How many of `bytes` to send: hyper's own refusal of what follows them is kept back.
    fn sent_of(&mut self, bytes: &[u8]) -> usize {
        // While a request is being answered, what is written is its answer.
        if self.pulse.open.load(Relaxed) > 0 {
            return bytes.len();
        }
        let Some((at, status)) = bare_refusal(bytes) else {
            return bytes.len();
        };
        if at == 0 {
            self.refused = self.refused.or(Some(status));
        }
        at
    }
}

/// Where hyper's own refusal begins, and its status. It is the last that is written, has no body,
/// and lacks the header that every answer of ours has.
fn bare_refusal(bytes: &[u8]) -> Option<(usize, StatusCode)> {
    const STATUS_LINE: &[u8] = b"HTTP/1.1 4";
    let head = bytes.strip_suffix(b"\r\n\r\n")?;
    let mut starts = head.windows(STATUS_LINE.len());
    let at = starts.rposition(|window| window == STATUS_LINE)?;
    let rest = std::str::from_utf8(head.get(at + STATUS_LINE.len()..)?).ok()?;
    let mut lines = rest.split("\r\n");
    let status: u16 = lines.next()?.get(..2)?.parse().ok()?;
    let (mut is_bare, mut is_ours) = (false, false);
    for line in lines {
        is_bare |= line.eq_ignore_ascii_case("content-length: 0");
        let name = line.split(':').next().unwrap_or_default();
        // A blank line: what begins here has a body.
        is_ours |= line.is_empty() || name.eq_ignore_ascii_case(NOSNIFF.as_str());
    }
    let status = StatusCode::from_u16(400 + status).ok()?;
    (is_bare && !is_ours).then_some((at, status))
}

impl AsyncRead for Beating {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(sniffed) = &mut self.sniffed {
            if sniffed.give(buffer) {
                self.pulse.heard();
                return Poll::Ready(Ok(()));
            }
            self.sniffed = None;
        }
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        if polled.is_ready() {
            self.pulse.heard();
        }
        polled
    }
}

impl AsyncWrite for Beating {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = self.sent_of(bytes);
        if sent == 0 {
            return Poll::Ready(Ok(bytes.len()));
        }
        let polled = Pin::new(&mut self.socket).poll_write(context, &bytes[..sent]);
        self.pulse.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A refusal is written last, whatever comes with it.
        if let Some(last) = pieces.last() {
            let sent = self.sent_of(last);
            if pieces.len() == 1 || sent < last.len() {
                let first = pieces.iter().find(|piece| !piece.is_empty());
                return self.poll_write(context, first.unwrap_or(last));
            }
        }
        let polled = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.pulse.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.socket).poll_flush(context);
        self.pulse.wrote(&polled);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.refused.is_some() {
            // There is something to say yet.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Poll;
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::{Pulse, bare_refusal};

    const STALL: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn who_takes_little_at_a_time_is_waited_for_and_who_takes_nothing_is_not() {
        let pulse = Arc::new(Pulse::default());
        let progress = pulse.progress();
        let slowly = async {
            for _ in 0..20 {
                sleep(STALL * 9 / 10).await;
                pulse.wrote(&Poll::Ready(()));
            }
        };
        assert_eq!(progress.while_taken(STALL, slowly).await, Some(()));

        let stopped = async {
            pulse.wrote(&Poll::Ready(()));
            sleep(STALL * 10).await;
        };
        let began = Instant::now();
        assert_eq!(progress.while_taken(STALL, stopped).await, None);
        assert!(began.elapsed() >= STALL && began.elapsed() < STALL * 3 / 2);
    }

    #[test]
    fn only_a_refusal_without_a_body_is_kept_back() {
        let refused =
            |text: &str| bare_refusal(text.as_bytes()).map(|(at, status)| (at, status.as_u16()));
        let bare = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(refused(bare), Some((0, 431)));
        let before = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let both = format!("{before}{bare}");
        assert_eq!(refused(&both), Some((before.len(), 431)));
        for other in [
            "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 02\r\n\r\n",
            "HTTP/1.1 405 Method Not Allowed\r\nx-content-type-options: nosniff\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 4",
            "HTTP/1.1 4\r\n\r\n",
            "",
        ] {
            assert_eq!(refused(other), None, "{other}");
        }
    }
}
