//! A tool's input, made to fit its schema: fields by their right names, values of the right type.
//!
//! Only what cannot be misread is changed: `"5"` where a number belongs, `"True"` for true, one entry
//! for a list of one, null for a field that may be left out. The rest is a problem that names the
//! field, what belongs there and what stands there.

use serde_json::{Map, Value};

use super::{json, names};
use crate::builtin::Tool;

/// Characters of a wrong value that are repeated to the model.
const SHOWN_CHARS_MAX: usize = 60;

/// Problems that are told at once; a model mends a few at a time.
const PROBLEMS_MAX: usize = 5;

/// How deep schemas are followed; those of our own tools are three levels deep.
const DEPTH_MAX: usize = 8;

/// Names under which models pass the whole input.
const WRAPPERS: &[&str] = &[
    "input",
    "arguments",
    "parameters",
    "args",
    "params",
    "kwargs",
];

/// Words for "nothing" where a number, a list or the like belongs.
const NOTHING: &[&str] = &["", "null", "none", "undefined", "nil"];

/// Makes `input` fit a built-in tool, as far as that is possible.
pub(crate) fn fit_builtin(tool: &dyn Tool, input: &mut Value) {
    let schema = tool.input_schema();
    adapt(tool.name(), input);
    Fitting::of(Some(tool.name())).value(&schema, input, "", 0);
}

/// Makes `input` fit the schema of an MCP server's tool, whose fields have no other names.
pub(super) fn fit_foreign(schema: &Value, input: &mut Value) {
    Fitting::of(None).value(schema, input, "", 0);
}

/// What does not fit in the input of a built-in tool.
pub(crate) fn problem(tool: &dyn Tool, input: &Value) -> Option<String> {
    let schema = tool.input_schema();
    let mut fitting = Fitting::of(Some(tool.name()));
    fitting.value(&schema, &mut input.clone(), "", 0);
    if fitting.problems.is_empty() {
        return None;
    }
    fitting.problems.truncate(PROBLEMS_MAX);
    let problems = fitting.problems.join("; ");
    Some(format!(
        "The input of {} is not valid: {problems}.",
        tool.name()
    ))
}

/// Decodes an input that is text, and changes what other agents' inputs have in other shapes.
pub(crate) fn decode(tool: &dyn Tool, input: Value) -> Value {
    let mut input = json::decoded(input);
    fit_builtin(tool, &mut input);
    input
}

/// One pass over an input.
struct Fitting<'a> {
    /// The built-in tool, whose fields have other names, too.
    tool: Option<&'a str>,
    problems: Vec<String>,
}

impl<'a> Fitting<'a> {
    fn of(tool: Option<&'a str>) -> Self {
        let problems = Vec::new();
        Self { tool, problems }
    }

