//! The judge of everything an agent sends: the official ACP v1 schema, made strict.
//!
//! The schema's top level accepts almost anything, so [`Oracle`] holds `params` and `result`
//! against the definition of their method, and [`strict`] closes every definition against fields
//! it does not name. Methods that start with `_fastness/` are ours and are not judged.

mod strict;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Value, json};

use crate::peers::{self, Peer};

/// Where the SDK's package keeps the schema.
const SCHEMA_PATH: &str = "node_modules/@agentclientprotocol/sdk/schema/v1/schema.json";

/// The start of the names of methods that Fastness adds.
const OUR_METHODS: &str = "_fastness/";

/// Methods that Fastness adds under names that others know.
const OUR_OTHER_METHODS: [&str; 2] = ["_discover_tools", "_call_tool"];

/// Older names of methods and what they are called now: answers to both have the same type.
const OLDER_NAMES: &[(&str, &str)] = &[
    ("new_session", "session/new"),
    ("load_session", "session/load"),
    ("resume_session", "session/resume"),
    ("list_sessions", "session/list"),
    ("close_session", "session/close"),
    ("delete_session", "session/delete"),
    ("prompt", "session/prompt"),
    ("set_session_mode", "session/set_mode"),
    ("set_session_config_option", "session/set_config_option"),
];

/// Judges messages that an agent sends to a client.
pub struct Oracle {
    schema: Value,
    /// Compiled when first needed, once per process: most tests use few definitions.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// Why a message is not what the protocol says.
#[derive(Debug)]
pub struct Violation {
    /// The message, as sent.
    pub message: Value,
    /// What is wrong with it, one finding each.
    pub findings: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not valid ACP v1: {}", self.message)?;
        for finding in &self.findings {
            writeln!(f, "  - {finding}")?;
        }
        Ok(())
    }
}

impl Oracle {
    /// The oracle of this process, with the schema installed if it was missing.
    ///
    /// # Panics
    /// If the schema cannot be installed or read: no test passes unjudged.
    pub fn shared() -> &'static Self {
        static ORACLE: OnceLock<Oracle> = OnceLock::new();
        ORACLE.get_or_init(|| Self::from_file(&peers::ensure(Peer::TypeScript).join(SCHEMA_PATH)))
    }

    /// Judges a request or notification from the agent, or its answer to a request for `method`.
    ///
    /// `method` is `None` when the message answers nothing that was sent, as a parse error does.
    ///
    /// # Errors
    /// The findings, if it is not exactly what the schema allows.
    pub fn judge(&self, message: &Value, method: Option<&str>) -> Result<(), Violation> {
        let mut findings = judge_envelope(message);
        if findings.is_empty() {
            findings = self.judge_body(message, method);
        }
        if findings.is_empty() {
            return Ok(());
        }
        Err(Violation {
            message: message.clone(),
            findings,
        })
    }

    fn from_file(path: &Path) -> Self {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()));
        let schema = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{} is not JSON: {error}", path.display()));
        Self {
            schema: strict::close(schema),
            validators: Mutex::default(),
        }
    }

    fn judge_body(&self, message: &Value, method: Option<&str>) -> Vec<String> {
        if let Some(called) = message["method"].as_str() {
            if called.starts_with(OUR_METHODS) || OUR_OTHER_METHODS.contains(&called) {
                return Vec::new();
            }
            let endings: &[&str] = match message.get("id") {
                Some(_) => &["Request"],
                None => &["Notification"],
            };
            let params = message.get("params").unwrap_or(&Value::Null);
            return match self.definition(called, &["client", "protocol"], endings) {
                Some(definition) => self.check(definition, params),
                None => vec![format!("an agent does not send `{called}`")],
            };
        }
        if let Some(error) = message.get("error") {
            return self.check("Error", error);
        }
        let Some(method) = method else {
            return vec!["a result for a request that was not sent".into()];
        };
        if method.starts_with(OUR_METHODS) {
            return Vec::new();
        }
        match self.definition(modern_name(method), &["agent"], &["Response"]) {
            Some(definition) => self.check(definition, &message["result"]),
            None => vec![format!("`{method}` is not a method that has results")],
        }
    }

    /// The definition for `method` on one of `sides` whose name ends in one of `endings`.
    fn definition(&self, method: &str, sides: &[&str], endings: &[&str]) -> Option<&str> {
        let definitions = self.schema["$defs"].as_object()?;
        definitions.iter().find_map(|(name, definition)| {
            let fits = definition["x-method"] == method
                && definition["x-side"]
                    .as_str()
                    .is_some_and(|side| sides.contains(&side))
                && endings.iter().any(|ending| name.ends_with(ending));
            fits.then_some(name.as_str())
        })
    }

    fn check(&self, definition: &str, value: &Value) -> Vec<String> {
        let validator = self.validator(definition);
        let findings = validator.iter_errors(value).flat_map(explain);
        findings
            .map(|finding| format!("{definition}{finding}"))
            .collect()
    }

    fn validator(&self, definition: &str) -> Arc<Validator> {
        // A panicking test may have held the lock; the map is whole all the same.
        let mut validators = self
            .validators
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = validators.get(definition) {
            return Arc::clone(validator);
        }
        let schema = json!({
            "$ref": format!("#/$defs/{definition}"),
            "unevaluatedProperties": false,
            "$defs": self.schema["$defs"],
        });
        let validator = jsonschema::draft202012::new(&schema)
            .unwrap_or_else(|error| panic!("the schema of {definition} is broken: {error}"));
        let validator = Arc::new(validator);
        validators.insert(definition.to_owned(), Arc::clone(&validator));
        validator
    }
}

/// What is wrong with the JSON-RPC frame around the ACP message.
fn judge_envelope(message: &Value) -> Vec<String> {
    let Some(fields) = message.as_object() else {
        return vec!["a message is one JSON object".into()];
    };
    let mut findings = Vec::new();
    if message["jsonrpc"] != "2.0" {
        findings.push("`jsonrpc` is not \"2.0\"".into());
    }
    let known: &[&str] = if fields.contains_key("method") {
        &["jsonrpc", "id", "method", "params"]
    } else {
        if !fields.contains_key("id") {
            findings.push("an answer without an `id`".into());
        }
        if fields.contains_key("result") == fields.contains_key("error") {
            findings.push("an answer has either a `result` or an `error`".into());
        }
        &["jsonrpc", "id", "result", "error"]
    };
    let strangers = fields.keys().filter(|key| !known.contains(&key.as_str()));
    findings.extend(strangers.map(|key| format!("`{key}` does not belong into a message")));
    findings
}

/// What an error says. Of the alternatives that a tag chooses from, only the chosen one matters.
fn explain(error: ValidationError<'_>) -> Vec<String> {
    use ValidationErrorKind::{AnyOf, Constant, OneOfNotValid};
    let place = error.instance_path().to_string();
    let finding = format!("{place}: {error}");
    let (OneOfNotValid { context } | AnyOf { context }) = error.into_parts().kind else {
        return vec![finding];
    };
    let is_other_tag = |error: &ValidationError<'_>| matches!(error.kind(), Constant { .. });
    match context
        .into_iter()
        .find(|errors| !errors.iter().any(is_other_tag))
    {
        Some(chosen) => chosen.into_iter().flat_map(explain).collect(),
        None => vec![finding],
    }
}

fn modern_name(method: &str) -> &str {
    OLDER_NAMES
        .iter()
        .find(|(older, _)| *older == method)
        .map_or(method, |(_, modern)| modern)
}
