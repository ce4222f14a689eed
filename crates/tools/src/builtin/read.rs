//! `read`: a text file, a page at a time.

use std::io::Read as _;

use domain::event::ToolKind;
use domain::limits::{TOOL_RESULT_BYTES_MAX, TOOL_RESULT_LINES_MAX};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, Shown, Tool, parse_input, show_file};
use crate::roots::Roots;

/// Reads at most this much of a file to find a page in it: larger files need a search tool.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(crate) struct Read;

#[derive(Deserialize)]
struct Input {
    path: String,
    /// First line, from 1.
    #[serde(default)]
    offset: Option<usize>,
    #[serde(default)]
    limit: Option<usize>,
}

impl Tool for Read {
    fn name(&self) -> &'static str {
        "read"
    }

    fn description(&self) -> &'static str {
        "Reads a text file. `offset` is the first line (from 1) and `limit` the number of lines."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer", "minimum": 1},
                "limit": {"type": "integer", "minimum": 1},
            },
            "required": ["path"],
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        show_file("Read", ToolKind::Read, input, roots)
    }

    fn run(&self, input: Value, roots: &Roots) -> Outcome {
        let input: Input = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        let mut bytes = Vec::new();
        let read = roots
            .open_file(&input.path)
            .and_then(|file| Ok(file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?));
        match read {
            Err(error) => Outcome::failed(format!("{} could not be read: {error}.", input.path)),
            Ok(length) if length as u64 > FILE_BYTES_MAX => {
                Outcome::failed(format!("{} is too large to read.", input.path))
            }
            Ok(_) => Outcome::completed(page(&bytes, &input)),
        }
    }
}

/// The lines asked for, with a note when there is more.
fn page(bytes: &[u8], input: &Input) -> String {
    let text = String::from_utf8_lossy(bytes);
    let first = input.offset.unwrap_or(1).max(1);
    let wanted = input
        .limit
        .unwrap_or(TOOL_RESULT_LINES_MAX)
        .min(TOOL_RESULT_LINES_MAX);
    let mut shown = String::new();
    let mut lines = text.split_inclusive('\n').skip(first - 1);
    for (count, line) in lines.by_ref().take(wanted).enumerate() {
        if shown.len() + line.len() > TOOL_RESULT_BYTES_MAX {
            return format!("{shown}\n[cut: read on from line {}]", first + count);
        }
        shown.push_str(line);
    }
    if lines.next().is_some() && input.limit.is_none() {
        shown.push_str(&format!("\n[cut: read on from line {}]", first + wanted));
    }
    shown
}
