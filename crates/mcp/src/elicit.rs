//! What a server wants to know from the person: as the person is asked it, and what the server is told.
//!
//! The form is the server's; the answer is the person's as far as it fits that form. Fields that were
//! left out get the value that the form names for them.

use domain::CallId;
use domain::limits::{
    MCP_SCHEMA_BYTES_MAX, QUESTION_BYTES_MAX, QUESTION_OPTION_BYTES_MAX, QUESTION_OPTIONS_MAX,
};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value, json};
use tools::asks::{PersonAnswer, ServerQuestion};
use tools::plain::plain;

use crate::error::quoted;

/// The choice that leaves every field of a form as it is.
const AS_IT_IS: &str = "Accept";

/// A form that a person can be shown.
pub(crate) struct Form {
    message: String,
    schema: Value,
    /// What can be answered by choosing, and what each choice means.
    choices: Vec<(String, Map<String, Value>)>,
}

impl Form {
    /// The form that a server sent; none if it is no form, or too long for a person.
    pub(crate) fn read(params: ElicitRequestParams) -> Option<Self> {
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = params
        else {
            return None;
        };
        let message = plain(message.as_bytes()).replace(char::REPLACEMENT_CHARACTER, "");
        let mut schema = serde_json::to_value(&requested_schema).ok()?;
        title_values(&mut schema);
        let is_short = schema.to_string().len() <= MCP_SCHEMA_BYTES_MAX;
        let is_shown = !message.trim().is_empty() && message.len() <= QUESTION_BYTES_MAX;
        (is_short && is_shown).then(|| Self {
            message: message.trim().to_owned(),
            choices: choices(&schema),
            schema,
        })
    }

    /// The question to the person on behalf of `server`, while `call` runs.
    pub(crate) fn question(&self, server: &str, call: CallId) -> ServerQuestion {
        let options = self.choices.iter().map(|(label, _)| label.clone());
        ServerQuestion {
            call,
            server: quoted(server),
            message: self.message.clone(),
            form: Some(self.schema.clone()),
            options: options.collect(),
        }
    }

    /// What the server is told. An answer that does not fit its form is none.
    pub(crate) fn told(&self, answer: PersonAnswer) -> ElicitResult {
        let content = match answer {
            PersonAnswer::Filled(content) => Some(content),
            PersonAnswer::Chosen(label) => {
                let mut choices = self.choices.iter();
                let chosen = choices.find(|(offered, _)| *offered == label);
                chosen.map(|(_, content)| content.clone())
            }
            PersonAnswer::Declined => None,
            PersonAnswer::Cancelled => return ElicitResult::new(ElicitationAction::Cancel),
        };
        let content = content.map(|content| with_defaults(content, &self.schema));
        let content = content.filter(|content| fits(content, &self.schema));
        match content {
            Some(content) => {
                let accepted = ElicitResult::new(ElicitationAction::Accept);
                accepted.with_content(Value::Object(content))
            }
            None => declined(),
        }
    }
}

/// What a server is told whose question nobody can be asked.
pub(crate) fn declined() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Decline)
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// `content` with the values that the form names for what was left out.
fn with_defaults(mut content: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    for (name, field) in fields(schema) {
        if let (None, Some(default)) = (content.get(name), field.get("default")) {
            content.insert(name.clone(), default.clone());
        }
    }
    // What nobody asked for is not told.
    let properties = schema["properties"].as_object();
    content.retain(|name, value| {
        let is_asked = properties.is_some_and(|fields| fields.contains_key(name));
        is_asked && !value.is_null()
    });
    content
}

fn fits(content: &Map<String, Value>, schema: &Value) -> bool {
    match jsonschema::validator_for(schema) {
        Ok(validator) => validator.is_valid(&Value::Object(content.clone())),
        // A form that cannot be checked is one that the server checks.
        Err(_) => true,
    }
}

/// The answers to a form that a person can choose among: those of its only field, or to leave it as it
/// is if that answers it.
fn choices(schema: &Value) -> Vec<(String, Map<String, Value>)> {
    let mut all = fields(schema);
    let first = all.next();
    if let (Some((name, field)), None) = (first, all.next()) {
        let values = values(field);
        let fit = |(label, _): &(String, Value)| label.len() <= QUESTION_OPTION_BYTES_MAX;
        if !values.is_empty() && values.len() <= QUESTION_OPTIONS_MAX && values.iter().all(fit) {
            let content = |value| Map::from_iter([(name.clone(), value)]);
            let values = values.into_iter();
            return values
                .map(|(label, value)| (label, content(value)))
                .collect();
        }
    }
    let untouched = with_defaults(Map::new(), schema);
    match fits(&untouched, schema) {
        true => vec![(AS_IT_IS.to_owned(), Map::new())],
        false => Vec::new(),
    }
}

/// Writes values with names in the newer way, the only one that clients know.
fn title_values(schema: &mut Value) {
    let fields = schema["properties"].as_object_mut();
    for field in fields.into_iter().flat_map(Map::values_mut) {
        let Some(field) = field.as_object_mut() else {
            continue;
        };
        if let Some(names) = field.shift_remove("enumNames")
            && let Some(Value::Array(values)) = field.shift_remove("enum")
        {
            let titled = values.into_iter().enumerate().map(|(at, value)| {
                let title = names.get(at).cloned().unwrap_or_else(|| value.clone());
                json!({"const": value, "title": title})
            });
            let titled: Vec<Value> = titled.collect();
            field.insert("oneOf".to_owned(), Value::from(titled));
        }
    }
}

/// The values that a field can have, each with its name, if they are listed.
fn values(field: &Value) -> Vec<(String, Value)> {
    if field["type"] == "boolean" {
        let yes_no = [("Yes", true), ("No", false)];
        return yes_no
            .map(|(label, value)| (label.to_owned(), value.into()))
            .into();
    }
    if field["type"] == "array" {
        return Vec::new();
    }
    if let Some(titled) = field["oneOf"].as_array() {
        let named = titled.iter().filter_map(|one| {
            let value = one.get("const")?;
            let title = one.get("title").and_then(Value::as_str);
            Some((quoted(title.or(value.as_str())?), value.clone()))
        });
        return named.collect();
    }
    let listed = field["enum"].as_array().into_iter().flatten();
    let named = listed.filter_map(|value| Some((quoted(value.as_str()?), value.clone())));
    named.collect()
}

#[cfg(test)]
mod tests;
