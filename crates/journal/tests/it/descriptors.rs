//! No file descriptor is left: what needs one is refused, and nothing else changes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::event::MessageKind;
use domain::limits::BLOB_BYTES_MIN;
use domain::{EventSeq, FailureKind, SessionId};
use journal::storage::{Access, DiskStorage, Storage, StoredFile};
use journal::{Entry, FileStore, StoreError};

use crate::world::{NOW, created, entries, message, notice};

/// `EMFILE` and `ENFILE` on Linux.
const ERRNOS: [i32; 2] = [24, 23];

/// The real disk, on which every call that opens something fails while `is_spent`.
struct Scarce {
    disk: DiskStorage,
    is_spent: Arc<AtomicBool>,
    errno: i32,
}

impl Scarce {
    fn spend(&self) -> io::Result<()> {
        if self.is_spent.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(self.errno));
        }
        Ok(())
    }
}

impl Storage for Scarce {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        self.spend()?;
        self.disk.open(path, access)
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        self.spend()?;
        self.disk.exists(path)
    }
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.spend()?;
        self.disk.list(dir)
    }
    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.spend()?;
        self.disk.create_dir(path)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.spend()?;
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.spend()?;
        self.disk.remove_file(path)
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.spend()?;
        self.disk.remove_dir(path)
    }
    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.spend()?;
        self.disk.sync_dir(path)
    }
    fn boot_id(&self) -> Option<String> {
        self.disk.boot_id()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

fn is_exhausted<T>(outcome: Result<T, StoreError>) {
    let error = outcome.err().unwrap();
    assert!(matches!(error, StoreError::OpenFilesExhausted), "{error}");
    assert_eq!(error.kind(), Some(FailureKind::OpenFilesExhausted));
}

#[test]
fn writer_goes_on_once_descriptors_are_free_again() {
    for errno in ERRNOS {
        let dir = tempfile::tempdir().unwrap();
        let is_spent = Arc::new(AtomicBool::new(false));
        let scarce = Scarce {
            disk: DiskStorage::open(dir.path(), "sessions").unwrap(),
            is_spent: Arc::clone(&is_spent),
            errno,
        };
        let store = FileStore::with_storage(Arc::new(scarce));
        let id = SessionId::random();
        let mut writer = store.create(id, vec![created()], NOW).unwrap().0;
        let before = writer.head();
        let long = "x".repeat(BLOB_BYTES_MIN + 1);

        is_spent.store(true, Ordering::Relaxed);
        // The log is open already.
        writer.append(entries([notice("short")]), NOW).unwrap();
        is_exhausted(writer.append(entries([notice(&long)]), NOW));
        is_exhausted(writer.start_message(message("m", MessageKind::Text), NOW));
        is_exhausted(store.create(SessionId::random(), vec![created()], NOW));
        is_exhausted(store.reader(id));
        is_exhausted(store.check_writable());
        assert_eq!(writer.head(), EventSeq(before.0 + 1), "nothing was added");

        is_spent.store(false, Ordering::Relaxed);
        writer.append(entries([notice(&long)]), NOW).unwrap();
        writer
            .start_message(message("m", MessageKind::Text), NOW)
            .unwrap();
        writer.push_text("hello").unwrap();
        let end = Entry::EndMessage { partial: false };
        writer.append(vec![end], NOW).unwrap();
        let head = writer.head();
        drop(writer);
        let mut seen = 0;
        let (writer, _) = store.open_session(id, NOW, &mut |_| seen += 1).unwrap();
        assert_eq!((writer.head(), seen), (head, head.0));
    }
}
