//! What can go wrong between a client and its server, each error naming the request it ends.

use serde_json::Value;

/// A request that did not get a good answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection could not be made.
    #[error("could not connect to the server")]
    Connect(#[source] TransportError),
    /// No answer came in time.
    #[error("no answer to {method} (request {id}) within {seconds} s")]
    Timeout {
        /// The method asked for.
        method: &'static str,
        /// The request's id on the wire.
        id: String,
        /// How long we waited.
        seconds: f64,
    },
    /// The connection ended before the answer came.
    #[error("the connection was lost during {method} (request {id})")]
    Lost {
        /// The method asked for.
        method: &'static str,
        /// The request's id on the wire.
        id: String,
        /// Why it ended.
        #[source]
        cause: TransportError,
    },
    /// The server answered with an error.
    #[error("{message} ({method}, error {code}, request {id})")]
    Refused {
        /// The method asked for.
        method: &'static str,
        /// The request's id on the wire.
        id: String,
        /// The JSON-RPC code.
        code: i64,
        /// The server's sentence for people.
        message: String,
        /// The server's details; null if it gave none.
        data: Box<Value>,
    },
    /// The server's answer lacks something that it must have.
    #[error("the answer to {method} (request {id}) {problem}")]
    BadAnswer {
        /// The method asked for.
        method: &'static str,
        /// The request's id on the wire.
        id: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A prompt of that session is still being answered on this connection.
    #[error("a prompt of session {session} is still being answered on this connection")]
    StillAnswering {
        /// The session.
        session: domain::SessionId,
    },
    /// As many requests as allowed are waiting for their answers.
    #[error("{method} (request {id}) was not sent: {waiting} requests wait for answers already")]
    TooManyWaiting {
        /// The method asked for.
        method: &'static str,
        /// The request's id.
        id: String,
        /// How many wait.
        waiting: usize,
    },
}

impl ClientError {
    /// The JSON-RPC code, if the server refused.
    #[must_use]
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Connect(_)
            | Self::Timeout { .. }
            | Self::Lost { .. }
            | Self::BadAnswer { .. }
            | Self::StillAnswering { .. }
            | Self::TooManyWaiting { .. } => None,
        }
    }
}

/// Why frames cannot be exchanged (any more).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TransportError {
    /// The address is not one we can connect to.
    #[error("`{url}` is not a server address: {problem}")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Nobody answered at the address.
    #[error("{url} does not answer: {cause}")]
    Unreachable {
        /// The address.
        url: String,
        /// What the system said.
        cause: String,
    },
    /// Connecting took too long.
    #[error("{url} did not answer within {seconds} s")]
    ConnectTimeout {
        /// The address.
        url: String,
        /// How long we waited.
        seconds: f64,
    },
    /// The server wants another token, or any.
    #[error("{url} did not accept the token")]
    Unauthorized {
        /// The address.
        url: String,
    },
    /// The server's certificate is not one that we believe.
    #[error("{url} shows a certificate that is not trusted ({cause})")]
    Untrusted {
        /// The address.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
    /// Something answered, but not with a WebSocket.
    #[error("{url} refused the connection with HTTP status {status}")]
    Refused {
        /// The address.
        url: String,
        /// Its answer.
        status: u16,
    },
    /// The other side closed the connection.
    #[error("the server closed the connection{}", closing_words(*code, reason))]
    ClosedByServer {
        /// The WebSocket close code, if it gave one.
        code: Option<u16>,
        /// Its reason; often empty.
        reason: String,
    },
    /// This side closed it.
    #[error("the connection was closed")]
    ClosedHere,
    /// Nothing was heard for too long.
    #[error("nothing was heard from the server for {seconds} s")]
    Silent {
        /// How long.
        seconds: f64,
    },
    /// The server takes nothing any more.
    #[error("the server took no data for {seconds} s")]
    Stalled {
        /// How long.
        seconds: f64,
    },
    /// The connection was lost and could not be made again.
    #[error("the server did not come back after {tries} tries: {cause}")]
    GaveUp {
        /// How often it was called.
        tries: u32,
        /// What went wrong the last time; it names the address where there is one.
        cause: Box<TransportError>,
    },
    /// The bytes were not what the protocol says.
    #[error("the connection broke: {cause}")]
    Broken {
        /// What was wrong.
        cause: String,
    },
}

impl TransportError {
    /// Whether trying again is no use: the address or the token is wrong.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::BadUrl { .. }
            | Self::Unauthorized { .. }
            | Self::Untrusted { .. }
            | Self::GaveUp { .. } => true,
            Self::Refused { status, .. } => *status == 403,
            Self::ClosedByServer { code, .. } => *code == Some(TOKEN_REVOKED),
            Self::Unreachable { .. }
            | Self::ConnectTimeout { .. }
            | Self::ClosedHere
            | Self::Silent { .. }
            | Self::Stalled { .. }
            | Self::Broken { .. } => false,
        }
    }
}

/// The close code of a server that no longer takes the token.
const TOKEN_REVOKED: u16 = 4401;

fn closing_words(code: Option<u16>, reason: &str) -> String {
    match (code, reason) {
        (None, _) => String::new(),
        (Some(code), "") => format!(" (code {code})"),
        (Some(code), reason) => format!(" (code {code}: {reason})"),
    }
}
