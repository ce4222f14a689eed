//! The real disk without syncs: for stores that are made to be measured and thrown away.

use std::io;
use std::path::Path;
use std::sync::Arc;

use journal::storage::{Access, DiskStorage, Storage, StoredFile};

use crate::Failure;
use crate::bench::because;

/// A disk on which nothing waits.
pub(super) struct Unsynced {
    disk: DiskStorage,
}

impl Unsynced {
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let disk = DiskStorage::open(folder, "sessions");
        Ok(Self {
            disk: disk.map_err(because("cannot open a folder"))?,
        })
    }
}

impl Storage for Unsynced {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        Ok(Arc::new(UnsyncedFile(self.disk.open(path, access)?)))
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

    fn sync_dir(&self, _path: &str) -> io::Result<()> {
        Ok(())
    }

    fn boot_id(&self) -> Option<String> {
        self.disk.boot_id()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

struct UnsyncedFile(Arc<dyn StoredFile>);

impl StoredFile for UnsyncedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }
}
