//! The one right to add to a session.
//!
//! [`Writer::append`] acknowledges what is on disk; [`Writer::push_text`] writes the message being
//! streamed, which [`Writer::unsynced`] makes durable a little later. After a failed write or sync
//! only recovery can say what is on disk, so the writer refuses everything from then on.

use std::io;
use std::sync::Arc;

use domain::clock::Timestamp;
use domain::event::MessageStarted;
use domain::{Event, EventSeq, SessionId};

use crate::batch::Batch;
use crate::blobs::NewBlob;
use crate::lock::Lock;
use crate::message::OpenMessage;
use crate::meta::{self, Started};
use crate::storage::{Access, StoredFile, write_all_at};
use crate::store::SessionDir;
use crate::{Meta, StoreError, Stored, record};

/// Something to add to a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An event as it is.
    Event(Event),
    /// The end of the open message: becomes its `assistant.message` or `assistant.thought`.
    EndMessage {
        /// Whether it was cut short.
        partial: bool,
    },
}

/// Adds to one session. Not `Clone`: there is one per session, in all processes together.
///
/// At rest it holds one open file, the log, which is also what is locked; and no buffers.
pub struct Writer {
    dir: SessionDir,
    lock: Lock,
    /// Bytes in the log.
    len: u64,
    /// Bytes of them that a sync has confirmed.
    durable: u64,
    /// Bytes of them that a sync was asked for.
    handed: u64,
    /// Records among those that no sync has confirmed.
    behind: u64,
    meta: Meta,
    open: Option<OpenMessage>,
    /// The empty `partial` of the message before, for the next one: opening costs more than writing.
    kept: Option<Arc<dyn StoredFile>>,
    fenced: bool,
}

