//! Asking a person what an agent wants to know: as a form, or as a choice for clients that show none.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{CreateElicitationResponse, ElicitationAction};
use agent_client_protocol_schema::v1::{ElicitationAcceptAction, ElicitationContentValue};
use domain::SessionId;
use domain::event::QuestionAsked;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::rpc::{self, RequestId};

/// The field of a form for the answer, or the choice among those that are offered.
const ANSWER: &str = "answer";

/// The field of a form for an answer that is not offered.
const OTHER: &str = "other";

/// What a client answered to a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormReply {
    /// The person wrote or chose this.
    Said(String),
    /// The person would not answer.
    Declined,
    /// Not an answer that ACP knows.
    Invalid,
}

/// `elicitation/create` as a whole frame.
#[must_use]
pub fn question_form(id: &RequestId, session: SessionId, asked: &QuestionAsked) -> String {
    let params = json!({
        "mode": "form",
        "sessionId": session,
        "toolCallId": asked.call_id,
        "message": asked.question,
        "requestedSchema": form(asked),
    });
    // A `Value` is always JSON.
    rpc::request(id, "elicitation/create", &params).unwrap_or_default()
}

fn form(asked: &QuestionAsked) -> Value {
    if asked.options.is_empty() {
        let answer = json!({"type": "string", "title": "Answer", "minLength": 1});
        return json!({"type": "object", "properties": {ANSWER: answer}, "required": [ANSWER]});
    }
    let answer = json!({"type": "string", "title": "Answer", "enum": asked.options});
    let other = json!({"type": "string", "title": "Something else"});
    json!({"type": "object", "properties": {ANSWER: answer, OTHER: other}})
}

/// `session/request_permission` as a whole frame, for clients without forms: one option for each
/// answer. The choices are [`QuestionAsked::choices`].
#[must_use]
pub fn question_choice(id: &RequestId, session: SessionId, asked: &QuestionAsked) -> String {
    let text = json!({"type": "text", "text": asked.question});
    let line = asked.question.lines().next().unwrap_or_default();
    let params = json!({
        "sessionId": session,
        "toolCall": {
            "toolCallId": asked.call_id,
            "title": line,
            "kind": "other",
            "status": "pending",
            "content": [{"type": "content", "content": text}],
            // Whoever answers for a person must not take it for a permission.
            "_meta": {"fastness": {"question": true}},
        },
        "options": asked.choices(),
    });
    rpc::request(id, "session/request_permission", &params).unwrap_or_default()
}

/// Reads the result of `elicitation/create`.
#[must_use]
pub fn form_reply(result: &RawValue) -> FormReply {
    let Ok(response) = serde_json::from_str::<CreateElicitationResponse>(result.get()) else {
        return FormReply::Invalid;
    };
    match response.action {
        ElicitationAction::Accept(ElicitationAcceptAction { content, .. }) => {
            said(&content.unwrap_or_default()).map_or(FormReply::Declined, FormReply::Said)
        }
        ElicitationAction::Decline | ElicitationAction::Cancel => FormReply::Declined,
        ElicitationAction::Other(_) | _ => FormReply::Invalid,
    }
}

/// What stands in a form that was filled in; the person's own words go before a choice.
fn said(content: &BTreeMap<String, ElicitationContentValue>) -> Option<String> {
    let fields = [OTHER, ANSWER].into_iter();
    let mut texts = fields.filter_map(|field| content.get(field).map(text));
    texts.find(|text| !text.trim().is_empty())
}

fn text(value: &ElicitationContentValue) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(Value::Null) | Err(_) => String::new(),
        Ok(other) => other.to_string(),
    }
}
