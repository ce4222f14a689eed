//! Whether something that was read may be different by now.

use std::sync::Arc;

use serde_json::Value;

use crate::output;
use crate::roots::{FileVersion, Roots};

/// How a change of something that was read would be noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The file or directory would have another version.
    File(FileVersion),
    /// Not at all: it is a search, or a page of the web.
    Unseen,
    /// It cannot be told: the file is the client's, or is not there.
    Unknown,
}

/// What a call of `name` on the server's disk would look at.
pub(crate) async fn on_disk(roots: Arc<Roots>, name: &str, input: &Value) -> Freshness {
    let path = input.get("path").and_then(Value::as_str).unwrap_or(".");
    if !matches!(name, "read" | "list") || path.starts_with(output::SCHEME) {
        return Freshness::Unseen;
    }
    let (path, is_file) = (path.to_owned(), name == "read");
    // Looking at the disk blocks.
    let version = tokio::task::spawn_blocking(move || {
        let metadata = if is_file {
            roots.open_file(&path).ok()?.metadata()
        } else {
            std::fs::File::from(roots.open_directory(&path).ok()?).metadata()
        };
        Some(FileVersion::of(&metadata.ok()?))
    });
    let version = version.await.ok().flatten();
    version.map_or(Freshness::Unknown, Freshness::File)
}