impl Writer {
    /// The session's name.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.meta.id
    }

    /// The number of the newest event.
    #[must_use]
    pub fn head(&self) -> EventSeq {
        self.meta.head
    }

    /// How often recovery could not keep all that clients may have seen.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.meta.epoch
    }

    /// The session at a glance.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The event that opened the message being streamed, and the bytes of its text so far.
    #[must_use]
    pub fn open_message(&self) -> Option<(EventSeq, u64)> {
        self.open.as_ref().map(|open| (open.started, open.bytes()))
    }

    /// Adds all entries, or none, with one write and one sync. On disk when this returns.
    ///
    /// While a message is open other events may be added, but none that starts or ends a message.
    ///
    /// # Errors
    /// [`StoreError::MessageOpen`], [`StoreError::NoMessage`], [`StoreError::StartedBare`] and
    /// [`StoreError::TooLarge`] and [`StoreError::OpenFilesExhausted`] change nothing. After any
    /// other error the writer is fenced.
    pub fn append(
        &mut self,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> Result<Vec<Arc<Stored>>, StoreError> {
        self.append_group(vec![(entries, now)])
            .pop()
            .unwrap_or(Ok(Vec::new()))
    }

    /// Adds several appends with one write and one sync; each is stored whole or refused alone,
    /// as by [`Self::append`], and numbered in this order.
    pub fn append_group(
        &mut self,
        appends: Vec<(Vec<Entry>, Timestamp)>,
    ) -> Vec<Result<Vec<Arc<Stored>>, StoreError>> {
        let mut batch = Batch::after(self.meta.head, self.behind, self.open.is_some());
        let mut outcomes: Vec<_> = appends
            .into_iter()
            .map(|(entries, now)| {
                self.refuse_if_fenced()?;
                let staged = batch.stage(entries, now, self.open.as_ref(), &self.dir.blobs());
                self.fence_after(staged)
            })
            .collect();
        if batch.is_empty() || outcomes.iter().all(Result::is_err) {
            return outcomes;
        }
        let stored = match self.refuse_if_fenced() {
            Ok(()) => self.commit(batch),
            refused => refused,
        };
        if let Err(error) = self.fence_after(stored) {
            // The first to wait is told all of it.
            let mut told = outcomes.iter_mut().filter(|outcome| outcome.is_ok());
            let first = told.next();
            told.for_each(|outcome| *outcome = Err(error.share()));
            if let Some(first) = first {
                *first = Err(error);
            }
        }
        outcomes
    }

    /// Opens a message: writes its `message.started` and begins `partial`. Not synced.
    ///
    /// # Errors
    /// [`StoreError::MessageOpen`] and [`StoreError::OpenFilesExhausted`] change nothing; after any
    /// other error the writer is fenced.
    pub fn start_message(
        &mut self,
        started: MessageStarted,
        now: Timestamp,
    ) -> Result<Arc<Stored>, StoreError> {
        self.refuse_if_fenced()?;
        if self.open.is_some() {
            return Err(StoreError::MessageOpen);
        }
        let result = self.start_admitted(started, now);
        self.fence_after(result)
    }

    /// Adds to the open message; returns the bytes of its text so far. Not synced.
    ///
    /// # Errors
    /// [`StoreError::NoMessage`] changes nothing; after any other error the writer is fenced.
    pub fn push_text(&mut self, text: &str) -> Result<u64, StoreError> {
        self.refuse_if_fenced()?;
        let open = self.open.as_mut().ok_or(StoreError::NoMessage)?;
        let result = open.push(text);
        self.fence_after(result)
    }

    /// Something is written but not synced: the job that syncs it, for another thread while text
    /// goes on. `None` if all is synced or handed out.
    pub fn unsynced(&mut self) -> Option<SyncJob> {
        if self.fenced {
            return None;
        }
        let events = (self.len > self.handed).then(|| Arc::clone(self.lock.events()));
        self.handed = self.len;
        let partial = self.open.as_mut().and_then(OpenMessage::unsynced);
        let files: Vec<_> = [events, partial].into_iter().flatten().collect();
        if files.is_empty() {
            return None;
        }
        Some(SyncJob::new(move || {
            for file in files {
                file.sync()?;
            }
            Ok(())
        }))
    }

    /// Lets go of what only makes the next message begin sooner.
    pub fn rest(&mut self) {
        self.kept = None;
    }

    /// Refuses everything from now on; for the caller whose [`SyncJob`] failed.
    pub fn fence(&mut self) {
        self.fenced = true;
        self.dir.doubt(self.durable);
    }

    /// Writes the cache `meta.json`.
    ///
    /// # Errors
    /// What made the disk fail. Only a failed sync of the events fences: the rest is a cache.
    pub fn save_meta(&mut self) -> Result<(), StoreError> {
        self.refuse_if_fenced()?;
        if self.durable < self.len {
            // The cache must not know of events that a power loss can take back.
            let synced = self.sync_events();
            self.fence_after(synced)?;
        }
        meta::save(self.dir.storage(), &self.dir.name, &self.meta, self.len)
    }

    pub(crate) fn new(dir: SessionDir, lock: Lock, len: u64, meta: Meta) -> Self {
        Self {
            dir,
            lock,
            len,
            durable: len,
            handed: len,
            behind: 0,
            meta,
            open: None,
            kept: None,
            fenced: false,
        }
    }

    pub(crate) fn dir(&self) -> &SessionDir {
        &self.dir
    }

    /// The events a new session begins with, which may be a copy of another's.
    pub(crate) fn append_first(
        &mut self,
        first: Vec<Event>,
        now: Timestamp,
    ) -> Result<Vec<Arc<Stored>>, StoreError> {
        let entries = first.into_iter().map(Entry::Event).collect();
        let mut batch = Batch::born(self.meta.head);
        let stored = batch.stage(entries, now, None, &self.dir.blobs())?;
        self.commit(batch)?;
        Ok(stored)
    }

    /// Gives a new session's directory its name: from here on the session exists.
    pub(crate) fn take_name(&mut self, name: String) -> Result<(), StoreError> {
        let storage = self.dir.storage();
        match storage.rename(&self.dir.name, &name) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                return Err(StoreError::Exists);
            }
            renamed => renamed?,
        }
        if let Err(error) = storage.sync_dir("") {
            // Not acknowledged, so it had better not be there; the caller removes the old name.
            let _ = storage.rename(&name, &self.dir.name);
            return Err(error.into());
        }
        self.dir.name = name;
        self.settle();
        Ok(())
    }

    /// Takes over a message that recovery found open.
    pub(crate) fn adopt(&mut self, message: Option<OpenMessage>) {
        self.open = message;
    }

    /// All that was found is on disk: note the boot, and forget a failed sync.
    pub(crate) fn settle(&mut self) {
        if let Err(error) = self.lock.settle(self.dir.storage(), &self.dir.name) {
            // The session is whole. The next to open it will not know the boot, and be careful.
            tracing::debug!(session = %self.meta.id, %error, "the boot could not be noted");
        }
        self.dir.no_more_doubt();
    }

    fn refuse_if_fenced(&self) -> Result<(), StoreError> {
        if self.fenced {
            return Err(StoreError::Fenced);
        }
        Ok(())
    }

    fn fence_after<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.as_ref().is_err_and(StoreError::fences) {
            self.fence();
        }
        result
    }

    /// Writes and syncs what is staged. From here on it is acknowledged.
    fn commit(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.store_blobs(&batch.new_blobs)?;
        self.write_lines(&batch.lines)?;
        self.sync_events()?;
        for stored in &batch.stored {
            self.meta.apply(stored);
        }
        if batch.ends_message {
            self.close_message();
        }
        Ok(())
    }

    fn start_admitted(
        &mut self,
        started: MessageStarted,
        now: Timestamp,
    ) -> Result<Arc<Stored>, StoreError> {
        let seq = self.meta.head.next();
        let message = Started {
            seq,
            id: started.message_id.clone(),
            kind: started.kind,
        };
        let stored = Stored {
            seq,
            ts: now,
            event: started.into(),
        };
        let (mut line, mut new_blobs) = (Vec::new(), Vec::new());
        record::encode(&stored, self.behind, &mut line, &mut new_blobs)?;
        self.store_blobs(&new_blobs)?;
        // Opened before anything is written: without a free descriptor nothing has changed.
        let (file, is_empty) = match self.kept.take() {
            Some(file) => (file, true),
            None => (self.dir.open("partial", Access::Create)?, false),
        };
        // The event first: a `partial` that names an event not written is a leftover.
        self.write_lines(&line)?;
        self.behind += 1;
        self.open = Some(if is_empty {
            OpenMessage::begin(&message, file)?
        } else {
            OpenMessage::begin_anew(&message, file)?
        });
        self.meta.apply(&stored);
        Ok(Arc::new(stored))
    }

    fn store_blobs(&self, new_blobs: &[NewBlob]) -> io::Result<()> {
        let blobs = self.dir.blobs();
        for blob in new_blobs {
            blobs.store(blob)?;
        }
        if new_blobs.is_empty() {
            return Ok(());
        }
        blobs.sync()
    }

    fn write_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        if let Err(error) = write_all_at(&**self.lock.events(), lines, self.len) {
            // Nobody has seen these bytes. If they cannot be cut now, recovery will do it.
            let _ = self.lock.events().truncate(self.len);
            return Err(error);
        }
        self.len += lines.len() as u64;
        Ok(())
    }

    fn sync_events(&mut self) -> Result<(), StoreError> {
        self.lock.events().sync()?;
        self.durable = self.len;
        self.handed = self.len;
        self.behind = 0;
        Ok(())
    }

    /// Empties `partial`, whose text is stored now.
    fn close_message(&mut self) {
        match self.open.take().map(OpenMessage::clear) {
            None => {}
            Some(Ok(empty)) => self.kept = Some(empty),
            // What is left names an ended message, and is dropped by whoever finds it.
            Some(Err(error)) => {
                tracing::debug!(session = %self.meta.id, %error, "partial could not be emptied");
            }
        }
    }
}

/// Syncs what was written when it was handed out. Runs on any thread, beside its [`Writer`].
#[must_use = "nothing is synced until it runs"]
pub struct SyncJob(Box<dyn FnOnce() -> Result<(), StoreError> + Send>);

impl SyncJob {
    /// A job of another store.
    pub fn new(sync: impl FnOnce() -> Result<(), StoreError> + Send + 'static) -> Self {
        Self(Box::new(sync))
    }

    /// Syncs, once. After a failure the session must be fenced: see [`Writer::fence`].
    ///
    /// # Errors
    /// What made the disk fail.
    pub fn run(self) -> Result<(), StoreError> {
        (self.0)()
    }
}
