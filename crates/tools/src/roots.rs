//! The directories a session may touch, and the only way to files beneath them.
//!
//! The kernel keeps the promise: every path is opened with `openat2` and `RESOLVE_BENEATH` from a
//! root, so `..`, symbolic links and races cannot lead out. A [`Root`] is the directory that was
//! checked, not whatever lies at its path by now. What is hidden (the data directory) stays out of
//! reach even when a root contains it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, ResolveFlags};

mod attributes;
mod leading;
mod listing;
mod root;
mod searching;
mod watch;
mod writing;

pub use listing::{BoundedText, Names};
pub use root::{DirectoryId, Root, RootBase};
pub use searching::{Entry, EntryKind, SearchRoot};
pub use watch::{Watch, Watched};
pub use writing::{FileVersion, WriteError};

use crate::hidden;
use crate::seen::Seen;

/// The roots of one session; the first is its working directory.
#[derive(Clone, Debug)]
pub struct Roots {
    roots: Arc<[Root]>,
    hidden: Vec<PathBuf>,
    /// Where kept output of commands is, if there is any.
    outputs: Option<PathBuf>,
    /// What the session knows of the files in them.
    seen: Seen,
    /// Set once nobody waits for what is looked for.
    stopped: Arc<AtomicBool>,
}

/// Whoever waits for a search. Dropped, it has the search end.
#[derive(Debug)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// One, and what it sets when it is dropped.
    pub(crate) fn new() -> (Self, Arc<AtomicBool>) {
        let stopped = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&stopped)), stopped)
    }
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An open file, and where it lies.
#[derive(Debug)]
pub struct Placed {
    /// It.
    pub file: File,
    /// Its path, without links.
    pub path: PathBuf,
    /// The root that it lies beneath, without links.
    pub root: PathBuf,
}

/// Why a path was not opened, in words for a model.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// It is not beneath any root, or is hidden.
    #[error("it is outside the session's directories")]
    Outside,
    /// It is a directory, a device or a pipe.
    #[error("it is not a regular file")]
    NotAFile,
    /// It names no file.
    #[error("the path names no file")]
    NoName,
    /// The root above it is not the directory that was checked.
    #[error(
        "the session's directory {} is no longer the same: it was moved, deleted, or replaced \
         by another directory or a link, so nothing in it is touched. Put it back, or start a new \
         session there", .0.display()
    )]
    Replaced(PathBuf),
    /// The system said no.
    #[error("{}", plain_words(.0))]
    Io(#[from] io::Error),
}

impl Roots {
    /// The directories that lie at `cwd` and the other absolute paths now; nothing beneath `hidden`
    /// is ever touched. Blocks.
    #[must_use]
    pub fn new(cwd: PathBuf, others: Vec<PathBuf>, hidden: Vec<PathBuf>) -> Self {
        let others = others.into_iter().map(Root::find);
        Self::of(Root::find(cwd), others, hidden)
    }

    /// Directories that were checked before: the working directory, and others.
    #[must_use]
    pub fn of(cwd: Root, others: impl IntoIterator<Item = Root>, hidden: Vec<PathBuf>) -> Self {
        for path in &hidden {
            hidden::hold(path);
        }
        Self {
            roots: std::iter::once(cwd).chain(others).collect(),
            hidden,
            outputs: None,
            seen: Seen::default(),
            stopped: Arc::default(),
        }
    }

