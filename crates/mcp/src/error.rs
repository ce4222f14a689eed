//! What can go wrong with a server, in words for a model or a person.

use std::time::Duration;

use domain::limits::MCP_ERROR_BYTES_MAX;

/// Why a server could not be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Trying again would end the same way: it may not be reached, or is not described right.
    #[error("{0}")]
    Refused(String),
    /// It may work another time.
    #[error("{0}")]
    Failed(String),
    /// There is no such program here; it may be installed by another time.
    #[error("{0}")]
    NoProgram(String),
    /// It took too long.
    #[error("it did not answer within {} s", .0.as_secs())]
    TooSlow(Duration),
    /// It wants to know who we are.
    #[error("it needs a login: {0}")]
    LoginNeeded(String),
}

impl ConnectError {
    /// Whether another try could end differently.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Refused(_) | Self::LoginNeeded(_) => true,
            Self::Failed(_) | Self::NoProgram(_) | Self::TooSlow(_) => false,
        }
    }
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("the server answered with error {code}: {message}")]
    Server {
        /// The JSON-RPC code.
        code: i32,
        /// Its words.
        message: String,
    },
    /// Nothing was heard for too long; the server was told to stop.
    #[error("nothing was heard of it for {} s", .0.as_secs())]
    Silent(Duration),
    /// It took too long in all; the server was told to stop.
    #[error("it was not done within {} s", .0.as_secs())]
    TooLong(Duration),
    /// The connection ended first, so nobody knows whether it was carried out.
    #[error("the connection ended: {0}")]
    Closed(String),
    /// It was never sent.
    #[error("the server is not there: {0}")]
    NotThere(String),
    /// The server did not let us in, so it was not carried out.
    #[error("the server needs a login: {0}")]
    LoginNeeded(String),
    /// What came back is no answer to it.
    #[error("{0}")]
    Unexpected(String),
}

impl CallError {
    /// Whether the tool may have run all the same.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Silent(_) | Self::TooLong(_) | Self::Closed(_) => true,
            Self::Server { .. }
            | Self::NotThere(_)
            | Self::LoginNeeded(_)
            | Self::Unexpected(_) => false,
        }
    }
}

/// Words of somebody else, in one line that is not too long.
pub(crate) fn quoted(text: &str) -> String {
    let harmless: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    let line = harmless.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.floor_char_boundary(MCP_ERROR_BYTES_MAX);
    match end < line.len() {
        true => format!("{}…", &line[..end]),
        false => line,
    }
}
