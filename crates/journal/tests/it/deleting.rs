//! Deleting where it is hardest: on a disk without any space, cut short at every call.

use std::sync::Arc;

use domain::limits::BLOB_BYTES_MIN;
use domain::{EventSeq, SessionId};
use journal::storage::power::{Fault, FaultyCall, PowerStorage};
use journal::{FileStore, StoreError};

use crate::world::{NOW, created, notice};

/// A store in memory with one session that has a log, a blob and a cache.
fn store_with(seed: u64, id: SessionId) -> (PowerStorage, FileStore) {
    let storage = PowerStorage::new(seed);
    let store = FileStore::with_storage(Arc::new(storage.clone()));
    let first = vec![created(), notice(&"x".repeat(BLOB_BYTES_MIN + 1))];
    let (mut writer, _) = store.create(id, first, NOW).unwrap();
    writer.save_meta().unwrap();
    drop(writer);
    (storage, store)
}

fn reopened(storage: &PowerStorage) -> FileStore {
    FileStore::with_storage(Arc::new(storage.clone()))
}

fn is_used(store: &FileStore, id: SessionId) -> bool {
    let made = store.create(id, vec![created()], NOW);
    matches!(made, Err(StoreError::Exists))
}

#[test]
fn f_07_a_session_can_be_deleted_where_nothing_can_be_written() {
    let id = SessionId::random();
    let (storage, store) = store_with(1, id);
    storage.set_full(true);
    assert!(matches!(
        store.open_session(id, NOW, &mut |_| {}).err(),
        Some(StoreError::Full)
    ));
    store.delete(id).unwrap();
    // The space is given back at once, under whatever name.
    let grave = format!("{id}.deleted");
    for name in [id.to_string(), grave.clone()] {
        assert_eq!(storage.peek(&format!("{name}/events.jsonl")), None);
    }
    assert_eq!(store.list().unwrap(), []);
    assert!(is_used(&store, id));
    storage.power_loss();
    assert!(is_used(&reopened(&storage), id));
    // Once there is room the name is noted where it costs less.
    storage.set_full(false);
    let store = reopened(&storage);
    assert!(storage.peek(&format!(".deleted/{id}")).is_some());
    assert!(!journal::storage::Storage::exists(&storage, &grave).unwrap());
    assert!(is_used(&store, id));
}

#[test]
fn whoever_still_reads_a_deleted_session_is_told_so_and_not_that_it_is_damaged() {
    let id = SessionId::random();
    let (_storage, store) = store_with(1, id);
    let mut reader = store.reader(id).unwrap();
    store.delete(id).unwrap();
    let read = reader.read_after(EventSeq(1), EventSeq(2), 1, 1);
    assert!(matches!(read, Err(StoreError::NotFound)), "{read:?}");
}

/// Deletes on a full disk with `fault`, then looks at what is left; `false` once there is no
/// such call.
fn delete_with(seed: u64, fault: Fault, power: bool) -> bool {
    let id = SessionId::random();
    let (storage, store) = store_with(seed, id);
    storage.set_full(true);
    storage.arm(Some(fault));
    let deleted = store.delete(id);
    let happened = storage.faults() > 0;
    match power {
        true => storage.power_loss(),
        false => storage.restart(),
    }
    // Another process looks while there is still no room, and one more later.
    for full in [true, false] {
        storage.set_full(full);
        let store = reopened(&storage);
        assert!(is_used(&store, id), "{fault:?}");
        if !store.exists(id) {
            assert_eq!(store.list().unwrap(), [], "{fault:?}");
            continue;
        }
        assert!(deleted.is_err(), "{fault:?}: it was deleted");
        let verified = store.verify(id).unwrap();
        assert_eq!((verified.events, verified.damaged_at), (2, None));
    }
    if reopened(&storage).exists(id) {
        reopened(&storage).delete(id).unwrap();
    }
    let left: Vec<String> = journal::storage::Storage::list(&storage, "").unwrap();
    assert_eq!(left, [".deleted"], "{fault:?}");
    happened
}

#[test]
fn f_07_deleting_on_a_full_disk_may_be_cut_short_at_any_call() {
    let call = FaultyCall::Change;
    for errno in [None, Some(5), Some(28)] {
        for power in [true, false] {
            let calls = (1..).take_while(|nth| {
                let fault = Fault {
                    call,
                    nth: *nth,
                    errno,
                };
                let met = (0..10).map(|seed| delete_with(seed, fault, power));
                met.fold(false, |any, met| any | met)
            });
            assert!(calls.count() > 7);
        }
    }
}

#[test]
fn f_07_where_a_new_name_finds_no_room_the_cache_makes_some() {
    let id = SessionId::random();
    let (storage, store) = store_with(1, id);
    storage.arm(Some(Fault {
        call: FaultyCall::Name,
        nth: 1,
        errno: Some(28),
    }));
    store.delete(id).unwrap();
    assert!(storage.faults() == 1 && !store.exists(id));
    assert!(is_used(&store, id));
}
