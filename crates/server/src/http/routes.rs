//! Which path leads where, and the small answers.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::acp::acp;
use super::admission;
use super::answer::{json_response, refusal};
use crate::service::Service;

pub(super) fn router(service: Arc<Service>) -> Router {
    let admit = middleware::from_fn_with_state(Arc::clone(&service), admission::admit);
    Router::new()
        .route("/acp", get(acp))
        .route("/ws", get(acp))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "not_found", "there is nothing here"))
        .method_not_allowed_fallback(async || {
            refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "this route has other methods",
            )
        })
        .layer(admit)
        // Everything above needs a token, also what does not exist; only these two do not.
        .route("/health", get(health))
        .route("/ready", get(ready))
        .with_state(service)
}

/// That the process runs, and nothing else: it is told to anyone.
async fn health() -> Response {
    json_response(StatusCode::OK, &json!({"status": "ok", "ok": true}))
}

async fn ready(State(service): State<Arc<Service>>) -> Response {
    if service.closing.is_cancelled() {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            "the server is shutting down",
        );
    }
    json_response(StatusCode::OK, &json!({"status": "ready"}))
}
