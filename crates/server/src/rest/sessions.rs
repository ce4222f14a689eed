//! Sessions: made, listed, looked at, changed, deleted, copied.

use std::sync::Arc;

use auth::{Principal, Scope};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use domain::limits::LIST_PAGE_MAX;
use domain::{EventSeq, SessionId};
use session::{CommandError, ForkError, From, Glance, Label, Wanted};

use super::PREFIX;
use super::reading::{Named, about, check_title, done, enter, object, query};
use super::shapes::{Change, ForkAt, Listing, NewSession, Session, SessionPage};
use crate::http::answer::{attach_refusal, command_refusal, failed, typed_response};
use crate::http::body::misshapen;
use crate::service::{Service, WantedRoots};

/// Makes a session.
#[utoipa::path(post, path = "/api/v1/sessions", tag = "sessions", request_body = NewSession,
    responses((status = 201, body = Session)))]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, Response> {
    let new: NewSession = object(&service, request).await?;
    check_title(new.title.as_deref())?;
    check_may_create(&principal)?;
    let own = || service.cwd.to_string_lossy().into_owned();
    let cwd = new.cwd.unwrap_or_else(own);
    let wanted = WantedRoots {
        paths: vec![cwd],
        must_exist: true,
    };
    let roots = service.check_roots(&principal, wanted).await;
    let mut roots = roots.map_err(|why| misshapen(&why))?.into_iter();
    let cwd = roots.next().ok_or_else(|| misshapen("cwd is missing"))?;
    if let Some(model) = &new.model
        && !service.models().contains(model)
    {
        return Err(misshapen("there is no such model"));
    }
    let wanted = session::NewSession {
        cwd,
        additional_directories: Vec::new(),
        servers: Vec::new(),
    };
    let creating = service.sessions.create(&principal, wanted).await;
    let handle = creating.map_err(|error| attach_refusal(&error))?.handle;
    if let Some(model) = new.model {
        done(|reply| handle.set_model(model, reply)).await?;
    }
    if new.title.is_some() {
        let (title, archived) = (new.title, None);
        done(|reply| handle.label(Label { title, archived }, reply)).await?;
    }
    let glance = look(&service, &principal, handle.id()).await?;
    Ok(made(&service, glance))
}

/// Lists sessions, the newest first.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sessions", params(Listing),
    responses((status = 200, body = SessionPage)))]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    uri: Uri,
) -> Result<Response, Response> {
    let asked: Listing = query(&uri)?;
    let limit = asked.limit.unwrap_or(LIST_PAGE_MAX as u64);
    if !(1..=LIST_PAGE_MAX as u64).contains(&limit) {
        let message = format!("limit must be between 1 and {LIST_PAGE_MAX}");
        return Err(misshapen(&message));
    }
    let after = asked.cursor.map(|cursor| cursor.parse()).transpose();
    let wanted = Wanted {
        cwd: asked.cwd,
        after: after.map_err(|_| misshapen("unknown cursor"))?,
        count_max: usize::try_from(limit).unwrap_or(LIST_PAGE_MAX),
    };
    let page = service.sessions.list(&principal, wanted).await;
    let page = page.map_err(|error| unlisted(&error))?;
    let (models, own) = (service.models(), service.own_model());
    let shown = page.sessions.into_iter();
    let shown = shown.map(|glance| Session::of(glance, &models, &own));
    let page = SessionPage {
        sessions: shown.collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    };
    Ok(typed_response(StatusCode::OK, &page))
}

/// Shows a session.
#[utoipa::path(get, path = "/api/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path)), responses((status = 200, body = Session)))]
pub(super) async fn one(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
) -> Result<Response, Response> {
    let glance = look(&service, &principal, named.id()?).await?;
    Ok(shown(&service, StatusCode::OK, glance))
}

/// Changes a session's title, or puts it away.
#[utoipa::path(patch, path = "/api/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path)), request_body = Change,
    responses((status = 200, body = Session)))]
pub(super) async fn change(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
    request: Request,
) -> Result<Response, Response> {
    let Change { title, archived } = object(&service, request).await?;
    check_title(title.as_deref())?;
    let entrance = (named.id()?, From::Head);
    let handle = enter(&service, &principal, entrance).await?.handle;
    done(|reply| handle.label(Label { title, archived }, reply)).await?;
    let glance = look(&service, &principal, handle.id()).await?;
    Ok(shown(&service, StatusCode::OK, glance))
}

/// Deletes a session for good.
#[utoipa::path(delete, path = "/api/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path)), responses((status = 204)))]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
) -> Result<Response, Response> {
    let id = named.id()?;
    check_owner(&service, &principal, id).await?;
    let deleting = service.delete_session(&principal, id).await;
    deleting.map_err(failed)?;
    Ok(about(id, StatusCode::NO_CONTENT.into_response()))
}

/// Copies a session up to an event.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/fork", tag = "sessions",
    params(("id" = String, Path)), request_body = ForkAt,
    responses((status = 201, body = Session)))]
pub(super) async fn fork(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
    request: Request,
) -> Result<Response, Response> {
    let ForkAt { at } = object(&service, request).await?;
    let id = named.id()?;
    look(&service, &principal, id).await?;
    check_may_create(&principal)?;
    let forked = service.sessions.fork(&principal, id, EventSeq(at)).await;
    match forked {
        Ok(glance) => Ok(made(&service, glance)),
        Err(ForkError::Source(error)) => Err(attach_refusal(&error)),
        Err(error @ ForkError::NoFork) => Err(misshapen(&error.to_string())),
    }
}

/// What cannot be listed at all.
pub(super) fn unlisted(error: &session::StoreError) -> Response {
    tracing::warn!(%error, "sessions could not be listed");
    failed(error.kind().unwrap_or(domain::FailureKind::StorageFailed))
}

async fn look(service: &Service, principal: &Principal, id: SessionId) -> Result<Glance, Response> {
    let looking = service.sessions.glance(principal, id).await;
    looking.map_err(|error| attach_refusal(&error))
}

/// Lets pass whom the session belongs to, if they may do more than look.
pub(super) async fn check_owner(
    service: &Service,
    principal: &Principal,
    id: SessionId,
) -> Result<(), Response> {
    let glance = look(service, principal, id).await?;
    // Whoever was only let in may not: they know already that it is there.
    if glance.meta.owner != *principal.id() {
        return Err(command_refusal(&CommandError::Scope));
    }
    check_scope(principal)
}

/// Refuses whoever may only look.
pub(super) fn check_scope(principal: &Principal) -> Result<(), Response> {
    match principal.scope() {
        Scope::Control => Ok(()),
        Scope::Observe => Err(command_refusal(&CommandError::Scope)),
    }
}

/// Refuses a token that may only look, or that is for one session.
fn check_may_create(principal: &Principal) -> Result<(), Response> {
    let refused = || command_refusal(&CommandError::Scope);
    principal.may_create().then_some(()).ok_or_else(refused)
}

fn shown(service: &Service, status: StatusCode, glance: Glance) -> Response {
    let session = Session::of(glance, &service.models(), &service.own_model());
    about(session.id, typed_response(status, &session))
}

/// A session that is new, and where it is.
fn made(service: &Service, glance: Glance) -> Response {
    let place = format!("{PREFIX}/sessions/{}", glance.meta.id);
    let mut response = shown(service, StatusCode::CREATED, glance);
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}
