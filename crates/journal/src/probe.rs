//! Whether the store can be written, asked without touching any session.

use crate::error::StoreError;
use crate::storage::Access;
use crate::store::FileStore;

/// Written and removed again; a leading dot keeps it apart from what people look for.
const PROBE: &str = ".writable";

impl FileStore {
    /// Makes a file, writes to it and removes it. What is durable is not at stake, so nothing is
    /// synced.
    ///
    /// # Errors
    /// What a session would meet that tried to write now.
    pub fn check_writable(&self) -> Result<(), StoreError> {
        let storage = self.storage();
        let file = storage.open(PROBE, Access::Create)?;
        let written = file.write_at(b"x", 0);
        let removed = storage.remove_file(PROBE);
        written?;
        Ok(removed?)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::FileStore;

    #[test]
    fn a_store_that_is_gone_cannot_be_written_and_a_probe_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        let store = FileStore::open(&data).unwrap();
        let names = || std::fs::read_dir(&data).unwrap().count();
        let before = names();
        store.check_writable().unwrap();
        assert_eq!(names(), before);
        std::fs::remove_dir_all(&data).unwrap();
        assert!(store.check_writable().is_err());
    }
}
