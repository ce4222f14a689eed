//! Jupyter notebooks: their cells as text, and changes of one cell that leave the rest as it is.

use serde::Serialize as _;
use serde_json::{Map, Value, json};

use crate::plain::plain;

/// A notebook, with everything in it that we do not know.
#[derive(Debug)]
pub(crate) struct Notebook {
    document: Map<String, Value>,
    cells: Vec<Value>,
}

/// What a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CellKind {
    Code,
    Markdown,
    Raw,
}

impl CellKind {
    fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }
}

/// Why a notebook was not read or changed, in words for a model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotebookError {
    #[error("it is not a notebook")]
    NotANotebook,
    #[error("it has no cell {0}")]
    NoCell(String),
    #[error("there is no source for the cell")]
    NoSource,
}

impl Notebook {
    pub(crate) fn parse(text: &str) -> Result<Self, NotebookError> {
        let document = serde_json::from_str(text).map_err(|_| NotebookError::NotANotebook)?;
        let Value::Object(mut document) = document else {
            return Err(NotebookError::NotANotebook);
        };
        match document.get_mut("cells").map(Value::take) {
            Some(Value::Array(cells)) => Ok(Self { document, cells }),
            Some(_) | None => Err(NotebookError::NotANotebook),
        }
    }

    /// Its cells, each with what a change of it is named by.
    pub(crate) fn text(&self) -> String {
        let cells = self.cells.iter().enumerate();
        cells.map(|(at, cell)| cell_text(at, cell)).collect()
    }

    /// The source of the cell `id`.
    pub(crate) fn source(&self, id: &str) -> Result<String, NotebookError> {
        Ok(joined(&self.cells[self.find(id)?]["source"]))
    }

    /// Replaces the source of the cell `id`; what it had printed is gone then.
    pub(crate) fn replace(
        &mut self,
        id: &str,
        source: &str,
        kind: Option<CellKind>,
    ) -> Result<(), NotebookError> {
        let at = self.find(id)?;
        let is_code = self.cells[at]["cell_type"] == "code";
        if let Value::Object(cell) = &mut self.cells[at] {
            cell.insert("source".to_owned(), lines(source));
            if let Some(kind) = kind {
                cell.insert("cell_type".to_owned(), json!(kind.name()));
            }
            if kind.map_or(is_code, |kind| kind == CellKind::Code) {
                cell.insert("execution_count".to_owned(), Value::Null);
                cell.insert("outputs".to_owned(), json!([]));
            } else {
                cell.shift_remove("execution_count");
                cell.shift_remove("outputs");
            }
        }
        Ok(())
    }

    /// Inserts a cell after the cell `after`, or before all others if that is empty.
    pub(crate) fn insert(
        &mut self,
        after: &str,
        source: &str,
        kind: CellKind,
    ) -> Result<(), NotebookError> {
        let at = match after {
            "" => 0,
            after => self.find(after)? + 1,
        };
        let mut cell = json!({"cell_type": kind.name(), "metadata": {}, "source": lines(source)});
        if self.cells.iter().any(|cell| cell.get("id").is_some()) || self.has_ids() {
            let id = uuid::Uuid::new_v4().simple().to_string();
            cell["id"] = json!(&id[..8]);
        }
        if kind == CellKind::Code {
            cell["execution_count"] = Value::Null;
            cell["outputs"] = json!([]);
        }
        self.cells.insert(at, cell);
        Ok(())
    }

    /// Removes the cell `id`.
    pub(crate) fn delete(&mut self, id: &str) -> Result<(), NotebookError> {
        let at = self.find(id)?;
        self.cells.remove(at);
        Ok(())
    }

