//! ACP over HTTP: the upgrade to WebSocket, or messages by POST and streams by GET.

use std::sync::Arc;

use auth::Principal;
use axum::Extension;
use axum::body::Body;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Request, State, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use domain::{ConnectionId, TraceParent};
use serde_json::value::RawValue;
use wire::rpc::{self, Incoming, Refusal};

use super::admission;
use super::answer::{not_found, refusal};
use super::body;
use super::pulse::Progress;
use crate::connection::lanes::Refused;
use crate::service::Service;
use crate::transport::streamable::{self, Overloaded, Remote};
use crate::transport::websocket::{self, Opened};

const CONNECTION: &str = "acp-connection-id";
const SESSION: &str = "acp-session-id";

/// Longest name of a session that is looked at; ours are shorter.
const SESSION_NAME_BYTES_MAX: usize = 256;

/// Serves whatever is asked at `/acp`.
pub(super) async fn acp(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    Extension(progress): Extension<Progress>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: Request,
) -> Response {
    match *request.method() {
        Method::GET if request.headers().contains_key(header::UPGRADE) => {
            let trace = request.extensions().get().copied().map(Extension);
            let (principal, progress) = (Extension(principal), Extension(progress));
            socket(State(service), principal, progress, trace, upgrade).await
        }
        Method::GET | Method::HEAD => stream(&service, &principal, &request),
        Method::POST => {
            let posted = post(&service, principal, request).await;
            posted.unwrap_or_else(|refused| refused)
        }
        Method::DELETE => delete(&service, &principal, request.headers()),
        // The router lets no other method through.
        _ => not_found(),
    }
}

