//! What answers look like everywhere but inside ACP.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use domain::{ConnectionId, FailureKind};
use meters::label::Reason;
use serde::Serialize;
use serde_json::json;
use session::{AttachError, CommandError};

use super::access_log::Named;

/// When to try again after a limit was reached: soon, since most of them pass with a turn.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// An error as every route tells it.
pub(crate) fn refusal(status: StatusCode, error: &str, message: &str) -> Response {
    let request = ConnectionId::random();
    let body = json!({"error": error, "message": message, "requestId": request.as_str()});
    let reason = Reason::named(error).unwrap_or(Reason::Other);
    meters::REFUSALS.of(reason).count();
    let mut response = json_response(status, &body);
    response.extensions_mut().insert(Named(request));
    response
}

/// An answer in JSON.
pub(crate) fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    json_text(status, body.to_string())
}

fn json_text(status: StatusCode, text: String) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], text).into_response()
}

/// An answer of a known shape in JSON.
pub(crate) fn typed_response(status: StatusCode, body: &impl Serialize) -> Response {
    // Straight to text: an event may be long, and is stored as the text it is sent as.
    match serde_json::to_string(body) {
        Ok(text) => json_text(status, text),
        // Every shape of ours can be JSON.
        Err(error) => {
            tracing::error!(%error, "an answer could not be written");
            failed(FailureKind::StorageFailed)
        }
    }
}

/// The answer for what is not there, or is somebody else's.
pub(crate) fn not_found() -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "not_found",
        "there is no such session",
    )
}

/// Why a session could not be entered.
pub(crate) fn attach_refusal(error: &AttachError) -> Response {
    match error {
        AttachError::NotFound => not_found(),
        AttachError::WrongCwd => refusal(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            &error.to_string(),
        ),
        AttachError::HoldsDataDirectory => refusal(
            StatusCode::CONFLICT,
            "data_directory_in_root",
            &error.to_string(),
        ),
        AttachError::Limit(name) => limited(name),
        AttachError::Failed(kind) => failed(*kind),
    }
}

/// Why a session did not do what was asked.
pub(crate) fn command_refusal(error: &CommandError) -> Response {
    let message = error.to_string();
    match error {
        CommandError::Scope => refusal(StatusCode::FORBIDDEN, "forbidden_scope", &message),
        CommandError::Busy => refusal(StatusCode::CONFLICT, "busy", &message),
        CommandError::Limit(name) => limited(name),
        CommandError::Invalid(_) => refusal(StatusCode::BAD_REQUEST, "invalid_request", &message),
        CommandError::Closed => not_found(),
        CommandError::Failed(kind) => failed(*kind),
    }
}

fn limited(name: &str) -> Response {
    let message = format!("a limit was reached: {name}");
    let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, "rate_limited", &message);
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, RETRY_AFTER);
    response
}

/// What a failure of the store or the server is told as.
pub(crate) fn failed(kind: FailureKind) -> Response {
    let (status, error, message) = match kind {
        FailureKind::OpenFilesExhausted => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let mut response = refusal(status, kind.name(), kind.sentence());
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
            return response;
        }
        FailureKind::StorageFull => (
            StatusCode::INSUFFICIENT_STORAGE,
            "storage_full",
            "the disk is full",
        ),
        FailureKind::Draining => (
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            "the server is shutting down",
        ),
        FailureKind::HeldElsewhere => (
            StatusCode::CONFLICT,
            "busy",
            "another process has the session open",
        ),
        FailureKind::StorageFailed
        | FailureKind::Damaged
        | FailureKind::ModelError
        | FailureKind::ModelTimeout
        | FailureKind::Interrupted => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "the session could not be used",
        ),
    };
    refusal(status, error, message)
}
