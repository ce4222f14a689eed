//! One network connection from its first byte to its last: HTTP/1.1 or HTTP/2, and their clocks.
//!
//! A request must arrive within the handshake time, an answer must be taken within the stall time,
//! and a connection that nobody uses ends after the keep-alive time. When the service closes, what
//! is being answered may end; what waits is closed at once.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, StatusCode, header};
use domain::limits::{
    HEADER_BYTES_MAX, HEADERS_MAX, HTTP_BUFFER_BYTES_MAX, HTTP2_RESETS_MAX, HTTP2_STREAMS_MAX,
};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::farewell::{self, farewell};
use super::protect::protect;
use super::pulse::{Answering, Beating, Doing, Look, Pulse};
use super::sniff::Protocol;
use super::socket::Peer;
use super::taking::unless_stalled;
use super::unread::{check_framing, lend};
use crate::service::{FLUSH_TIME_MAX, Service};

/// What a request passes on its way to the router: it is felt, and told where it comes from.
#[derive(Clone)]
struct Door {
    router: TowerToHyperService<Router>,
    pulse: Arc<Pulse>,
    peer: Peer,
    /// Requests follow one another on the same bytes, as in HTTP/1.1.
    is_serial: bool,
}

type Answer = Result<Response<Answering>, Infallible>;

impl hyper::service::Service<Request<Incoming>> for Door {
    type Response = Response<Answering>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let in_progress = self.pulse.begin();
        let is_serial = self.is_serial;
        let framing = check_framing(&request);
        let (request, leftover) = lend(request);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(self.pulse.progress());
        let router = self.router.clone();
        Box::pin(async move {
            let is_certain = framing.is_ok();
            let mut response = match framing {
                Ok(()) => router.call(request).await?,
                Err(refused) => {
                    drop(request);
                    refused
                }
            };
            protect(response.headers_mut());
            let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
            if is_serial && !is_upgrade && !(is_certain && leftover.discard().await) {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok(response.map(|body| Answering::new(body, in_progress)))
        })
    }
}

/// Serves a connection until it ends, by itself or by a clock.
pub(super) async fn carry(
    service: Arc<Service>,
    router: Router,
    (socket, protocol, peer): (Beating, Protocol, Peer),
) {
    let clock = Clock {
        pulse: Arc::clone(&socket.pulse),
        service,
        is_h2: protocol == Protocol::Http2,
    };
    let door = Door {
        router: TowerToHyperService::new(router),
        pulse: Arc::clone(&socket.pulse),
        peer,
        is_serial: protocol == Protocol::Http1,
    };
    let end = match protocol {
        Protocol::Http1 => carry_http1(clock, socket, door).await,
        // The larger of the two; boxed, so that the other one's clients do not pay for it.
        Protocol::Http2 => Box::pin(carry_http2(clock, socket, door)).await,
    };
    tracing::debug!(?peer, ?protocol, ?end, "the connection ended");
}

async fn carry_http1(clock: Clock, socket: Beating, door: Door) -> End {
    let mut http = http1::Builder::new();
    // The clock is ours: hyper's would also run while a kept connection waits.
    http.header_read_timeout(None)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_buf_size(HTTP_BUFFER_BYTES_MAX);
    let mut connection = http
        .serve_connection(TokioIo::new(socket), door)
        .with_upgrades();
    let end = clock.run(&mut connection).await;
    // Gone, if it became a WebSocket.
    let Some(socket) = connection.into_parts().map(|parts| parts.io.into_inner()) else {
        return end;
    };
    if clock.service.closing.is_cancelled() {
        return end;
    }
    match &end {
        // Also after an error: it is answered, and the answer must not be overtaken by a reset for
        // what was not read.
        End::Served(_) => {
            let answer = socket.refused.map(no_request).unwrap_or_default();
            farewell(socket.socket, answer.as_bytes()).await;
        }
        End::TooSlow => {
            let message = "the request's headers did not come in time";
            let answer = farewell::plain(StatusCode::REQUEST_TIMEOUT, "request_timeout", message);
            farewell(socket.socket, answer.as_bytes()).await;
        }
        End::Idle | End::Stalled | End::Closed => {}
    }
    end
}

/// The answer to bytes that are no request.
fn no_request(status: StatusCode) -> String {
    let (error, message) = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
            "headers_too_large",
            "the request's headers are too many or too long",
        ),
        StatusCode::URI_TOO_LONG => ("uri_too_long", "the request's path is too long"),
        _ => ("invalid_request", "malformed HTTP request"),
    };
    farewell::plain(status, error, message)
}

