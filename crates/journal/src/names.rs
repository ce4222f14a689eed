//! The names of all sessions, kept while their directory says that none came or went.
//!
//! Reading a directory waits for whoever changes the disk; asking when it changed does not. So a
//! list of sessions stays quick beside one that writes a great deal, and still shows what another
//! process made or deleted. Where there are very many, that shows within a second.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::SessionId;
use domain::clock::Timestamp;

use crate::storage::Storage;

/// How old a directory's last change must be for its time to tell the next one from it: no file
/// system counts in longer steps.
const TICK_SECONDS_MAX: f64 = 2.0;

/// Up to so many names the directory is read again whenever it has changed: about 2 ms.
const EXACT_NAMES_MAX: usize = 5_000;

/// How long more names than that are believed though the directory has changed. Reading 100,000 of
/// them takes as long as a whole list may.
const BELIEVED_SECONDS_MAX: f64 = 1.0;

/// Sessions of this process that are added to what was read; after more, all is read again.
const MADE_MAX: usize = 1_000;

/// The names as they were read last.
#[derive(Default)]
pub(crate) struct Names {
    kept: Mutex<Option<Kept>>,
}

#[derive(Clone)]
struct Kept {
    names: Arc<[SessionId]>,
    /// When the directory had changed before that, if the next change will show by another time.
    changed_at: Option<Timestamp>,
    read_at: Timestamp,
    /// Sessions that this process has made since.
    made: Vec<SessionId>,
}

impl Names {
    /// The names of all sessions in `storage`, sorted.
    pub(crate) fn get(
        &self,
        storage: &dyn Storage,
        now: Timestamp,
    ) -> io::Result<Arc<[SessionId]>> {
        // Asked before the names are read, so whatever comes after that shows.
        let changed = storage.changed_at("")?;
        if let Some(kept) = self.lock().as_mut()
            && kept.is_believed(changed, now)
        {
            kept.settle();
            return Ok(Arc::clone(&kept.names));
        }
        let names = read(storage)?;
        let changed_at = changed.filter(|changed| now.0 - changed.0 > TICK_SECONDS_MAX);
        *self.lock() = Some(Kept {
            names: Arc::clone(&names),
            changed_at,
            read_at: now,
            made: Vec::new(),
        });
        Ok(names)
    }

    /// This process made a session, which shows in the next list even if that reads nothing.
    pub(crate) fn note_made(&self, id: SessionId) {
        let mut kept = self.lock();
        match kept.as_mut() {
            Some(known) if known.made.len() < MADE_MAX => known.made.push(id),
            _ => *kept = None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn is_believed(&self, changed: Option<Timestamp>, now: Timestamp) -> bool {
        let is_same = changed.is_some() && changed == self.changed_at;
        let age = now.0 - self.read_at.0;
        let is_fresh = (0.0..BELIEVED_SECONDS_MAX).contains(&age);
        is_same || (is_fresh && self.names.len() > EXACT_NAMES_MAX)
    }

    /// Puts what this process has made where it belongs.
    fn settle(&mut self) {
        if self.made.is_empty() {
            return;
        }
        let mut names = self.names.to_vec();
        names.append(&mut self.made);
        names.sort_unstable();
        names.dedup();
        self.names = names.into();
    }
}

fn read(storage: &dyn Storage) -> io::Result<Arc<[SessionId]>> {
    let names = storage.list("")?;
    let mut ids: Vec<SessionId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort_unstable();
    Ok(ids.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::DiskStorage;

    fn made(storage: &DiskStorage) -> SessionId {
        let id = SessionId::random();
        storage.create_dir(&id.to_string()).unwrap();
        id
    }

    /// Asks as if whatever happened is long past.
    fn later() -> Timestamp {
        Timestamp(Timestamp::now().0 + 2.0 * TICK_SECONDS_MAX)
    }

    #[test]
    fn names_are_kept_once_the_directory_has_rested() {
        let home = tempfile::tempdir().unwrap();
        let storage = DiskStorage::open(home.path(), "sessions").unwrap();
        let (names, id) = (Names::default(), made(&storage));
        assert_eq!(*names.get(&storage, Timestamp::now()).unwrap(), [id]);
        let kept = names.lock().clone().unwrap();
        assert_eq!(kept.changed_at, None, "it changed just now");
        let first = names.get(&storage, later()).unwrap();
        let second = names.get(&storage, later()).unwrap();
        assert!(Arc::ptr_eq(&first, &second), "nothing was read again");
    }

    impl Names {
        /// Names that were read before the directory changed for the last time.
        fn keep(&self, ids: &[SessionId]) {
            *self.lock() = Some(Kept {
                names: ids.into(),
                changed_at: Some(Timestamp(1.0)),
                read_at: Timestamp::now(),
                made: Vec::new(),
            });
        }
    }

    #[test]
    fn many_names_are_read_once_a_second_and_own_sessions_show_at_once() {
        let home = tempfile::tempdir().unwrap();
        let storage = DiskStorage::open(home.path(), "sessions").unwrap();
        let names = Names::default();
        let mut many: Vec<SessionId> = Vec::new();
        many.resize_with(EXACT_NAMES_MAX + 1, SessionId::random);
        many.sort_unstable();
        names.keep(&many);
        let now = Timestamp::now();
        let foreign = made(&storage);
        let read = names.get(&storage, now).unwrap();
        assert!(*read == many[..], "the directory was read for one name");
        let own = SessionId::random();
        names.note_made(own);
        let read = names.get(&storage, now).unwrap();
        assert_eq!(read.len(), many.len() + 1);
        assert!(read.binary_search(&own).is_ok());
        let second_later = Timestamp(now.0 + 2.0 * BELIEVED_SECONDS_MAX);
        assert_eq!(*names.get(&storage, second_later).unwrap(), [foreign]);
    }

    #[test]
    fn what_another_process_makes_or_deletes_shows_at_once() {
        let home = tempfile::tempdir().unwrap();
        let storage = DiskStorage::open(home.path(), "sessions").unwrap();
        let (names, first) = (Names::default(), made(&storage));
        // Of another time than what comes next, as if two seconds had passed.
        names.keep(&[first]);
        let mut both = [first, made(&storage)];
        both.sort_unstable();
        assert_eq!(*names.get(&storage, later()).unwrap(), both);
        storage.remove_dir(&first.to_string()).unwrap();
        names.keep(&both);
        assert_eq!(names.get(&storage, later()).unwrap().len(), 1);
    }
}
