//! Rows for lists of sessions: sorted, and true also when another process changes a session.

use domain::SessionId;
use domain::clock::Timestamp;
use journal::FileStore;

use crate::world::{NOW, World, created, entries, notice};

fn order(store: &FileStore) -> Vec<SessionId> {
    store
        .newest_first(|rows| rows.iter().map(|row| row.id).collect())
        .unwrap()
}

/// Makes a session whose newest event is `seconds` after the first one's.
fn make(store: &FileStore, seconds: f64) -> SessionId {
    let id = SessionId::random();
    let at = Timestamp(NOW.0 + seconds);
    store.create(id, vec![created()], at).unwrap();
    id
}

#[test]
fn sessions_are_listed_newest_first() {
    let world = World::new();
    let ids = [30.0, 10.0, 20.0].map(|seconds| make(&world.store, seconds));
    assert_eq!(order(&world.store), [ids[0], ids[2], ids[1]]);
    world.store.delete(ids[2]).unwrap();
    let newest = make(&world.store, 40.0);
    assert_eq!(order(&world.store), [newest, ids[0], ids[1]]);
}

#[test]
fn session_changed_by_another_process_moves_to_the_front() {
    let world = World::new();
    let old = make(&world.store, 1.0);
    let new = make(&world.store, 2.0);
    assert_eq!(order(&world.store), [new, old]);
    let other = FileStore::open(world.dir.path()).unwrap();
    let (mut writer, _) = other.open_session(old, NOW, &mut |_| {}).unwrap();
    let later = Timestamp(NOW.0 + 9.0);
    writer.append(entries([notice("hi")]), later).unwrap();
    assert_eq!(order(&world.store), [old, new]);
}

#[test]
fn unreadable_session_does_not_hide_the_others() {
    let world = World::new();
    let [good, bad] = [1.0, 2.0].map(|seconds| make(&world.store, seconds));
    let log = world
        .dir
        .path()
        .join(format!("sessions/{bad}/events.jsonl"));
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[10] ^= 1;
    bytes.extend(std::fs::read(&log).unwrap());
    std::fs::write(&log, bytes).unwrap();
    let readable = |rows: &[journal::Row]| {
        let rows = rows.iter().filter(|row| row.is_readable);
        rows.map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(world.store.newest_first(readable).unwrap(), [good]);
}