async fn carry_http2(clock: Clock, socket: Beating, door: Door) -> End {
    let limits = &clock.service.limits;
    let tasks = Tasks {
        all: clock.service.connections.clone(),
        stall: limits.stall,
    };
    let window = HTTP_BUFFER_BYTES_MAX as u32;
    let mut http = http2::Builder::new(tasks);
    http.timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_pending_accept_reset_streams(HTTP2_RESETS_MAX)
        .max_local_error_reset_streams(HTTP2_RESETS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .initial_stream_window_size(window)
        .initial_connection_window_size(window * 4)
        .max_send_buf_size(HTTP_BUFFER_BYTES_MAX)
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.pong);
    let mut connection = http.serve_connection(TokioIo::new(socket), door);
    clock.run(&mut connection).await
}

/// Where HTTP/2 runs the requests of a connection: among those the process waits for at its end, and
/// for as long as their clients take the answers.
#[derive(Clone)]
struct Tasks {
    all: TaskTracker,
    stall: Duration,
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.all.spawn(unless_stalled(self.stall, task));
    }
}

/// How a connection ended.
#[derive(Debug)]
enum End {
    /// By itself, or by an error that was answered where HTTP knows how.
    Served(#[expect(dead_code, reason = "shown in the log")] Result<(), hyper::Error>),
    /// A request did not arrive in time.
    TooSlow,
    /// Nobody used it.
    Idle,
    /// An answer was not taken.
    Stalled,
    /// The server is leaving.
    Closed,
}

/// A connection of either protocol.
trait Connection: Future<Output = Result<(), hyper::Error>> + Unpin {
    /// Takes no new request.
    fn wind_down(&mut self);
}

impl Connection for http1::UpgradeableConnection<TokioIo<Beating>, Door> {
    fn wind_down(&mut self) {
        Pin::new(self).graceful_shutdown();
    }
}

impl Connection for http2::Connection<TokioIo<Beating>, Door, Tasks> {
    fn wind_down(&mut self) {
        Pin::new(self).graceful_shutdown();
    }
}

/// Keeps the time for one connection.
struct Clock {
    pulse: Arc<Pulse>,
    service: Arc<Service>,
    is_h2: bool,
}

impl Clock {
    /// Drives the connection until it ends or its time is up.
    async fn run(&self, connection: &mut impl Connection) -> End {
        let mut seen = self.pulse.look();
        let mut since = Instant::now();
        let mut leaving: Option<Instant> = None;
        let mut alarm = pin!(tokio::time::sleep_until(self.deadline(&seen, since)));
        loop {
            let mut is_late = false;
            tokio::select! {
                biased;
                served = &mut *connection => return End::Served(served),
                () = self.service.closing.cancelled(), if leaving.is_none() => {
                    connection.wind_down();
                    leaving = Some(Instant::now() + FLUSH_TIME_MAX);
                }
                () = self.pulse.changed() => {}
                () = &mut alarm => is_late = true,
            }
            let look = self.pulse.look();
            if look != seen {
                (seen, since) = (look, Instant::now());
            } else if is_late {
                return leaving.map_or_else(|| self.late(seen.doing), |_| End::Closed);
            }
            let mut deadline = self.deadline(&seen, since);
            if let Some(end) = leaving {
                if !matches!(seen.doing, Doing::Busy | Doing::Blocked) {
                    // Nothing is lost now; HTTP/2 says goodbye, if it can at once.
                    let _ = tokio::time::timeout(GOODBYE_WAIT, &mut *connection).await;
                    return End::Closed;
                }
                deadline = deadline.min(end);
            }
            if deadline != alarm.deadline() {
                alarm.as_mut().reset(deadline);
            }
        }
    }

    /// Until when a connection that does this since then may go on doing so.
    fn deadline(&self, look: &Look, since: Instant) -> Instant {
        let limits = &self.service.limits;
        since
            + match look.doing {
                Doing::Fresh => limits.handshake,
                // Between requests HTTP/2 sends acknowledgements and pings, which begin nothing.
                Doing::Asking if self.is_h2 => limits.keep_alive,
                Doing::Asking => limits.handshake,
                Doing::Blocked => limits.stall,
                Doing::Waiting => limits.keep_alive,
                Doing::Busy => FAR,
            }
    }

    /// What it is called when a connection does this for too long.
    fn late(&self, doing: Doing) -> End {
        match doing {
            Doing::Asking if !self.is_h2 => End::TooSlow,
            Doing::Asking | Doing::Fresh | Doing::Waiting => End::Idle,
            Doing::Blocked | Doing::Busy => End::Stalled,
        }
    }
}

/// When the alarm rings for what has no deadline here: a request is bounded by its handler. Far
/// beyond the longest of them.
const FAR: Duration = Duration::from_secs(7 * 24 * 3_600);

/// How long the last frame of a connection that nobody uses may take when the server leaves.
const GOODBYE_WAIT: Duration = Duration::from_millis(100);
