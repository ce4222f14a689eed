//! The one door to the data directory: what the journal needs of a file system, and no more.
//!
//! [`DiskStorage`] is the real one. Tests put another underneath to fail calls or to lose what was
//! never synced; so nothing else in this crate may touch a file.

use std::io;
use std::sync::Arc;

use domain::clock::Timestamp;

mod disk;
#[cfg(feature = "test-support")]
pub mod power;

pub use disk::DiskStorage;

/// Bytes moved at once when a file is read or copied: large enough to keep system calls rare.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;

/// A tree of private files. Paths are relative, separated by `/`; `""` is the root.
pub trait Storage: Send + Sync {
    /// Opens a plain file. Links, pipes and files with a second name are refused with [`NotPlain`].
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StoredFile>>;
    /// Whether anything has this name.
    fn exists(&self, path: &str) -> io::Result<bool>;
    /// When the names in a directory changed last; `None` when it cannot be told.
    fn changed_at(&self, _dir: &str) -> io::Result<Option<Timestamp>> {
        Ok(None)
    }
    /// When a file changed last; `None` when it cannot be told.
    fn file_changed_at(&self, _path: &str) -> io::Result<Option<Timestamp>> {
        Ok(None)
    }
    /// The names in a directory, in no order.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Makes a directory; its parent must exist.
    fn create_dir(&self, path: &str) -> io::Result<()>;
    /// Gives a file or directory another name, replacing a file of that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file's name.
    fn remove_file(&self, path: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &str) -> io::Result<()>;
    /// What names this boot of the machine; `None` when it cannot be told.
    fn boot_id(&self) -> Option<String>;
    /// Bytes that this process may still fill.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// An open file.
#[expect(
    clippy::len_without_is_empty,
    reason = "a file, not a collection; nobody asks"
)]
pub trait StoredFile: Send + Sync {
    /// Its size in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Reads once; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes once, perhaps not all.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes content and size durable. Fails too if the file has lost its name.
    fn sync(&self) -> io::Result<()>;
    /// Takes the file's exclusive lock until it is dropped; `false` if another holds it.
    fn try_lock(&self) -> io::Result<bool>;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read; it must exist.
    Read,
    /// To read and write; it must exist.
    Write,
    /// To read and write; made if it is missing.
    Create,
}

/// What lies at a path is not a plain file with one name, or not a real directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a plain file or directory")]
pub struct NotPlain;

impl From<NotPlain> for io::Error {
    fn from(error: NotPlain) -> Self {
        Self::other(error)
    }
}

/// Writes all of `bytes`, going on after short writes and interruptions.
pub(crate) fn write_all_at(file: &dyn StoredFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What was to be removed may be gone already.
pub(crate) fn gone_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Fills `buffer` as far as the file goes; returns how far that was.
pub(crate) fn read_full_at(
    file: &dyn StoredFile,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads a file from `offset` on as a stream.
pub(crate) struct Stream {
    file: Arc<dyn StoredFile>,
    offset: u64,
}

impl Stream {
    pub(crate) fn new(file: Arc<dyn StoredFile>, offset: u64) -> Self {
        Self { file, offset }
    }
}

impl io::Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
