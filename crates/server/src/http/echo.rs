//! `POST /echo`: gives back what was sent, for those who test a connection.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::limits::REST_BODY_BYTES_MAX;
use serde_json::{Map, Value, json};

use super::answer::json_response;
use super::body;
use crate::service::Service;

pub(super) async fn echo(State(service): State<Arc<Service>>, request: Request) -> Response {
    let read = body::read(&service.limits, request, REST_BODY_BYTES_MAX).await;
    let sent = read.and_then(|bytes| body::object::<Map<String, Value>>(&bytes));
    match sent {
        Ok(sent) => json_response(StatusCode::OK, &json!({"echo": sent})),
        Err(refusal) => refusal,
    }
}
