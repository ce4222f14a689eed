//! The listening edge: sockets, deadlines and routes; [`admission`] is what every request passes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::Principal;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{State, WebSocketUpgrade};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use domain::ConnectionId;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::service::Service;
use crate::transport::websocket;

mod admission;

/// How long accepting rests when the system has no more descriptors for us.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Accepts connections until `stop`.
pub async fn serve(service: Arc<Service>, listener: TcpListener, stop: CancellationToken) {
    let router = router(Arc::clone(&service));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, peer)) => accept(&service, router.clone(), socket, peer),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

fn accept(service: &Arc<Service>, router: Router, socket: TcpStream, peer: SocketAddr) {
    // Answers are small and must not wait for the peer's delayed acknowledgement.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%peer, %error, "the peer left at once");
        return;
    }
    let headers_time = service.limits.handshake;
    let closing = service.closing.clone();
    service.connections.spawn(async move {
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(headers_time);
        let serving = http
            .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router))
            .with_upgrades();
        tokio::select! {
            served = serving => if let Err(error) = served {
                tracing::debug!(%peer, %error, "the connection ended early");
            },
            () = closing.cancelled() => {}
        }
    });
}

fn router(service: Arc<Service>) -> Router {
    let admit = middleware::from_fn_with_state(Arc::clone(&service), admission::admit);
    Router::new()
        .route("/acp", get(acp))
        .route("/ws", get(acp))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "not_found", "there is nothing here"))
        .method_not_allowed_fallback(async || {
            refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "this route has other methods",
            )
        })
        .layer(admit)
        // Everything above needs a token, also what does not exist; only these two do not.
        .route("/health", get(health))
        .route("/ready", get(ready))
        .with_state(service)
}

async fn acp(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Ok(upgrade) = upgrade else {
        let message = "this route speaks WebSocket: ask for an upgrade";
        return refusal(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message);
    };
    let Ok(slot) = Arc::clone(&service.slots).try_acquire_owned() else {
        let message = "too many connections; try again later";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message);
    };
    let id = ConnectionId::random();
    let named = HeaderValue::from_str(id.as_str());
    let mut response = websocket::upgrade(
        service,
        principal,
        (id, slot),
        upgrade.protocols([admission::SUBPROTOCOL]),
    );
    if let Ok(named) = named {
        response.headers_mut().insert("acp-connection-id", named);
    }
    response
}

/// That the process runs, and nothing else: it is told to anyone.
async fn health() -> Response {
    json_response(StatusCode::OK, &json!({"status": "ok", "ok": true}))
}

async fn ready(State(service): State<Arc<Service>>) -> Response {
    if service.closing.is_cancelled() {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            "the server is shutting down",
        );
    }
    json_response(StatusCode::OK, &json!({"status": "ready"}))
}

fn refusal(status: StatusCode, error: &str, message: &str) -> Response {
    let request = ConnectionId::random();
    let body = json!({"error": error, "message": message, "requestId": request.as_str()});
    json_response(status, &body)
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], body.to_string()).into_response()
}
