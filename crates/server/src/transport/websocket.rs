//! ACP over WebSocket: text frames, one message each.

use std::sync::Arc;
use std::time::Duration;

use auth::Principal;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use domain::{ConnectionId, TraceParent};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite;
use tokio_util::sync::CancellationToken;

use crate::connection::lanes::Lanes;
use crate::connection::outbox::{Close, Next, Outbox};
use crate::connection::{self, Inbound, Opening, Reach, Source};
use crate::http::Progress;
use crate::service::{Service, Slot};

/// Time to get a close frame out before the socket is dropped.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// Bytes tungstenite reads at once. Its default of 128 KiB per socket would cost ten thousand idle
/// clients more than a gigabyte.
const READ_BUFFER_BYTES: usize = 4 * 1024;

/// Bytes gathered before a write: many small frames, one system call. It grows only when used.
const WRITE_BUFFER_BYTES: usize = 16 * 1024;

/// Pings a second that a client may send. Each is answered, and the answers of one that does not
/// read them wait in memory.
const PINGS_PER_SECOND_MAX: u32 = 100;

/// The close code of a client that floods.
const FLOOD: u16 = 1008;

/// The close code of a client that takes nothing of what is sent to it.
const STALLED: u16 = 1008;

/// What is known of a connection when it is opened.
pub(crate) struct Opened {
    pub(crate) id: ConnectionId,
    pub(crate) slot: Slot,
    pub(crate) trace: Option<TraceParent>,
    pub(crate) progress: Progress,
}

/// Answers the upgrade and serves the client on the socket it becomes.
pub(crate) fn upgrade(
    service: Arc<Service>,
    principal: Principal,
    opened: Opened,
    upgrade: WebSocketUpgrade,
) -> Response {
    let bytes_max = service.limits.message_bytes_max;
    upgrade
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_message_size(bytes_max)
        .max_frame_size(bytes_max)
        .on_upgrade(async move |socket| {
            serve(service, principal, opened, socket).await;
        })
}

async fn serve(service: Arc<Service>, principal: Principal, opened: Opened, socket: WebSocket) {
    let Opened {
        id,
        slot: _slot,
        trace,
        progress,
    } = opened;
    let outbox = Outbox::new(service.limits.outbox_bytes_max);
    let (heard, last_heard) = watch::channel(Instant::now());
    let (sink, stream) = socket.split();
    let given_up = CancellationToken::new();
    let writer = Writer {
        id: id.clone(),
        sink,
        outbox: outbox.clone(),
        last_heard,
        given_up: given_up.clone(),
        progress,
        service: Arc::clone(&service),
    };
    service.connections.spawn(writer.run());
    let source = Socket {
        stream,
        heard,
        given_up,
        pings: (0, Instant::now()),
        outbox: outbox.clone(),
    };
    let opening = Opening {
        id,
        principal,
        source,
        lanes: Lanes::One(outbox),
        reach: Reach::Network,
        trace,
    };
    connection::serve(service, opening).await;
}

/// The reading half. A task of its own would cost each idle client a kilobyte for nothing.
struct Socket {
    stream: SplitStream<WebSocket>,
    heard: watch::Sender<Instant>,
    /// Fires when the writer has said goodbye and the client has had its time to answer.
    given_up: CancellationToken,
    /// Pings of the client since when; see [`PINGS_PER_SECOND_MAX`].
    pings: (u32, Instant),
    outbox: Outbox,
}

impl Socket {
    /// Counts a ping; says whether there were too many.
    fn is_flooded(&mut self, now: Instant) -> bool {
        let (count, since) = &mut self.pings;
        if now.duration_since(*since) >= Duration::from_secs(1) {
            (*count, *since) = (0, now);
        }
        *count += 1;
        *count > PINGS_PER_SECOND_MAX
    }
}

