//! `sessions show`: the whole session as a person reads it.

use std::io::BufWriter;

use domain::{EventSeq, SessionId};
use journal::{FileStore, StoreError};

use super::terminal::Terminal;
use super::walk::{End, Walk};
use crate::render::{self, Exit, Palette};
use crate::settings::Settings;

/// Prints the session; fails if a part of it cannot be believed.
///
/// # Errors
/// If the store or the output fails.
pub(super) fn run(store: &FileStore, id: SessionId, settings: &Settings) -> anyhow::Result<Exit> {
    let out = BufWriter::new(render::stdout());
    let mut terminal = Terminal::new(out, Palette::stdout(&settings.environment));
    match store.meta(id) {
        Ok(meta) => terminal.head(&meta)?,
        // What comes before the damage is shown all the same.
        Err(StoreError::Damaged { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let mut walk = Walk::after(store, id, EventSeq(0))?;
    let end = walk.visit_rest(|reader, stored| terminal.event(reader, stored))?;
    let exit = match end {
        End::Whole => Exit::Success,
        End::Damaged(at) => {
            terminal.remark(&damage(at))?;
            Exit::Failure
        }
    };
    if let Some(torn) = torn_note(store, id)? {
        terminal.remark(&torn)?;
    }
    terminal.flush()?;
    Ok(exit)
}

/// What a reader is told about damage.
pub(super) fn damage(at: EventSeq) -> String {
    format!("the journal is damaged at event {at}; nothing from there on can be believed")
}

/// What a reader is told about a torn end, if there is one.
///
/// # Errors
/// If the disk fails.
pub(super) fn torn_note(store: &FileStore, id: SessionId) -> anyhow::Result<Option<String>> {
    let found = store.verify(id)?;
    Ok((found.torn_bytes > 0).then(|| {
        format!(
            "the last write did not finish: {} bytes after the last whole event were never \
             acknowledged",
            found.torn_bytes
        )
    }))
}