/// Turns the request into a WebSocket.
pub(super) async fn socket(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    Extension(progress): Extension<Progress>,
    trace: Option<Extension<TraceParent>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Ok(upgrade) = upgrade else {
        let message = "this is not a valid upgrade to WebSocket, version 13";
        let mut refused = refusal(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message);
        let headers = refused.headers_mut();
        for (name, value) in [
            (header::CONNECTION, "upgrade"),
            (header::UPGRADE, "websocket"),
            (header::SEC_WEBSOCKET_VERSION, "13"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        return refused;
    };
    let Some(slot) = service.take_slot(&principal) else {
        return too_many();
    };
    let id = ConnectionId::random();
    let named = HeaderValue::from_str(id.as_str());
    let mut response = websocket::upgrade(
        service,
        principal,
        Opened {
            id,
            slot,
            trace: trace.map(|Extension(trace)| trace),
            progress,
        },
        upgrade.protocols([admission::SUBPROTOCOL]),
    );
    if let Ok(named) = named {
        response.headers_mut().insert(CONNECTION, named);
    }
    response
}

/// Opens the connection's stream, or a session's.
fn stream(service: &Arc<Service>, principal: &Principal, request: &Request) -> Response {
    let headers = request.headers();
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepts = accepted
        .filter_map(|accept| accept.to_str().ok())
        .flat_map(|accept| accept.split(','))
        .filter_map(|kind| kind.split(';').next())
        .any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"));
    if !accepts {
        let message = "send `Accept: text/event-stream`, or ask for an upgrade to WebSocket";
        return refusal(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message);
    }
    let (remote, session) = match (find(service, principal, headers), session_in(headers)) {
        (Ok(remote), Ok(session)) => (remote, session),
        (Err(refused), _) | (_, Err(refused)) => return refused,
    };
    let after = match single(headers, "last-event-id") {
        Ok(None) => None,
        Ok(Some(name)) => match streamable::mark_named(name) {
            Some(mark) => Some(mark),
            None => return conflict(),
        },
        Err(refused) => return refused,
    };
    if request.method() == Method::HEAD {
        return event_stream(Body::empty(), headers);
    }
    let open = match remote.read(session, after) {
        Ok(open) => open,
        Err(Refused::Conflict) => return conflict(),
        Err(Refused::TooMany) => {
            let message = "too many streams wait for sessions; enter one of them first";
            let refused = refusal(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
            return try_later(refused);
        }
    };
    event_stream(Body::from_stream(open.into_bytes()), headers)
}

/// The answer whose `body` is a stream, to a request with these `headers`.
fn event_stream(body: Body, headers: &HeaderMap) -> Response {
    let mut response = body.into_response();
    let answer = response.headers_mut();
    answer.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    answer.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for name in [CONNECTION, SESSION] {
        if let Some(value) = headers.get(name) {
            answer.insert(name, value.clone());
        }
    }
    response
}

/// Takes one message.
async fn post(
    service: &Arc<Service>,
    principal: Principal,
    request: Request,
) -> Result<Response, Response> {
    let headers = request.headers().clone();
    let trace: Option<TraceParent> = request.extensions().get().copied();
    let body = body::read(&service.limits, request, service.limits.message_bytes_max).await?;
    let is_batch = body.trim_ascii_start().first() == Some(&b'[');
    let mut message = rpc::parse(&body).map_err(|refused| malformed(refused, is_batch))?;
    drop(body);
    let is_first = matches!(&message, Incoming::Request { method, .. } if method == "initialize");
    if is_first && !headers.contains_key(CONNECTION) {
        return open(service, principal, (message, trace)).await;
    }
    let connection = single(&headers, CONNECTION)?.ok_or_else(unnamed)?;
    let session = session_in(&headers)?;
    if is_first {
        let message = "this connection is initialized already";
        return Err(invalid(message));
    }
    if let Some(session) = session {
        name_session(&mut message, session)?;
    }
    let remote = service
        .remotes
        .find(connection, &principal)
        .ok_or_else(not_found)?;
    match remote
        .post((message, trace), service.limits.handshake)
        .await
    {
        Ok(()) => Ok(StatusCode::ACCEPTED.into_response()),
        Err(Overloaded) => Err(too_many()),
    }
}

/// Begins a connection.
async fn open(
    service: &Arc<Service>,
    principal: Principal,
    initialize: (Incoming, Option<TraceParent>),
) -> Result<Response, Response> {
    if service.sessions.is_draining() {
        let message = "the server is shutting down";
        return Err(refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            message,
        ));
    }
    let slot = service.take_slot(&principal).ok_or_else(too_many)?;
    let opened = Remote::open(service, principal, slot, initialize).await;
    let (remote, answer) = opened.ok_or_else(too_many)?;
    let json = HeaderValue::from_static("application/json");
    let is_refused = serde_json::from_str::<Answered>(&answer).is_ok_and(|a| a.error.is_some());
    let mut response = ([(header::CONTENT_TYPE, json)], answer).into_response();
    if is_refused {
        // Nothing can be done with it.
        service.remotes.end(&remote);
    } else if let Ok(id) = HeaderValue::from_str(remote.id.as_str()) {
        response.headers_mut().insert(CONNECTION, id);
    }
    Ok(response)
}

fn delete(service: &Arc<Service>, principal: &Principal, headers: &HeaderMap) -> Response {
    match find(service, principal, headers) {
        Ok(remote) => {
            service.remotes.end(&remote);
            StatusCode::ACCEPTED.into_response()
        }
        Err(refused) => refused,
    }
}

fn find(
    service: &Arc<Service>,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Arc<Remote>, Response> {
    let connection = single(headers, CONNECTION)?.ok_or_else(unnamed)?;
    let found = service.remotes.find(connection, principal);
    found.ok_or_else(not_found)
}

fn session_in(headers: &HeaderMap) -> Result<Option<&str>, Response> {
    let session = single(headers, SESSION)?;
    match session {
        Some(name) if name.is_empty() || name.len() > SESSION_NAME_BYTES_MAX => {
            Err(invalid("Acp-Session-Id names no session"))
        }
        Some(_) | None => Ok(session),
    }
}

/// Has the message name the session that its header names.
fn name_session(message: &mut Incoming, session: &str) -> Result<(), Response> {
    let (Incoming::Request { method, params, .. } | Incoming::Notification { method, params }) =
        message
    else {
        return Ok(());
    };
    if method.starts_with("$/") {
        return Ok(());
    }
    let text = params.as_deref().map_or("{}", RawValue::get);
    let Ok(named) = serde_json::from_str::<Named>(text) else {
        // Not an object, or an odd one: it is refused where it is understood.
        return Ok(());
    };
    match named.session {
        Some(named) if named == session => Ok(()),
        Some(_) => Err(invalid("Acp-Session-Id and params.sessionId differ")),
        None => {
            let rest = text.trim_start().strip_prefix('{').unwrap_or("}");
            let comma = if rest.trim_start().starts_with('}') {
                ""
            } else {
                ","
            };
            let name = serde_json::Value::from(session);
            let text = format!("{{\"sessionId\":{name}{comma}{rest}");
            *params = Some(RawValue::from_string(text).map_err(|_| invalid("bad params"))?);
            Ok(())
        }
    }
}

#[derive(serde::Deserialize)]
struct Answered {
    error: Option<serde::de::IgnoredAny>,
}

#[derive(serde::Deserialize)]
struct Named {
    #[serde(default, rename = "sessionId", alias = "session_id")]
    session: Option<String>,
}

/// A header that may stand once.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Response> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value.trim())),
        (Ok(_) | Err(_), _) => Err(invalid(&format!("{name} must stand once, in plain text"))),
    }
}

/// The JSON-RPC error as the body of an HTTP one.
fn malformed(refused: Refusal, is_batch: bool) -> Response {
    let status = match is_batch && refused.error.code == rpc::code::INVALID_REQUEST {
        true => StatusCode::NOT_IMPLEMENTED,
        false => StatusCode::BAD_REQUEST,
    };
    let json = HeaderValue::from_static("application/json");
    let request = ConnectionId::random();
    let error = refused.error.with_request_id(request.as_str());
    let body = rpc::error_response(&refused.id, &error);
    (status, [(header::CONTENT_TYPE, json)], body).into_response()
}

fn unnamed() -> Response {
    invalid("Acp-Connection-Id is missing; send initialize first")
}

fn invalid(message: &str) -> Response {
    refusal(StatusCode::BAD_REQUEST, "invalid_request", message)
}

fn conflict() -> Response {
    let message = "this stream cannot go on from there; attach to the session anew";
    refusal(StatusCode::CONFLICT, "conflict", message)
}

fn too_many() -> Response {
    let message = "too many connections or requests; try again later";
    try_later(refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "overloaded",
        message,
    ))
}

fn try_later(mut response: Response) -> Response {
    let after = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, after);
    response
}
