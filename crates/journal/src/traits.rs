//! What any store of sessions offers; [`FileStore`] is the one that keeps files.
//!
//! The types' own methods say the same and are what code that knows its store calls. Whatever
//! implements these traits must pass the suite in `conformance`.

use std::sync::Arc;

use domain::clock::Timestamp;
use domain::event::{MessageStarted, Text};
use domain::{Event, EventSeq, PrincipalId, SessionId};

use crate::{
    Entry, FileStore, Meta, Reader, Recovery, StoreError, Stored, SyncJob, Verified, Writer,
};

/// A session that was just made: its writer, and its first events as they are stored.
pub type Made = (Box<dyn SessionWriter>, Vec<Arc<Stored>>);

/// All sessions of one data directory or cluster.
///
/// Errors are those of the [`FileStore`] methods of the same names.
#[expect(
    clippy::missing_errors_doc,
    reason = "said once, above and at the methods of FileStore"
)]
pub trait Store: Send + Sync {
    /// See [`FileStore::create`].
    fn create(&self, id: SessionId, first: Vec<Event>, now: Timestamp) -> Result<Made, StoreError>;
    /// See [`FileStore::open_session`].
    fn open_session(
        &self,
        id: SessionId,
        now: Timestamp,
        visit: &mut dyn FnMut(&Stored),
    ) -> Result<(Box<dyn SessionWriter>, Recovery), StoreError>;
    /// See [`FileStore::reader`].
    fn reader(&self, id: SessionId) -> Result<Box<dyn SessionReader>, StoreError>;
    /// See [`FileStore::exists`].
    fn exists(&self, id: SessionId) -> bool;
    /// See [`FileStore::list`].
    fn list(&self) -> Result<Vec<SessionId>, StoreError>;
    /// See [`FileStore::meta`].
    fn meta(&self, id: SessionId) -> Result<Meta, StoreError>;
    /// See [`FileStore::delete`].
    fn delete(&self, id: SessionId) -> Result<(), StoreError>;
    /// See [`FileStore::fork`].
    fn fork(
        &self,
        from: SessionId,
        at: EventSeq,
        to: SessionId,
        owner: &PrincipalId,
        now: Timestamp,
    ) -> Result<Meta, StoreError>;
    /// See [`FileStore::verify`].
    fn verify(&self, id: SessionId) -> Result<Verified, StoreError>;
    /// See [`FileStore::free_bytes`].
    fn free_bytes(&self) -> Result<u64, StoreError>;
}

/// The one right to add to a session. Errors are those of the [`Writer`] methods of the same names.
#[expect(
    clippy::missing_errors_doc,
    reason = "said once, above and at the methods of Writer"
)]
pub trait SessionWriter: Send {
    /// See [`Writer::meta`].
    fn meta(&self) -> &Meta;
    /// See [`Writer::open_message`].
    fn open_message(&self) -> Option<(EventSeq, u64)>;
    /// See [`Writer::append`].
    fn append(
        &mut self,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> Result<Vec<Arc<Stored>>, StoreError>;
    /// See [`Writer::start_message`].
    fn start_message(
        &mut self,
        started: MessageStarted,
        now: Timestamp,
    ) -> Result<Arc<Stored>, StoreError>;
    /// See [`Writer::push_text`].
    fn push_text(&mut self, text: &str) -> Result<u64, StoreError>;
    /// See [`Writer::unsynced`].
    fn unsynced(&mut self) -> Option<SyncJob>;
    /// See [`Writer::fence`].
    fn fence(&mut self);
    /// See [`Writer::save_meta`].
    fn save_meta(&mut self) -> Result<(), StoreError>;
}

/// Follows a session. Errors are those of the [`Reader`] methods of the same names.
#[expect(
    clippy::missing_errors_doc,
    reason = "said once, above and at the methods of Reader"
)]
pub trait SessionReader: Send {
    /// See [`Reader::read_after`].
    fn read_after(
        &mut self,
        after: EventSeq,
        up_to: EventSeq,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Stored>>, StoreError>;
    /// See [`Reader::read_partial`].
    fn read_partial(
        &mut self,
        started: EventSeq,
        offset: u64,
        max: usize,
    ) -> Result<Option<String>, StoreError>;
    /// See [`Reader::read_text`].
    fn read_text(&self, text: &Text, offset: u64, max: usize) -> Result<String, StoreError>;
    /// See [`Reader::head`].
    fn head(&mut self) -> Result<EventSeq, StoreError>;
}

impl Store for FileStore {
    fn create(&self, id: SessionId, first: Vec<Event>, now: Timestamp) -> Result<Made, StoreError> {
        let (writer, stored) = self.create(id, first, now)?;
        Ok((Box::new(writer), stored))
    }

    fn open_session(
        &self,
        id: SessionId,
        now: Timestamp,
        visit: &mut dyn FnMut(&Stored),
    ) -> Result<(Box<dyn SessionWriter>, Recovery), StoreError> {
        let (writer, recovery) = self.open_session(id, now, visit)?;
        Ok((Box::new(writer), recovery))
    }

    fn reader(&self, id: SessionId) -> Result<Box<dyn SessionReader>, StoreError> {
        Ok(Box::new(self.reader(id)?))
    }

    fn exists(&self, id: SessionId) -> bool {
        self.exists(id)
    }

    fn list(&self) -> Result<Vec<SessionId>, StoreError> {
        self.list()
    }

    fn meta(&self, id: SessionId) -> Result<Meta, StoreError> {
        self.meta(id)
    }

    fn delete(&self, id: SessionId) -> Result<(), StoreError> {
        self.delete(id)
    }

    fn fork(
        &self,
        from: SessionId,
        at: EventSeq,
        to: SessionId,
        owner: &PrincipalId,
        now: Timestamp,
    ) -> Result<Meta, StoreError> {
        self.fork(from, at, to, owner, now)
    }

    fn verify(&self, id: SessionId) -> Result<Verified, StoreError> {
        self.verify(id)
    }

    fn free_bytes(&self) -> Result<u64, StoreError> {
        self.free_bytes()
    }
}

impl SessionWriter for Writer {
    fn meta(&self) -> &Meta {
        self.meta()
    }

    fn open_message(&self) -> Option<(EventSeq, u64)> {
        self.open_message()
    }

    fn append(
        &mut self,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> Result<Vec<Arc<Stored>>, StoreError> {
        self.append(entries, now)
    }

    fn start_message(
        &mut self,
        started: MessageStarted,
        now: Timestamp,
    ) -> Result<Arc<Stored>, StoreError> {
        self.start_message(started, now)
    }

    fn push_text(&mut self, text: &str) -> Result<u64, StoreError> {
        self.push_text(text)
    }

    fn unsynced(&mut self) -> Option<SyncJob> {
        self.unsynced()
    }

    fn fence(&mut self) {
        self.fence();
    }

    fn save_meta(&mut self) -> Result<(), StoreError> {
        self.save_meta()
    }
}

impl SessionReader for Reader {
    fn read_after(
        &mut self,
        after: EventSeq,
        up_to: EventSeq,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Stored>>, StoreError> {
        self.read_after(after, up_to, max_events, max_bytes)
    }

    fn read_partial(
        &mut self,
        started: EventSeq,
        offset: u64,
        max: usize,
    ) -> Result<Option<String>, StoreError> {
        self.read_partial(started, offset, max)
    }

    fn read_text(&self, text: &Text, offset: u64, max: usize) -> Result<String, StoreError> {
        self.read_text(text, offset, max)
    }

    fn head(&mut self) -> Result<EventSeq, StoreError> {
        self.head()
    }
}
