//! Which path leads where, and the small answers.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::Response;
use axum::routing::{MethodFilter, get, on, post};
use domain::FailureKind;
use serde_json::json;

use super::access_log::access_log;
use super::acp::{acp, socket};
use super::admission;
use super::answer::{json_response, refusal};
use super::echo::echo;
use super::login::login;
use super::metrics_route::metrics;
use super::page;
use super::tui::append_prompt;
use crate::rest;
use crate::service::Service;

/// What ACP takes; HEAD comes with GET.
const ACP_METHODS: MethodFilter = MethodFilter::GET
    .or(MethodFilter::POST)
    .or(MethodFilter::DELETE);

pub(super) fn router(service: Arc<Service>) -> Router {
    let admit = middleware::from_fn_with_state(Arc::clone(&service), admission::admit);
    let pass = middleware::from_fn_with_state(Arc::clone(&service), admission::pass);
    let page = page::routes()
        .method_not_allowed_fallback(other_method)
        .layer(pass.clone());
    // For anyone, and by any name of the host.
    let open = Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .method_not_allowed_fallback(other_method);
    rest::routes()
        .route("/acp", on(ACP_METHODS, acp))
        .route("/ws", get(socket))
        .route("/metrics", get(metrics))
        .route("/echo", post(echo))
        .route("/tui/append-prompt", post(append_prompt))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "not_found", "there is nothing here"))
        .method_not_allowed_fallback(other_method)
        .layer(admit)
        // Everything above needs a token, also what does not exist; only these do not.
        .route(
            "/api/v1/login",
            post(login).fallback(other_method).layer(pass),
        )
        .merge(page)
        .merge(open)
        .layer(middleware::from_fn(access_log))
        .with_state(service)
}

async fn other_method() -> Response {
    refusal(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this route does not take that method; `Allow` lists those that it takes",
    )
}

/// That the process runs, and nothing else: it is told to anyone.
async fn health() -> Response {
    json_response(StatusCode::OK, &json!({"status": "ok", "ok": true}))
}

/// Whether new work would be taken, and if not, why: it is told to anyone too.
async fn ready(State(service): State<Arc<Service>>) -> Response {
    let Err(kind) = service.sessions.check_ready().await else {
        return json_response(StatusCode::OK, &json!({"status": "ready"}));
    };
    let message = match kind {
        FailureKind::Draining => "the server is shutting down",
        FailureKind::StorageFull => "the disk is full",
        FailureKind::OpenFilesExhausted => kind.sentence(),
        FailureKind::ModelError
        | FailureKind::ModelTimeout
        | FailureKind::StorageFailed
        | FailureKind::Damaged
        | FailureKind::HeldElsewhere
        | FailureKind::Interrupted => "the store cannot be written",
    };
    refusal(StatusCode::SERVICE_UNAVAILABLE, kind.name(), message)
}
