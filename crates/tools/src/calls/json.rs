//! JSON as models write it: in a code fence, encoded twice, with Python's words, with line breaks
//! inside strings. What was cut off is never completed.

use serde_json::Value;

/// How often one value may be encoded within another.
const ENCODED_MAX: usize = 3;

/// `value`, or what it encodes if it is text that holds an object or a list.
pub(super) fn decoded(value: Value) -> Value {
    let mut value = value;
    for _ in 0..ENCODED_MAX {
        let Value::String(text) = &value else { break };
        match read(text) {
            Some(inner @ (Value::Object(_) | Value::Array(_) | Value::String(_))) => value = inner,
            Some(_) | None => break,
        }
    }
    value
}

/// The value that `text` holds.
pub(super) fn read(text: &str) -> Option<Value> {
    let text = without_fence(text.trim());
    if !text.starts_with(['{', '[', '"']) {
        return None;
    }
    let value = serde_json::from_str(text);
    value
        .or_else(|_| serde_json::from_str(&repaired(text)))
        .ok()
}

/// What stands in a code fence that is all of `text`; else `text`.
pub(super) fn without_fence(text: &str) -> &str {
    let fenced = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"));
    let Some((language, body)) = fenced.and_then(|fenced| fenced.split_once('\n')) else {
        return text;
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-+".contains(c);
    // A fence within the fence: these are two blocks, not one.
    if !language.trim().chars().all(is_word) || body.contains("\n```") {
        return text;
    }
    body.trim()
}

/// `text` with the slips mended that change no meaning.
fn repaired(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_string = false;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        if is_string {
            match c {
                '\\' => {
                    let escaped = rest[taken..].chars().next();
                    taken += escaped.map_or(0, char::len_utf8);
                    mended.push_str(&rest[..taken]);
                }
                '\n' => mended.push_str("\\n"),
                '\r' => mended.push_str("\\r"),
                '\t' => mended.push_str("\\t"),
                c => {
                    is_string = c != '"';
                    mended.push(c);
                }
            }
        } else if let Some((python, word)) = word_at(rest, &mended) {
            taken = python.len();
            mended.push_str(word);
        } else if c == ',' && rest[1..].trim_start().starts_with(['}', ']']) {
            // A comma after the last entry.
        } else {
            is_string = c == '"';
            mended.push(c);
        }
        rest = &rest[taken..];
    }
    mended
}

/// A word of Python's at the beginning of `rest`, and JSON's for it.
fn word_at(rest: &str, before: &str) -> Option<(&'static str, &'static str)> {
    let words = [("True", "true"), ("False", "false"), ("None", "null")];
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let begins = !before.ends_with(is_part);
    let is_here = |(python, _): &&(&str, &str)| {
        let after = rest.strip_prefix(python);
        begins && after.is_some_and(|after| !after.starts_with(is_part))
    };
    words.iter().find(is_here).copied()
}
