//! The one layer that every request passes: Host, then Origin, then the token.
//!
//! On the Unix socket the peer's user takes the place of Host and token. Route, content type, size, parsing and ownership come after it, in the handlers.

use std::sync::Arc;

use auth::{Credential, Origin, Principal, Turned};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::access_log::AskedBy;
use super::answer::refusal;
use super::socket::Peer;
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
    let origin = match pass_door(&service, &request) {
        Ok(origin) => origin,
        Err(answer) => return answer,
    };
    let response = match admitted(&service, &request) {
        Some(principal) => {
            let asked_by = AskedBy(principal.id().clone());
            let pace = match is_counted_elsewhere(&request) {
                true => Ok(()),
                false => service.count_request(&principal),
            };
            let mut response = match pace {
                Ok(()) => {
                    request.extensions_mut().insert(principal);
                    next.run(request).await
                }
                Err(wait_ms) => too_fast(&service, wait_ms),
            };
            response.extensions_mut().insert(asked_by);
            response
        }
        None => unauthorized(),
    };
    for_origin(response, &origin)
}

/// Whether its connection counts the requests that come this way: ACP does.
fn is_counted_elsewhere(request: &Request) -> bool {
    matches!(request.uri().path(), "/acp" | "/ws")
}

/// The answer to a principal that sends too many requests.
fn too_fast(service: &Service, wait_ms: u64) -> Response {
    let most = service.limits.requests_per_second;
    let message = format!(
        "too many requests: this token may send {most} a second; wait as long as `Retry-After` says"
    );
    let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, "rate_limited", &message);
    let seconds = HeaderValue::from(wait_ms.div_ceil(1_000).max(1));
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

/// Lets a request through that needs no token: whoever logs in has none yet.
pub(super) async fn pass(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    match pass_door(&service, &request) {
        Ok(origin) => for_origin(next.run(request).await, &origin),
        Err(answer) => answer,
    }
}

/// Checks Host and Origin, and answers for those who only ask what would be allowed.
fn pass_door(service: &Service, request: &Request) -> Result<Origin, Response> {
    let origin = check_door(service, request).map_err(turned_away)?;
    if request.method() == Method::OPTIONS
        && let Origin::Own(name) | Origin::Allowed(name) = &origin
    {
        return Err(preflight(name));
    }
    Ok(origin)
}

/// Who sent the request: on the Unix socket the user at its other end, else who holds the token.
fn admitted(service: &Service, request: &Request) -> Option<Principal> {
    if let Some(Peer::Unix(uid)) = request.extensions().get() {
        return service.admit(&Credential::UnixPeer(*uid)).ok();
    }
    let token = bearer(request.headers())?;
    service.admit(&Credential::Bearer(token)).ok()
}

fn for_origin(mut response: Response, origin: &Origin) -> Response {
    if let Origin::Allowed(name) = origin {
        allow(response.headers_mut(), name);
        response
            .headers_mut()
            .insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    response
}

fn check_door(service: &Service, request: &Request) -> Result<Origin, Turned> {
    let headers = request.headers();
    // No page's name leads to a Unix socket.
    if !matches!(request.extensions().get(), Some(Peer::Unix(_))) {
        check_host(service, request)?;
    }
    let origins = headers
        .get_all(header::ORIGIN)
        .iter()
        .map(HeaderValue::as_bytes);
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    // A link on any site may lead to the page: it shows nothing to whoever has no token.
    let site = site.filter(|_| !opens_page(request));
    service.door.check_origin(origins, site)
}

/// Whether a person goes to the page, in a window of its own.
fn opens_page(request: &Request) -> bool {
    let says = |name: &str, value: &[u8]| {
        let mut named = request.headers().get_all(name).iter();
        named.next().is_some_and(|said| said.as_bytes() == value) && named.next().is_none()
    };
    request.uri().path() == "/"
        && matches!(*request.method(), Method::GET | Method::HEAD)
        && says("sec-fetch-mode", b"navigate")
        && says("sec-fetch-dest", b"document")
}

fn check_host(service: &Service, request: &Request) -> Result<(), Turned> {
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
    Ok(())
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
