//! The one layer that every request passes: Host, then Origin, then the token.
//!
//! Route, content type, size, parsing and ownership come after it, in the handlers.

use std::sync::Arc;

use auth::{Credential, Origin, Turned};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::refusal;
use crate::service::Service;

/// The subprotocol that the server selects, never the one that holds the token.
pub(super) const SUBPROTOCOL: &str = "fastness.v1";

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PATCH, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, acp-connection-id, acp-session-id, last-event-id, idempotency-key, prefer",
);
const EXPOSED: HeaderValue = HeaderValue::from_static("acp-connection-id, retry-after");

/// Lets a request through with proof of who sent it, or not at all.
pub(super) async fn admit(
    State(service): State<Arc<Service>>,
    mut request: Request,
    next: Next,
) -> Response {
    let origin = match check_door(&service, &request) {
        Ok(origin) => origin,
        Err(turned) => return turned_away(turned),
    };
    if request.method() == Method::OPTIONS
        && let Origin::Own(name) | Origin::Allowed(name) = &origin
    {
        return preflight(name);
    }
    let token = bearer(request.headers());
    let admitted = token.and_then(|token| service.admit(&Credential::Bearer(token)).ok());
    let mut response = match admitted {
        Some(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        None => unauthorized(),
    };
    if let Origin::Allowed(name) = &origin {
        allow(response.headers_mut(), name);
        response
            .headers_mut()
            .insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    response
}

fn check_door(service: &Service, request: &Request) -> Result<Origin, Turned> {
    let headers = request.headers();
    // HTTP/2 names the host in the request line; both, when both are there, must be ours.
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().as_bytes());
    let hosts = headers
        .get_all(header::HOST)
        .iter()
        .map(HeaderValue::as_bytes);
    if let Some(authority) = authority {
        service.door.check_host([authority])?;
    }
    if authority.is_none() || headers.contains_key(header::HOST) {
        service.door.check_host(hosts)?;
    }
    let origins = headers
        .get_all(header::ORIGIN)
        .iter()
        .map(HeaderValue::as_bytes);
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    service.door.check_origin(origins, site)
}

fn turned_away(turned: Turned) -> Response {
    let (status, error) = match turned {
        Turned::BadHost => (StatusCode::BAD_REQUEST, "invalid_request"),
        Turned::ForeignHost => (StatusCode::FORBIDDEN, "forbidden_host"),
        Turned::ForeignOrigin => (StatusCode::FORBIDDEN, "forbidden_origin"),
    };
    refusal(status, error, &turned.to_string())
}

/// The answer to a browser that asks whether a page may call us. No other CORS header is ever sent.
fn preflight(origin: &str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    allow(headers, origin);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    response
}

fn allow(headers: &mut HeaderMap, origin: &str) {
    if let Ok(origin) = HeaderValue::from_str(origin) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
}

fn unauthorized() -> Response {
    let mut response = refusal(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "a valid token is required",
    );
    let challenge = HeaderValue::from_static("Bearer");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// The token a request shows: `Authorization: Bearer T`, or, because browsers cannot set headers
/// on WebSockets, the subprotocol `bearer.T` beside `fastness.v1`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    if headers.contains_key(header::AUTHORIZATION) {
        let (scheme, token) = single(headers, header::AUTHORIZATION)?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| token.trim());
    }
    let offered = single(headers, header::SEC_WEBSOCKET_PROTOCOL)?;
    let mut protocols = offered.split(',').map(str::trim);
    protocols
        .clone()
        .find(|protocol| *protocol == SUBPROTOCOL)?;
    protocols.find_map(|protocol| protocol.strip_prefix("bearer."))
}

/// A header that must stand once.
fn single(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}
