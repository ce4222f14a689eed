//! Prompting a session by one request, and cancelling what runs in it.
//!
//! The prompt is stored when it is answered; the turn goes on without the request. With
//! `Prefer: wait=SECS` the answer waits for the turn's end. `Idempotency-Key` is the prompt's own
//! name: sent again, it is answered as that prompt was, whatever happened in between; sent with
//! another prompt, it is refused.

use std::sync::Arc;
use std::time::Duration;

use auth::Principal;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use domain::event::StopReason;
use domain::limits::{PREFER_WAIT_MAX, PROMPT_ID_BYTES_MAX};
use domain::{Event, EventSeq, FailureKind, PromptId, SessionId, TurnId};
use serde_json::json;
use session::{
    Accepted, Attached, Fate, From, Item, Prompt, SessionHandle, Subscription, Told, TurnOutcome,
    Which,
};
use wire::acp::{self, ClientMessage};

use super::reading::{Named, about, done, enter, single};
use super::sessions::check_scope;
use super::shapes::{Ended, NewPrompt, PromptContent, Prompted, State as TurnState, Turn};
use crate::http::answer::{failed, refusal, typed_response};
use crate::http::body::{self, misshapen};
use crate::service::Service;

/// Prompts a session.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/prompts", tag = "prompts",
    params(("id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 64,
            description = "the prompt's own name: sent again, it starts nothing"),
        ("Prefer" = Option<String>, Header, description = "`wait=SECS`, at most 300")),
    request_body = NewPrompt,
    responses((status = 200, body = Ended, description = "it has ended in time"),
        (status = 202, body = Prompted, description = "it is stored, and runs or ran")))]
pub(super) async fn prompt(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
    request: Request,
) -> Result<Response, Response> {
    let prompt_id = prompt_id(request.headers())?;
    let wait = wait_time(request.headers());
    let trace = request.extensions().get().copied();
    let bytes_max = service.limits.message_bytes_max;
    let bytes = body::read(&service.limits, request, bytes_max).await?;
    let NewPrompt { prompt } = body::object(&bytes)?;
    drop(bytes);
    let (text, blocks) = content(prompt)?;
    let id = named.id()?;
    let attached = enter(&service, &principal, (id, From::Head)).await?;
    let asked_blocks = prompt_id.as_ref().map(|_| blocks.clone());
    let prompt = Prompt {
        text,
        blocks,
        prompt_id: prompt_id.clone(),
        trace,
        ..Prompt::default()
    };
    let accepted = done(|reply| attached.handle.prompt(prompt, reply)).await?;
    if let (Accepted::Repeated(..), Some(key), Some(blocks)) = (&accepted, &prompt_id, asked_blocks)
    {
        check_repeated(&service, &attached.handle, (key, blocks)).await?;
    }
    let asked = Asked {
        service: &service,
        attached,
        prompt_id,
    };
    let answer = asked.answer(accepted, wait).await?;
    Ok(about(id, answer))
}

/// Refuses a key that was used for another prompt.
async fn check_repeated(
    service: &Service,
    handle: &SessionHandle,
    (key, blocks): (&PromptId, Vec<serde_json::Value>),
) -> Result<(), Response> {
    let looking = service.sessions.prompt_blocks(handle, key.clone());
    match looking.await.map_err(failed)? {
        Some(before) if before != blocks => {
            let message = "this Idempotency-Key was used for another prompt in this session; \
                           send a new prompt with a new key";
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            Err(refusal(status, "idempotency_key_reused", message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Cancels the turn that runs, if one does.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/cancel", tag = "prompts",
    params(("id" = String, Path)), responses((status = 202)))]
pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
) -> Result<Response, Response> {
    let id = named.id()?;
    let attached = enter(&service, &principal, (id, From::Head)).await?;
    check_scope(&principal)?;
    attached.handle.cancel();
    Ok(about(id, StatusCode::ACCEPTED.into_response()))
}

/// A prompt that was taken, and who asked.
struct Asked<'a> {
    service: &'a Service,
    attached: Attached,
    prompt_id: Option<PromptId>,
}

impl Asked<'_> {
    async fn answer(
        mut self,
        accepted: Accepted,
        wait: Option<Duration>,
    ) -> Result<Response, Response> {
        let (turn, after) = match accepted {
            Accepted::Turn(turn) => (turn, self.attached.snapshot.head),
            // It may have begun long ago.
            Accepted::Repeated(Fate::Running(turn), _) => (turn, EventSeq(0)),
            Accepted::Queued(_) | Accepted::Repeated(Fate::Queued(_), _) => {
                return Ok(taken(None, TurnState::Queued));
            }
            Accepted::Repeated(Fate::Ended(outcome), _) => return self.retell(outcome, wait).await,
            Accepted::Repeated(Fate::Dropped, _) => {
                return self.retell(Ok(StopReason::Cancelled), wait).await;
            }
        };
        let Some(wait) = wait else {
            return Ok(taken(Some(turn), TurnState::Running));
        };
        let ending = ended(&mut self.attached.subscription, turn);
        let Ok(failure) = tokio::time::timeout(wait, ending).await else {
            return Ok(taken(Some(turn), TurnState::Running));
        };
        let told = self.told(Which::Turn(turn), after).await?;
        match told.filter(|told| told.outcome.is_some()) {
            Some(told) => Ok(said(self.attached.handle.id(), told)),
            None => Err(failed(failure.unwrap_or(FailureKind::StorageFailed))),
        }
    }

    /// Answers a prompt that was over before it was sent again.
    async fn retell(
        self,
        outcome: TurnOutcome,
        wait: Option<Duration>,
    ) -> Result<Response, Response> {
        let session_id = self.attached.handle.id();
        let told = match self.prompt_id.clone() {
            Some(prompt_id) => self.told(Which::Prompt(prompt_id), EventSeq(0)).await?,
            None => None,
        };
        match (told, wait) {
            (told, None) => Ok(taken(told.map(|told| told.turn), TurnState::Idle)),
            (Some(told), Some(_)) => Ok(said(session_id, told)),
            // It never ran.
            (None, Some(_)) => Ok(ended_as(session_id, outcome)),
        }
    }

    async fn told(&self, which: Which, after: EventSeq) -> Result<Option<Told>, Response> {
        let handle: &SessionHandle = &self.attached.handle;
        let telling = self.service.sessions.told(handle, which, after);
        telling.await.map_err(failed)
    }
}

