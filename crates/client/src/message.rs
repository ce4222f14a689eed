//! What the server said, as this side acts on it. Reading is lenient: whatever is not understood is
//! [`Inbound::Skipped`] with a reason for the log.

use domain::event::ToolKind;
use domain::{Cursor, SessionId};
use serde_json::Value;
use serde_json::value::RawValue;
use wire::acp::{AgentMessage, PermissionQuestion, SessionUpdate, decode_agent};
use wire::rpc::{self, Incoming, RequestId, RpcError};

use crate::update::{Received, ToolCall, Update};

/// A message from the server.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// The answer to one of our requests.
    Answer {
        id: String,
        outcome: Result<Value, RpcError>,
    },
    /// Something happened in a session.
    Update {
        session: SessionId,
        received: Received,
    },
    /// The server asks whether a tool may run.
    Permission {
        id: RequestId,
        question: PermissionQuestion,
        call: ToolCall,
    },
    /// The server no longer wants the answer to its request.
    Withdrawn { id: RequestId },
    /// A request that this client does not serve, and what to answer.
    Unserved { id: RequestId, error: RpcError },
    /// Nothing we understand.
    Skipped { reason: &'static str },
}

/// Reads one frame. Never fails: see [`Inbound::Skipped`].
pub(crate) fn decode(frame: &str) -> Inbound {
    match rpc::parse(frame.as_bytes()) {
        Ok(Incoming::Response { id, outcome }) => answer(&id, outcome),
        Ok(Incoming::Request { id, method, params }) => request(id, &method, params.as_deref()),
        Ok(Incoming::Notification { method, params }) => notification(&method, params.as_deref()),
        Ok(Incoming::Ignored(reason)) => Inbound::Skipped { reason },
        Err(_) => Inbound::Skipped {
            reason: "not a JSON-RPC message",
        },
    }
}

/// `value._meta.fastness`, or null.
pub(crate) fn meta(value: &Value) -> &Value {
    &value["_meta"]["fastness"]
}

pub(crate) fn text_at(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

pub(crate) fn session_at(value: &Value) -> Option<SessionId> {
    value["sessionId"].as_str()?.parse().ok()
}

fn answer(id: &RequestId, outcome: Result<Box<RawValue>, RpcError>) -> Inbound {
    let Some(id) = id.as_str() else {
        return Inbound::Skipped {
            reason: "an answer to an id that is none of ours",
        };
    };
    let outcome = match outcome.map(|result| serde_json::from_str(result.get())) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => Err(RpcError::parse()),
        Err(error) => Err(error),
    };
    Inbound::Answer {
        id: id.to_owned(),
        outcome,
    }
}

fn request(id: RequestId, method: &str, params: Option<&RawValue>) -> Inbound {
    let error = match decode_agent(method, params) {
        Ok(AgentMessage::RequestPermission(question)) => match tool_call(&question.tool_call) {
            Some(call) => return Inbound::Permission { id, question, call },
            None => RpcError::invalid_params("the tool call has no id"),
        },
        Ok(
            AgentMessage::Update(_)
            | AgentMessage::Turn(_)
            | AgentMessage::CancelRequest(_)
            | AgentMessage::Unknown(_),
        ) => RpcError::method_not_found(method),
        Err(error) => error,
    };
    Inbound::Unserved { id, error }
}

fn notification(method: &str, params: Option<&RawValue>) -> Inbound {
    let reason = match decode_agent(method, params) {
        Ok(AgentMessage::Update(update)) => match received(&update) {
            Some((read, cursor)) => {
                return Inbound::Update {
                    session: update.session,
                    received: Received {
                        update: read,
                        cursor,
                        raw: update.update,
                    },
                };
            }
            None => "an update without a kind",
        },
        Ok(AgentMessage::Turn(notice)) => {
            return Inbound::Update {
                session: notice.session_id,
                received: Received {
                    cursor: None,
                    update: Update::Turn(notice),
                    raw: Value::Null,
                },
            };
        }
        Ok(AgentMessage::CancelRequest(id)) => return Inbound::Withdrawn { id },
        Ok(AgentMessage::RequestPermission(_)) => "a question without an id",
        Ok(AgentMessage::Unknown(method)) if method == "_fastness/queue" => {
            match params.and_then(queue) {
                Some(update) => return update,
                None => "a change of the queue that is none",
            }
        }
        Ok(AgentMessage::Unknown(_)) => "an unknown notification",
        Err(_) => "a notification with parameters that do not fit",
    };
    Inbound::Skipped { reason }
}

/// A change of a session's queue, as an update of the kind `queue`.
fn queue(params: &RawValue) -> Option<Inbound> {
    let raw: Value = serde_json::from_str(params.get()).ok()?;
    let session = session_at(&raw)?;
    let update = Update::Other {
        kind: "queue".to_owned(),
    };
    let received = Received {
        update,
        cursor: None,
        raw,
    };
    Some(Inbound::Update { session, received })
}

/// The update, and where the client stands after it.
fn received(message: &SessionUpdate) -> Option<(Update, Option<Cursor>)> {
    let update = &message.update;
    let text = || message.text().map(str::to_owned);
    let kind = update["sessionUpdate"].as_str()?;
    let other = || Update::Other {
        kind: kind.to_owned(),
    };
    let update = match kind {
        "agent_message_chunk" => text().map_or_else(other, |text| Update::Text {
            text,
            greeting: meta(update)["greeting"] == Value::Bool(true)
                || message.meta.as_ref().is_some_and(|meta| meta.greeting),
            message: text_at(update, "messageId"),
        }),
        "agent_thought_chunk" => text().map_or_else(other, |text| Update::Thought { text }),
        "notice" => text_at(update, "title").map_or_else(other, |text| Update::Notice { text }),
        "tool_call" => tool_call(update).map_or_else(other, Update::ToolCall),
        "tool_call_update" => tool_call(update).map_or_else(other, Update::ToolUpdate),
        _ => other(),
    };
    // Inside a group of updates of one event the cursor has not moved yet.
    let meta = message.meta.as_ref().filter(|meta| !meta.more);
    Some((update, meta.map(wire::acp::UpdateMeta::cursor)))
}

fn tool_call(value: &Value) -> Option<ToolCall> {
    let kind = |kind: &Value| serde_json::from_value::<ToolKind>(kind.clone()).ok();
    // What a sub-agent wants to do is told beside the call that it works on.
    let agent = meta(value).get("agent");
    let of_agent = agent.filter(|agent| agent["tool"].is_string());
    let (name, input) = match of_agent {
        Some(agent) => (text_at(agent, "tool"), agent.get("input")),
        None => (text_at(value, "name"), value.get("rawInput")),
    };
    let outcome = text_at(&value["rawOutput"], "status");
    let is_denied = outcome.as_deref() == Some("denied");
    Some(ToolCall {
        id: text_at(value, "toolCallId").filter(|id| !id.is_empty())?,
        name,
        title: text_at(value, "title"),
        kind: value.get("kind").and_then(kind),
        status: text_at(value, "status"),
        input: input.filter(|input| !input.is_null()).cloned(),
        denial: is_denied.then(|| first_text(value)).flatten(),
        outcome,
        is_question: meta(value)["question"] == Value::Bool(true),
    })
}

/// The first text in the content of a tool call.
fn first_text(value: &Value) -> Option<String> {
    let mut items = value["content"].as_array()?.iter();
    items.find_map(|item| text_at(&item["content"], "text"))
}
