//! What the server is, and what was used of it.

use std::sync::Arc;
use std::time::Duration;

use auth::Principal;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::event::nano_usd;
use domain::limits::{LIST_PAGE_MAX, PAGE_EVENTS_MAX, PREFER_WAIT_MAX, REST_BODY_BYTES_MAX};
use session::Wanted;

use super::sessions::unlisted;
use super::shapes::{Info, InfoLimits, UsageTotal};
use crate::http::answer::typed_response;
use crate::service::Service;

/// Adds up what the sessions that this token may enter have used.
#[utoipa::path(get, path = "/api/v1/usage", tag = "server",
    responses((status = 200, body = UsageTotal)))]
pub(super) async fn usage(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
) -> Result<Response, Response> {
    let wanted = Wanted {
        count_max: usize::MAX,
        ..Wanted::default()
    };
    let all = service.sessions.list(&principal, wanted).await;
    let all = all.map_err(|error| unlisted(&error))?;
    let add = |total: UsageTotal, glance: &session::Glance| UsageTotal {
        sessions: total.sessions + 1,
        turns: total.turns.saturating_add(glance.meta.turns),
        tokens: total.tokens.saturating_add(glance.meta.tokens),
        cost_usd: None,
    };
    let mut total = all.sessions.iter().fold(UsageTotal::default(), add);
    let costs = all.sessions.iter();
    let costs = costs.filter_map(|glance| glance.meta.cost_nano_usd);
    let cost = costs.reduce(u64::saturating_add);
    total.cost_usd = cost.map(nano_usd);
    Ok(typed_response(StatusCode::OK, &total))
}

/// Says what the server is and within what bounds it works.
#[utoipa::path(get, path = "/api/v1/info", tag = "server",
    responses((status = 200, body = Info)))]
pub(super) async fn info(State(service): State<Arc<Service>>) -> Response {
    let limits = &service.limits;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let info = Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: service.own_model(),
        models: service.models(),
        limits: InfoLimits {
            body_bytes_max: REST_BODY_BYTES_MAX as u64,
            prompt_bytes_max: limits.message_bytes_max as u64,
            wait_seconds_max: PREFER_WAIT_MAX.as_secs(),
            page_sessions_max: LIST_PAGE_MAX as u64,
            page_events_max: PAGE_EVENTS_MAX as u64,
            steps_max: u64::from(limits.steps_max),
            stall_ms: millis(limits.stall),
            permission_ms: millis(limits.permission),
            model_call_ms: millis(limits.model_call),
        },
    };
    typed_response(StatusCode::OK, &info)
}
