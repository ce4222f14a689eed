//! Frames over Streamable HTTP: a POST for each message, a stream of events for the connection and
//! for each session.
//!
//! HTTP/1.1, because everything between here and a server understands it: one connection for the
//! POSTs, in order, and one for each stream. If any of them breaks the whole transport ends, and
//! whoever wants more makes a new one and resumes ([`Transport::lasting`] does).

mod exchange;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use domain::Limits;
use domain::limits::{CLOSE_WAIT, LINK_FRAMES_MAX};
use futures_util::{sink, stream};
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use self::exchange::{Answer, Caller, Line, read_whole};
use self::streams::Streams;
use crate::address::Address;
use crate::dial::Trust;
use crate::error::TransportError;
use crate::transport::{FrameIn, FrameOut, Heartbeat, Transport};

/// The header that names a connection.
const CONNECTION: &str = "acp-connection-id";
/// The header that names a session.
const SESSION: &str = "acp-session-id";

/// Connects for the first POST; the server hears of us with the first frame.
pub(crate) async fn open(
    address: &Address,
    token: Option<&str>,
    trust: &Trust,
    limits: &Limits,
) -> Result<Transport, TransportError> {
    let caller = Arc::new(Caller::new(address, token, trust, limits)?);
    let line = caller.dial().await?;
    // What the streams read ahead of the caller is as little as over a link.
    let (heard, incoming) = mpsc::channel(LINK_FRAMES_MAX);
    let poster = Poster {
        streams: Streams::new(Arc::clone(&caller), heard),
        caller,
        line: Some(line),
    };
    let (outgoing, queue) = mpsc::channel(1);
    // It ends when the sink is dropped.
    tokio::spawn(carry(poster, queue, limits.stall));
    let heartbeat = Heartbeat {
        ping: limits.ping,
        silence: limits.client_silence,
    };
    let frames_in = stream::unfold(incoming, async |mut incoming| {
        let frame: Result<FrameIn, TransportError> = incoming.recv().await?;
        Some((frame, incoming))
    });
    let frames_out = sink::unfold(outgoing, async |outgoing: mpsc::Sender<Posting>, frame| {
        // Streams have comments where a socket has pings.
        if let FrameOut::Text(text) = frame {
            let (taken, done) = oneshot::channel();
            let queued = outgoing.send(Posting { text, taken }).await;
            queued.map_err(|_| TransportError::ClosedHere)?;
            done.await.unwrap_or(Err(TransportError::ClosedHere))?;
        }
        Ok(outgoing)
    });
    Ok(Transport::new(frames_in, frames_out, Some(heartbeat)))
}

/// A message on its way, and where to say that the server has it.
struct Posting {
    text: String,
    taken: oneshot::Sender<Result<(), TransportError>>,
}

/// Posts until nobody has anything more to say, then takes leave.
async fn carry(mut poster: Poster, mut queue: mpsc::Receiver<Posting>, stall: Duration) {
    while let Some(Posting { text, taken }) = queue.recv().await {
        let posted = timeout(stall, poster.post(text)).await;
        let posted = posted.unwrap_or(Err(TransportError::Stalled {
            seconds: stall.as_secs_f64(),
        }));
        if let Err(error) = &posted {
            // Whoever reads should not hear only that nothing more comes.
            poster.streams.fail(error.clone());
        }
        // Whoever gave up waiting has given up the connection too.
        let _ = taken.send(posted);
    }
    let _ = timeout(CLOSE_WAIT, poster.leave()).await;
}

/// Says everything, in order.
struct Poster {
    caller: Arc<Caller>,
    streams: Streams,
    /// The connection for POSTs, while it is good.
    line: Option<Line>,
}

impl Poster {
    async fn post(&mut self, text: String) -> Result<(), TransportError> {
        let message: Value = serde_json::from_str(&text).unwrap_or_default();
        let session = message["params"]["sessionId"].as_str().map(str::to_owned);
        let is_first = self.caller.connection().is_none();
        if let (Some(session), false) = (&session, is_first) {
            match message["method"].as_str() {
                Some("session/close" | "session/delete") => self.streams.may_end(session),
                Some(_) | None => self.streams.open(session).await?,
            }
        }
        let answer = self.send(session.as_deref(), text.into()).await?;
        match (answer.status(), is_first) {
            (StatusCode::ACCEPTED, false) => Ok(()),
            (StatusCode::OK, true) => self.greeted(answer).await,
            (StatusCode::BAD_REQUEST, _) => {
                // The server says in JSON-RPC what it did not understand.
                let body = read_whole(answer, &self.caller).await?;
                self.streams.hand_on(body).await
            }
            (status, _) => Err(self.caller.refused(status)),
        }
    }

    /// Posts on the connection that is there; one that the server has closed meanwhile is replaced,
    /// if it is certain that nothing was sent on it.
    async fn send(&mut self, session: Option<&str>, body: Bytes) -> Result<Answer, TransportError> {
        if let Some(line) = &mut self.line {
            let request = self.caller.request(Method::POST, session, body.clone())?;
            match line.exchange(request).await {
                Err(error) if error.is_canceled() => self.line = None,
                answer => return answer.map_err(|error| self.caller.broken(&error)),
            }
        }
        let mut line = self.caller.dial().await?;
        let request = self.caller.request(Method::POST, session, body)?;
        let answer = line.exchange(request).await;
        self.line = Some(line);
        answer.map_err(|error| self.caller.broken(&error))
    }

    /// The answer to `initialize` names the connection, whose stream can then be opened.
    async fn greeted(&mut self, answer: Answer) -> Result<(), TransportError> {
        let named = answer.headers().get(CONNECTION).cloned();
        let Some(named) = named else {
            return Err(TransportError::Broken {
                cause: "the server named no connection".to_owned(),
            });
        };
        self.caller.name_connection(named);
        let body = read_whole(answer, &self.caller).await?;
        self.streams.open_own().await?;
        self.streams.hand_on(body).await
    }

    /// Tells the server that we leave; it would find out by itself, later.
    async fn leave(&mut self) {
        if self.caller.connection().is_none() {
            return;
        }
        if let (Some(line), Ok(request)) = (
            &mut self.line,
            self.caller.request(Method::DELETE, None, Bytes::new()),
        ) {
            let _ = line.exchange(request).await;
        }
    }
}
