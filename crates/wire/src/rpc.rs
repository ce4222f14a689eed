//! The JSON-RPC 2.0 engine: frames in, typed messages out, and the encoders of the way back.
//!
//! Start at [`parse`]. What it refuses comes back as a [`Refusal`] to be answered; the connection
//! stays open. Responses are recognised before requests, so that nothing that carries a `result`
//! or an `error` is ever run.

use serde_json::value::RawValue;

mod encode;
mod envelope;
mod error;
mod id;
mod scan;

pub use encode::{error_response, notification, request, response};
pub use error::{RpcError, code};
pub use id::{NotARequestId, RequestId};
pub use scan::check as check_size;

use envelope::Envelope;

/// One message of the peer.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// Wants exactly one answer that carries `id`.
    Request {
        /// To be echoed exactly.
        id: RequestId,
        /// What to do.
        method: String,
        /// An object or an array, as it was written.
        params: Option<Box<RawValue>>,
    },
    /// Wants no answer.
    Notification {
        /// What happened.
        method: String,
        /// An object or an array, as it was written.
        params: Option<Box<RawValue>>,
    },
    /// Answers a request of ours, if we sent one with this `id`.
    Response {
        /// Which request.
        id: RequestId,
        /// How it went.
        outcome: Result<Box<RawValue>, RpcError>,
    },
    /// A response or a notification that cannot be used. Neither is ever answered; it is only
    /// counted.
    Ignored(&'static str),
}

/// A message that could not be taken, and what to answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct Refusal {
    /// The id of the message if it has a usable one, else null.
    pub id: RequestId,
    /// What is wrong with it.
    pub error: RpcError,
}

impl Refusal {
    /// The answer to send.
    #[must_use]
    pub fn to_frame(&self) -> String {
        error_response(&self.id, &self.error)
    }

    fn nameless(error: RpcError) -> Self {
        let id = RequestId::null();
        Self { id, error }
    }
}

/// Reads one frame.
///
/// Syntax and depth are judged first (`-32700`), over the whole text: parameters are kept as raw
/// text, which no later reader checks for depth. Then come arrays, then the envelope (`-32600`).
/// Escapes of lone surrogates are legal JSON but not text; they are refused where text is needed.
///
/// # Errors
/// A [`Refusal`] to be answered.
pub fn parse(frame: &[u8]) -> Result<Incoming, Refusal> {
    let not_json = |_| Refusal::nameless(RpcError::parse());
    let text = std::str::from_utf8(frame).map_err(|_| Refusal::nameless(RpcError::parse()))?;
    scan::check(text.as_bytes()).map_err(Refusal::nameless)?;
    if text.trim_ascii_start().starts_with('{') {
        let envelope: Envelope<'_> = serde_json::from_str(text).map_err(not_json)?;
        return envelope.interpret();
    }
    let _: serde::de::IgnoredAny = serde_json::from_str(text).map_err(not_json)?;
    let reason = if text.trim_ascii_start().starts_with('[') {
        "batch not supported"
    } else {
        "a message is a JSON object"
    };
    Err(Refusal::nameless(RpcError::invalid_request(reason)))
}