    /// The directories, as they were given; the first is the working directory.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(Root::path)
    }

    /// The directories; the first is the working directory.
    #[must_use]
    pub fn all(&self) -> &[Root] {
        &self.roots
    }

    /// The working directory.
    #[must_use]
    pub fn cwd(&self) -> &Root {
        &self.roots[0]
    }

    /// What is never touched.
    #[must_use]
    pub fn hidden(&self) -> &[PathBuf] {
        &self.hidden
    }

    /// Whether something that is hidden lies in one of the directories. Only a sandbox keeps commands
    /// from it then. Blocks.
    #[must_use]
    pub fn hold_hidden(&self) -> bool {
        let hidden = hidden::locations(&self.hidden);
        let holds = |root: &Root| hidden.iter().any(|hidden| hidden.starts_with(root.real()));
        self.roots.iter().any(holds)
    }

    /// The same, with the output of commands that is kept in the directory `outputs`.
    #[must_use]
    pub fn with_outputs(self, outputs: Option<PathBuf>) -> Self {
        Self { outputs, ..self }
    }

    /// The same, for a session that knows this much of its files.
    #[must_use]
    pub fn with_seen(self, seen: Seen) -> Self {
        Self { seen, ..self }
    }

    /// The same, whose searches end once `stopped` is set.
    #[must_use]
    pub(crate) fn stopped_by(self, stopped: Arc<AtomicBool>) -> Self {
        Self { stopped, ..self }
    }

    /// What the session knows of its files.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// `path` as files are known by: the same for every spelling without links.
    #[must_use]
    pub fn name_of(&self, path: &str) -> String {
        let plain = self.locate(path).and_then(|(root, rest)| {
            let rest = without_detours(rest)?;
            Ok(root.path().components().chain(rest.components()).collect())
        });
        let plain: PathBuf = plain.unwrap_or_else(|_| PathBuf::from(path));
        plain.to_string_lossy().into_owned()
    }

    /// `path` as an absolute one, for showing: relative paths are the working directory's.
    #[must_use]
    pub fn absolute(&self, path: &str) -> String {
        self.cwd().path().join(path).to_string_lossy().into_owned()
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// If it is not there, not a regular file, or not beneath a root.
    pub fn open_file(&self, path: &str) -> Result<File, PathError> {
        // Non-blocking, so that a pipe planted at the path cannot hold us.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(self.open_beneath(path, flags)?);
        if !file.metadata()?.is_file() {
            return Err(PathError::NotAFile);
        }
        Ok(file)
    }

    /// Opens a regular file for reading, and says where it lies.
    ///
    /// # Errors
    /// As [`Roots::open_file`].
    pub fn open_placed(&self, path: &str) -> Result<Placed, PathError> {
        let file = self.open_file(path)?;
        let (root, _) = self.locate(path)?;
        Ok(Placed {
            path: real_path(&file)?,
            root: real_path(&root.open()?)?,
            file,
        })
    }

    /// The real path `path` as a path beneath the roots: relative if it lies in the working
    /// directory, `None` if it is outside. It may not be there, or be hidden.
    #[must_use]
    pub fn beneath(&self, path: &Path) -> Option<PathBuf> {
        self.roots.iter().enumerate().find_map(|(number, root)| {
            let rest = path.strip_prefix(root.real());
            let rest = rest.or_else(|_| path.strip_prefix(root.path()));
            let rest = without_detours(rest.ok()?).ok()?;
            Some(match number {
                0 => rest,
                _ => root.path().join(rest),
            })
        })
    }

    /// Opens a directory, for a process to begin in.
    ///
    /// # Errors
    /// If it is not a directory beneath a root.
    pub fn open_directory(&self, path: &str) -> Result<OwnedFd, PathError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.open_beneath(path, flags)
    }

    /// Opens kept output of a command by the name it was given.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn open_output(&self, name: &str) -> Result<File, PathError> {
        let is_ours = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let outputs = self.outputs.as_ref().filter(|_| is_ours);
        let outputs = outputs.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(File::open(outputs.join(name))?)
    }

    /// `path` as a client is told it: absolute, without detours, beneath a root.
    ///
    /// Nothing needs to be there, for the client's disk may be another one. As it may be ours, no
    /// path is given out that leads elsewhere here through a link.
    ///
    /// # Errors
    /// If it is not beneath a root, or is hidden.
    pub fn on_client(&self, path: &str) -> Result<String, PathError> {
        let (root, rest) = self.locate(path)?;
        let rest = without_detours(rest)?;
        let absolute: PathBuf = root.path().components().chain(rest.components()).collect();
        if self.is_hidden(&absolute) {
            return Err(PathError::Outside);
        }
        for part in rest.ancestors() {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            match self.open_in(root, part, flags) {
                Ok(_) => break,
                Err(error @ (PathError::Outside | PathError::Replaced(_))) => return Err(error),
                // A link to what is not there yet would be followed by whoever makes it.
                Err(_) if self.open_in(root, part, flags | OFlags::NOFOLLOW).is_ok() => {
                    return Err(PathError::Outside);
                }
                // Not on this disk, then; what lies above it decides.
                Err(PathError::NotAFile | PathError::NoName | PathError::Io(_)) => {}
            }
        }
        let text = absolute.into_os_string().into_string();
        text.map_err(|_| PathError::NoName)
    }

    /// Opens `path` beneath the root that holds it.
    fn open_beneath(&self, path: &str, flags: OFlags) -> Result<OwnedFd, PathError> {
        let (root, rest) = self.locate(path)?;
        self.open_in(root, rest, flags)
    }

    /// Opens `rest` beneath `root`.
    fn open_in(&self, root: &Root, rest: &Path, flags: OFlags) -> Result<OwnedFd, PathError> {
        let rest = if rest.as_os_str().is_empty() {
            Path::new(".")
        } else {
            rest
        };
        let root = root.open()?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(&root, rest, flags, Mode::empty(), resolve);
        let fd = opened.map_err(|error| match error {
            rustix::io::Errno::XDEV | rustix::io::Errno::LOOP => PathError::Outside,
            other => PathError::Io(other.into()),
        })?;
        self.refuse_hidden(&fd)?;
        Ok(fd)
    }

    /// The root that `path` lies beneath by its spelling, and the rest of the path.
    fn locate<'a>(&'a self, path: &'a str) -> Result<(&'a Root, &'a Path), PathError> {
        let path = Path::new(path);
        if path.is_relative() {
            return Ok((self.cwd(), path));
        }
        let beneath = |root: &'a Root| Some((root, path.strip_prefix(root.path()).ok()?));
        let found = self.roots.iter().find_map(beneath);
        found.ok_or(PathError::Outside)
    }

    /// Whether the real path `path` is hidden, also if what is hidden was moved there.
    fn is_hidden(&self, path: &Path) -> bool {
        let hidden = hidden::locations(&self.hidden);
        hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    fn refuse_hidden(&self, fd: &impl AsFd) -> Result<(), PathError> {
        if self.hidden.is_empty() {
            return Ok(());
        }
        let real = real_path(fd)?;
        if self.is_hidden(&real) {
            return Err(PathError::Outside);
        }
        Ok(())
    }
}

/// Where an open file lies, without links.
fn real_path(fd: &impl AsFd) -> io::Result<PathBuf> {
    let number = std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd());
    std::fs::read_link(format!("/proc/self/fd/{number}"))
}

/// A relative path without `.` and `..`; one that climbs out of where it starts is refused.
fn without_detours(path: &Path) -> Result<PathBuf, PathError> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(PathError::Outside);
            }
        }
    }
    Ok(plain)
}

/// An I/O error in words that hold no number and no path.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the system's list of errors is open"
)]
fn plain_words(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file",
        io::ErrorKind::PermissionDenied => "the system does not permit it",
        io::ErrorKind::IsADirectory => "it is a directory",
        io::ErrorKind::NotADirectory => "a part of the path is not a directory",
        io::ErrorKind::StorageFull => "the disk is full",
        _ => "the system refused it",
    }
}
