//! A session's history as it is stored, page by page.

use std::sync::Arc;

use auth::Principal;
use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use domain::limits::PAGE_EVENTS_MAX;
use domain::{EventSeq, FailureKind};
use serde_json::value::RawValue;

use super::reading::{Named, about, query};
use super::shapes::{After, EventPage};
use crate::http::answer::{attach_refusal, failed, typed_response};
use crate::http::body::misshapen;
use crate::service::Service;

/// Largest number of an event that is taken: what every JSON reader can hold exactly.
const EVENT_SEQ_MAX: u64 = 9_007_199_254_740_991;

/// Gives events of a session.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/events", tag = "sessions",
    params(("id" = String, Path), After), responses((status = 200, body = EventPage)))]
pub(super) async fn events(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
    uri: Uri,
) -> Result<Response, Response> {
    let asked: After = query(&uri)?;
    let limit = asked.limit.unwrap_or(PAGE_EVENTS_MAX as u64);
    if !(1..=PAGE_EVENTS_MAX as u64).contains(&limit) {
        let message = format!("limit must be between 1 and {PAGE_EVENTS_MAX}");
        return Err(misshapen(&message));
    }
    let after = asked.after.unwrap_or(0);
    if after > EVENT_SEQ_MAX {
        return Err(misshapen("after is no event's number"));
    }
    let id = named.id()?;
    let limit = usize::try_from(limit).unwrap_or(PAGE_EVENTS_MAX);
    let which = (EventSeq(after), limit);
    let page = service.sessions.events(&principal, id, which).await;
    let page = page.map_err(|error| attach_refusal(&error))?;
    let events = page.events.into_iter().map(RawValue::from_string);
    let events = events.collect::<Result<_, _>>();
    let page = EventPage {
        // The store has checked that it is JSON.
        events: events.map_err(|_| failed(FailureKind::Damaged))?,
        head: page.head.0,
        epoch: page.epoch,
    };
    Ok(about(id, typed_response(StatusCode::OK, &page)))
}
