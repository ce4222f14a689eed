//! Asking a person what an agent or a tool server wants to know: as a form, or as a choice for clients
//! that show none.

use std::borrow::Cow;
use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{CreateElicitationResponse, ElicitationAction};
use agent_client_protocol_schema::v1::{ElicitationAcceptAction, ElicitationContentValue};
use agent_client_protocol_schema::v1::{ElicitationPropertySchema, ElicitationSchema};
use domain::SessionId;
use domain::event::QuestionAsked;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

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
    /// The person filled in a tool server's form.
    Filled(Map<String, Value>),
    /// The person would not answer.
    Declined,
    /// Not an answer that ACP knows.
    Invalid,
}

/// Whether `asked` can be shown as a form: a tool server's has to be one that ACP knows, and what a
/// server wants to be allowed is a choice.
#[must_use]
pub fn is_form(asked: &QuestionAsked) -> bool {
    let Some(form) = &asked.form else {
        return asked.server.is_none();
    };
    let Ok(form) = serde_json::from_value::<ElicitationSchema>(form.clone()) else {
        return false;
    };
    let mut fields = form.properties.values();
    !fields.any(|field| matches!(field, ElicitationPropertySchema::Other(_)))
}

/// `elicitation/create` as a whole frame.
#[must_use]
pub fn question_form(id: &RequestId, session: SessionId, asked: &QuestionAsked) -> String {
    let params = json!({
        "mode": "form",
        "sessionId": session,
        "toolCallId": asked.call_id,
        "message": words(asked),
        "requestedSchema": asked.form.clone().unwrap_or_else(|| form(asked)),
    });
    // A `Value` is always JSON.
    rpc::request(id, "elicitation/create", &params).unwrap_or_default()
}

/// What is asked. Whoever reads it knows that a tool server does, and which.
fn words(asked: &QuestionAsked) -> Cow<'_, str> {
    match &asked.server {
        Some(server) => Cow::Owned(format!("{server} asks: {}", asked.question)),
        None => Cow::Borrowed(&asked.question),
    }
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
    let words = words(asked);
    let text = json!({"type": "text", "text": words});
    let line = words.lines().next().unwrap_or_default();
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

/// Reads the result of `elicitation/create` for a tool server.
#[must_use]
pub fn server_form_reply(result: &RawValue) -> FormReply {
    #[derive(Deserialize)]
    struct Reply {
        action: String,
        #[serde(default)]
        content: Option<Map<String, Value>>,
    }
    match serde_json::from_str::<Reply>(result.get()) {
        Ok(Reply { action, content }) => match action.as_str() {
            "accept" => FormReply::Filled(content.unwrap_or_default()),
            "decline" | "cancel" => FormReply::Declined,
            _ => FormReply::Invalid,
        },
        Err(_) => FormReply::Invalid,
    }
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
