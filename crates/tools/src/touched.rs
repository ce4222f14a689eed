//! What a call touches, for those who judge it before it runs.

use std::path::PathBuf;

use serde_json::Value;

use crate::protected::Protection;

/// A file or directory that a call names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Where its spelling leads, links aside.
    pub spelled: Real,
    /// Where the tool would find it, or put it; `None` if it would do neither.
    pub real: Option<Real>,
    /// Why it must not be written without asking, if that is so.
    pub protection: Option<Protection>,
    /// Whether it is the session's own directory.
    pub is_working_directory: bool,
}

/// A place on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    /// From the top.
    pub absolute: PathBuf,
    /// From the session's directory that it lies in.
    pub beneath: Option<PathBuf>,
}

impl Touched {
    /// What is spelled like this and leads there. Blocks.
    #[must_use]
    pub fn new(spelled: Real, real: Option<Real>, is_working_directory: bool) -> Self {
        let places = real.iter().chain([&spelled]);
        let protection = places.into_iter().find_map(Protection::of_place);
        Self {
            spelled,
            real,
            protection,
            is_working_directory,
        }
    }
}

/// Whether `tool` writes the file that a call of it names.
#[must_use]
pub fn writes(tool: &str) -> bool {
    matches!(tool, "write" | "edit" | "notebook_edit")
}

/// The path that a call of `tool` names: a file, or the directory that a command runs in.
#[must_use]
pub fn path<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    let path = input.get("path").and_then(Value::as_str);
    match tool {
        "read" | "write" | "edit" | "notebook_edit" | "lsp" => path,
        "bash" => input.get("cwd").and_then(Value::as_str),
        "list" | "glob" | "grep" => Some(path.unwrap_or(".")),
        _ => None,
    }
}
