//! The file `lock`: who writes the session, and on which boot of the machine it was last written.
//!
//! The kernel's lock on it decides; its content `{"pid":…,"bootId":"…"}` informs. A boot id that
//! is missing, or that the machine cannot tell, counts as another boot: an epoch too many costs
//! clients a replay, one too few would leave them with text that was lost.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::storage::{Access, Storage, StoredFile, read_full_at, write_all_at};

/// Longest content worth reading; ours is below 100 bytes.
const CONTENT_BYTES_MAX: usize = 512;

/// The right to write a session, given up when dropped.
pub(crate) struct Lock {
    file: Arc<dyn StoredFile>,
    /// The boot on which the session was last written.
    last_boot_id: Option<String>,
}

impl Lock {
    /// Takes the lock in the directory `session`.
    ///
    /// # Errors
    /// [`StoreError::HeldElsewhere`] if a writer has it, in this process or another.
    pub(crate) fn take(storage: &dyn Storage, session: &str) -> Result<Self, StoreError> {
        let lock = Self::take_silently(storage, session)?;
        // Whoever is refused learns our pid; the boot id stays until recovery is on disk.
        lock.write(lock.last_boot_id.clone())?;
        Ok(lock)
    }

    /// As [`Self::take`], but without a word about who has it: where the file is there, this needs
    /// no space on the disk.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(crate) fn take_silently(storage: &dyn Storage, session: &str) -> Result<Self, StoreError> {
        let file = storage.open(&format!("{session}/lock"), Access::Create)?;
        let content = |file: &dyn StoredFile| read(file).ok().flatten();
        if !file.try_lock()? {
            let pid = content(&*file).map(|content| content.pid);
            return Err(StoreError::HeldElsewhere { pid });
        }
        let last_boot_id = content(&*file).and_then(|content| content.boot_id);
        Ok(Self { file, last_boot_id })
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
    pub(crate) fn settle(&mut self, storage: &dyn Storage) -> io::Result<()> {
        self.last_boot_id = storage.boot_id();
        self.write(self.last_boot_id.clone())
    }

    fn write(&self, boot_id: Option<String>) -> io::Result<()> {
        let content = Content {
            pid: std::process::id(),
            boot_id,
        };
        let mut json = serde_json::to_vec(&content)?;
        json.push(b'\n');
        write_all_at(&*self.file, &json, 0)?;
        self.file.truncate(json.len() as u64)
    }
}

/// Whether a session was last written on this boot, asked without taking its lock.
pub(crate) fn is_same_boot(storage: &dyn Storage, session: &str) -> bool {
    let noted = storage
        .open(&format!("{session}/lock"), Access::Read)
        .and_then(|file| read(&*file));
    let noted = noted.ok().flatten().and_then(|content| content.boot_id);
    noted.is_some() && noted == storage.boot_id()
}

/// Whether a directory was left by a writer that is gone, and not one that is just being made.
pub(crate) fn is_abandoned(storage: &dyn Storage, session: &str) -> bool {
    let Ok(file) = storage.open(&format!("{session}/lock"), Access::Write) else {
        return false;
    };
    matches!(read(&*file), Ok(Some(_))) && file.try_lock().unwrap_or(false)
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
}

fn read(file: &dyn StoredFile) -> io::Result<Option<Content>> {
    let mut buffer = [0; CONTENT_BYTES_MAX];
    let count = read_full_at(file, &mut buffer, 0)?;
    Ok(serde_json::from_slice(&buffer[..count]).ok())
}