/// Returns when `turn` has ended, or nothing more will come; says why if the store failed under it.
async fn ended(subscription: &mut Subscription, turn: TurnId) -> Option<FailureKind> {
    while let Ok(Some(deliveries)) = subscription.next().await {
        for delivery in deliveries {
            match delivery.item {
                Item::Event(stored) if ends(&stored.event, turn) => return None,
                Item::Failed(kind) => return Some(kind),
                Item::Event(_) | Item::Text { .. } | Item::Progress(_) => {}
            }
        }
    }
    None
}

fn ends(event: &Event, turn: TurnId) -> bool {
    matches!(event, Event::TurnResult(result) if result.turn == turn)
        || matches!(event, Event::TurnInterrupted(ended) if ended.turn == turn)
}

fn taken(turn: Option<TurnId>, state: TurnState) -> Response {
    let id = turn.map(|turn| turn.0);
    let turn = Turn { id, state };
    typed_response(StatusCode::ACCEPTED, &Prompted { turn })
}

/// The answer to a prompt that has no turn.
fn ended_as(session_id: SessionId, outcome: TurnOutcome) -> Response {
    let (stop_reason, error) = (outcome.as_ref().ok().copied(), outcome.err());
    let ended = Ended {
        session_id,
        text: String::new(),
        stop_reason,
        error,
        usage: None,
    };
    typed_response(StatusCode::OK, &ended)
}

fn said(session_id: SessionId, told: Told) -> Response {
    let (stop_reason, error) = match told.outcome {
        Some(Ok(reason)) => (Some(reason), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let ended = Ended {
        session_id,
        text: told.text,
        stop_reason,
        error,
        usage: told.usage,
    };
    typed_response(StatusCode::OK, &ended)
}

/// A prompt's text and its blocks.
fn content(prompt: PromptContent) -> Result<(String, Vec<serde_json::Value>), Response> {
    let blocks = match prompt {
        PromptContent::Text(text) if text.is_empty() => Vec::new(),
        PromptContent::Text(text) => {
            let block = json!({"type": "text", "text": text});
            return Ok((text, vec![block]));
        }
        PromptContent::Blocks(blocks) => blocks,
    };
    if blocks.is_empty() {
        return Err(misshapen("`prompt` must say something"));
    }
    // Bare strings among them are for clients of ACP's older form.
    if !blocks.iter().all(serde_json::Value::is_object) {
        return Err(misshapen("`prompt` has a block that is no object"));
    }
    // The session is named elsewhere; here only the blocks count.
    let params = json!({"sessionId": "", "prompt": blocks});
    let params = serde_json::value::to_raw_value(&params);
    let params = params.map_err(|error| misshapen(&error.to_string()))?;
    match acp::decode("session/prompt", Some(&params)) {
        Ok(ClientMessage::Prompt(prompt)) => Ok((prompt.text, prompt.blocks)),
        Ok(_) => Err(misshapen("`prompt` is no prompt")),
        Err(error) => Err(misshapen(&error.message)),
    }
}

fn prompt_id(headers: &HeaderMap) -> Result<Option<PromptId>, Response> {
    match single(headers, "idempotency-key")? {
        None => Ok(None),
        Some(key) if key.is_empty() || key.len() > PROMPT_ID_BYTES_MAX => {
            let message = format!("Idempotency-Key has between 1 and {PROMPT_ID_BYTES_MAX} bytes");
            Err(misshapen(&message))
        }
        Some(key) => Ok(Some(PromptId::new(key))),
    }
}

/// How long the client would like to wait. What is not understood of a preference is ignored.
fn wait_time(headers: &HeaderMap) -> Option<Duration> {
    let preferences = headers.get_all("prefer").iter();
    let mut waits = preferences
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ';']))
        .filter_map(|preference| preference.trim().split_once('='))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))
        .filter_map(|(_, seconds)| seconds.trim().trim_matches('"').parse().ok());
    let wait = waits.next().map(Duration::from_secs)?;
    Some(wait.min(PREFER_WAIT_MAX))
}
