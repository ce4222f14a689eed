//! How a fetch can fail.

use std::fmt;
use std::time::Duration;

use crate::refusal::Refusal;

/// Why there is no response. A variant exists because a caller does something different.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A rule said no, on the hop with that number (0 is the URL itself).
    #[error("{refusal}{}", Hop(*hop))]
    Refused {
        /// The rule.
        refusal: Refusal,
        /// Redirects followed before.
        hop: usize,
    },
    /// The caller asked for something that is not sent.
    #[error("the header `{0}` cannot be set by the caller")]
    Header(String),
    /// Too many fetches are running already, and none ended in time.
    #[error("too many fetches are running at once")]
    Busy,
    /// No judged address took the connection.
    #[error("the server could not be reached")]
    Connect(#[source] std::io::Error),
    /// The operator's proxy did not make the connection.
    #[error("the proxy did not connect: {0}")]
    Proxy(String),
    /// The proxy wants a user name and password, or others than those that were sent.
    #[error("{}", proxy_login(*.is_sent))]
    ProxyLogin {
        /// Whether some were sent.
        is_sent: bool,
    },
    /// The certificate or the handshake is wrong.
    #[error("the server could not prove who it is")]
    Tls(#[source] std::io::Error),
    /// Something took longer than its limit.
    #[error("{phase} took longer than {} s", limit.as_secs_f32())]
    Timeout {
        /// What took so long.
        phase: Phase,
        /// What it may take.
        limit: Duration,
    },
    /// The head is larger than the limit.
    #[error("the head of the response is too large")]
    HeadTooLarge,
    /// What came is not HTTP.
    #[error("the response is not proper HTTP")]
    Response(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A content encoding that was not asked for, or several.
    #[error("the content encoding `{0}` is not supported")]
    Encoding(String),
    /// The connection ended, or the compressed data is damaged, before the body was complete.
    #[error("the body broke off after {received_bytes} bytes")]
    BrokenBody {
        /// How much had been read, after decompression. It is partial and therefore not given.
        received_bytes: usize,
    },
}

/// The parts of a fetch that have a limit of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// TCP, proxy and TLS.
    Connect,
    /// Until the head of the response is complete.
    Head,
    /// Between two pieces of the body.
    Body,
    /// All of it.
    Total,
}

impl FetchError {
    /// The rule that said no, if one did.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(*refusal),
            Self::Header(_)
            | Self::Busy
            | Self::Connect(_)
            | Self::Proxy(_)
            | Self::ProxyLogin { .. }
            | Self::Tls(_)
            | Self::Timeout { .. }
            | Self::HeadTooLarge
            | Self::Response(_)
            | Self::Encoding(_)
            | Self::BrokenBody { .. } => None,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Head => "waiting for the response",
            Self::Body => "waiting for more of the body",
            Self::Total => "the fetch",
        })
    }
}

fn proxy_login(is_sent: bool) -> &'static str {
    match is_sent {
        true => "the proxy refused the user name or password that is set for it",
        false => "the proxy wants a user name and password, and none are set",
    }
}

/// Says at which redirect it happened, if at one.
struct Hop(usize);

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            hop => write!(f, " (redirect {hop})"),
        }
    }
}
