//! `POST /tui/append-prompt`: one prompt by one request, as other agent servers offer it.
//!
//! The answer comes when the prompt is stored. The attachment ends with the request; the turn
//! goes on, and whoever attaches sees it.

use std::sync::Arc;

use auth::{Principal, Scope};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::limits::REST_BODY_BYTES_MAX;
use domain::{SessionId, TraceParent};
use serde::Deserialize;
use serde_json::json;
use session::{CommandError, Entrance, From, NewSession, Prompt, SessionHandle};
use tokio::sync::oneshot;

use super::access_log::About;
use super::answer::{attach_refusal, command_refusal, json_response, not_found};
use super::body;
use crate::service::{Service, WantedRoots};

/// What is sent. The text has had three names; the first that is there counts.
#[derive(Deserialize)]
struct Append {
    text: Option<String>,
    prompt: Option<String>,
    content: Option<String>,
    session_id: Option<String>,
}

pub(super) async fn append_prompt(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    match append(&service, &principal, request).await {
        Ok(session) => {
            let body = json!({"ok": true, "session_id": session});
            let mut response = json_response(StatusCode::OK, &body);
            response.extensions_mut().insert(About(session));
            response
        }
        Err(refusal) => refusal,
    }
}

async fn append(
    service: &Arc<Service>,
    principal: &Principal,
    request: Request,
) -> Result<SessionId, Response> {
    let trace = request.extensions().get().copied();
    let bytes = body::read(&service.limits, request, REST_BODY_BYTES_MAX).await?;
    let sent: Append = body::object(&bytes)?;
    let text = sent
        .text
        .or(sent.prompt)
        .or(sent.content)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| body::misshapen("`text` must say something"))?;
    let handle = match sent.session_id {
        Some(id) => enter(service, principal, &id).await?,
        None => create(service, principal).await?,
    };
    prompt(&handle, text, trace).await?;
    Ok(handle.id())
}

async fn enter(
    service: &Service,
    principal: &Principal,
    id: &str,
) -> Result<SessionHandle, Response> {
    // What is no id names no session.
    let id: SessionId = id.parse().map_err(|_| not_found())?;
    let attaching = service
        .sessions
        .attach(id, Entrance::new(principal, From::Head));
    let attached = attaching.await.map_err(|error| attach_refusal(&error))?;
    Ok(attached.handle)
}

async fn create(service: &Arc<Service>, principal: &Principal) -> Result<SessionHandle, Response> {
    if principal.scope() == Scope::Observe {
        return Err(command_refusal(&CommandError::Scope));
    }
    let own = service.cwd.to_string_lossy().into_owned();
    let wanted = WantedRoots {
        paths: vec![own],
        must_exist: true,
    };
    let roots = service.check_roots(principal, wanted).await;
    let mut roots = roots.map_err(|why| body::misshapen(&why))?.into_iter();
    let cwd = roots.next();
    let cwd = cwd.ok_or_else(|| body::misshapen("cwd is missing"))?;
    let new = NewSession {
        cwd,
        additional_directories: Vec::new(),
        servers: Vec::new(),
    };
    let creating = service.sessions.create(principal, new);
    let attached = creating.await.map_err(|error| attach_refusal(&error))?;
    Ok(attached.handle)
}

/// Returns when the prompt is stored.
async fn prompt(
    handle: &SessionHandle,
    text: String,
    trace: Option<TraceParent>,
) -> Result<(), Response> {
    let (reply, stored) = oneshot::channel();
    let prompt = Prompt {
        blocks: vec![json!({"type": "text", "text": text})],
        text,
        trace,
        ..Prompt::default()
    };
    let tell = move |accepted| {
        // The asker may have gone; the prompt stands all the same.
        let _ = reply.send(accepted);
    };
    handle.prompt(prompt, Box::new(tell));
    let accepted = stored.await.unwrap_or(Err(CommandError::Closed));
    accepted
        .map(|_| ())
        .map_err(|error| command_refusal(&error))
}
