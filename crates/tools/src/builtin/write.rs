//! `write`: a whole file, old or new, never half.

use std::sync::Arc;

use domain::event::ToolKind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Outcome, Running, RunsHere, RunsThere, Shown, There, ThereError, Tool, parse_input, show_file,
};
use crate::client_side::{ClientSide, Offers};
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

    fn here(&self) -> Option<&dyn RunsHere> {
        Some(self)
    }

    fn there(&self, offers: Offers) -> Option<&dyn RunsThere> {
        offers.write_text_file.then_some(self)
    }
}

impl RunsHere for Write {
    fn run(&self, input: Value, roots: &Roots) -> Outcome {
        let input: Input = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        match roots.replace_file(&input.path, input.content.as_bytes()) {
            Ok(()) => Outcome::completed(input.done()),
            Err(error) => Outcome::failed(input.not_done(&error)),
        }
    }
}

impl RunsThere for Write {
    fn run(&self, input: Value, there: There) -> Running {
        let input = parse_input::<Input>(self.name(), input);
        Box::pin(async move {
            let mut input = match input {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            let done = input.done();
            let content = std::mem::take(&mut input.content);
            let written = match reach(&input, &there).await {
                Ok((path, client)) => client.write_text_file(path, content),
                Err(error) => return Outcome::failed(input.not_done(&error)),
            };
            match written.await {
                Ok(()) => Outcome::completed(done),
                Err(error) if error.may_have_run() => Outcome::unknown(input.not_done(&error)),
                Err(error) => Outcome::failed(input.not_done(&error)),
            }
        })
    }
}

impl Input {
    fn done(&self) -> String {
        format!("Wrote {} ({} bytes).", self.path, self.content.len())
    }

    fn not_done(&self, error: &dyn std::error::Error) -> String {
        format!("{} could not be written: {error}.", self.path)
    }
}

/// The path as the client is told it, and the client.
async fn reach(input: &Input, there: &There) -> Result<(String, Arc<dyn ClientSide>), ThereError> {
    let path = there.path(&input.path).await?;
    Ok((path, there.seat.client().await?))
}
