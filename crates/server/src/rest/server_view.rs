//! `GET /server`: how the server is doing, for the person at this machine.

use std::sync::Arc;

use auth::Principal;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::FailureKind;
use meters::label::Phase;
use session::CommandError;
use tokio::time::Instant;

use super::shapes::{ConnectionRow, ServerView, SessionCounts};
use crate::http::answer::{command_refusal, failed, typed_response};
use crate::roster::Connected;
use crate::service::Service;

/// Shows how the server is doing, and who is connected.
#[utoipa::path(get, path = "/api/v1/server", tag = "server",
    responses((status = 200, body = ServerView)))]
pub(super) async fn server(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
) -> Result<Response, Response> {
    // Who else is here is nobody else's business.
    if !principal.is_local() {
        return Err(command_refusal(&CommandError::Scope));
    }
    // It reads a few files of the system's, and looks at every connection.
    let looking = tokio::task::spawn_blocking(move || look(&service)).await;
    let view = looking.map_err(|_| failed(FailureKind::StorageFailed))?;
    Ok(typed_response(StatusCode::OK, &view))
}

fn look(service: &Service) -> ServerView {
    let process = meters::Process::now();
    let (connections_total, connections) = service.roster.shown(Instant::now());
    let loaded = |phase| whole(meters::SESSIONS.of(phase).value());
    let (running, waiting) = (loaded(Phase::Running), loaded(Phase::Waiting));
    ServerView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_secs: process.uptime_seconds.unwrap_or_default(),
        memory_bytes: process.resident_bytes.map_or(0, |bytes| bytes as u64),
        cpu_secs: process.cpu_seconds.unwrap_or_default(),
        open_files: process.fds.map_or(0, |files| files as u64),
        threads: process.threads.map_or(0, |threads| threads as u64),
        connections_total: connections_total as u64,
        connections: connections.into_iter().map(row).collect(),
        attachments: whole(meters::ATTACHMENTS.value()),
        queued_bytes: whole(meters::QUEUED_BYTES.value()),
        sessions: SessionCounts {
            loaded: running + waiting + loaded(Phase::Idle),
            running,
            waiting,
        },
        turns_total: meters::TURNS.sum(),
        events_total: meters::EVENTS.value(),
        model_calls_total: meters::MODEL_CALLS.sum(),
        refusals_total: meters::REFUSALS.sum(),
        sync_failures_total: meters::SYNC_FAILURES.value(),
    }
}

fn row(connected: Connected) -> ConnectionRow {
    ConnectionRow {
        id: connected.id.to_string(),
        transport: connected.transport.to_owned(),
        principal: connected.principal.as_str().to_owned(),
        sessions: connected.sessions as u64,
        queued_bytes: connected.queued_bytes as u64,
        since_secs: connected.since_secs,
    }
}

/// A gauge as it is shown: two that change while they are read may be one off.
fn whole(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
