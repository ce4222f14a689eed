//! The file store: which sessions there are, and the ways to make, open, read and delete one.
//!
//! `<data-dir>/sessions/<id>/` holds a session. `.new-<id>` is one being made and `<id>.deleted`
//! one being removed; each takes its name by a rename, so a crash leaves all of it or nothing.
//! `.deleted/<id>` remembers every name that was used, so that none is used twice.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::clock::Timestamp;
use domain::{Event, SessionId};

use crate::blobs::BlobDir;
use crate::lock::{self, Lock};
use crate::storage::{Access, DiskStorage, Storage, StoredFile};
use crate::{Meta, Reader, Recovery, StoreError, Stored, Writer, meta, recover};

/// Names of deleted sessions.
const DELETED: &str = ".deleted";

/// Deepest directory that removing a session enters: the session, `blobs`, and one to spare.
const TREE_DEPTH_MAX: usize = 3;

/// All sessions beneath one data directory. Cheap to clone.
#[derive(Clone)]
pub struct FileStore {
    shared: Arc<Shared>,
}

impl FileStore {
    /// Opens (creating, mode 0700) `<data_dir>/sessions`.
    ///
    /// # Errors
    /// If the directory cannot be made or opened.
    pub fn open(data_dir: &Path) -> Result<Self, StoreError> {
        let storage = DiskStorage::open(data_dir, "sessions")?;
        Ok(Self::with_storage(Arc::new(storage)))
    }

    /// A store over any storage, so that tests can put a faulty one underneath.
    #[must_use]
    pub fn with_storage(storage: Arc<dyn Storage>) -> Self {
        let shared = Arc::new(Shared {
            storage,
            doubtful: Mutex::default(),
        });
        let store = Self { shared };
        store.clean_up();
        store
    }

    /// Makes a session with `first` as its events 1, 2, …, durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the id was ever used, or what made storing fail.
    pub fn create(
        &self,
        id: SessionId,
        first: Vec<Event>,
        now: Timestamp,
    ) -> Result<(Writer, Vec<Arc<Stored>>), StoreError> {
        let storage = self.storage();
        for name in [
            format!("{id}"),
            format!("{id}.deleted"),
            format!("{DELETED}/{id}"),
        ] {
            if storage.exists(&name)? {
                return Err(StoreError::Exists);
            }
        }
        let unborn = format!(".new-{id}");
        let created = self.create_as(&unborn, id, first, now);
        if created.is_err() {
            // Nothing was acknowledged; what cannot be removed now goes with the next clean-up.
            let _ = remove_tree(storage, &unborn, TREE_DEPTH_MAX);
        }
        created
    }

    /// Takes the lock, recovers, and calls `visit` for every event in order, including those that
    /// recovery appends.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::HeldElsewhere`], [`StoreError::Damaged`] (then a
    /// [`Reader`] still reads what comes before), or what made the disk fail.
    pub fn open_session(
        &self,
        id: SessionId,
        now: Timestamp,
        visit: &mut dyn FnMut(&Stored),
    ) -> Result<(Writer, Recovery), StoreError> {
        recover::open(self.session_dir(id), now, visit)
    }

    /// Reads a session without a lock, beside a running writer.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or what made opening fail.
    pub fn reader(&self, id: SessionId) -> Result<Reader, StoreError> {
        Reader::open(self.session_dir(id))
    }

    /// Whether there is such a session.
    #[must_use]
    pub fn exists(&self, id: SessionId) -> bool {
        self.storage()
            .exists(&format!("{id}/events.jsonl"))
            .unwrap_or(false)
    }

