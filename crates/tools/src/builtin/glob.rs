//! `glob`: files by their path.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use domain::event::ToolKind;
use domain::limits::{GLOB_FOUND_MAX, GLOB_SHOWN_MAX};
use serde::Deserialize;
use serde_json::{Value, json};

use super::search::{self, Next, Reach, Wanted};
use super::{Outcome, RunsHere, Shown, Tool, parse_input, show_search};
use crate::roots::{Roots, SearchRoot};

pub(crate) struct Glob;

#[derive(Deserialize)]
struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
}

impl Tool for Glob {
    fn name(&self) -> &'static str {
        "glob"
    }

    fn description(&self) -> &'static str {
        "Finds files whose path matches a pattern, sorted by path. Ignored (.gitignore) and hidden files \
         are left out, unless the pattern names them."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "description": "Such as `src/**/*.py`; without a slash it matches names in any directory",
                },
                "path": {"type": "string", "description": "Directory to search; default: the working directory"},
            },
            "required": ["pattern"],
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let title = format!("Find {}", text("pattern").unwrap_or_default());
        show_search(title, ToolKind::Search, text("path").unwrap_or("."), roots)
    }

    fn only_looks(&self) -> bool {
        true
    }

    fn here(&self) -> Option<&dyn RunsHere> {
        Some(self)
    }
}

impl RunsHere for Glob {
    fn run(&self, input: Value, roots: &Roots) -> Outcome {
        let input: Input = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        let wanted = match Wanted::parse(&input.pattern) {
            Ok(wanted) => wanted,
            Err(problem) => return Outcome::failed(problem),
        };
        let path = input.path.as_deref().unwrap_or(".");
        let root = match roots.search(path) {
            Ok(root) => root,
            Err(error) => return Outcome::failed(format!("{path} cannot be searched: {error}.")),
        };
        let (found, reach) = find(&root, &wanted);
        Outcome::completed(shown(&root, path, found, reach))
    }
}

/// The files that are wanted, sorted.
fn find(root: &SearchRoot, wanted: &Wanted) -> (Vec<PathBuf>, Reach) {
    let found = Mutex::new(Vec::new());
    let reach = search::walk(root, &root.watch(), wanted.names_hidden, || {
        |rest: &Path| {
            if !wanted.has(rest) {
                return Next::GoOn;
            }
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push(rest.to_owned());
            match found.len() < GLOB_FOUND_MAX {
                true => Next::GoOn,
                false => Next::Stop,
            }
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by(|one: &PathBuf, other| search::by_path(one, other));
    (found, reach)
}

fn shown(root: &SearchRoot, start: &str, found: Vec<PathBuf>, reach: Reach) -> String {
    let count = found.len();
    let is_whole = reach == Reach::Whole;
    let there = found.into_iter().filter(|rest| root.has(rest));
    let lines = there.take(GLOB_SHOWN_MAX);
    let mut text: String = lines
        .map(|rest| format!("{}\n", search::shown(start, &rest)))
        .collect();
    if text.is_empty() && is_whole {
        return "[no files]".to_owned();
    }
    if count > GLOB_SHOWN_MAX {
        text.push_str(&format!(
            "[cut: {GLOB_SHOWN_MAX} of {count} files are shown]\n"
        ));
    }
    if !is_whole {
        text.push_str(
            "[cut: the search was stopped before its end; search in a directory further down]\n",
        );
    }
    text
}
