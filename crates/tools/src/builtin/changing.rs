//! Changing a text file that was read before: one look, one change, one write, here or there.

use std::io::Read as _;

use domain::limits::FILE_BYTES_MAX;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Outcome, Running, There, ThereError, parse_input, read, running};
use crate::client_side::{ClientError, ReadTextFile};
use crate::roots::{FileVersion, PathError, Roots, WriteError};
use crate::seen::Stale;

/// What a change makes of a text: the new one, and what there is to say about it.
pub(super) type Made<T, E> = Result<(String, T), E>;

/// A change that was made.
#[derive(Debug)]
pub(super) struct Changed<T> {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) about: T,
}

/// The input of a tool that changes one text file.
pub(super) trait Change: DeserializeOwned + Send + Sync + 'static {
    /// What there is to say about a change that was made.
    type About: Send;
    /// Why it cannot be made.
    type Error: std::error::Error + Send;

    /// The file.
    fn path(&self) -> &str;

    /// What becomes of its text.
    fn make(&self, text: &str) -> Made<Self::About, Self::Error>;

    /// The outcome once it is written.
    fn done(&self, roots: &Roots, changed: &Changed<Self::About>) -> Outcome;
}

/// Runs `tool` on a file of the server.
pub(super) fn run_here<C: Change>(tool: &str, input: Value, roots: &Roots) -> Outcome {
    let input: C = match parse_input(tool, input) {
        Ok(input) => input,
        Err(outcome) => return outcome,
    };
    match here(input.path(), roots, |text| input.make(text)) {
        Ok(changed) => input.done(roots, &changed),
        Err(error) => error.outcome(input.path(), roots),
    }
}

/// Runs `tool` on a file of the client.
pub(super) fn run_there<C: Change>(tool: &str, input: Value, at: There) -> Running {
    running(tool, input, |input: C| async move {
        let make = |text: &str| input.make(text);
        match there(input.path(), &at, make).await {
            Ok(changed) => input.done(&at.roots, &changed),
            Err(error) => error.outcome(input.path(), &at.roots),
        }
    })
}

/// Why a file was not changed, in words for a model.
#[derive(Debug, thiserror::Error)]
enum NotChanged<E: std::error::Error> {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    There(#[from] ThereError),
    /// The client did not give the file, so nothing happened to it.
    #[error(transparent)]
    NotRead(ClientError),
    /// The model does not know the file as it is.
    #[error("{why}")]
    Stale {
        why: Stale,
        /// Its text.
        now: String,
    },
    #[error("it is too large")]
    TooLarge,
    #[error("it is not UTF-8 text")]
    NotText,
    /// The change itself said no.
    #[error("{0}")]
    Refused(E),
}

impl<E: std::error::Error> NotChanged<E> {
    /// The outcome of a call that wanted to change `path`.
    fn outcome(&self, path: &str, roots: &Roots) -> Outcome {
        let text = format!("{path} was not edited: {self}.");
        match self {
            Self::There(ThereError::Client(error)) if error.may_have_run() => {
                Outcome::unknown(text)
            }
            Self::Stale { now, .. } => {
                let page = format!(
                    " This is what is in it now; if the change still fits, make the call again.\n{}",
                    read::page_of(path, now)
                );
                let unread = roots
                    .seen()
                    .unread(roots.name_of(path), now.as_bytes(), page);
                Outcome {
                    unread: Some(Box::new(unread)),
                    ..Outcome::failed(text)
                }
            }
            Self::There(_)
            | Self::Path(_)
            | Self::Write(_)
            | Self::NotRead(_)
            | Self::TooLarge
            | Self::NotText
            | Self::Refused(_) => Outcome::failed(text),
        }
    }
}

/// Changes a file of the server.
fn here<T, E: std::error::Error>(
    path: &str,
    roots: &Roots,
    change: impl FnOnce(&str) -> Made<T, E>,
) -> Result<Changed<T>, NotChanged<E>> {
    let file = roots.open_file(path)?;
    let version = FileVersion::of(&file.metadata().map_err(PathError::from)?);
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(PathError::from)? as u64 > FILE_BYTES_MAX {
        return Err(NotChanged::TooLarge);
    }
    let name = roots.name_of(path);
    let stale = roots.seen().check(&name, &bytes).err();
    let old = String::from_utf8(bytes).map_err(|_| NotChanged::NotText)?;
    if let Some(why) = stale {
        return Err(NotChanged::Stale { why, now: old });
    }
    let (new, about) = change(&old).map_err(NotChanged::Refused)?;
    roots.replace_file(path, new.as_bytes(), Some(version))?;
    roots.seen().note(name, new.as_bytes());
    Ok(Changed { old, new, about })
}

/// Changes a file of the client, as the client sees it.
async fn there<T, E: std::error::Error>(
    path: &str,
    there: &There,
    change: impl FnOnce(&str) -> Made<T, E>,
) -> Result<Changed<T>, NotChanged<E>> {
    let told = there.path(path).await.map_err(ThereError::from)?;
    let read = ReadTextFile {
        path: told.clone(),
        line: None,
        limit: None,
    };
    let read = there.seat.read_text_file(read).await;
    let (old, client) = read.map_err(NotChanged::NotRead)?;
    let (seen, name) = (there.roots.seen(), there.roots.name_of(path));
    if let Err(why) = seen.check(&name, old.as_bytes()) {
        return Err(NotChanged::Stale { why, now: old });
    }
    let (new, about) = change(&old).map_err(NotChanged::Refused)?;
    let written = client.write_text_file(told, new.clone()).await;
    written.map_err(ThereError::from)?;
    seen.note(name, new.as_bytes());
    Ok(Changed { old, new, about })
}
