//! Calls that a model wrote as text in place of making them.
//!
//! Small models do this often. A call counts only if it is the whole answer, so that an answer that
//! quotes one runs nothing. One at the end of other text is not run either, but the model is told how
//! to make it. The caller leaves out what is quoted from earlier in the conversation.

use serde_json::{Map, Value};

use super::json;

/// Longest answer that is looked at: calls are as long as a file may be, and answers are shorter.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Most calls in one answer.
const CALLS_MAX: usize = 16;

/// Tags around the JSON of a call.
const TAGS: &[&str] = &["tool_call", "tools", "function_call", "tool", "tool_use"];

/// What an answer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// Text.
    Text,
    /// Nothing but calls.
    Calls(Vec<WrittenCall>),
    /// Text with calls at its end.
    Ending(Vec<WrittenCall>),
}

/// A call in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenCall {
    /// The tool, as the model wrote it.
    pub name: String,
    /// Its input.
    pub input: Value,
    /// The text of it.
    pub source: String,
}

/// The calls in `text`, of tools that `is_tool` knows.
pub(super) fn find(text: &str, is_tool: impl Fn(&str) -> bool) -> Written {
    if text.len() > TEXT_BYTES_MAX || !text.contains(['{', '<']) {
        return Written::Text;
    }
    let text = without_thoughts(text);
    let known = |calls: Vec<WrittenCall>| {
        let is_known = !calls.is_empty() && calls.iter().all(|call| is_tool(&call.name));
        (is_known && calls.len() <= CALLS_MAX).then_some(calls)
    };
    if let Some(calls) = calls_in(text).and_then(known) {
        return Written::Calls(calls);
    }
    let ending = begins(text).find_map(|at| calls_in(&text[at..]).and_then(known));
    ending.map_or(Written::Text, Written::Ending)
}

/// The text after the thoughts that some models write into it.
fn without_thoughts(text: &str) -> &str {
    let text = text.trim();
    let thoughts = text.strip_prefix("<think>");
    let rest = thoughts.and_then(|thoughts| thoughts.split_once("</think>"));
    rest.map_or(text, |(_, rest)| rest.trim())
}

/// Where calls at the end of `text` may begin: at the beginning of a line, outside of code.
fn begins(text: &str) -> impl Iterator<Item = usize> {
    let mut found = Vec::new();
    let (mut at, mut is_code) = (0, false);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start();
        let is_fence = bare.starts_with("```");
        let is_tag = bare.strip_prefix('<').is_some_and(|rest| {
            rest.starts_with("function=") || TAGS.iter().any(|tag| rest.starts_with(tag))
        });
        if !is_code && (is_fence || is_tag || bare.starts_with("[TOOL_CALLS]")) {
            found.push(at + line.len() - bare.len());
        }
        is_code ^= is_fence;
        at += line.len();
    }
    // The last few: each is read to the end of the text.
    let first = found.len().saturating_sub(CALLS_MAX);
    found.into_iter().skip(first)
}

/// The calls that are all of `text`, in one of the forms that models know.
fn calls_in(text: &str) -> Option<Vec<WrittenCall>> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("[TOOL_CALLS]") {
        return mistral(rest.trim());
    }
    if text.starts_with('<') {
        return tagged(text);
    }
    let body = json::without_fence(text);
    json_calls(body)
}

/// Calls in JSON: an object, or a list of such.
fn json_calls(text: &str) -> Option<Vec<WrittenCall>> {
    let value = json::read(text).filter(|value| !value.is_string())?;
    let values = match value {
        Value::Array(values) => values,
        Value::Object(mut fields) => match fields.shift_remove("tool_calls") {
            Some(Value::Array(values)) if fields.is_empty() => values,
            Some(_) => return None,
            None => vec![Value::Object(fields)],
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    values
        .into_iter()
        .map(|value| json_call(value, text))
        .collect()
}

/// The call that an object stands for. Other fields than those of a call make it something else.
fn json_call(value: Value, source: &str) -> Option<WrittenCall> {
    let Value::Object(mut fields) = value else {
        return None;
    };
    for beside in ["id", "type", "call_id"] {
        fields.shift_remove(beside);
    }
    if let Some(Value::Object(_)) = fields.get("function")
        && fields.len() == 1
    {
        let inner = fields.shift_remove("function")?;
        return json_call(inner, source);
    }
    let name = take(&mut fields, &["name", "tool", "tool_name", "function"])?;
    let inputs = [
        "arguments",
        "parameters",
        "input",
        "args",
        "params",
        "tool_input",
    ];
    let input = json::decoded(take(&mut fields, &inputs)?);
    if !fields.is_empty() || !input.is_object() {
        return None;
    }
    Some(WrittenCall {
        name: name.as_str()?.to_owned(),
        input,
        source: source.to_owned(),
    })
}

fn take(fields: &mut Map<String, Value>, names: &[&str]) -> Option<Value> {
    names.iter().find_map(|name| fields.shift_remove(*name))
}

/// `[TOOL_CALLS]` and a list, or a name and its input.
fn mistral(text: &str) -> Option<Vec<WrittenCall>> {
    if text.starts_with(['[', '{']) {
        return json_calls(text);
    }
    let (name, input) = match text.split_once("[ARGS]") {
        Some((name, input)) => (name, input),
        None => text.split_at(text.find('{')?),
    };
    let input = json::read(input).filter(Value::is_object)?;
    Some(vec![WrittenCall {
        name: name.trim().to_owned(),
        input,
        source: text.to_owned(),
    }])
}

/// Calls in tags, one after the other.
fn tagged(text: &str) -> Option<Vec<WrittenCall>> {
    let mut calls = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && calls.len() <= CALLS_MAX {
        let (found, after) = first_tagged(rest)?;
        calls.extend(found);
        rest = after.trim();
    }
    Some(calls)
}

/// The calls of the first tag, and the text after it. The last tag may lack its end.
fn first_tagged(text: &str) -> Option<(Vec<WrittenCall>, &str)> {
    if text.starts_with("<function=") {
        return function(text).map(|(call, rest)| (vec![call], rest));
    }
    TAGS.iter().find_map(|tag| {
        let body = text
            .strip_prefix('<')?
            .strip_prefix(tag)?
            .strip_prefix('>')?;
        let end = format!("</{tag}>");
        let (body, rest) = body.split_once(&end).unwrap_or((body, ""));
        let body = body.trim();
        if body.starts_with("<function=") {
            let (call, left) = function(body)?;
            return left.trim().is_empty().then_some((vec![call], rest));
        }
        Some((json_calls(json::without_fence(body))?, rest))
    })
}

/// `<function=NAME>` with JSON, or with one `<parameter=NAME>` after the other.
fn function(text: &str) -> Option<(WrittenCall, &str)> {
    let (name, body) = text.strip_prefix("<function=")?.split_once('>')?;
    let (body, rest) = body.split_once("</function>").unwrap_or((body, ""));
    let source = &text[..text.len() - rest.len()];
    let body = body.trim();
    let input = match body.starts_with('{') {
        true => json::read(body).filter(Value::is_object)?,
        false => Value::Object(parameters(body)?),
    };
    let call = WrittenCall {
        name: name.trim().to_owned(),
        input,
        source: source.trim().to_owned(),
    };
    Some((call, rest))
}

fn parameters(text: &str) -> Option<Map<String, Value>> {
    let mut fields = Map::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, body) = rest.strip_prefix("<parameter=")?.split_once('>')?;
        let (value, after) = body.split_once("</parameter>")?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        fields.insert(name.trim().to_owned(), Value::from(value));
        rest = after.trim();
    }
    Some(fields)
}
