//! Tool inputs that come in pieces, and what becomes of them when they are whole.

use std::borrow::Cow;

use domain::limits::{TOOL_CALLS_MAX, TOOL_INPUT_BYTES_MAX};
use serde_json::Value;

use crate::error::ModelError;
use crate::model::{ToolCall, fresh_call_id};

/// Room for the tool calls of one answer.
#[derive(Default)]
pub(crate) struct Room {
    calls: usize,
    bytes: usize,
}

impl Room {
    /// Takes room for one more call.
    pub(crate) fn call(&mut self) -> Result<(), ModelError> {
        self.calls += 1;
        self.check()
    }

    /// Takes room for more of a call's name or input.
    pub(crate) fn bytes(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes += bytes;
        self.check()
    }

    /// How much has been taken.
    pub(crate) fn taken(&self) -> usize {
        self.calls + self.bytes
    }

    fn check(&self) -> Result<(), ModelError> {
        if self.calls > TOOL_CALLS_MAX || self.bytes > TOOL_INPUT_BYTES_MAX {
            return Err(ModelError::Unusable {
                what: "there are too many tool calls, or too long ones",
            });
        }
        Ok(())
    }
}

/// The call whose input was written as `input`; none if the answer was cut off in the middle of it.
pub(crate) fn complete(name: String, input: String, is_cut_off: bool) -> Option<ToolCall> {
    let input = match input.trim() {
        // Nothing of its input came before the limit did.
        "" | "null" if is_cut_off => return None,
        "" | "null" => Value::Object(serde_json::Map::new()),
        text => match serde_json::from_str(text) {
            Ok(input) => input,
            Err(_) if is_cut_off => return None,
            // The tool will refuse it and say why, and the model can do better.
            Err(_) => Value::String(input),
        },
    };
    Some(ToolCall {
        id: fresh_call_id(),
        name,
        input,
    })
}

/// A call's input as the text that a model wrote.
pub(crate) fn written(input: &Value) -> Cow<'_, str> {
    // An input that is a string is what the model wrote when it failed to write JSON.
    let written = input.as_str().map(Cow::Borrowed);
    written.unwrap_or_else(|| input.to_string().into())
}

/// A call's input for providers that take nothing but objects.
pub(crate) fn object(input: &Value) -> Cow<'_, Value> {
    if input.is_object() {
        return Cow::Borrowed(input);
    }
    Cow::Owned(serde_json::json!({ "input": input }))
}
