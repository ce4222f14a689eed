//! Deleting a session for good, also where the disk has no space left.
//!
//! The rename to `<id>.deleted` decides. Then the files go, which gives their space back, and only
//! then `.deleted/<id>` is made, which remembers the name for ever. Where there is no room even for
//! that, the empty directory `<id>.deleted` stays and remembers it as well.

use std::io;

use domain::SessionId;

use crate::StoreError;
use crate::lock;
use crate::storage::{Access, Storage, gone_is_fine};

/// Names of deleted sessions.
const DELETED: &str = ".deleted";

/// Deepest directory that removing a session enters: the session, `blobs`, and one to spare.
const TREE_DEPTH_MAX: usize = 3;

/// See [`crate::FileStore::delete`].
pub(crate) fn delete(storage: &dyn Storage, id: SessionId) -> Result<(), StoreError> {
    let _locked = match lock::take_silently(storage, &id.to_string(), Access::Write) {
        // Where there is no log, nobody writes one.
        Err(StoreError::NotFound) => None,
        taken => Some(taken?),
    };
    decide(storage, id)?;
    storage.sync_dir("")?;
    if let Err(error) = bury(storage, id) {
        tracing::warn!(session = %id, %error, "something of a deleted session remains for now");
    }
    Ok(())
}

/// Whether a session of this name was deleted, or is being so.
pub(crate) fn was_deleted(storage: &dyn Storage, id: SessionId) -> io::Result<bool> {
    Ok(storage.exists(&grave(id))? || storage.exists(&format!("{DELETED}/{id}"))?)
}

/// Removes what a crash left of sessions being made or deleted.
pub(crate) fn clean_up(storage: &dyn Storage) {
    let mut synced = false;
    for name in storage.list("").unwrap_or_default() {
        let deleted = name.strip_suffix(".deleted").and_then(|id| id.parse().ok());
        let unborn = name.starts_with(".new-") && lock::is_abandoned(storage, &name);
        if deleted.is_none() && !unborn {
            continue;
        }
        // The new name first: a power loss must not bring back half of a session.
        if !synced && let Err(error) = storage.sync_dir("") {
            tracing::warn!(%error, "the rest of some sessions could not be removed");
            return;
        }
        synced = true;
        let outcome = match deleted {
            Some(id) => bury(storage, id),
            None => remove_tree(storage, &name),
        };
        if let Err(error) = outcome {
            tracing::warn!(%name, %error, "the rest of a session could not be removed");
        }
    }
}

/// Removes a directory and what is in it. What is gone already is fine.
pub(crate) fn remove_tree(storage: &dyn Storage, path: &str) -> io::Result<()> {
    empty(storage, path, TREE_DEPTH_MAX)?;
    gone_is_fine(storage.remove_dir(path))
}

/// Gives the session the name that makes it a deleted one.
fn decide(storage: &dyn Storage, id: SessionId) -> Result<(), StoreError> {
    let rename = || storage.rename(&id.to_string(), &grave(id));
    let renamed = rename().map_err(StoreError::from);
    if !matches!(renamed, Err(StoreError::Full)) {
        return renamed;
    }
    // A longer name may take one block more of the directory. The cache can be done without.
    match storage.remove_file(&format!("{id}/meta.json")) {
        Err(_) => return renamed,
        Ok(()) => storage.sync_dir(&id.to_string())?,
    }
    Ok(rename()?)
}

/// Finishes a deletion whose rename is durable.
fn bury(storage: &dyn Storage, id: SessionId) -> io::Result<()> {
    let grave = grave(id);
    empty(storage, &grave, TREE_DEPTH_MAX)?;
    if !storage.exists(DELETED)? {
        match storage.create_dir(DELETED) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        storage.sync_dir("")?;
    }
    storage.open(&format!("{DELETED}/{id}"), Access::Create)?;
    storage.sync_dir(DELETED)?;
    gone_is_fine(storage.remove_dir(&grave))
}

fn grave(id: SessionId) -> String {
    format!("{id}.deleted")
}

/// Removes what is in a directory, down to `depth`.
fn empty(storage: &dyn Storage, path: &str, depth: usize) -> io::Result<()> {
    let names = match storage.list(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    for name in names {
        let inner = format!("{path}/{name}");
        match storage.remove_file(&inner) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory && depth > 0 => {
                empty(storage, &inner, depth - 1)?;
                gone_is_fine(storage.remove_dir(&inner))?;
            }
            removed => gone_is_fine(removed)?,
        }
    }
    Ok(())
}