    fn value(&mut self, schema: &Value, value: &mut Value, field: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        if let Some(allowed) = words(schema) {
            return self.word(&allowed, value, field);
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema, value, field, depth),
            Some("array") => self.list(schema, value, field, depth),
            Some("integer") => self.integer(schema, value, field),
            Some("number") => self.number(value, field),
            Some("boolean") => self.boolean(value, field),
            Some("string") => self.text(value, field),
            Some(_) | None => {}
        }
    }

    fn object(&mut self, schema: &Value, value: &mut Value, field: &str, depth: usize) {
        if value.is_string() {
            *value = json::decoded(value.take());
        }
        if let Value::Array(list) = value
            && let [Value::Object(_)] = list.as_slice()
        {
            *value = list.remove(0);
        }
        let Value::Object(fields) = value else {
            return self.expected(field, "an object", value, schema);
        };
        let Some(properties) = schema["properties"].as_object() else {
            return;
        };
        if self.tool.is_some() {
            unwrap(properties, fields);
        }
        self.rename(properties, fields);
        let required = |name: &str| {
            let required = schema["required"].as_array();
            required.is_some_and(|names| names.iter().any(|other| other == name))
        };
        for (name, schema) in properties {
            let is_nothing = |value: &Value| is_nothing(schema, value);
            if self.tool.is_some() && !required(name) && fields.get(name).is_some_and(is_nothing) {
                fields.shift_remove(name);
            }
            let inner = match field {
                "" => name.clone(),
                field => format!("{field}.{name}"),
            };
            match fields.get_mut(name) {
                Some(value) if !value.is_null() => self.value(schema, value, &inner, depth + 1),
                Some(_) | None if required(name) => {
                    let expected = expected(schema);
                    self.problems
                        .push(format!("`{inner}` is missing; it must be {expected}"));
                }
                Some(_) | None => {}
            }
        }
    }

    /// Gives fields their right names. Of two that mean the same, the right one counts.
    fn rename(&self, properties: &Map<String, Value>, fields: &mut Map<String, Value>) {
        let Some(tool) = self.tool else { return };
        let meant = |key: &str| {
            let plain = names::plain(key);
            let same = properties.keys().find(|name| names::plain(name) == plain);
            let other = || {
                let meant = names::field(tool, key)?;
                properties.keys().find(|name| *name == meant)
            };
            same.or_else(other).cloned()
        };
        let is_known = fields
            .keys()
            .all(|key| properties.contains_key(key) || meant(key).is_none());
        if is_known {
            return;
        }
        let old = std::mem::take(fields);
        let given = |name: &str| old.get(name).is_some_and(|value| !value.is_null());
        let mut renamed: Vec<(String, Value)> = Vec::new();
        for (key, value) in &old {
            let name = match meant(key) {
                Some(_) if properties.contains_key(key) => key.clone(),
                Some(name) if given(&name) => continue,
                Some(name) => name,
                None => key.clone(),
            };
            let is_new = renamed
                .iter()
                .all(|(other, value)| *other != name || value.is_null());
            if is_new {
                renamed.push((name, value.clone()));
            }
        }
        fields.extend(renamed);
    }

    fn list(&mut self, schema: &Value, value: &mut Value, field: &str, depth: usize) {
        if let Value::String(text) = value
            && text.trim_start().starts_with('[')
        {
            *value = json::decoded(value.take());
        }
        let is_one = match schema["items"]["type"].as_str() {
            Some("object") => value.is_object(),
            Some("string") => value.is_string(),
            Some(_) | None => false,
        };
        if is_one {
            *value = Value::Array(vec![value.take()]);
        }
        let Value::Array(list) = value else {
            return self.expected(field, "a list", value, schema);
        };
        for (at, value) in list.iter_mut().enumerate() {
            let field = format!("{field}[{at}]");
            self.value(&schema["items"], value, &field, depth + 1);
        }
    }

    fn integer(&mut self, schema: &Value, value: &mut Value, field: &str) {
        if let Some(number) = whole(value) {
            *value = Value::from(number);
        }
        let minimum = schema["minimum"].as_i64();
        let is_fit = value
            .as_i64()
            .is_some_and(|value| minimum.is_none_or(|min| value >= min));
        if !is_fit {
            self.expected(field, &expected(schema), value, schema);
        }
    }

    fn number(&mut self, value: &mut Value, field: &str) {
        if let Some(number) = value
            .as_str()
            .and_then(|text| text.trim().parse::<f64>().ok())
        {
            *value = Value::from(number);
        }
        if !value.is_number() {
            self.expected(field, "a number", value, &Value::Null);
        }
    }

    fn boolean(&mut self, value: &mut Value, field: &str) {
        let word = value.as_str().map(|text| text.trim().to_ascii_lowercase());
        match word.as_deref() {
            Some("true") => *value = Value::Bool(true),
            Some("false") => *value = Value::Bool(false),
            Some(_) | None => {}
        }
        if !value.is_boolean() {
            self.expected(field, "true or false", value, &Value::Null);
        }
    }

    fn text(&mut self, value: &mut Value, field: &str) {
        if value.is_number() || value.is_boolean() {
            *value = Value::String(value.to_string());
        }
        if !value.is_string() {
            self.expected(field, "text", value, &Value::Null);
        }
    }

    fn word(&mut self, allowed: &[&str], value: &mut Value, field: &str) {
        let meant = value.as_str().and_then(|word| names::value(word, allowed));
        match meant {
            Some(meant) if self.tool.is_some() => *value = Value::from(meant),
            Some(_) => {}
            None => self.expected(field, &one_of(allowed), value, &Value::Null),
        }
    }

    fn expected(&mut self, field: &str, expected: &str, value: &Value, schema: &Value) {
        let got = shown(value);
        self.problems.push(match field {
            "" => {
                let example = example(schema);
                format!("it must be a JSON object such as {example}, got {got}")
            }
            field => format!("`{field}` must be {expected}, got {got}"),
        });
    }
}

/// The words that a value must be one of, if it must.
fn words(schema: &Value) -> Option<Vec<&str>> {
    let words = schema["enum"].as_array()?;
    words.iter().map(Value::as_str).collect()
}

/// What belongs into a field.
fn expected(schema: &Value) -> String {
    if let Some(allowed) = words(schema) {
        return one_of(&allowed);
    }
    match schema["type"].as_str() {
        Some("integer") => match schema["minimum"].as_i64() {
            Some(minimum) => format!("a whole number from {minimum} on"),
            None => "a whole number".to_owned(),
        },
        Some("number") => "a number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => "a list".to_owned(),
        Some("object") => "an object".to_owned(),
        Some(_) | None => "text".to_owned(),
    }
}

fn one_of(allowed: &[&str]) -> String {
    let quoted: Vec<String> = allowed.iter().map(|word| format!("`{word}`")).collect();
    format!("one of {}", quoted.join(", "))
}