    /// The notebook as Jupyter writes it.
    pub(crate) fn into_file(mut self) -> String {
        if let Some(cells) = self.document.get_mut("cells") {
            *cells = Value::Array(self.cells);
        }
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
        let mut writer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        // A value is always JSON, and a vector takes all of it.
        let _ = Value::Object(self.document).serialize(&mut writer);
        bytes.push(b'\n');
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// The place of the cell `id`: its own id, or its number from 0.
    fn find(&self, id: &str) -> Result<usize, NotebookError> {
        let by_id = self.cells.iter().position(|cell| cell["id"] == id);
        let by_number = || id.parse().ok().filter(|at| *at < self.cells.len());
        let found = by_id.or_else(by_number);
        found.ok_or_else(|| NotebookError::NoCell(id.to_owned()))
    }

    /// Whether cells of this version of the format have ids.
    fn has_ids(&self) -> bool {
        let number = |key: &str| self.document.get(key).and_then(Value::as_u64);
        number("nbformat") > Some(4)
            || number("nbformat") == Some(4) && number("nbformat_minor") >= Some(5)
    }
}

fn cell_text(at: usize, cell: &Value) -> String {
    let id = cell["id"]
        .as_str()
        .map_or_else(|| at.to_string(), str::to_owned);
    let kind = cell["cell_type"].as_str().unwrap_or("unknown");
    let mut text = format!(
        "[cell {id}, {kind}]\n{}\n",
        joined(&cell["source"]).trim_end()
    );
    for output in cell["outputs"].as_array().into_iter().flatten() {
        let printed = match output["output_type"].as_str() {
            Some("error") => joined(&output["traceback"]),
            Some("stream") => joined(&output["text"]),
            Some(_) | None => {
                let data = output["data"].get("text/plain");
                data.map_or_else(|| "(not text)".to_owned(), joined)
            }
        };
        text.push_str(&format!(
            "[output]\n{}\n",
            plain(printed.as_bytes()).trim_end()
        ));
    }
    text.push('\n');
    text
}

/// Text that may stand as a list of its lines.
fn joined(text: &Value) -> String {
    match text {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn lines(text: &str) -> Value {
    text.split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::{CellKind, Notebook, NotebookError};

    const FILE: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title\n",
    "é"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "sum",
   "metadata": {
    "tags": []
   },
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "\u001b[31m2\u001b[0m\n"
     ]
    }
   ],
   "source": [
    "1 + 1"
   ]
  }
 ],
 "metadata": {
  "kernelspec": {
   "name": "python3"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

    #[test]
    fn a_notebook_reads_as_its_cells() {
        let text = Notebook::parse(FILE).unwrap().text();
        let expected =
            "[cell intro, markdown]\n# Title\né\n\n[cell sum, code]\n1 + 1\n[output]\n2\n\n";
        assert_eq!(text, expected);
        for wrong in ["", "[]", "{}", "{\"cells\": 1}"] {
            let error = Notebook::parse(wrong).unwrap_err();
            assert_eq!(error, NotebookError::NotANotebook, "{wrong}");
        }
    }

    #[test]
    fn a_notebook_that_is_not_changed_is_written_as_it_was() {
        let same = FILE
            .replace("\\u001b", "\u{1b}")
            .replace('\u{1b}', "\\u001b");
        assert_eq!(Notebook::parse(FILE).unwrap().into_file(), same);
    }

    #[test]
    fn one_cell_changes_and_the_rest_stays() {
        let mut notebook = Notebook::parse(FILE).unwrap();
        notebook.replace("sum", "2 + 2\n3", None).unwrap();
        notebook.insert("intro", "new", CellKind::Code).unwrap();
        notebook.replace("0", "text", Some(CellKind::Code)).unwrap();
        assert_eq!(notebook.source("sum"), Ok("2 + 2\n3".to_owned()));
        let text = notebook.text();
        assert!(
            text.starts_with("[cell intro, code]\ntext\n\n[cell "),
            "{text}"
        );
        assert!(
            text.ends_with(", code]\nnew\n\n[cell sum, code]\n2 + 2\n3\n\n"),
            "{text}"
        );
        notebook.delete("intro").unwrap();
        notebook.delete("sum").unwrap();
        assert_eq!(
            notebook.delete("sum"),
            Err(NotebookError::NoCell("sum".to_owned()))
        );
        assert!(notebook.into_file().contains("\"kernelspec\""));
    }
}
