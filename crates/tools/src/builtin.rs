//! The built-in tools, and what each of them has to say for itself.

use domain::event::{ToolKind, ToolLocation, ToolStatus};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::roots::Roots;

mod read;
mod write;

/// Every built-in tool.
pub(crate) const ALL: &[&dyn Tool] = &[&read::Read, &write::Write];

/// The built-in tool called `name`.
pub(crate) fn find(name: &str) -> Option<&'static dyn Tool> {
    ALL.iter().copied().find(|tool| tool.name() == name)
}

/// Something a model can do.
pub trait Tool: Send + Sync {
    /// The name a model uses.
    fn name(&self) -> &'static str;

    /// What it does, for the model.
    fn description(&self) -> &'static str;

    /// The JSON schema of its input.
    fn input_schema(&self) -> Value;

    /// How a call of it is shown to a person.
    fn show(&self, input: &Value, roots: &Roots) -> Shown;

    /// Does it, on a thread that may block.
    fn run(&self, input: Value, roots: &Roots) -> Outcome;
}

/// A call as a person sees it before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// One line.
    pub title: String,
    /// What kind of act it is.
    pub kind: ToolKind,
    /// The files it touches.
    pub locations: Vec<ToolLocation>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Completed or failed.
    pub status: ToolStatus,
    /// What the model and the person are told.
    pub text: String,
}

impl Outcome {
    /// It worked.
    pub fn completed(text: impl Into<String>) -> Self {
        Self {
            status: ToolStatus::Completed,
            text: text.into(),
        }
    }

    /// It did not; `text` says what to do about it.
    pub fn failed(text: impl Into<String>) -> Self {
        Self {
            status: ToolStatus::Failed,
            text: text.into(),
        }
    }
}

/// Reads a tool's input, or says what is wrong with it in words for the model.
fn parse_input<T: DeserializeOwned>(tool: &str, input: Value) -> Result<T, Outcome> {
    serde_json::from_value(input)
        .map_err(|error| Outcome::failed(format!("The input of {tool} is not valid: {error}.")))
}

/// A call on one file, shown as `verb path`.
fn show_file(verb: &str, kind: ToolKind, input: &Value, roots: &Roots) -> Shown {
    let Some(path) = input.get("path").and_then(Value::as_str) else {
        return Shown {
            title: verb.to_owned(),
            kind,
            locations: Vec::new(),
        };
    };
    let location = ToolLocation {
        path: roots.absolute(path),
        line: None,
    };
    Shown {
        title: format!("{verb} {path}"),
        kind,
        locations: vec![location],
    }
}

#[cfg(test)]
mod tests;
