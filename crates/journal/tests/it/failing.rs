//! A disk that fails: every call, one after the other, and what is left afterwards.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::event::MessageKind;
use domain::limits::BLOB_BYTES_MIN;
use domain::{EventSeq, SessionId};
use journal::storage::{Access, DiskStorage, Storage, StoredFile};
use journal::{Entry, FileStore, StoreError, Writer};

use crate::world::{NOW, created, entries, message, notice};

/// The real disk, whose Nth change fails with `errno`, a write after half of its bytes.
struct Flaky {
    disk: DiskStorage,
    fuse: Arc<Fuse>,
}

struct Fuse {
    left: AtomicUsize,
    errno: i32,
}

impl Fuse {
    fn burn(&self) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            return Err(io::Error::from_raw_os_error(self.errno));
        }
        Ok(())
    }
}

struct FlakyFile {
    file: Arc<dyn StoredFile>,
    fuse: Arc<Fuse>,
}

impl Storage for Flaky {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        let file = self.disk.open(path, access)?;
        let fuse = Arc::clone(&self.fuse);
        Ok(Arc::new(FlakyFile { file, fuse }))
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.fuse.burn()?;
        self.disk.create_dir(path)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.fuse.burn()?;
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.disk.remove_dir(path)
    }
    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.fuse.burn()?;
        self.disk.sync_dir(path)
    }
    fn boot_id(&self) -> Option<String> {
        self.disk.boot_id()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

impl StoredFile for FlakyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // Always short: what is asked for at once arrives in two parts, and may fail between.
        let part = bytes.len().div_ceil(2).max(bytes.len().saturating_sub(64));
        self.fuse.burn()?;
        self.file.write_at(&bytes[..part], offset)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.fuse.burn()?;
        self.file.truncate(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.fuse.burn()?;
        self.file.sync()
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
}

/// Appends and streams until something fails; notes what was acknowledged.
fn work(writer: &mut Writer, acknowledged: &mut u64) -> Result<(), StoreError> {
    writer.append(entries([notice("a"), notice("b")]), NOW)?;
    *acknowledged = writer.head().0;
    writer.start_message(message("m", MessageKind::Text), NOW)?;
    writer.push_text("some text")?;
    if let Some(job) = writer.unsynced()
        && let Err(error) = job.run()
    {
        writer.fence();
        return Err(error);
    }
    *acknowledged = writer.head().0;
    writer.push_text(" and more")?;
    writer.append(vec![Entry::EndMessage { partial: false }], NOW)?;
    *acknowledged = writer.head().0;
    let long = "x".repeat(BLOB_BYTES_MIN + 1);
    writer.append(entries([notice(&long)]), NOW)?;
    *acknowledged = writer.head().0;
    writer.save_meta()?;
    // Left open, so that recovery has something to do, and to fail at.
    writer.start_message(message("n", MessageKind::Thought), NOW)?;
    writer.push_text("hm")?;
    Ok(())
}

/// Fails the `n`th change of a session's life; `false` once `n` is past its end.
fn survive(n: usize, errno: i32) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let id = SessionId::random();
    let fuse = Arc::new(Fuse {
        left: AtomicUsize::new(n),
        errno,
    });
    let disk = DiskStorage::open(dir.path(), "sessions").unwrap();
    let flaky = Flaky {
        disk,
        fuse: Arc::clone(&fuse),
    };
    let store = FileStore::with_storage(Arc::new(flaky));
    let mut acknowledged = 0;
    let error = match store.create(id, vec![created()], NOW) {
        Ok((mut writer, _)) => {
            acknowledged = 1;
            let error = work(&mut writer, &mut acknowledged).err();
            if let Some(error) = &error {
                let again = writer.append(entries([notice("never")]), NOW);
                // The cache may fail without harm; anything else fences.
                let fenced = matches!(again, Err(StoreError::Fenced));
                assert!(fenced || again.is_ok(), "change {n}: {error}");
                acknowledged += u64::from(again.is_ok());
            }
            error
        }
        Err(failed) => Some(failed),
    };
    if let Some(error) = &error {
        let full = matches!(error, StoreError::Full);
        assert_eq!(full, errno == 28, "change {n}: {error}");
    }
    if acknowledged == 0 {
        assert!(!store.exists(id), "change {n}: not created, yet there");
        store.create(id, vec![created()], NOW).unwrap();
        return true;
    }
    // The same process opens it anew and goes on.
    // If that is what fails, a second try finds no less.
    let mut seen = 0;
    let mut open = || {
        seen = 0;
        store.open_session(id, NOW, &mut |_| seen += 1)
    };
    let (mut writer, _) = open().or_else(|_| open()).unwrap();
    let failed = !(1..=n).contains(&fuse.left.swap(usize::MAX, Ordering::Relaxed));
    assert!(seen >= acknowledged, "change {n}: {seen} of {acknowledged}");
    assert_eq!(writer.head(), EventSeq(seen));
    let end = writer.append(entries([notice("goes on")]), NOW).unwrap();
    let mut reader = store.reader(id).unwrap();
    let read = reader.read_after(EventSeq(0), EventSeq(u64::MAX), usize::MAX, usize::MAX);
    let read = read.unwrap();
    assert_eq!(read.last(), end.last());
    assert!(read.iter().map(|stored| stored.seq.0).eq(1..=seen + 1));
    assert_eq!(store.meta(id).unwrap().head, writer.head());
    failed
}

#[test]
fn whichever_change_fails_nothing_acknowledged_is_lost_and_the_session_goes_on() {
    for errno in [28, 5] {
        let mut n = 1;
        while survive(n, errno) {
            n += 1;
        }
        assert!(n > 60, "the session's life has become short: {n}");
    }
}
