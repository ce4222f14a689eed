//! `write`: a whole file, old or new, never half.

use domain::event::ToolKind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, Shown, Tool, parse_input, show_file};
use crate::roots::Roots;

pub(crate) struct Write;

#[derive(Deserialize)]
struct Input {
    path: String,
    content: String,
}

impl Tool for Write {
    fn name(&self) -> &'static str {
        "write"
    }

    fn description(&self) -> &'static str {
        "Writes a whole text file, replacing what was there. Asks the person first."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        show_file("Write", ToolKind::Edit, input, roots)
    }

    fn run(&self, input: Value, roots: &Roots) -> Outcome {
        let input: Input = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        match roots.replace_file(&input.path, input.content.as_bytes()) {
            Ok(()) => Outcome::completed(format!(
                "Wrote {} ({} bytes).",
                input.path,
                input.content.len()
            )),
            Err(error) => Outcome::failed(format!("{} could not be written: {error}.", input.path)),
        }
    }
}
