//! `GET /metrics`: every number of the process, for Prometheus.

use auth::Principal;
use axum::Extension;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::answer::refusal;

const PROMETHEUS_TEXT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(super) async fn metrics(Extension(principal): Extension<Principal>) -> Response {
    if !principal.may_monitor() {
        let message = "numbers of the server are for its own token or an `observe` token that \
                       `fastness token` made";
        return refusal(StatusCode::FORBIDDEN, "forbidden_scope", message);
    }
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