impl Source for Socket {
    /// The next text frame, until the client leaves or breaks the rules.
    async fn next(&mut self) -> Option<Inbound> {
        let close = loop {
            let message = tokio::select! {
                biased;
                // A client that vanished says nothing any more, not even that it left.
                () = self.given_up.cancelled() => None,
                message = self.stream.next() => message,
            };
            let message = match message {
                None => break Close::Gone,
                Some(Err(error)) => break broken(&error),
                Some(Ok(message)) => message,
            };
            let now = Instant::now();
            self.heard.send_replace(now);
            match message {
                Message::Text(text) => return Some(Inbound::Frame(text.into())),
                Message::Close(_) => break Close::After(1000),
                Message::Ping(_) if self.is_flooded(now) => break Close::After(FLOOD),
                // Binary frames mean nothing here; pings are answered by the library.
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => {}
            }
        };
        self.outbox.close(close);
        None
    }
}

/// What a read error says about the client.
fn broken(error: &axum::Error) -> Close {
    let inner = std::error::Error::source(error);
    let cause = inner.and_then(|cause| cause.downcast_ref::<tungstenite::Error>());
    match cause {
        Some(tungstenite::Error::Capacity(_)) => Close::After(1009),
        Some(tungstenite::Error::Utf8(_)) => Close::After(1007),
        Some(tungstenite::Error::Protocol(
            tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        )) => Close::Gone,
        Some(tungstenite::Error::Protocol(_)) => Close::After(1002),
        _ => Close::Gone,
    }
}

struct Writer {
    id: ConnectionId,
    sink: SplitSink<WebSocket, Message>,
    outbox: Outbox,
    last_heard: watch::Receiver<Instant>,
    given_up: CancellationToken,
    progress: Progress,
    service: Arc<Service>,
}

impl Writer {
    /// Sends what waits, pings in between, and ends the socket politely.
    async fn run(mut self) {
        let code = self.send_all().await;
        let reason = "".into();
        let close = Message::Close(Some(CloseFrame { code, reason }));
        let farewell = async {
            // Refused if the client closed first; then only the library's echo is left to flush.
            let _ = self.sink.send(close).await;
            let _ = self.sink.close().await;
        };
        // The client may not read any more; it has had its time.
        let _ = tokio::time::timeout(CLOSE_TIME_MAX, farewell).await;
        self.outbox.close(Close::Gone);
        let left = async { while self.last_heard.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(CLOSE_TIME_MAX, left).await;
        self.given_up.cancel();
    }

    /// Sends until the connection ends; gives the close code.
    async fn send_all(&mut self) -> u16 {
        let mut pings = tokio::time::interval_at(
            Instant::now() + self.service.limits.ping,
            self.service.limits.ping,
        );
        let mut pinged: Option<Instant> = None;
        let stall = self.service.limits.stall;
        loop {
            let deadline = pinged.map(|at| at + self.service.limits.pong);
            tokio::select! {
                biased;
                next = self.outbox.next() => {
                    let frames = match next {
                        Next::Frames(frames) => frames,
                        Next::Close(code) => return code,
                    };
                    let sending = write(&mut self.sink, frames);
                    match self.progress.while_taken(stall, sending).await {
                        Some(Ok(())) => {}
                        Some(Err(_)) => return 1000,
                        None => return self.stalled(),
                    }
                    // Outbound progress is life as well.
                    pinged = None;
                }
                _ = pings.tick() => {
                    let ping = self.sink.send(Message::Ping(bytes::Bytes::new()));
                    let sent = self.progress.while_taken(stall, ping).await;
                    if !matches!(sent, Some(Ok(()))) {
                        return self.stalled();
                    }
                    pinged.get_or_insert_with(Instant::now);
                }
                _ = self.last_heard.changed() => pinged = None,
                () = sleep_until(deadline) => return self.stalled(),
            }
        }
    }

    /// The client takes nothing any more, or gives no sign of life; gives the code that tells it.
    fn stalled(&self) -> u16 {
        tracing::info!(connection = %self.id, "stalled");
        STALLED
    }
}

/// Writes frames with one flush.
async fn write(
    sink: &mut SplitSink<WebSocket, Message>,
    frames: Vec<String>,
) -> Result<(), axum::Error> {
    for frame in frames {
        sink.feed(Message::Text(frame.into())).await?;
    }
    sink.flush().await
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
