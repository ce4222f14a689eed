//! Asking a person whether a tool call may run, and reading the answer.

use agent_client_protocol_schema::v1::{Meta, RequestPermissionOutcome, RequestPermissionResponse};
use domain::SessionId;
use domain::event::PermissionAsked;
use domain::limits::ANSWER_REASON_BYTES_MAX;
use serde_json::json;
use serde_json::value::RawValue;

use super::content::tool_content;
use super::meta::FASTNESS;
use crate::rpc::{self, RequestId};

/// What a client answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionReply {
    /// This option; the session knows what it means, and whether it was offered.
    Selected(String),
    /// The same, and why: `_meta.fastness.reason` of the answer.
    Explained {
        /// The option.
        option: String,
        /// Why, in words for the model.
        reason: String,
    },
    /// Nothing was chosen.
    Cancelled,
    /// Not an answer that ACP knows.
    Invalid,
}

/// `session/request_permission` as a whole frame.
#[must_use]
pub fn permission_request(id: &RequestId, session: SessionId, asked: &PermissionAsked) -> String {
    let mut tool_call = json!({
        "toolCallId": asked.call_id,
        "kind": asked.kind,
        "status": "pending",
    });
    if !asked.title.is_empty() {
        tool_call["title"] = json!(asked.title);
    }
    if let Some(asker) = &asked.asker {
        tool_call["content"] = asker.content.iter().filter_map(tool_content).collect();
        // The call that is asked about is another session's, so the client has not seen it.
        tool_call["_meta"] = json!({"fastness": {"agent": {
            "name": asker.agent,
            "sessionId": asker.session_id,
            "toolCallId": asker.call_id,
            "tool": asker.tool,
            "input": asker.input,
        }}});
    }
    if let Some(rule) = &asked.rule {
        // No client answers this by itself: the rule wants a person asked.
        tool_call["_meta"]["fastness"]["askRule"] = json!({"rule": rule.rule, "from": rule.from});
    }
    let params = json!({
        "sessionId": session,
        "toolCall": tool_call,
        "options": asked.options,
        // By which a client that lost its connection knows the question when it is asked again.
        "_meta": {"fastness": {"question": asked.id}},
    });
    // A `Value` is always JSON.
    rpc::request(id, "session/request_permission", &params).unwrap_or_default()
}

/// Reads the result of `session/request_permission`.
#[must_use]
pub fn permission_outcome(result: &RawValue) -> PermissionReply {
    match serde_json::from_str::<RequestPermissionResponse>(result.get()) {
        Ok(response) => match response.outcome {
            RequestPermissionOutcome::Selected(selected) => {
                let option = selected.option_id.0.as_ref().to_owned();
                match reason(response.meta.as_ref()) {
                    Some(reason) => PermissionReply::Explained { option, reason },
                    None => PermissionReply::Selected(option),
                }
            }
            RequestPermissionOutcome::Cancelled => PermissionReply::Cancelled,
            _ => PermissionReply::Invalid,
        },
        Err(_) => PermissionReply::Invalid,
    }
}

/// Why a client chose what it chose, if it says so.
fn reason(meta: Option<&Meta>) -> Option<String> {
    let reason = meta?.get(FASTNESS)?.get("reason")?.as_str()?.trim();
    let reason = &reason[..reason.floor_char_boundary(ANSWER_REASON_BYTES_MAX)];
    (!reason.is_empty()).then(|| reason.to_owned())
}
