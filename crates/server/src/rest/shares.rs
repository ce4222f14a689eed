//! Sharing a session: tokens with which others look at it for a while.

use std::sync::Arc;
use std::time::Duration;

use auth::{NamedToken, Origin, Principal, ShareError};
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use domain::clock::Timestamp;
use domain::limits::{SHARE_TIME, SHARE_TIME_MAX};
use domain::{FailureKind, SessionId};
use session::CommandError;

use super::reading::{Named, about, object};
use super::sessions::check_owner;
use super::shapes::{NewShare, Share, Shared, Shares};
use crate::http::answer::{command_refusal, failed, not_found, refusal, typed_response};
use crate::http::body::misshapen;
use crate::service::Service;

/// Lets others look at a session for a while.
#[utoipa::path(post, path = "/api/v1/sessions/{id}/share", tag = "sessions",
    params(("id" = String, Path)), request_body = NewShare,
    responses((status = 201, body = Shared)))]
pub(super) async fn share(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
    request: Request,
) -> Result<Response, Response> {
    let page = page_address(&service, request.headers(), request.uri());
    let new: NewShare = object(&service, request).await?;
    let time = share_time(&new)?;
    let id = named.id()?;
    check_owner(&service, &principal, id).await?;
    let made = on_disk(&service, move |service| {
        let now = Timestamp::now();
        let ends = Timestamp(now.0 + time.as_secs_f64());
        service.gate.share((&principal, id), ends, now)
    });
    let (token, secret) = made.await?;
    let shared = Shared {
        url: format!("{page}/#share={}", secret.reveal()),
        token: secret.reveal().to_owned(),
        expires_at: expiry(&token).unwrap_or_default(),
        id: token.id,
    };
    let mut response = typed_response(StatusCode::CREATED, &shared);
    let never = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, never);
    Ok(about(id, response))
}

/// Lists with what others may look at a session; the secrets are not kept.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/shares", tag = "sessions",
    params(("id" = String, Path)), responses((status = 200, body = Shares)))]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
) -> Result<Response, Response> {
    let id = named.id()?;
    check_owner(&service, &principal, id).await?;
    let known = on_disk(&service, move |service| {
        let now = Timestamp::now();
        service.gate.shares(principal.id(), id, now)
    });
    let shares = known.await?.into_iter().map(|token| Share {
        expires_at: expiry(&token),
        created_at: Timestamp(token.created_at).to_rfc3339(),
        id: token.id,
    });
    let shares = shares.collect();
    Ok(about(
        id,
        typed_response(StatusCode::OK, &Shares { shares }),
    ))
}

/// Takes one back; whoever looks by it is sent away.
#[utoipa::path(delete, path = "/api/v1/sessions/{id}/shares/{shareId}", tag = "sessions",
    params(("id" = String, Path), ("shareId" = String, Path)), responses((status = 204)))]
pub(super) async fn end(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Response> {
    let Ok(Path((session, share))) = named else {
        return Err(not_found());
    };
    let id: SessionId = session.parse().map_err(|_| not_found())?;
    check_owner(&service, &principal, id).await?;
    let ended = on_disk(&service, move |service| {
        service.gate.unshare(principal.id(), id, &share)
    });
    ended.await?;
    // Whoever looks by it need not wait for the next look at the file.
    service.tokens_changed.send_replace(());
    Ok(about(id, StatusCode::NO_CONTENT.into_response()))
}

/// Reads or changes the file of tokens where it holds up nobody else.
async fn on_disk<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl FnOnce(&Service) -> Result<T, ShareError> + Send + 'static,
) -> Result<T, Response> {
    let service = Arc::clone(service);
    let done = tokio::task::spawn_blocking(move || work(&service)).await;
    match done {
        Ok(done) => done.map_err(|error| refused(&error)),
        Err(error) => {
            tracing::error!(%error, "a share broke off");
            Err(failed(FailureKind::StorageFailed))
        }
    }
}

fn refused(error: &ShareError) -> Response {
    match error {
        ShareError::TooManyOfSession => command_refusal(&CommandError::Limit("shares_per_session")),
        ShareError::TooManyOfOwner => command_refusal(&CommandError::Limit("shares_per_owner")),
        ShareError::NotFound => no_share(),
        ShareError::NotStored(cause) => {
            tracing::error!(%cause, "shares could not be read or stored");
            failed(FailureKind::StorageFailed)
        }
    }
}

fn no_share() -> Response {
    let message = "there is no such share";
    refusal(StatusCode::NOT_FOUND, "not_found", message)
}

fn share_time(new: &NewShare) -> Result<Duration, Response> {
    let time = new.expires_in_secs.map_or(SHARE_TIME, Duration::from_secs);
    if time.is_zero() || time > SHARE_TIME_MAX {
        let most = SHARE_TIME_MAX.as_secs();
        let message = format!("expiresInSecs must be between 1 and {most}");
        return Err(misshapen(&message));
    }
    Ok(time)
}

fn expiry(token: &NamedToken) -> Option<String> {
    token.expires_at.map(|ends| Timestamp(ends).to_rfc3339())
}

/// Where the caller finds the page: its own origin if it is a page, else the host it named.
fn page_address(service: &Service, headers: &HeaderMap, uri: &Uri) -> String {
    let origins = headers.get_all(header::ORIGIN).iter();
    let origins = origins.map(HeaderValue::as_bytes);
    if let Ok(Origin::Own(origin)) = service.door.check_origin(origins, None) {
        return origin;
    }
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.or(uri.authority().map(|authority| authority.as_str()));
    service.door.page_address(host)
}
