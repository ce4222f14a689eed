//! The file store: which sessions there are, and the ways to make, open and read one.
//!
//! `<data-dir>/sessions/<id>/` holds a session. `.new-<id>` is one being made and `<id>.deleted`
//! one being removed (see `delete`); each takes its name by a rename, so a crash leaves all of it
//! or nothing.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::clock::Timestamp;
use domain::event::SessionForked;
use domain::{Event, EventSeq, PrincipalId, SessionId};

use crate::blobs::BlobDir;
use crate::catalogue::{Catalogue, Row};
use crate::lock::{self, Lock};
use crate::names::Names;
use crate::scan::Place;
use crate::storage::{Access, DiskStorage, Storage, StoredFile, read_full_at, write_all_at};
use crate::{
    Meta, Reader, Recovery, StoreError, Stored, Verified, Writer, delete, fork, meta, recover,
    verify,
};

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
            damaged: Mutex::default(),
            names: Names::default(),
            catalogue: Mutex::default(),
        });
        let store = Self { shared };
        delete::clean_up(store.storage());
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
        self.make(id, |dir, lock| {
            let mut writer = Writer::new(dir, lock, 0, Meta::new(id));
            let stored = writer.append_first(first, now)?;
            Ok((writer, stored))
        })
    }

    /// Makes the session `to` from the first events of `from`: byte for byte all up to `at`, or,
    /// if that lies inside a turn, up to the end of the last finished turn before it; and then
    /// `session.forked`, which makes `owner` its owner. Durable when this returns, with no writer.
    ///
    /// `from` may be open elsewhere, and may be damaged after that place.
    ///
    /// # Errors
    /// [`StoreError::NoFork`] at 0, past the head, or before the first finished turn if that leaves
    /// nothing; [`StoreError::NotFound`]; [`StoreError::Exists`] if the id `to` was ever used;
    /// [`StoreError::Damaged`] in `from`; or what made storing fail.
    pub fn fork(
        &self,
        from: SessionId,
        at: EventSeq,
        to: SessionId,
        owner: &PrincipalId,
        now: Timestamp,
    ) -> Result<Meta, StoreError> {
        let source = self.session_dir(from);
        let end = fork::find_end(&source, at)?;
        let forked = SessionForked {
            from: from.to_string(),
            at: EventSeq(end.next.0 - 1),
            owner: Some(owner.clone()),
        };
        let (writer, ()) = self.make(to, |dir, lock| {
            let len = fork::copy(&source, end, &dir, lock.events())?;
            let mut meta = Meta::new(to);
            meta::fold_on(&dir, lock.events(), Place::START, &mut meta)?;
            let mut writer = Writer::new(dir, lock, len, meta);
            writer.append_first(vec![forked.into()], now)?;
            Ok((writer, ()))
        })?;
        Ok(writer.meta().clone())
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
    /// To pass over all events of a session (to export or to search it), call
    /// [`Reader::read_after`] with the number of the last event it gave until it gives none, or
    /// [`Reader::for_each`]; either holds no more than one batch in memory.
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
        Ok(self.names(Timestamp::now())?.to_vec())
    }

    /// Shows `look` a row for each session, newest first. The first call reads the sessions that the
    /// saved catalogue does not know.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn newest_first<T>(&self, look: impl FnOnce(&[Row]) -> T) -> Result<T, StoreError> {
        let mut catalogue = locked(&self.shared.catalogue);
        catalogue.refresh(self, Timestamp::now())?;
        Ok(look(catalogue.rows()))
    }

    /// Has every row of [`FileStore::newest_first`] compared with the disk, in steps between which
    /// other calls get their turn.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn check_catalogue(&self) -> Result<(), StoreError> {
        self.newest_first(|_| ())?;
        let calls = locked(&self.shared.catalogue).calls_to_check_all();
        for _ in 1..calls {
            self.newest_first(|_| ())?;
        }
        Ok(())
    }

    /// The names of all sessions, sorted.
    pub(crate) fn names(&self, now: Timestamp) -> Result<Arc<[SessionId]>, StoreError> {
        Ok(self.shared.names.get(self.storage(), now)?)
    }

    /// When a session's log changed last, as far as the system says.
    pub(crate) fn log_changed_at(&self, id: SessionId) -> Option<Timestamp> {
        let log = format!("{id}/events.jsonl");
        self.storage().file_changed_at(&log).ok().flatten()
    }

    /// A session at a glance, without opening it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Damaged`], or what made reading fail.
    pub fn meta(&self, id: SessionId) -> Result<Meta, StoreError> {
        meta::load(&self.session_dir(id))
    }

    /// Checks every event and every blob of a session, without a lock, in memory that does not
    /// grow with the session. The torn end of a session that is being written is given time to
    /// become whole; one that stays is in [`Verified::torn_bytes`] and is not damage.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NewerFormat`], or what made reading fail. Damage is
    /// no error: it is in [`Verified::damaged_at`].
    pub fn verify(&self, id: SessionId) -> Result<Verified, StoreError> {
        verify::verify(&self.session_dir(id))
    }

    /// Bytes that this process may still fill where the sessions are.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn free_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.storage().free_bytes()?)
    }

    /// Deletes a session for good; its name is never used again. Needs no space on the disk.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::HeldElsewhere`] while a writer has it, or what made
    /// the disk fail; then it is still there, or will be gone once the store is opened again.
    pub fn delete(&self, id: SessionId) -> Result<(), StoreError> {
        delete::delete(self.storage(), id)?;
        self.session_dir(id).note_sound();
        Ok(())
    }

    /// Makes a session under a name that nobody looks at, and gives it its own once all that
    /// `fill` wrote is on disk.
    fn make<T>(
        &self,
        id: SessionId,
        fill: impl FnOnce(SessionDir, Lock) -> Result<(Writer, T), StoreError>,
    ) -> Result<(Writer, T), StoreError> {
        let storage = self.storage();
        if storage.exists(&id.to_string())? || delete::was_deleted(storage, id)? {
            return Err(StoreError::Exists);
        }
        let unborn = format!(".new-{id}");
        let made = self.make_as(&unborn, id, fill);
        // Nothing was acknowledged; what cannot be removed now goes with the next clean-up. That
        // it has no name must be durable first, or a power loss would bring back half of it.
        if made.is_err() && storage.sync_dir("").is_ok() {
            let _ = delete::remove_tree(storage, &unborn);
        }
        made
    }

    fn make_as<T>(
        &self,
        unborn: &str,
        id: SessionId,
        fill: impl FnOnce(SessionDir, Lock) -> Result<(Writer, T), StoreError>,
    ) -> Result<(Writer, T), StoreError> {
        let storage = self.storage();
        storage.create_dir(unborn)?;
        let lock = Lock::take(storage, unborn, Access::Create)?;
        let dir = SessionDir {
            shared: Arc::clone(&self.shared),
            id,
            name: unborn.to_owned(),
        };
        // There from the start, so that starting a message never has to sync the directory.
        dir.open("partial", Access::Create)?;
        let (mut writer, made) = fill(dir, lock)?;
        storage.sync_dir(unborn)?;
        writer.take_name(id.to_string())?;
        self.shared.names.note_made(id);
        Ok((writer, made))
    }

    /// Keeps what lets clients come back to a session, beside its journal. A process that dies
    /// does not lose it; a power loss may, and then they enter as who they are.
    ///
    /// # Errors
    /// If the session is not there, or the disk fails.
    pub fn save_resume(&self, id: SessionId, kept: &[u8]) -> Result<(), StoreError> {
        let file = self.session_dir(id).open(RESUME, Access::Create)?;
        file.truncate(0)?;
        Ok(write_all_at(&*file, kept, 0)?)
    }

    /// What [`FileStore::save_resume`] kept; empty if there is nothing, or nothing to be had.
    #[must_use]
    pub fn load_resume(&self, id: SessionId) -> Vec<u8> {
        let read = || {
            let file = self.session_dir(id).open(RESUME, Access::Read)?;
            let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
            let mut kept = vec![0; len.min(RESUME_BYTES_MAX)];
            let count = read_full_at(&*file, &mut kept, 0)?;
            kept.truncate(count);
            Ok::<_, io::Error>(kept)
        };
        read().unwrap_or_default()
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.shared.storage
    }

    pub(crate) fn session_dir(&self, id: SessionId) -> SessionDir {
        SessionDir {
            shared: Arc::clone(&self.shared),
            id,
            name: id.to_string(),
        }
    }
}

