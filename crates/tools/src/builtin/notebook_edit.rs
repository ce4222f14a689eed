//! `notebook_edit`: changes one cell of a Jupyter notebook that was read before.

use std::sync::Arc;

use domain::event::ToolKind;
use domain::limits::NOTEBOOK_SHOWN_BYTES_MAX;
use serde::Deserialize;
use serde_json::{Value, json};

use super::changing::{self, Change, Changed, Made};
use super::preview::{self, Glance};
use super::{Outcome, Preview, Running, RunsHere, RunsThere, Shown, There, Tool, show_file};
use crate::client_side::{ClientSeat, Offers};
use crate::diff;
use crate::notebook::{CellKind, Notebook, NotebookError};
use crate::roots::Roots;

pub(crate) struct NotebookEdit;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    path: String,
    cell_id: String,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    kind: Option<CellKind>,
    #[serde(default)]
    mode: Mode,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Replace,
    Insert,
    Delete,
}

/// The source of the cell before.
type OldSource = Option<String>;

impl Tool for NotebookEdit {
    fn name(&self) -> &'static str {
        "notebook_edit"
    }

    fn description(&self) -> &'static str {
        "Changes one cell of a Jupyter notebook. Read the notebook first."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The notebook"},
                "cellId": {
                    "type": "string",
                    "description": "The id that `read` shows after `cell`; empty to insert at the top",
                },
                "source": {"type": "string", "description": "New text of the cell; not needed to delete it"},
                "kind": {"enum": ["code", "markdown", "raw"], "description": "The kind of cell"},
                "mode": {
                    "enum": ["replace", "insert", "delete"],
                    "description": "`insert` adds a cell after this one; default `replace`",
                },
            },
            "required": ["path", "cellId"],
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let what = match text("mode") {
            Some("insert") => "Insert a cell in",
            Some("delete") => "Delete a cell of",
            Some(_) | None => "Edit a cell of",
        };
        Shown {
            content: preview_here(input, roots),
            ..show_file(what, ToolKind::Edit, input, roots)
        }
    }

    fn here(&self) -> Option<&dyn RunsHere> {
        Some(self)
    }

    fn there(&self, offers: Offers) -> Option<&dyn RunsThere> {
        (offers.read_text_file && offers.write_text_file).then_some(self)
    }
}

impl RunsHere for NotebookEdit {
    fn run(&self, input: Value, roots: &Roots) -> Outcome {
        changing::run_here::<Input>(self.name(), input, roots)
    }
}

impl RunsThere for NotebookEdit {
    fn run(&self, input: Value, there: There) -> Running {
        changing::run_there::<Input>(self.name(), input, there)
    }

    fn preview(&self, input: &Value, roots: Arc<Roots>, seat: ClientSeat) -> Option<Preview> {
        let input = Input::deserialize(input).ok()?;
        Some(Box::pin(async move {
            let Glance::Text(now) = preview::glance(&input.path, &roots, &seat).await else {
                return Vec::new();
            };
            match now.len() <= NOTEBOOK_SHOWN_BYTES_MAX {
                true => input.difference(&now, &roots),
                false => Vec::new(),
            }
        }))
    }
}

/// What a call would do to its cell, if the notebook is there and not too large to look at.
fn preview_here(input: &Value, roots: &Roots) -> Vec<Value> {
    let Ok(input) = Input::deserialize(input) else {
        return Vec::new();
    };
    let text = roots.read_text(&input.path, NOTEBOOK_SHOWN_BYTES_MAX);
    text.map_or_else(|_| Vec::new(), |text| input.difference(&text.text, roots))
}

impl Input {
    /// What it does to its cell in a notebook with this text.
    fn difference(&self, text: &str, roots: &Roots) -> Vec<Value> {
        let Ok((_, old)) = self.make(text) else {
            return Vec::new();
        };
        diff::blocks(
            &roots.absolute(&self.path),
            old.as_deref(),
            self.new_source(),
        )
    }

    /// The source of the cell after.
    fn new_source(&self) -> &str {
        match self.mode {
            Mode::Replace | Mode::Insert => self.source.as_deref().unwrap_or_default(),
            Mode::Delete => "",
        }
    }
}

impl Change for Input {
    type About = OldSource;
    type Error = NotebookError;

    fn path(&self) -> &str {
        &self.path
    }

    fn make(&self, text: &str) -> Made<OldSource, NotebookError> {
        let mut notebook = Notebook::parse(text)?;
        let id = self.cell_id.as_str();
        // Emptying a cell must be meant.
        let source = || self.source.as_deref().ok_or(NotebookError::NoSource);
        let old = match self.mode {
            Mode::Replace => {
                let old = notebook.source(id)?;
                notebook.replace(id, source()?, self.kind)?;
                Some(old)
            }
            Mode::Insert => {
                let kind = self.kind.unwrap_or(CellKind::Code);
                notebook.insert(id, source()?, kind)?;
                None
            }
            Mode::Delete => {
                let old = notebook.source(id)?;
                notebook.delete(id)?;
                Some(old)
            }
        };
        Ok((notebook.into_file(), old))
    }

    fn done(&self, roots: &Roots, changed: &Changed<OldSource>) -> Outcome {
        let what = match self.mode {
            Mode::Replace => "Replaced cell",
            Mode::Insert => "Inserted a cell after",
            Mode::Delete => "Deleted cell",
        };
        let old = changed.about.as_deref();
        let shown = diff::blocks(&roots.absolute(&self.path), old, self.new_source());
        let text = format!("{what} {} of {}.", self.cell_id, self.path);
        Outcome::completed(text).showing(shown)
    }
}
