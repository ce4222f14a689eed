//! What answers look like everywhere but inside ACP.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use domain::ConnectionId;
use serde_json::json;

/// An error as every route tells it.
pub(super) fn refusal(status: StatusCode, error: &str, message: &str) -> Response {
    let request = ConnectionId::random();
    let body = json!({"error": error, "message": message, "requestId": request.as_str()});
    json_response(status, &body)
}

/// An answer in JSON.
pub(super) fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], body.to_string()).into_response()
}
