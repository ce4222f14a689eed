//! `POST /api/v1/login`: a ticket becomes a token, once.

use std::sync::Arc;

use auth::{Login, LoginError};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use domain::clock::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{refusal, typed_response};
use super::body;
use crate::service::Service;

/// Bytes of a login: a ticket and a few words. Anybody may send one.
const LOGIN_BYTES_MAX: usize = 4 * 1024;

/// What a browser shows.
#[derive(Deserialize, ToSchema)]
#[schema(as = Login)]
struct Shown {
    ticket: String,
}

/// What it gets.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LoggedIn {
    /// For `Authorization: Bearer`.
    token: String,
    /// When it ends, in RFC 3339.
    expires_at: String,
}

/// Logs a browser in.
#[utoipa::path(post, path = "/api/v1/login", tag = "server", request_body = Shown,
    responses((status = 200, body = LoggedIn)))]
pub(crate) async fn login(State(service): State<Arc<Service>>, request: Request) -> Response {
    let read = body::read(&service.limits, request, LOGIN_BYTES_MAX).await;
    let shown = match read.and_then(|bytes| body::object::<Shown>(&bytes)) {
        Ok(shown) => shown,
        Err(refusal) => return refusal,
    };
    // It waits for the disk, which must not stop the others.
    let redeeming = tokio::task::spawn_blocking(move || {
        let now = Timestamp::now();
        service.gate.log_in(&shown.ticket, now)
    });
    match redeeming.await {
        Ok(Ok(login)) => welcome(&login),
        Ok(Err(error)) => turned_away(&error),
        Err(error) => {
            tracing::error!(%error, "a login broke off");
            internal()
        }
    }
}

fn welcome(login: &Login) -> Response {
    let body = LoggedIn {
        token: login.token.reveal().to_owned(),
        expires_at: login.expires_at.to_rfc3339(),
    };
    let mut response = typed_response(StatusCode::OK, &body);
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}

fn turned_away(error: &LoginError) -> Response {
    match error {
        LoginError::Wrong => {
            let mut response = refusal(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "this ticket is not good, or not any more; `fastness open` makes another",
            );
            let challenge = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
            response
        }
        LoginError::TooMany { retry_after } => {
            let message = "too many wrong tickets; try again later";
            let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
            let seconds = retry_after.as_secs_f64().ceil() as u64;
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
        LoginError::NotStored(cause) => {
            tracing::error!(%cause, "a login could not be stored");
            internal()
        }
    }
}

fn internal() -> Response {
    refusal(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal_error",
        "the login could not be stored",
    )
}
