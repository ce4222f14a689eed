//! What our own client sends, as whole frames.

use domain::{EventSeq, SessionId};
use serde_json::{Value, json};

use super::PROTOCOL_VERSION;
use super::client_message::{ConfigValue, ListSessions};
use super::meta::FastnessMeta;
use super::permission::PermissionReply;
use crate::rpc::{self, RequestId};

/// `initialize`, declaring that we understand `_fastness/turn` and notices, and offer nothing else.
#[must_use]
pub fn initialize(id: &RequestId, name: &str, version: &str) -> String {
    let params = json!({
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": {
            "session": {"notices": {}},
            "_meta": {"fastness": {"turns": true, "queue": true}},
        },
        "clientInfo": {"name": name, "version": version},
    });
    request(id, "initialize", &params)
}

/// `session/new`
#[must_use]
pub fn new_session(id: &RequestId, cwd: &str) -> String {
    request(id, "session/new", &json!({"cwd": cwd, "mcpServers": []}))
}

/// `session/load`
#[must_use]
pub fn load_session(id: &RequestId, session: SessionId, cwd: &str, meta: &FastnessMeta) -> String {
    request(id, "session/load", &attach(session, cwd, meta))
}

/// `session/resume`; [`FastnessMeta::after`] says where to go on.
#[must_use]
pub fn resume_session(
    id: &RequestId,
    session: SessionId,
    cwd: &str,
    meta: &FastnessMeta,
) -> String {
    request(id, "session/resume", &attach(session, cwd, meta))
}

/// `session/list`
#[must_use]
pub fn list_sessions(id: &RequestId, page: &ListSessions) -> String {
    let mut params = json!({});
    if let Some(cwd) = &page.cwd {
        params["cwd"] = json!(cwd);
    }
    if let Some(cursor) = &page.cursor {
        params["cursor"] = json!(cursor);
    }
    request(id, "session/list", &params)
}

/// `session/prompt`, with ACP content blocks.
#[must_use]
pub fn prompt(id: &RequestId, session: SessionId, blocks: &[Value], meta: &FastnessMeta) -> String {
    let mut params = json!({"sessionId": session, "prompt": blocks});
    add_meta(&mut params, meta);
    request(id, "session/prompt", &params)
}

/// `session/cancel`
#[must_use]
pub fn cancel(session: SessionId) -> String {
    let params = json!({"sessionId": session});
    rpc::notification("session/cancel", &params).unwrap_or_default()
}

/// `session/close`
#[must_use]
pub fn close_session(id: &RequestId, session: SessionId) -> String {
    request(id, "session/close", &json!({"sessionId": session}))
}

/// `session/delete`
#[must_use]
pub fn delete_session(id: &RequestId, session: SessionId) -> String {
    request(id, "session/delete", &json!({"sessionId": session}))
}

/// `session/set_mode`
#[must_use]
pub fn set_mode(id: &RequestId, session: SessionId, mode: &str) -> String {
    let params = json!({"sessionId": session, "modeId": mode});
    request(id, "session/set_mode", &params)
}

/// `session/set_config_option`
#[must_use]
pub fn set_config_option(
    id: &RequestId,
    session: SessionId,
    option: &str,
    value: &ConfigValue,
) -> String {
    let mut params = json!({"sessionId": session, "configId": option});
    match value {
        ConfigValue::Choice(choice) => params["value"] = json!(choice),
        ConfigValue::Switch(switch) => {
            params["type"] = json!("boolean");
            params["value"] = json!(switch);
        }
    }
    request(id, "session/set_config_option", &params)
}

/// `_fastness/session/rewind`
#[must_use]
pub fn rewind(id: &RequestId, session: SessionId, to: EventSeq) -> String {
    let params = json!({"sessionId": session, "to": to});
    request(id, "_fastness/session/rewind", &params)
}

/// The answer to `session/request_permission`; anything but a choice says that there was none.
#[must_use]
pub fn permission_answer(id: &RequestId, reply: &PermissionReply) -> String {
    let selected = |option: &str| json!({"outcome": "selected", "optionId": option});
    let answer = match reply {
        PermissionReply::Selected(option) => json!({"outcome": selected(option)}),
        PermissionReply::Explained { option, reason } => json!({
            "outcome": selected(option),
            "_meta": {"fastness": {"reason": reason}},
        }),
        PermissionReply::Cancelled | PermissionReply::Invalid => {
            json!({"outcome": {"outcome": "cancelled"}})
        }
    };
    rpc::response(id, &answer).unwrap_or_default()
}

fn attach(session: SessionId, cwd: &str, meta: &FastnessMeta) -> Value {
    let mut params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    add_meta(&mut params, meta);
    params
}

fn add_meta(params: &mut Value, meta: &FastnessMeta) {
    if *meta != FastnessMeta::default() {
        params["_meta"] = json!({"fastness": meta});
    }
}

/// A `Value` is always JSON, so this gives the frame.
fn request(id: &RequestId, method: &str, params: &Value) -> String {
    rpc::request(id, method, params).unwrap_or_default()
}
