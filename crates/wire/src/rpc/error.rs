//! The errors that clients see, each with its code and its sentence in one place.

use std::fmt;

use domain::TurnError;
use domain::ids::NotASessionId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text::cut;

/// The codes of the contract.
pub mod code {
    /// The frame is not JSON, or nests too deep.
    pub const PARSE: i64 = -32_700;
    /// JSON, but not a message that can be taken.
    pub const INVALID_REQUEST: i64 = -32_600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32_601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32_602;
    /// It went wrong on this side; turns that fail say how in `data.kind`.
    pub const INTERNAL: i64 = -32_603;
    /// The request was cancelled before it was carried out.
    pub const CANCELLED: i64 = -32_800;
    /// Authenticate first.
    pub const AUTH_REQUIRED: i64 = -32_000;
    /// No such session, or none that the caller may see.
    pub const SESSION_NOT_FOUND: i64 = -32_002;
    /// A turn is already running.
    pub const BUSY: i64 = -32_010;
    /// Too many requests; `data.retryAfterMs` says when to try again.
    pub const RATE_LIMITED: i64 = -32_011;
    /// A limit was reached; `data.limit` names it.
    pub const LIMIT: i64 = -32_012;
    /// The token's scope does not allow it.
    pub const SCOPE: i64 = -32_013;
}

/// Longest piece of a client's own text repeated to it in a message.
const ECHO_BYTES_MAX: usize = 64;

/// A JSON-RPC error object. Its message never holds paths, tokens or causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// One of [`code`], or a peer's own.
    pub code: i64,
    /// One sentence for a person.
    pub message: String,
    /// What a program may act on; boxed so that results stay small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<Value>>,
}

impl RpcError {
    /// The frame is not JSON, or nests too deep.
    #[must_use]
    pub fn parse() -> Self {
        Self::new(code::PARSE, "the message is not valid JSON")
    }

    /// JSON, but not a message that can be taken.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// There is no such method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        let method = cut(method, ECHO_BYTES_MAX);
        Self::new(
            code::METHOD_NOT_FOUND,
            format!("there is no method `{method}`"),
        )
    }

    /// The parameters do not fit the method.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// It went wrong on this side.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(code::INTERNAL, "internal error")
    }

    /// The session's directory holds the server's data directory, and that is not safe here.
    pub fn data_directory_in_root(message: impl Into<String>) -> Self {
        Self::invalid_params(message).with_data("kind", "data_directory_in_root".into())
    }

    /// The request was cancelled before it was carried out.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(code::CANCELLED, "the request was cancelled")
    }

    /// Authenticate first.
    #[must_use]
    pub fn auth_required() -> Self {
        Self::new(code::AUTH_REQUIRED, "authentication required")
    }

    /// There is no model with a key; `advice` says how to get one.
    pub fn login_required(advice: impl Into<String>) -> Self {
        Self::new(code::AUTH_REQUIRED, advice)
    }

    /// No such session, or none that the caller may see: the answer does not tell which.
    #[must_use]
    pub fn session_not_found() -> Self {
        Self::new(code::SESSION_NOT_FOUND, "session not found")
    }

    /// A turn is already running.
    #[must_use]
    pub fn busy() -> Self {
        Self::new(code::BUSY, "a turn is already running")
    }

    /// Too many requests.
    #[must_use]
    pub fn rate_limited(retry_after_ms: u64) -> Self {
        Self::new(code::RATE_LIMITED, "too many requests")
            .with_data("retryAfterMs", retry_after_ms.into())
    }

    /// The limit `name` was reached.
    #[must_use]
    pub fn limit(name: &str) -> Self {
        Self::new(code::LIMIT, format!("the limit `{name}` was reached"))
            .with_data("limit", name.into())
    }

    /// The token's scope does not allow it.
    #[must_use]
    pub fn scope() -> Self {
        Self::new(code::SCOPE, "the token's scope does not permit this")
    }

    /// A turn ended by an error.
    #[must_use]
    pub fn turn_failed(error: &TurnError) -> Self {
        Self::new(code::INTERNAL, &*error.message)
            .with_data("kind", error.kind.name().into())
            .with_data("retryable", error.is_retryable().into())
    }

    /// The connection that carried the request was lost, and it cannot be told what became of it.
    pub fn connection_lost(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL, message).with_data("kind", "connection_lost".into())
    }

    /// Adds the server's name of the request, by which its log can be searched.
    #[must_use]
    pub fn with_request_id(self, request_id: &str) -> Self {
        self.with_data("requestId", request_id.into())
    }

    /// The string `data.kind` of a failed turn.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        self.data.as_ref()?.get("kind")?.as_str()
    }

    fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    fn with_data(mut self, key: &str, value: Value) -> Self {
        let mut fields = match self.data.take().map(|data| *data) {
            None => Map::new(),
            Some(Value::Object(fields)) => fields,
            // A peer's error that is passed on may carry anything.
            Some(other) => Map::from_iter([("detail".to_owned(), other)]),
        };
        fields.insert(key.to_owned(), value);
        self.data = Some(Box::new(Value::Object(fields)));
        self
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

impl From<NotASessionId> for RpcError {
    /// What is no session id names no session.
    fn from(_: NotASessionId) -> Self {
        Self::session_not_found()
    }
}
