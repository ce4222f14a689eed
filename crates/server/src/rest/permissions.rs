//! What people are asked, and their answers.

use std::sync::Arc;

use auth::{Principal, Scope};
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use domain::Event;
use domain::ids::PermissionId;
use session::{Answer, Asked, Attached, CommandError, From, Item, Stored};

use super::reading::{about, enter, object};
use super::shapes::{Permission, PermissionAnswer, Permissions, choices};
use crate::http::answer::{command_refusal, failed, refusal, typed_response};
use crate::http::body::misshapen;
use crate::service::Service;

/// Lists what waits for a person in the sessions of this token.
#[utoipa::path(get, path = "/api/v1/permissions", tag = "permissions",
    responses((status = 200, body = Permissions)))]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
) -> Response {
    let open = match principal.scope() {
        Scope::Control => service.sessions.questions(&principal).await,
        // Whoever only looks is asked nothing.
        Scope::Observe => Vec::new(),
    };
    let open = open.iter().map(|(id, asked)| Permission::of(*id, asked));
    let permissions = open.collect();
    typed_response(StatusCode::OK, &Permissions { permissions })
}

/// Answers one; the first answer counts.
#[utoipa::path(post, path = "/api/v1/permissions/{id}", tag = "permissions",
    params(("id" = String, Path)), request_body = PermissionAnswer,
    responses((status = 204, description = "the answer is stored")))]
pub(super) async fn answer(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Response> {
    let said: PermissionAnswer = object(&service, request).await?;
    let Ok(Path(named)) = named else {
        return Err(not_open());
    };
    let name = PermissionId::new(named);
    let open = service.sessions.questions(&principal).await;
    let open = open.into_iter().find(|(_, asked)| *asked.id() == name);
    let (session, asked) = open.ok_or_else(not_open)?;
    if principal.scope() == Scope::Observe {
        return Err(command_refusal(&CommandError::Scope));
    }
    let answer = understood(said, &asked)?;
    let attached = enter(&service, &principal, (session, From::Head)).await?;
    let mut still_open = attached.snapshot.questions.iter();
    if !still_open.any(|question| *question.asked.id() == name) {
        return Err(not_open());
    }
    attached.handle.answer(name.clone(), answer.clone());
    let storing = settled(attached, &name);
    let stored = tokio::time::timeout(service.limits.handshake, storing).await;
    let stored = stored.unwrap_or_else(|_| Err(late()))?;
    match is_ours(&stored, &principal, &answer) {
        true => Ok(about(session, StatusCode::NO_CONTENT.into_response())),
        false => Err(not_open()),
    }
}

/// What an answer means to what was asked.
fn understood(said: PermissionAnswer, asked: &Asked) -> Result<Answer, Response> {
    match (said.option_id, said.text, asked) {
        (Some(option), None, _) => {
            let offered = choices(asked);
            let is_offered = offered.iter().any(|choice| choice.option_id == option);
            let answer = is_offered.then_some(Answer::Selected(option));
            answer.ok_or_else(|| misshapen("`optionId` is none of the options"))
        }
        (None, Some(text), Asked::Person(_)) => Ok(Answer::Said(text)),
        (None, Some(_), Asked::Permission(_)) => Err(misshapen(
            "a permission is answered with one of its options",
        )),
        (Some(_), Some(_), _) | (None, None, _) => Err(misshapen(
            "send `optionId`, or to a question `text`, and not both",
        )),
    }
}

/// The event that settles a question.
async fn settled(mut attached: Attached, name: &PermissionId) -> Result<Arc<Stored>, Response> {
    loop {
        let next = attached.subscription.next().await;
        let deliveries = match next {
            Ok(Some(deliveries)) => deliveries,
            Ok(None) => return Err(not_open()),
            Err(error) => return Err(super::sessions::unlisted(&error)),
        };
        for delivery in deliveries {
            match delivery.item {
                Item::Event(stored) if settles(&stored.event, name) => return Ok(stored),
                Item::Failed(kind) => return Err(failed(kind)),
                Item::Event(_) | Item::Text { .. } | Item::Progress(_) => {}
            }
        }
    }
}

fn settles(event: &Event, name: &PermissionId) -> bool {
    matches!(event, Event::PermissionAnswered(answered) if answered.id == *name)
        || matches!(event, Event::QuestionAnswered(answered) if answered.id == *name)
}

/// Whether it was this answer that counted.
fn is_ours(stored: &Stored, principal: &Principal, answer: &Answer) -> bool {
    let by_us = |by: &Option<String>| by.as_deref() == Some(principal.id().as_str());
    if let Event::PermissionAnswered(answered) = &stored.event {
        let is_option = matches!(answer, Answer::Selected(option)
            if answered.option_id.as_ref() == Some(option));
        return by_us(&answered.by) && is_option;
    }
    matches!(&stored.event, Event::QuestionAnswered(answered) if by_us(&answered.by))
}

fn not_open() -> Response {
    let message = "there is no such open question";
    refusal(StatusCode::NOT_FOUND, "not_found", message)
}

fn late() -> Response {
    let message = "the answer was sent on, and is not stored yet";
    refusal(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
}
