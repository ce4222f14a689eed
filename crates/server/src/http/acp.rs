//! ACP over HTTP: the upgrade to WebSocket.

use std::sync::Arc;

use auth::Principal;
use axum::Extension;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{State, WebSocketUpgrade};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use domain::ConnectionId;

use super::admission;
use super::answer::refusal;
use crate::service::Service;
use crate::transport::websocket;

pub(super) async fn acp(
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
