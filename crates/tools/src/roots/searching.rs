//! A directory to search, held open: what is found beneath it is opened without following links.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};

use super::{PathError, Roots, Watch, real_path};
use crate::hidden;

/// Where a search begins.
#[derive(Debug)]
pub struct SearchRoot {
    directory: OwnedFd,
    /// Where it lies, without links.
    real: PathBuf,
    hidden: Vec<PathBuf>,
    stopped: Arc<AtomicBool>,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// What is not Unicode is replaced.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A link, wherever it leads.
    Link,
    /// A file, or something that can be opened like one.
    File,
}

impl Roots {
    /// The directory `path`, to be searched.
    ///
    /// # Errors
    /// If it is not a directory beneath a root.
    pub fn search(&self, path: &str) -> Result<SearchRoot, PathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = self.open_beneath(path, flags)?;
        let real = real_path(&directory)?;
        Ok(SearchRoot {
            directory,
            real,
            hidden: hidden::locations(&self.hidden),
            stopped: Arc::clone(&self.stopped),
        })
    }
}

impl SearchRoot {
    /// Where it lies, without links.
    #[must_use]
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// A path that leads to the directory that is held, whatever lies at its real path by now.
    #[must_use]
    pub fn held(&self) -> PathBuf {
        let number = self.directory.as_raw_fd();
        // With a dot it names the directory; without, a link to it.
        PathBuf::from(format!("/proc/self/fd/{number}/."))
    }

    /// What may not be seen of it, as paths beneath it.
    #[must_use]
    pub fn hidden_paths(&self) -> Vec<PathBuf> {
        let beneath = |hidden: &PathBuf| Some(hidden.strip_prefix(&self.real).ok()?.to_owned());
        self.hidden.iter().filter_map(beneath).collect()
    }

    /// A watch over one search, which begins now.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::new(Arc::clone(&self.stopped))
    }

    /// The same for a search that has only `time`.
    #[must_use]
    pub fn watch_for(&self, time: Duration) -> Watch {
        Watch::lasting(time, Arc::clone(&self.stopped))
    }

    /// Whether nothing at the real path `path` may be seen.
    #[must_use]
    fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Opens a regular file at `rest` beneath it. What became a link since it was found is not
    /// followed.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn open(&self, rest: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(self.open_beneath(rest, flags)?);
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// Whether there is still something at `rest` beneath it, reached without links.
    #[must_use]
    pub fn has(&self, rest: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.open_beneath(rest, flags).is_ok()
    }

    /// What is in it, unless it is hidden; sorted, at most `entries_max`, and whether there is more.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn entries(&self, entries_max: usize) -> io::Result<(Vec<Entry>, bool)> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." || self.is_hidden(&self.real.join(&name)) {
                continue;
            }
            if entries.len() >= entries_max {
                entries.sort();
                return Ok((entries, true));
            }
            let kind = match entry.file_type() {
                FileType::Directory => EntryKind::Directory,
                FileType::Symlink => EntryKind::Link,
                FileType::RegularFile
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => EntryKind::File,
            };
            entries.push(Entry { name, kind });
        }
        entries.sort();
        Ok((entries, false))
    }

    fn open_beneath(&self, rest: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        if self.is_hidden(&self.real.join(rest)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(rustix::fs::openat2(
            &self.directory,
            rest,
            flags,
            Mode::empty(),
            resolve,
        )?)
    }
}
