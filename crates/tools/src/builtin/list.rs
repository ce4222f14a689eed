//! `list`: what is in a directory.

use domain::event::ToolKind;
use domain::limits::TOOL_RESULT_LINES_MAX;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, RunsHere, Shown, Tool, parse_input, show_search};
use crate::roots::{Entry, EntryKind, PathError, Roots};

pub(crate) struct List;

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    path: Option<String>,
}

impl Tool for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn description(&self) -> &'static str {
        "Lists a directory, hidden and ignored entries included. Directories come first and end in `/`, \
         symbolic links end in `@`."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The directory; default: the working directory"},
            },
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        let path = input.get("path").and_then(Value::as_str).unwrap_or(".");
        show_search(format!("List {path}"), ToolKind::Read, path, roots)
    }

    fn only_looks(&self) -> bool {
        true
    }

    fn here(&self) -> Option<&dyn RunsHere> {
        Some(self)
    }
}

impl RunsHere for List {
    fn run(&self, input: Value, roots: &Roots) -> Outcome {
        let input: Input = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        let path = input.path.as_deref().unwrap_or(".");
        let listed = roots.search(path).and_then(|directory| {
            let entries = directory.entries(TOOL_RESULT_LINES_MAX);
            entries.map_err(PathError::from)
        });
        match listed {
            Ok((entries, is_cut)) => Outcome::completed(shown(entries, is_cut)),
            Err(error) => Outcome::failed(format!("{path} could not be listed: {error}.")),
        }
    }
}

fn shown(mut entries: Vec<Entry>, is_cut: bool) -> String {
    if entries.is_empty() {
        return "[empty]".to_owned();
    }
    entries.sort_by_key(|entry| entry.kind != EntryKind::Directory);
    let line = |entry: &Entry| match entry.kind {
        EntryKind::Directory => format!("{}/\n", entry.name),
        EntryKind::Link => format!("{}@\n", entry.name),
        EntryKind::File => format!("{}\n", entry.name),
    };
    let mut text: String = entries.iter().map(line).collect();
    if is_cut {
        text.push_str(&format!(
            "[cut: there are more than {TOOL_RESULT_LINES_MAX}; use glob]"
        ));
    }
    text
}
