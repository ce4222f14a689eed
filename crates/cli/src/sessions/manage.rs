//! `sessions fork` and `sessions delete`: on the files, while nobody else writes them.

use std::io::{self, IsTerminal, Write};

use domain::clock::Timestamp;
use domain::{EventSeq, PrincipalId, SessionId};
use journal::{FileStore, StoreError};

use crate::confirm::is_confirmed;
use crate::render::{self, Exit, Failure, one_line};

/// Begins a new session with the events of `id` up to `at`; prints its id.
///
/// # Errors
/// If there are no such events, or the store fails.
pub(super) fn fork(store: &FileStore, id: SessionId, at: u64) -> anyhow::Result<Exit> {
    let (to, owner) = (SessionId::random(), PrincipalId::local());
    let forked = store.fork(id, EventSeq(at), to, &owner, Timestamp::now());
    let meta = forked.map_err(|error| explained(error, id))?;
    writeln!(render::stdout(), "{to}")?;
    // One event more than was copied: the one that says where it comes from.
    let copied = meta.head.0.saturating_sub(1);
    writeln!(io::stderr(), "copied {copied} events of {id}")?;
    Ok(Exit::Success)
}

/// Deletes the session, and before it those of its sub-agents.
///
/// # Errors
/// If somebody has one of them open, or the store fails.
pub(super) fn delete(store: &FileStore, id: SessionId) -> anyhow::Result<Exit> {
    for child in store.list()? {
        // One that cannot be read is nobody's child.
        let parent = store.meta(child).ok().and_then(|meta| meta.parent);
        if parent == Some(id) {
            store
                .delete(child)
                .map_err(|error| explained(error, child))?;
        }
    }
    store.delete(id).map_err(|error| explained(error, id))?;
    writeln!(io::stderr(), "deleted {id}")?;
    Ok(Exit::Success)
}

/// Deletes the session; on a terminal only after asking.
///
/// # Errors
/// As [`delete`].
pub(super) fn delete_if_meant(store: &FileStore, id: SessionId) -> anyhow::Result<Exit> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() && !is_meant(store, id)? {
        writeln!(io::stderr(), "kept")?;
        return Ok(Exit::Success);
    }
    delete(store, id)
}

fn is_meant(store: &FileStore, id: SessionId) -> anyhow::Result<bool> {
    let title = store.meta(id).ok().and_then(|meta| meta.title);
    let title = title.map_or_else(String::new, |title| format!(" “{}”", one_line(&title)));
    let prompt = format!("Delete {id}{title} for good? [y/N] ");
    Ok(is_confirmed(&prompt)?)
}

/// The error, with what to do about it.
fn explained(error: StoreError, id: SessionId) -> anyhow::Error {
    let StoreError::HeldElsewhere { pid } = error else {
        return error.into();
    };
    let holder = pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    );
    Failure::new(format!("{holder} has session {id} open"))
        .hint("close the session there, or stop that process, and try again")
        .into()
}
