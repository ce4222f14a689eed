//! The outermost layer: each request's line in the log, its numbers, and the trace it names.
//!
//! The line says who asked for what and how it went. It never holds a query, a header's value
//! that a client chose freely, or a body.

use std::time::Instant;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use domain::{ConnectionId, PrincipalId, SessionId, TraceParent};
use meters::label::{Label as _, Route, Status};

/// Who was admitted, left in an answer for its line in the log.
#[derive(Clone)]
pub(super) struct AskedBy(pub(super) PrincipalId);

/// The session an answer is about.
#[derive(Clone, Copy)]
pub(crate) struct About(pub(crate) SessionId);

/// The name under which a refusal can be found.
#[derive(Clone)]
pub(super) struct Named(pub(super) ConnectionId);

/// Serves a request, then tells of it.
pub(super) async fn access_log(mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let trace = trace_parent(&request);
    if let Some(trace) = trace {
        request.extensions_mut().insert(trace);
    }
    let route = route_of(request.uri().path());
    let method = request.method().clone();
    let named = request.headers().get("acp-session-id");
    let session = named.and_then(|named| named.to_str().ok()?.parse::<SessionId>().ok());
    let response = next.run(request).await;
    let took = began.elapsed();
    let status = response.status().as_u16();
    meters::HTTP_REQUESTS
        .of(route)
        .of(Status::of(status))
        .count();
    meters::HTTP_TIME.observe(took);
    let left = response.extensions();
    let about = left.get().map(|About(session)| *session).or(session);
    let connection = response.headers().get("acp-connection-id");
    tracing::info!(
        target: "access",
        principal = left.get().map_or("-", |AskedBy(who)| who.as_str()),
        method = known(&method),
        route = route.name(),
        status,
        connection = connection.and_then(|id| id.to_str().ok()),
        session = about.map(display),
        request = left.get().map(|Named(name)| name.as_str()),
        trace_id = trace.map(|trace| display(trace.id())),
        took_ms = took.as_secs_f64() * 1e3,
        "http"
    );
    response
}

/// The one valid `traceparent` of a request.
fn trace_parent(request: &Request) -> Option<TraceParent> {
    let mut named = request.headers().get_all("traceparent").iter();
    let only = named.next().filter(|_| named.next().is_none())?;
    only.to_str().ok()?.parse().ok()
}

/// A method by name, if it is one that servers know: others may say anything.
fn known(method: &axum::http::Method) -> &str {
    match method.as_str() {
        name @ ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" | "CONNECT"
        | "TRACE") => name,
        _ => "other",
    }
}

/// A path as it is counted and logged: what leads nowhere may say anything.
fn route_of(path: &str) -> Route {
    Route::named(path).unwrap_or_else(|| {
        if path.starts_with("/api/v1/") {
            Route::Rest
        } else {
            Route::Other
        }
    })
}
