//! How frames travel: a stream in and a sink out, whatever carries them.
//!
//! Make one with [`Transport::open`] (see `websocket.rs` and `streamable.rs`) or
//! [`Transport::in_process`].

use std::pin::Pin;
use std::time::Duration;

use domain::Limits;
use futures_util::{Sink, Stream, sink, stream};
use tokio::sync::mpsc;

use crate::address::{Address, Way};
use crate::dial::Trust;
use crate::error::TransportError;
use crate::{streamable, websocket};

/// One connection's frames, boxed so that [`crate::Client`] does not care what carries them.
pub struct Transport {
    pub(crate) frames_in: FramesIn,
    pub(crate) frames_out: FramesOut,
    pub(crate) heartbeat: Option<Heartbeat>,
}

pub(crate) type FramesIn = Pin<Box<dyn Stream<Item = Result<FrameIn, TransportError>> + Send>>;
pub(crate) type FramesOut = Pin<Box<dyn Sink<FrameOut, Error = TransportError> + Send>>;

/// What comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameIn {
    /// One JSON-RPC message.
    Text(String),
    /// A sign of life without a message, such as a pong.
    Life,
}

/// What goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameOut {
    /// One JSON-RPC message.
    Text(String),
    /// A question whose answer is [`FrameIn::Life`].
    Ping,
}

/// How a connection that can fall silent is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time between two pings.
    pub ping: Duration,
    /// Longest time without any frame.
    pub silence: Duration,
}

/// Two bounded channels to an agent in this process.
#[derive(Debug)]
pub struct Pipe {
    /// Frames to the other side.
    pub outgoing: mpsc::Sender<String>,
    /// Frames from the other side.
    pub incoming: mpsc::Receiver<String>,
}

impl Pipe {
    /// Both ends of a connection; each direction holds at most `frames_max` frames.
    #[must_use]
    pub fn pair(frames_max: usize) -> (Self, Self) {
        let (left_out, right_in) = mpsc::channel(frames_max);
        let (right_out, left_in) = mpsc::channel(frames_max);
        let end = |outgoing, incoming| Self { outgoing, incoming };
        (end(left_out, left_in), end(right_out, right_in))
    }
}

impl Transport {
    /// Connects to the server at `url`, in the way that its scheme names:
    ///
    /// * `ws://HOST:PORT`, `wss://`: a WebSocket, without or with TLS; the path defaults to `/acp`
    /// * `http+sse://HOST:PORT`, `https+sse://`: Streamable HTTP, a request for each message and
    ///   streams of events
    /// * `http://HOST:PORT`, `https://`: a WebSocket; Streamable HTTP where something in between
    ///   does not let one through
    /// * `unix:PATH`: a WebSocket over a socket of this machine, where no token is needed
    ///
    /// With TLS, the public certificate authorities are trusted; see [`Transport::open_with`].
    ///
    /// # Errors
    /// If the address is not usable, nobody answers there, or the server refuses.
    pub async fn open(
        url: &str,
        token: Option<&str>,
        limits: &Limits,
    ) -> Result<Self, TransportError> {
        Self::open_with(url, token, &Trust::default(), limits).await
    }

    /// The same, believing the certificates that `trust` names.
    ///
    /// The whole of connecting and shaking hands ends within `limits.client_connect`.
    ///
    /// # Errors
    /// If the address is not usable, nobody answers there, or the server refuses.
    pub async fn open_with(
        url: &str,
        token: Option<&str>,
        trust: &Trust,
        limits: &Limits,
    ) -> Result<Self, TransportError> {
        let address = Address::parse(url)?;
        let opening = open(&address, token, trust, limits);
        let opened = tokio::time::timeout(limits.client_connect, opening).await;
        let transport = opened.map_err(|_| TransportError::ConnectTimeout {
            url: address.url(),
            seconds: limits.client_connect.as_secs_f64(),
        })??;
        tracing::debug!(url = %address.url(), "connected");
        Ok(transport)
    }

    /// A transport of your own making. Without a heartbeat, silence never ends the connection.
    pub fn new(
        frames_in: impl Stream<Item = Result<FrameIn, TransportError>> + Send + 'static,
        frames_out: impl Sink<FrameOut, Error = TransportError> + Send + 'static,
        heartbeat: Option<Heartbeat>,
    ) -> Self {
        Self {
            frames_in: Box::pin(frames_in),
            frames_out: Box::pin(frames_out),
            heartbeat,
        }
    }

    /// A connection to an agent in this process. It cannot fall silent, only end.
    #[must_use]
    pub fn in_process(pipe: Pipe) -> Self {
        let Pipe { outgoing, incoming } = pipe;
        let frames_in = stream::unfold(incoming, async |mut incoming| {
            let frame = incoming.recv().await?;
            Some((Ok(FrameIn::Text(frame)), incoming))
        });
        let frames_out = sink::unfold(outgoing, async |outgoing, frame| {
            if let FrameOut::Text(text) = frame {
                let sent = outgoing.send(text).await;
                sent.map_err(|_| TransportError::ClosedByServer {
                    code: None,
                    reason: String::new(),
                })?;
            }
            Ok(outgoing)
        });
        Self::new(frames_in, frames_out, None)
    }
}

async fn open(
    address: &Address,
    token: Option<&str>,
    trust: &Trust,
    limits: &Limits,
) -> Result<Transport, TransportError> {
    match address.way {
        Way::WebSocket => websocket::open(address, token, trust, limits).await,
        Way::Streamable => streamable::open(address, token, trust, limits).await,
        Way::Either => match websocket::open(address, token, trust, limits).await {
            // What a server, or somebody before it, says to an upgrade that it does not know.
            Err(TransportError::Refused {
                status: 400 | 405 | 406 | 426 | 501,
                ..
            }) => {
                let address = address.by(Way::Streamable);
                streamable::open(&address, token, trust, limits).await
            }
            opened => opened,
        },
    }
}