/// The file of [`FileStore::save_resume`].
const RESUME: &str = "resume.json";

/// Most that is read of it: a thousand tokens, of which only hashes are there.
const RESUME_BYTES_MAX: usize = 1024 * 1024;

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

    /// Whether the session was last written on this boot of the machine.
    pub(crate) fn is_same_boot(&self) -> bool {
        lock::is_same_boot(self.storage(), &self.name)
    }

    /// Opening the session found that event `at` cannot be read. Only who holds the lock may say
    /// so: to others a recovery under way may look like damage.
    pub(crate) fn note_damage(&self, at: EventSeq) {
        locked(&self.shared.damaged).insert(self.id, at);
    }

    /// All of the log could be read, or it is gone.
    pub(crate) fn note_sound(&self) {
        locked(&self.shared.damaged).remove(&self.id);
    }

    /// The event that is known to be unreadable: nothing from there on may be served, however a
    /// reader got past it.
    pub(crate) fn known_damage(&self) -> Option<EventSeq> {
        locked(&self.shared.damaged).get(&self.id).copied()
    }

    /// After a failed sync: nobody knows whether the bytes from `durable` on will reach the disk.
    pub(crate) fn doubt(&self, durable: u64) {
        let mut doubtful = locked(&self.shared.doubtful);
        let from = doubtful.entry(self.id).or_insert(durable);
        *from = durable.min(*from);
    }

    /// The first byte in doubt, if a sync failed in this process.
    pub(crate) fn doubtful(&self) -> Option<u64> {
        locked(&self.shared.doubtful).get(&self.id).copied()
    }

    pub(crate) fn no_more_doubt(&self) {
        locked(&self.shared.doubtful).remove(&self.id);
    }
}

struct Shared {
    storage: Arc<dyn Storage>,
    /// Sessions that a failed sync fenced, until recovery has written the bytes in doubt again:
    /// the kernel may call them clean though they never reached the disk.
    doubtful: Mutex<HashMap<SessionId, u64>>,
    /// Sessions that could not be opened because of damage, and where it begins.
    damaged: Mutex<HashMap<SessionId, EventSeq>>,
    names: Names,
    catalogue: Mutex<Catalogue>,
}

/// What a panic left behind is still a map of sessions.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
