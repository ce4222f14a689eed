//! The real disk, with its syncs counted.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use journal::storage::{Access, DiskStorage, Storage, StoredFile};

use crate::Failure;
use crate::bench::because;

/// A disk that knows how often files on it were synced.
pub(super) struct Counted {
    disk: DiskStorage,
    syncs: Arc<AtomicU64>,
}

impl Counted {
    /// The disk, and the count of syncs.
    pub(super) fn open(folder: &Path) -> Result<(Arc<Self>, Arc<AtomicU64>), Failure> {
        let disk =
            DiskStorage::open(folder, "sessions").map_err(because("cannot open a folder"))?;
        let syncs = Arc::new(AtomicU64::new(0));
        let counted = Self {
            disk,
            syncs: Arc::clone(&syncs),
        };
        Ok((Arc::new(counted), syncs))
    }
}

impl Storage for Counted {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        Ok(Arc::new(CountedFile {
            file: self.disk.open(path, access)?,
            syncs: Arc::clone(&self.syncs),
        }))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.disk.exists(path)
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

struct CountedFile {
    file: Arc<dyn StoredFile>,
    syncs: Arc<AtomicU64>,
}

impl StoredFile for CountedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
}
