//! Many threads on one session share syncs; sessions do not wait for each other.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use domain::SessionId;
use journal::storage::power::PowerStorage;
use journal::storage::{Access, Storage, StoredFile};
use journal::{FileStore, SharedWriter, StoreError};

use crate::world::{NOW, World, created, entries, notice, unknown};

/// A storage whose logs sync only while the gate is open.
struct Gated {
    inner: PowerStorage,
    /// Only this session's log waits; others pass.
    session: String,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    closed: bool,
    waiting: usize,
    syncs: usize,
}

impl Gate {
    fn close(&self) {
        self.state.lock().unwrap().closed = true;
    }

    fn open(&self) {
        self.state.lock().unwrap().closed = false;
        self.changed.notify_all();
    }

    fn wait_for_a_sync(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |state| state.waiting == 0)
                .unwrap(),
        );
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.syncs += 1;
        state.waiting += 1;
        self.changed.notify_all();
        let mut state = self
            .changed
            .wait_while(state, |state| state.closed)
            .unwrap();
        state.waiting -= 1;
    }
}

struct GatedFile {
    inner: Arc<dyn StoredFile>,
    gate: Option<Arc<Gate>>,
}

impl Storage for Gated {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        let is_gated = path == format!("{}/events.jsonl", self.session)
            || path == format!(".new-{}/events.jsonl", self.session);
        Ok(Arc::new(GatedFile {
            inner: self.inner.open(path, access)?,
            gate: is_gated.then(|| Arc::clone(&self.gate)),
        }))
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.inner.create_dir(path)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.inner.remove_file(path)
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.inner.remove_dir(path)
    }
    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.inner.sync_dir(path)
    }
    fn boot_id(&self) -> Option<String> {
        self.inner.boot_id()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }
}

impl StoredFile for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.inner.write_at(bytes, offset)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }
    fn sync(&self) -> io::Result<()> {
        if let Some(gate) = &self.gate {
            gate.pass();
        }
        self.inner.sync()
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }
}

fn gated() -> (FileStore, SessionId, Arc<Gate>) {
    let id = SessionId::random();
    let gate = Arc::new(Gate::default());
    let store = FileStore::with_storage(Arc::new(Gated {
        inner: PowerStorage::new(1),
        session: id.to_string(),
        gate: Arc::clone(&gate),
    }));
    (store, id, gate)
}

#[test]
fn c_01_f_13_eight_threads_of_fifty_appends_through_one_handle_leave_no_gap_and_no_repeat() {
    let (world, writer) = World::with(Vec::new());
    let shared = SharedWriter::new(writer);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let shared = shared.clone();
            scope.spawn(move || {
                let mut last = 0;
                for n in 0..50 {
                    let entry = entries([notice(&format!("{thread}.{n}"))]);
                    let stored = shared.append(entry, NOW).unwrap();
                    assert!(stored[0].seq.0 > last, "a thread's own order is kept");
                    last = stored[0].seq.0;
                }
            });
        }
    });
    let log = world.log();
    assert_eq!(log.lines().count(), 401);
    for (line, seq) in log.lines().zip(1..) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["seq"], seq, "the file's order is the numbers' order");
    }
    drop(shared.into_writer().unwrap());
    assert_eq!(world.open().unwrap().2.len(), 401);
}

#[test]
fn appends_that_wait_while_a_sync_runs_share_the_next_one() {
    let (store, id, gate) = gated();
    let (writer, _) = store.create(id, vec![created()], NOW).unwrap();
    let shared = SharedWriter::new(writer);
    gate.close();
    let before = gate.state.lock().unwrap().syncs;
    std::thread::scope(|scope| {
        let append = |text: &'static str| {
            let shared = shared.clone();
            scope.spawn(move || shared.append(entries([notice(text)]), NOW).unwrap()[0].seq)
        };
        let first = append("first");
        gate.wait_for_a_sync();
        let others: Vec<_> = (0..20).map(|_| append("another")).collect();
        while shared.waiting() < 20 {
            std::thread::yield_now();
        }
        gate.open();
        assert_eq!(first.join().unwrap().0, 2);
        let mut numbers: Vec<u64> = others.into_iter().map(|t| t.join().unwrap().0).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (3..=22).collect::<Vec<_>>());
    });
    let syncs = gate.state.lock().unwrap().syncs - before;
    assert_eq!(syncs, 2, "21 appends took more than two syncs");
}

#[test]
fn an_append_that_is_refused_does_not_take_the_others_with_it() {
    let (world, mut writer) = World::with(Vec::new());
    let mut deep = serde_json::json!(1);
    for _ in 0..200 {
        deep = serde_json::json!([deep]);
    }
    let group = vec![
        (entries([notice("a")]), NOW),
        (
            entries([notice("b"), unknown("deep", serde_json::json!({"v": deep}))]),
            NOW,
        ),
        (vec![journal::Entry::EndMessage { partial: false }], NOW),
        (entries([notice("c"), notice("d")]), NOW),
    ];
    let outcomes = writer.append_group(group);
    assert_eq!(outcomes[0].as_ref().unwrap()[0].seq.0, 2);
    assert!(matches!(outcomes[1], Err(StoreError::TooLarge)));
    assert!(matches!(outcomes[2], Err(StoreError::NoMessage)));
    assert_eq!(outcomes[3].as_ref().unwrap()[1].seq.0, 4);
    let texts = crate::world::texts(&world.read_all());
    assert_eq!(texts, ["session.created", "a", "c", "d"]);
}

#[test]
fn a_shared_write_that_fails_fails_for_all_who_shared_it() {
    let (world, writer) = World::with(Vec::new());
    std::fs::remove_file(world.path("events.jsonl")).unwrap();
    let shared = SharedWriter::new(writer);
    let mut writer = {
        let other = shared.clone();
        assert!(other.append(entries([notice("x")]), NOW).is_err());
        drop(other);
        shared.into_writer().unwrap()
    };
    let group = vec![(entries([notice("y")]), NOW), (entries([notice("z")]), NOW)];
    for outcome in writer.append_group(group) {
        assert!(matches!(outcome, Err(StoreError::Fenced)));
    }
}

#[test]
fn one_sessions_slow_sync_does_not_delay_another() {
    let (store, slow, gate) = gated();
    let (mut slow_writer, _) = store.create(slow, vec![created()], NOW).unwrap();
    gate.close();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || slow_writer.append(entries([notice("slow")]), NOW).is_ok());
        gate.wait_for_a_sync();
        for _ in 0..20 {
            let (mut writer, _) = store
                .create(SessionId::random(), vec![created()], NOW)
                .unwrap();
            writer.append(entries([notice("quick")]), NOW).unwrap();
        }
        assert!(!waits.is_finished());
        gate.open();
        assert!(waits.join().unwrap());
    });
}

#[test]
fn f_13_a_hundred_sessions_are_written_by_eight_threads_each() {
    let store = FileStore::with_storage(Arc::new(PowerStorage::new(2)));
    let shared: Vec<SharedWriter> = (0..100)
        .map(|_| {
            let made = store.create(SessionId::random(), vec![created()], NOW);
            SharedWriter::new(made.unwrap().0)
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for writer in &shared {
                    writer.append(entries([notice("x")]), NOW).unwrap();
                }
            });
        }
    });
    for id in store.list().unwrap() {
        let verified = store.verify(id).unwrap();
        assert_eq!((verified.events, verified.damaged_at), (9, None));
    }
}
