//! `GET /metrics`: every number of the process, for Prometheus.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::answer::refusal;

const PROMETHEUS_TEXT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(super) async fn metrics() -> Response {
    // It reads a few files of the system's.
    let rendering = tokio::task::spawn_blocking(|| meters::render(env!("CARGO_PKG_VERSION"))).await;
    match rendering {
        Ok(text) => ([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], text).into_response(),
        Err(_) => refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "the numbers could not be read",
        ),
    }
}
