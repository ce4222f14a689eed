//! What a call touches, for those who judge it before it runs.

use std::path::PathBuf;

use serde_json::Value;

/// A file or directory that a call names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Where its spelling leads, links aside.
    pub spelled: Real,
    /// Where the tool would find it, or put it; `None` if it would do neither.
    pub real: Option<Real>,
}

/// A place on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    /// From the top.
    pub absolute: PathBuf,
    /// From the session's directory that it lies in.
    pub beneath: Option<PathBuf>,
}

/// The path that a call of `tool` names, if it is a tool for files.
#[must_use]
pub fn path<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    let path = input.get("path").and_then(Value::as_str);
    match tool {
        "read" | "write" | "edit" | "notebook_edit" | "lsp" => path,
        "list" | "glob" | "grep" => Some(path.unwrap_or(".")),
        _ => None,
    }
}
