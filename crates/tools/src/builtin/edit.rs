//! `edit`: replaces a piece of a text file that was read before and has not changed since.

mod replacing;

use domain::event::ToolKind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::changing::{self, Change, Changed, Made};
use super::{Outcome, Running, RunsHere, RunsThere, Shown, There, Tool, show_file};
use crate::client_side::Offers;
use crate::diff;
use crate::roots::Roots;
use replacing::{NotReplaced, Places, Replaced, replace};

pub(crate) struct Edit;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

impl Tool for Edit {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> &'static str {
        "Replaces a piece of a text file. Read the file first: a file that you have not read, or that \
         has changed since, is not edited."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file"},
                "old": {
                    "type": "string",
                    "description": "The exact text to replace, without line numbers; with enough context to occur only once",
                },
                "new": {"type": "string", "description": "The text to put in its place"},
                "replaceAll": {"type": "boolean", "description": "Replace every occurrence; default: false"},
            },
            "required": ["path", "old", "new"],
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let content = match (text("path"), text("old"), text("new")) {
            (Some(path), Some(old), Some(new)) => {
                diff::blocks(&roots.absolute(path), Some(old), new)
            }
            (_, _, _) => Vec::new(),
        };
        Shown {
            content,
            ..show_file("Edit", ToolKind::Edit, input, roots)
        }
    }

    fn here(&self) -> Option<&dyn RunsHere> {
        Some(self)
    }

    fn there(&self, offers: Offers) -> Option<&dyn RunsThere> {
        (offers.read_text_file && offers.write_text_file).then_some(self)
    }
}

impl RunsHere for Edit {
    fn run(&self, input: Value, roots: &Roots) -> Outcome {
        changing::run_here::<Input>(self.name(), input, roots)
    }
}

impl RunsThere for Edit {
    fn run(&self, input: Value, there: There) -> Running {
        changing::run_there::<Input>(self.name(), input, there)
    }
}

impl Change for Input {
    type About = Replaced;
    type Error = NotReplaced;

    fn path(&self) -> &str {
        &self.path
    }

    fn make(&self, text: &str) -> Made<Replaced, NotReplaced> {
        let places = if self.replace_all {
            Places::All
        } else {
            Places::One
        };
        let mut replaced = replace(text, &self.old, &self.new, places)?;
        Ok((std::mem::take(&mut replaced.text), replaced))
    }

    fn done(&self, roots: &Roots, changed: &Changed<Replaced>) -> Outcome {
        let replaced = &changed.about;
        let places = match replaced.places {
            1 => "1 place".to_owned(),
            places => format!("{places} places"),
        };
        let loosely = if replaced.is_loose {
            "; the space around its lines was different"
        } else {
            ""
        };
        let (path, line) = (&self.path, replaced.line);
        let text = format!("Edited {path} in {places}, first in line {line}{loosely}.");
        let shown = diff::blocks(&roots.absolute(path), Some(&changed.old), &changed.new);
        Outcome::completed(text).showing(shown)
    }
}
