//! Rows for lists of sessions: sorted, and true also when another process changes a session.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::SessionId;
use domain::clock::Timestamp;
use journal::FileStore;
use journal::storage::{Access, DiskStorage, Storage, StoredFile};

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

/// The real disk, which counts how many files of sessions are opened.
struct Counted {
    disk: DiskStorage,
    opened: Arc<AtomicUsize>,
}

impl Storage for Counted {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        if path.ends_with("/events.jsonl") {
            self.opened.fetch_add(1, Ordering::Relaxed);
        }
        self.disk.open(path, access)
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn changed_at(&self, dir: &str) -> io::Result<Option<Timestamp>> {
        self.disk.changed_at(dir)
    }
    fn file_changed_at(&self, path: &str) -> io::Result<Option<Timestamp>> {
        let changed = self.disk.file_changed_at(path)?;
        // As if all of it had happened a minute ago.
        Ok(changed.map(|at| Timestamp(at.0 - 60.0)))
    }
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.disk.create_dir(path)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.disk.remove_dir(path)
    }
    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
    fn boot_id(&self) -> Option<String> {
        self.disk.boot_id()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

/// More sessions than are left unsaved.
const SESSIONS: usize = 250;

/// A store that was just opened, and how many sessions it has opened since.
fn start(dir: &Path) -> (FileStore, Arc<AtomicUsize>) {
    let opened = Arc::new(AtomicUsize::new(0));
    let disk = DiskStorage::open(dir, "sessions").unwrap();
    let counted = Counted {
        disk,
        opened: Arc::clone(&opened),
    };
    let store = FileStore::with_storage(Arc::new(counted));
    opened.store(0, Ordering::Relaxed);
    (store, opened)
}

/// Sessions whose rows a list has saved, newest first.
fn saved_list() -> (World, Vec<SessionId>) {
    let world = World::new();
    let made = (0..SESSIONS).map(|number| make(&world.store, number as f64));
    let mut ids: Vec<SessionId> = made.collect();
    ids.reverse();
    let (store, opened) = start(world.dir.path());
    assert_eq!(order(&store), ids);
    assert_eq!(opened.load(Ordering::Relaxed), SESSIONS);
    (world, ids)
}

#[test]
fn list_after_a_restart_reads_no_session_that_was_listed_before() {
    let (world, ids) = saved_list();
    let (store, opened) = start(world.dir.path());
    assert_eq!(order(&store), ids);
    assert_eq!(opened.load(Ordering::Relaxed), 0);
}

#[test]
fn list_after_a_restart_shows_what_changed_meanwhile() {
    let (world, mut ids) = saved_list();
    let (changed, deleted) = (ids.remove(9), ids.remove(9));
    let (mut writer, _) = world.store.open_session(changed, NOW, &mut |_| {}).unwrap();
    let later = Timestamp(NOW.0 + 1e6);
    writer.append(entries([notice("hi")]), later).unwrap();
    drop(writer);
    world.store.delete(deleted).unwrap();
    let new = make(&world.store, 2e6);
    ids.splice(..0, [new, changed]);
    let (store, opened) = start(world.dir.path());
    assert_eq!(order(&store), ids);
    assert_eq!(opened.load(Ordering::Relaxed), 2);
}

#[test]
fn damaged_or_missing_catalogue_is_made_anew() {
    let (world, ids) = saved_list();
    let file = world.dir.path().join("sessions/catalogue");
    let sound = std::fs::read(&file).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    for bytes in [&flipped[..], &sound[..sound.len() / 2], b"", &[0; 5000]] {
        std::fs::write(&file, bytes).unwrap();
        let (store, opened) = start(world.dir.path());
        assert_eq!(order(&store), ids);
        assert_eq!(opened.load(Ordering::Relaxed), SESSIONS);
        assert_eq!(std::fs::read(&file).unwrap().len(), sound.len());
    }
    std::fs::remove_file(&file).unwrap();
    let (store, _) = start(world.dir.path());
    assert_eq!(order(&store), ids);
    assert!(file.exists());
}
