//! The names of all sessions, kept while their directory says that none came or went.
//!
//! Reading a directory waits for whoever changes the disk; asking when it changed does not. So a
//! list of sessions stays quick beside one that writes a great deal, and still shows what another
//! process made or deleted.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use domain::SessionId;
use domain::clock::Timestamp;

use crate::storage::Storage;

/// How old a directory's last change must be for its time to tell the next one from it: no file
/// system counts in longer steps.
const TICK_SECONDS_MAX: f64 = 2.0;

/// The names as they were read last, and when the directory had changed before that.
#[derive(Default)]
pub(crate) struct Names {
    kept: Mutex<Option<(Timestamp, Arc<[SessionId]>)>>,
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
        let kept = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some((at, names)) = kept
            && changed == Some(at)
        {
            return Ok(names);
        }
        let names = read(storage)?;
        let settled = changed.filter(|changed| now.0 - changed.0 > TICK_SECONDS_MAX);
        let kept = settled.map(|at| (at, Arc::clone(&names)));
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        Ok(names)
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
        assert!(names.kept.lock().unwrap().is_none(), "it changed just now");
        let first = names.get(&storage, later()).unwrap();
        let second = names.get(&storage, later()).unwrap();
        assert!(Arc::ptr_eq(&first, &second), "nothing was read again");
    }

    #[test]
    fn what_another_process_makes_or_deletes_shows_at_once() {
        let home = tempfile::tempdir().unwrap();
        let storage = DiskStorage::open(home.path(), "sessions").unwrap();
        let (names, first) = (Names::default(), made(&storage));
        // Of another time than what comes next, as if two seconds had passed.
        *names.kept.lock().unwrap() = Some((Timestamp(1.0), [first].into()));
        let mut both = [first, made(&storage)];
        both.sort_unstable();
        assert_eq!(*names.get(&storage, later()).unwrap(), both);
        storage.remove_dir(&first.to_string()).unwrap();
        *names.kept.lock().unwrap() = Some((Timestamp(1.0), both.into()));
        assert_eq!(names.get(&storage, later()).unwrap().len(), 1);
    }
}
