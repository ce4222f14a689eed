//! What an agent sends, as our own client reads it.

use domain::SessionId;
use domain::event::PermissionOption;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::decode::cancelled_id;
use super::frames::TurnNotice;
use super::meta::UpdateMeta;
use crate::rpc::{RequestId, RpcError};

/// A request or notification of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentMessage {
    /// `session/update`, a notification.
    Update(SessionUpdate),
    /// `session/request_permission`, a request.
    RequestPermission(PermissionQuestion),
    /// `_fastness/turn`, a notification.
    Turn(TurnNotice),
    /// `$/cancel_request`, a notification: the answer is no longer needed.
    CancelRequest(RequestId),
    /// A method that our client does not serve.
    Unknown(String),
}

/// Something happened in a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionUpdate {
    /// In which one.
    pub session: SessionId,
    /// What, as ACP's `SessionUpdate`; its kind is in `sessionUpdate`.
    pub update: Value,
    /// The cursor after it; missing on state that is not part of the stream.
    pub meta: Option<UpdateMeta>,
}

impl SessionUpdate {
    /// The kind of update, such as `agent_message_chunk`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.update["sessionUpdate"].as_str().unwrap_or_default()
    }

    /// The text of a chunk, if it is one of text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.update["content"]["text"].as_str()
    }
}

/// A tool call wants to run, and somebody must say whether it may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionQuestion {
    /// In which session.
    #[serde(rename = "sessionId")]
    pub session: SessionId,
    /// What wants to run, as ACP's `ToolCallUpdate`.
    pub tool_call: Value,
    /// The ways to answer.
    pub options: Vec<PermissionOption>,
}

/// Reads the parameters of `method`.
///
/// # Errors
/// `-32602` if they do not fit.
pub fn decode_agent(method: &str, params: Option<&RawValue>) -> Result<AgentMessage, RpcError> {
    match method {
        "session/update" => read(params).map(|params: UpdateParams| {
            AgentMessage::Update(SessionUpdate {
                session: params.session_id,
                update: params.update,
                meta: params.meta.and_then(|meta| meta.fastness),
            })
        }),
        "session/request_permission" => read(params).map(AgentMessage::RequestPermission),
        "_fastness/turn" => read(params).map(AgentMessage::Turn),
        "$/cancel_request" => cancelled_id(params).map(AgentMessage::CancelRequest),
        _ => Ok(AgentMessage::Unknown(method.to_owned())),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams {
    session_id: SessionId,
    update: Value,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    fastness: Option<UpdateMeta>,
}

fn read<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, RpcError> {
    let params = params.ok_or_else(|| RpcError::invalid_params("the parameters are missing"))?;
    serde_json::from_str(params.get())
        .map_err(|_| RpcError::invalid_params("the parameters do not fit the method"))
}