/// An input with the fields that must be there.
fn example(schema: &Value) -> String {
    let required = schema["required"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let names = required.iter().filter_map(Value::as_str);
    let fields: Vec<String> = names.map(|name| format!("\"{name}\": …")).collect();
    format!("{{{}}}", fields.join(", "))
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Object(_) => return "an object".to_owned(),
        Value::Array(_) => return "a list".to_owned(),
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Whether a value says that the field is left out.
fn is_nothing(schema: &Value, value: &Value) -> bool {
    let is_text = schema["type"] == "string" && words(schema).is_none();
    match value {
        Value::Null => true,
        Value::String(text) => !is_text && NOTHING.contains(&text.trim().to_lowercase().as_str()),
        // Many agents count lines from 0, and take 0 for "no limit".
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.as_i64() == Some(0) && schema["minimum"].as_i64() == Some(1)
        }
    }
}

/// The input in the only field of an input that has none of the tool's own.
fn unwrap(properties: &Map<String, Value>, fields: &mut Map<String, Value>) {
    let mut entries = fields.iter();
    let (Some((key, value)), None) = (entries.next(), entries.next()) else {
        return;
    };
    if properties.contains_key(key) || !WRAPPERS.contains(&names::plain(key).as_str()) {
        return;
    }
    if let Value::Object(inner) = json::decoded(value.clone()) {
        *fields = inner;
    }
}

/// A whole number, also in text or with a fraction of zero.
fn whole(value: &Value) -> Option<i64> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    let text = text.strip_suffix(".0").unwrap_or(&text);
    text.parse().ok()
}

/// Changes what other agents' tools take in another shape than ours do.
fn adapt(tool: &str, input: &mut Value) {
    if input.is_string() {
        *input = json::decoded(input.take());
    }
    let Value::Object(fields) = input else { return };
    match tool {
        "bash" => adapt_command(fields),
        "read" => adapt_lines(fields),
        _ => {}
    }
}

/// A command as a list of words, and a time limit in seconds.
fn adapt_command(fields: &mut Map<String, Value>) {
    for name in ["command", "cmd"] {
        let Some(Value::Array(list)) = fields.get(name) else {
            continue;
        };
        let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
        if let Some(words) = words {
            let line = command_line(&words);
            fields.insert(name.to_owned(), Value::String(line));
        }
    }
    let has = |fields: &Map<String, Value>, plain: &str| {
        let mut keys = fields.keys();
        keys.find(|key| names::plain(key) == plain).cloned()
    };
    if has(fields, "timeoutms").is_some() {
        return;
    }
    let seconds = ["timeoutseconds", "timeoutsecs", "timeoutsec", "timeouts"];
    let seconds = seconds.iter().find_map(|name| has(fields, name));
    let (key, factor) = match (seconds, has(fields, "timeout")) {
        (Some(key), _) => (key, 1_000),
        // Some agents count seconds and some milliseconds; less than a second is never meant.
        (None, Some(key)) => {
            let is_seconds = fields
                .get(&key)
                .and_then(whole)
                .is_some_and(|time| time < 1_000);
            (key, if is_seconds { 1_000 } else { 1 })
        }
        (None, None) => return,
    };
    if let Some(time) = fields.get(&key).and_then(whole) {
        fields.shift_remove(&key);
        fields.insert(
            "timeoutMs".to_owned(),
            Value::from(time.saturating_mul(factor)),
        );
    }
}

/// One line for the shell that runs exactly these words.
fn command_line(words: &[&str]) -> String {
    if let [shell, "-c" | "-lc" | "-cl", script] = words
        && matches!(
            *shell,
            "bash" | "sh" | "/bin/bash" | "/bin/sh" | "/usr/bin/bash"
        )
    {
        return (*script).to_owned();
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(is_plain) {
            return (*word).to_owned();
        }
        format!("'{}'", word.replace('\'', "'\\''"))
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// A range of lines by its first and last.
fn adapt_lines(fields: &mut Map<String, Value>) {
    let mut keys = fields.keys();
    let is_end = |key: &&String| matches!(names::plain(key).as_str(), "endline" | "lineend");
    let end_key = keys.find(is_end).cloned();
    let mut range = None;
    if let Some(Value::Array(list)) = fields.get("view_range")
        && let [first, last] = list.as_slice()
    {
        range = whole(first).zip(whole(last));
    }
    if let Some((first, last)) = range {
        fields.shift_remove("view_range");
        fields.entry("offset").or_insert(first.into());
        if last >= first {
            fields.entry("limit").or_insert((last - first + 1).into());
        }
    } else if let Some(key) = end_key
        && let Some(last) = fields.get(&key).and_then(whole)
    {
        let is_first = |key: &&String| {
            let plain = names::plain(key);
            plain == "offset" || names::field("read", key) == Some("offset")
        };
        let first = fields.keys().find(is_first).cloned();
        let first = first
            .and_then(|key| fields.get(&key).and_then(whole))
            .unwrap_or(1)
            .max(1);
        fields.shift_remove(&key);
        if last >= first {
            fields.entry("limit").or_insert((last - first + 1).into());
        }
    }
}
