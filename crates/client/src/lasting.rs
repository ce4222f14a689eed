//! A connection that outlives its connections: it is made anew when it breaks, the sessions go on
//! where their caller stood, and the caller sees one unbroken stream.
//!
//! [`Transport::lasting`] makes one of a [`Dialer`]. What passes through it is kept by [`ledger`],
//! which knows what to say again; [`link`] is the task that connects, waits and carries.

mod backoff;
mod ledger;
mod link;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::Limits;
use domain::limits::LINK_FRAMES_MAX;
use futures_util::{sink, stream};
use tokio::sync::{mpsc, watch};

use self::link::Link;
use crate::error::TransportError;
use crate::transport::{FrameIn, FrameOut, Transport};

/// How a lasting connection stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LinkState {
    /// Nothing was sent yet, so nobody was called.
    #[default]
    Waiting,
    /// It works.
    Connected,
    /// It broke and will be tried again.
    Reconnecting {
        /// The next try's number; the first is 1.
        attempt: u32,
        /// The time until then.
        wait: Duration,
        /// Why it broke, or why the last try failed.
        cause: TransportError,
    },
    /// Nothing more will come.
    Ended,
}

/// Calls the server, as often as needed. Each time it may find it at another address.
#[derive(Clone)]
pub struct Dialer {
    dial: Arc<dyn Fn() -> Dialling + Send + Sync>,
}

type Dialling = Pin<Box<dyn Future<Output = Result<Transport, TransportError>> + Send>>;

impl Dialer {
    /// Calls by way of `dial`.
    pub fn new<F, D>(dial: F) -> Self
    where
        F: Fn() -> D + Send + Sync + 'static,
        D: Future<Output = Result<Transport, TransportError>> + Send + 'static,
    {
        Self {
            dial: Arc::new(move || Box::pin(dial())),
        }
    }

    /// Calls the server at `url`; see [`Transport::open`] for what it may look like. A name in it is
    /// looked up each time.
    #[must_use]
    pub fn to(url: &str, token: Option<&str>, limits: &Limits) -> Self {
        let (url, token) = (url.to_owned(), token.map(str::to_owned));
        let limits = limits.clone();
        Self::new(move || {
            let (url, token, limits) = (url.clone(), token.clone(), limits.clone());
            async move { Transport::open(&url, token.as_deref(), &limits).await }
        })
    }

    /// Calls once.
    ///
    /// # Errors
    /// If nobody answers.
    pub async fn dial(&self) -> Result<Transport, TransportError> {
        (self.dial)().await
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer(…)")
    }
}

impl Transport {
    /// A connection that is made anew by `dialer` whenever it breaks, and how it stands.
    ///
    /// After `limits.reconnect_tries` failed tries it ends, with an error that names the last cause.
    ///
    /// # Errors
    /// If the first call fails: somebody who mistyped an address should know at once.
    pub async fn lasting(
        dialer: Dialer,
        limits: &Limits,
    ) -> Result<(Self, watch::Receiver<LinkState>), TransportError> {
        let first = dialer.dial().await?;
        Ok(Self::over_link(dialer, Some(first), limits))
    }

    /// The same, but the server is called when the first message is sent.
    ///
    /// For whoever cannot say when that will be: the server waits for it only so long.
    #[must_use]
    pub fn lasting_later(dialer: Dialer, limits: &Limits) -> (Self, watch::Receiver<LinkState>) {
        Self::over_link(dialer, None, limits)
    }

    fn over_link(
        dialer: Dialer,
        first: Option<Self>,
        limits: &Limits,
    ) -> (Self, watch::Receiver<LinkState>) {
        // Of what the caller sends, one may be far larger than what the server takes.
        let (to_link, from_caller) = mpsc::channel(1);
        let (to_caller, from_link) = mpsc::channel(LINK_FRAMES_MAX);
        let (state, seen) = watch::channel(LinkState::Waiting);
        let link = Link::new(dialer, limits, from_caller, to_caller, state);
        // It ends when either end of it is dropped.
        tokio::spawn(link.run(first));
        let frames_in = stream::unfold(from_link, async |mut from_link| {
            let frame: Result<String, TransportError> = from_link.recv().await?;
            Some((frame.map(FrameIn::Text), from_link))
        });
        let frames_out = sink::unfold(to_link, async |to_link, frame| {
            if let FrameOut::Text(text) = frame {
                let sent = to_link.send(text).await;
                sent.map_err(|_| TransportError::ClosedHere)?;
            }
            Ok(to_link)
        });
        (Self::new(frames_in, frames_out, None), seen)
    }
}
