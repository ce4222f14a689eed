//! `write`: a whole file, old or new, never half.

use std::io::{self, Read as _};
use std::sync::Arc;

use domain::event::ToolKind;
use domain::limits::{DIFF_BYTES_MAX, FILE_BYTES_MAX};
use serde::Deserialize;
use serde_json::{Value, json};

use super::preview::{self, Glance};
use super::{
    Outcome, Preview, Running, RunsHere, RunsThere, Shown, There, ThereError, Tool, parse_input,
    show_file,
};
use crate::client_side::{ClientSeat, ClientSide, Offers};
use crate::diff;
use crate::roots::{FileVersion, PathError, Roots, WriteError};
use crate::seen::Stale;

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
        "Writes a whole text file, replacing what was in it, and creates missing directories. To change \
         part of a file, use `edit`."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file"},
                "content": {"type": "string", "description": "The whole new text of the file"},
            },
            "required": ["path", "content"],
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let content = match (text("path"), text("content")) {
            (Some(path), Some(new)) => change(path, new, roots),
            (_, _) => Vec::new(),
        };
        Shown {
            content,
            ..show_file("Write", ToolKind::Edit, input, roots)
        }
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
        let change = change(&input.path, &input.content, roots);
        match write_here(&input, roots) {
            Ok(()) => Outcome::completed(input.done()).showing(change),
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
            let now = preview::glance(&input.path, &there.roots, &there.seat).await;
            if let Glance::Text(now) = &now
                && is_another(&input.path, now, &there.roots)
            {
                return Outcome::failed(input.not_done(&Stale::Changed));
            }
            let change = change_there(&input.path, &content, now, &there.roots).await;
            let written = match reach(&input, &there).await {
                Ok((path, client)) => client.write_text_file(path, content.clone()),
                Err(error) => return Outcome::failed(input.not_done(&error)),
            };
            match written.await {
                Ok(()) => {
                    let name = there.roots.name_of(&input.path);
                    there.roots.seen().note(name, content.as_bytes());
                    Outcome::completed(done).showing(change)
                }
                Err(error) if error.may_have_run() => Outcome::unknown(input.not_done(&error)),
                Err(error) => Outcome::failed(input.not_done(&error)),
            }
        })
    }

    fn preview(&self, input: &Value, roots: Arc<Roots>, seat: ClientSeat) -> Option<Preview> {
        let input = Input::deserialize(input).ok()?;
        Some(Box::pin(async move {
            let now = preview::glance(&input.path, &roots, &seat).await;
            change_there(&input.path, &input.content, now, &roots).await
        }))
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

/// Writes a file of the server, unless it has changed since it was read.
fn write_here(input: &Input, roots: &Roots) -> Result<(), NotWritten> {
    let name = roots.name_of(&input.path);
    let version = match roots.open_file(&input.path) {
        Ok(file) => {
            let version = FileVersion::of(&file.metadata().map_err(PathError::from)?);
            let mut bytes = Vec::new();
            let read = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
            read.map_err(PathError::from)?;
            if let Err(Stale::Changed) = roots.seen().check(&name, &bytes) {
                return Err(NotWritten::Stale(Stale::Changed));
            }
            Some(version)
        }
        // What stands in the way of reading need not stand in that of writing.
        Err(_) => None,
    };
    let content = input.content.as_bytes();
    roots.replace_file(&input.path, content, version)?;
    roots.seen().note(name, content);
    Ok(())
}

/// What writing `new` to a file changes, as far as it can be shown. The disk is the server's, which
/// a client in an editor shares.
fn change(path: &str, new: &str, roots: &Roots) -> Vec<Value> {
    let absolute = roots.absolute(path);
    match roots.read_text(path, DIFF_BYTES_MAX) {
        Ok(old) if old.is_cut => Vec::new(),
        // The client has another text than this disk, so this is not what would be replaced.
        Ok(old) if is_another(path, &old.text, roots) => Vec::new(),
        Ok(old) => diff::blocks(&absolute, Some(&old.text), new),
        // New only if this is the disk that it is written to.
        Err(PathError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            match roots.open_directory(".") {
                Ok(_) => diff::blocks(&absolute, None, new),
                Err(_) => Vec::new(),
            }
        }
        Err(_) => Vec::new(),
    }
}

/// Whether the session has read the file, and otherwise than `text`.
fn is_another(path: &str, text: &str, roots: &Roots) -> bool {
    let seen = roots.seen().check(&roots.name_of(path), text.as_bytes());
    matches!(seen, Err(Stale::Changed))
}

/// What writing `new` to a file of the client's changes, of which it says `now`.
async fn change_there(path: &str, new: &str, now: Glance, roots: &Arc<Roots>) -> Vec<Value> {
    let (path, new, roots) = (path.to_owned(), new.to_owned(), Arc::clone(roots));
    let looked = tokio::task::spawn_blocking(move || match now {
        Glance::Text(now) if now.len() > DIFF_BYTES_MAX => Vec::new(),
        Glance::Text(now) => diff::blocks(&roots.absolute(&path), Some(&now), &new),
        // The server's disk can tell that it is new, and not what the client has.
        Glance::Unsaid if roots.open_file(&path).is_ok() => Vec::new(),
        Glance::Unsaid | Glance::NotOffered => change(&path, &new, &roots),
    });
    looked.await.unwrap_or_default()
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
enum NotWritten {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Stale(#[from] Stale),
}

/// The path as the client is told it, and the client.
async fn reach(input: &Input, there: &There) -> Result<(String, Arc<dyn ClientSide>), ThereError> {
    let path = there.path(&input.path).await?;
    Ok((path, there.seat.client().await?))
}
