//! Who writes a session, and on which boot of the machine it was last written.
//!
//! The kernel's lock on `events.jsonl` decides: whoever writes has that file open anyway, so that a
//! session costs one open file. The file `lock` informs, with `{"pid":…,"bootId":"…"}`. A boot id
//! that is missing, or that the machine cannot tell, counts as another boot: an epoch too many
//! costs clients a replay, one too few would leave them with text that was lost.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::storage::{Access, Storage, StoredFile, read_full_at, write_all_at};

/// The log, which is what is locked.
const EVENTS: &str = "events.jsonl";

/// Longest note worth reading; ours is below 100 bytes.
const NOTE_BYTES_MAX: usize = 512;

/// The right to write a session: its log, open and locked. Given up when all clones are dropped.
pub(crate) struct Lock {
    events: Arc<dyn StoredFile>,
    /// The boot on which the session was last written.
    last_boot_id: Option<String>,
}

impl Lock {
    /// Takes the lock in the directory `session`; `access` says whether the log may be new.
    ///
    /// # Errors
    /// [`StoreError::HeldElsewhere`] if a writer has it, in this process or another.
    pub(crate) fn take(
        storage: &dyn Storage,
        session: &str,
        access: Access,
    ) -> Result<Self, StoreError> {
        let events = take_silently(storage, session, access)?;
        // Only now: that the directory still has its name says that nobody deleted the session
        // while we waited for it.
        let file = open_note(storage, session, Access::Create)?;
        let last_boot_id = read(&*file).ok().flatten().and_then(|note| note.boot_id);
        // Whoever is refused learns our pid; the boot id stays until recovery is on disk.
        write(&*file, last_boot_id.clone())?;
        Ok(Self {
            events,
            last_boot_id,
        })
    }

    /// The log.
    pub(crate) fn events(&self) -> &Arc<dyn StoredFile> {
        &self.events
    }

    /// Whether the session was last written on this boot, so that nothing written was lost.
    pub(crate) fn is_same_boot(&self, storage: &dyn Storage) -> bool {
        self.last_boot_id.is_some() && self.last_boot_id == storage.boot_id()
    }

    /// Whether a writer got as far as [`Self::settle`] before.
    pub(crate) fn was_settled(&self) -> bool {
        self.last_boot_id.is_some()
    }

    /// Notes this boot: all that was there is recovered, and the directories are synced.
    ///
    /// Not synced itself: after a power loss any content but this boot's will do.
    pub(crate) fn settle(&mut self, storage: &dyn Storage, session: &str) -> io::Result<()> {
        self.last_boot_id = storage.boot_id();
        let file = open_note(storage, session, Access::Create)?;
        write(&*file, self.last_boot_id.clone())
    }
}

/// As [`Lock::take`], but without a word about who has it, which needs no space on the disk. Gives
/// the log, open and locked.
///
/// # Errors
/// As [`Lock::take`].
pub(crate) fn take_silently(
    storage: &dyn Storage,
    session: &str,
    access: Access,
) -> Result<Arc<dyn StoredFile>, StoreError> {
    let events = storage.open(&format!("{session}/{EVENTS}"), access)?;
    if events.try_lock()? {
        return Ok(events);
    }
    let pid = noted(storage, session).map(|note| note.pid);
    Err(StoreError::HeldElsewhere { pid })
}

/// Whether a session was last written on this boot, asked without taking its lock.
pub(crate) fn is_same_boot(storage: &dyn Storage, session: &str) -> bool {
    let boot_id = noted(storage, session).and_then(|note| note.boot_id);
    boot_id.is_some() && boot_id == storage.boot_id()
}

/// Whether a directory was left by a writer that is gone, and not one that is just being made:
/// whoever makes one has its lock before it writes a note.
pub(crate) fn is_abandoned(storage: &dyn Storage, session: &str) -> bool {
    if noted(storage, session).is_none() {
        return false;
    }
    match storage.open(&format!("{session}/{EVENTS}"), Access::Write) {
        Ok(events) => events.try_lock().unwrap_or(false),
        // Half of it is removed already.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// What the file `lock` says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
}

fn open_note(
    storage: &dyn Storage,
    session: &str,
    access: Access,
) -> io::Result<Arc<dyn StoredFile>> {
    storage.open(&format!("{session}/lock"), access)
}

fn noted(storage: &dyn Storage, session: &str) -> Option<Note> {
    let file = open_note(storage, session, Access::Read).ok()?;
    read(&*file).ok().flatten()
}

fn read(file: &dyn StoredFile) -> io::Result<Option<Note>> {
    let mut buffer = [0; NOTE_BYTES_MAX];
    let count = read_full_at(file, &mut buffer, 0)?;
    Ok(serde_json::from_slice(&buffer[..count]).ok())
}

fn write(file: &dyn StoredFile, boot_id: Option<String>) -> io::Result<()> {
    let note = Note {
        pid: std::process::id(),
        boot_id,
    };
    let mut json = serde_json::to_vec(&note)?;
    json.push(b'\n');
    write_all_at(file, &json, 0)?;
    file.truncate(json.len() as u64)
}
