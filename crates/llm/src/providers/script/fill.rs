//! `${prompt}` and `${result}` in a script's strings.

use std::borrow::Cow;

use serde_json::Value;

use crate::model::{Message, last_prompt};

/// The conversation that placeholders refer to.
pub(super) struct Blanks<'a>(pub(super) &'a [Message]);

impl Blanks<'_> {
    /// `text` with its placeholders replaced, once: what is put in is not looked at again.
    pub(super) fn fill<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(first) = text.find("${") else {
            return Cow::Borrowed(text);
        };
        let (mut filled, mut rest) = (text[..first].to_owned(), &text[first..]);
        while let Some(start) = rest.find("${") {
            filled.push_str(&rest[..start]);
            rest = &rest[start..];
            let (put, length) = if rest.starts_with("${prompt}") {
                (last_prompt(self.0), "${prompt}".len())
            } else if rest.starts_with("${result}") {
                (self.result(), "${result}".len())
            } else {
                ("${", "${".len())
            };
            filled.push_str(put);
            rest = &rest[length..];
        }
        filled.push_str(rest);
        Cow::Owned(filled)
    }

    /// `value` with the placeholders in all its strings replaced.
    pub(super) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, field)| (key.clone(), self.fill_value(field)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn result(&self) -> &str {
        for message in self.0.iter().rev() {
            if let Message::ToolResults(outcomes) = message
                && let Some(last) = outcomes.last()
            {
                return &last.text;
            }
        }
        ""
    }
}