    /// The names of all sessions, sorted.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(&self) -> Result<Vec<SessionId>, StoreError> {
        let names = self.storage().list("")?;
        let mut ids: Vec<SessionId> = names.iter().filter_map(|name| name.parse().ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// A session at a glance, without opening it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Damaged`], or what made reading fail.
    pub fn meta(&self, id: SessionId) -> Result<Meta, StoreError> {
        meta::load(self.storage(), id, &id.to_string())
    }

    /// Deletes a session for good; its name is never used again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::HeldElsewhere`] while a writer has it, or what made
    /// the disk fail; then it is still there, or will be gone once the store is opened again.
    pub fn delete(&self, id: SessionId) -> Result<(), StoreError> {
        let storage = self.storage();
        let _lock = Lock::take(storage, &id.to_string())?;
        storage.rename(&id.to_string(), &format!("{id}.deleted"))?;
        storage.sync_dir("")?;
        if let Err(error) = self.bury(id) {
            tracing::warn!(session = %id, %error, "a deleted session's files remain for now");
        }
        Ok(())
    }

    fn create_as(
        &self,
        unborn: &str,
        id: SessionId,
        first: Vec<Event>,
        now: Timestamp,
    ) -> Result<(Writer, Vec<Arc<Stored>>), StoreError> {
        let storage = self.storage();
        storage.create_dir(unborn)?;
        let lock = Lock::take(storage, unborn)?;
        let dir = SessionDir {
            shared: Arc::clone(&self.shared),
            id,
            name: unborn.to_owned(),
        };
        let events = dir.open("events.jsonl", Access::Create)?;
        // There from the start, so that starting a message never has to sync the directory.
        dir.open("partial", Access::Create)?;
        let mut writer = Writer::new(dir, lock, events, 0, Meta::new(id));
        let stored = writer.append_first(first, now)?;
        storage.sync_dir(unborn)?;
        writer.take_name(id.to_string())?;
        Ok((writer, stored))
    }

    /// Finishes a deletion whose rename is durable.
    fn bury(&self, id: SessionId) -> io::Result<()> {
        let storage = self.storage();
        if !storage.exists(DELETED)? {
            match storage.create_dir(DELETED) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
            storage.sync_dir("")?;
        }
        storage.open(&format!("{DELETED}/{id}"), Access::Create)?;
        storage.sync_dir(DELETED)?;
        remove_tree(storage, &format!("{id}.deleted"), TREE_DEPTH_MAX)
    }

    /// Removes what a crash left of sessions being made or deleted.
    fn clean_up(&self) {
        let storage = self.storage();
        for name in storage.list("").unwrap_or_default() {
            let deleted = name.strip_suffix(".deleted").and_then(|id| id.parse().ok());
            let outcome = match deleted {
                Some(id) => self.bury(id),
                None if name.starts_with(".new-") && lock::is_abandoned(storage, &name) => {
                    remove_tree(storage, &name, TREE_DEPTH_MAX)
                }
                None => Ok(()),
            };
            if let Err(error) = outcome {
                tracing::warn!(%name, %error, "the rest of a session could not be removed");
            }
        }
    }

    fn storage(&self) -> &dyn Storage {
        &*self.shared.storage
    }

    fn session_dir(&self, id: SessionId) -> SessionDir {
        SessionDir {
            shared: Arc::clone(&self.shared),
            id,
            name: id.to_string(),
        }
    }
}

/// One session's directory.
pub(crate) struct SessionDir {
    shared: Arc<Shared>,
    pub(crate) id: SessionId,
    pub(crate) name: String,
}

impl SessionDir {
    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.shared.storage
    }

    pub(crate) fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.name)
    }

    pub(crate) fn open(&self, file: &str, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        self.storage().open(&self.path(file), access)
    }

    pub(crate) fn blobs(&self) -> BlobDir<'_> {
        BlobDir {
            storage: self.storage(),
            session: &self.name,
        }
    }

    /// After a failed sync: nobody knows whether the bytes from `durable` on will reach the disk.
    pub(crate) fn doubt(&self, durable: u64) {
        let mut doubtful = self.shared.doubtful();
        let from = doubtful.entry(self.id).or_insert(durable);
        *from = durable.min(*from);
    }

    /// The first byte in doubt, if a sync failed in this process.
    pub(crate) fn doubtful(&self) -> Option<u64> {
        self.shared.doubtful().get(&self.id).copied()
    }

    pub(crate) fn no_more_doubt(&self) {
        self.shared.doubtful().remove(&self.id);
    }
}

struct Shared {
    storage: Arc<dyn Storage>,
    /// Sessions that a failed sync fenced, until recovery has written the bytes in doubt again:
    /// the kernel may call them clean though they never reached the disk.
    doubtful: Mutex<HashMap<SessionId, u64>>,
}

impl Shared {
    fn doubtful(&self) -> MutexGuard<'_, HashMap<SessionId, u64>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a directory and what is in it, down to `depth`. What is gone already is fine.
fn remove_tree(storage: &dyn Storage, path: &str, depth: usize) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let names = match storage.list(path) {
        Ok(names) => names,
        Err(error) => return gone(Err(error)),
    };
    for name in names {
        let inner = format!("{path}/{name}");
        match storage.remove_file(&inner) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory && depth > 0 => {
                remove_tree(storage, &inner, depth - 1)?;
            }
            other => gone(other)?,
        }
    }
    gone(storage.remove_dir(path))
}
