//! One directory of a session: which directory it is, and the only way to open it.
//!
//! A path can be made to lead elsewhere: a command of another session may rename a directory above
//! it, or put a symbolic link in its place. So a root is the directory that was checked. Each use
//! opens it by its real path, without following any link, and compares device and inode of the very
//! descriptor that it then uses (ADR 0033).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{PathError, real_path};

/// Symbolic links on the way to one directory: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// How a directory is opened to be held.
const HELD: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Which directory it is, whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DirectoryId {
    device: u64,
    inode: u64,
}

impl DirectoryId {
    /// The identity of an open directory.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn of(directory: &impl AsFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(directory)?;
        Ok(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        })
    }
}

/// A directory of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    /// As it was given.
    path: PathBuf,
    /// Where it lies, without links; empty if it must not be used.
    real: PathBuf,
    /// Which directory it is; `None` if there was none when it was looked for.
    id: Option<DirectoryId>,
}

impl Root {
    /// The directory at `path` now, links followed: for a path that the user at this machine
    /// named. If there is no such directory, a later one counts only if no link leads to it.
    /// Blocks.
    #[must_use]
    pub fn find(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        match rustix::fs::open(&path, HELD, Mode::empty()) {
            Ok(directory) => Self::of_open(path, &directory),
            Err(_) => Self::missing(path),
        }
    }

    /// The directory that a session had before, by the path that was stored with it. What lies
    /// there now counts if no link leads to it: links are what could have been put there since,
    /// and a real directory holds nothing that a command could not reach before. Blocks.
    #[must_use]
    pub fn find_again(path: impl Into<PathBuf>, real: impl Into<PathBuf>) -> Self {
        let mut root = Self {
            path: path.into(),
            real: real.into(),
            id: None,
        };
        let opened = root.open();
        root.id = opened.and_then(|open| Ok(DirectoryId::of(&open)?)).ok();
        root
    }

    /// The same for a session whose real path was not stored. Only links count that the
    /// system's owner alone can change. Blocks.
    #[must_use]
    pub fn find_unrecorded(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let real = behind_system_links(&path);
        Self::find_again(path, real)
    }

    /// A directory that must not be used: every use says so.
    #[must_use]
    pub fn refused(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            real: PathBuf::new(),
            id: None,
        }
    }

    fn of_open(path: PathBuf, directory: &OwnedFd) -> Self {
        let found = real_path(directory).and_then(|real| Ok((real, DirectoryId::of(directory)?)));
        match found {
            Ok((real, id)) => Self {
                path,
                real,
                id: Some(id),
            },
            Err(_) => Self::missing(path),
        }
    }

    fn missing(path: PathBuf) -> Self {
        Self {
            real: path.clone(),
            path,
            id: None,
        }
    }

    /// As it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it lay when it was checked, without links.
    #[must_use]
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// The same directory, called by its real path.
    #[must_use]
    pub fn at_real(self) -> Self {
        Self {
            path: self.real.clone(),
            ..self
        }
    }

    /// Opens it, if it is still the directory that was checked. Blocks.
    ///
    /// # Errors
    /// [`PathError::Replaced`] if it is another one, or a link leads there by now.
    pub fn open(&self) -> Result<OwnedFd, PathError> {
        let replaced = || PathError::Replaced(self.path.clone());
        if self.real.as_os_str().is_empty() {
            return Err(replaced());
        }
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(CWD, &self.real, HELD, Mode::empty(), resolve);
        let directory = opened.map_err(|error| match (error, self.id) {
            (Errno::LOOP, _) | (Errno::NOENT | Errno::NOTDIR, Some(_)) => replaced(),
            (error, _) => PathError::Io(error.into()),
        })?;
        match self.id {
            Some(id) if DirectoryId::of(&directory)? != id => Err(replaced()),
            Some(_) | None => Ok(directory),
        }
    }

    /// Which directory it is now, if it is still the directory that was checked. Blocks.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn verify(&self) -> Result<DirectoryId, PathError> {
        Ok(DirectoryId::of(&self.open()?)?)
    }
}

impl From<&str> for Root {
    fn from(path: &str) -> Self {
        Self::find(path)
    }
}

impl From<PathBuf> for Root {
    fn from(path: PathBuf) -> Self {
        Self::find(path)
    }
}

/// The directory beneath which guests work, held open from the start.
#[derive(Debug)]
pub struct RootBase {
    directory: OwnedFd,
    real: PathBuf,
}

impl RootBase {
    /// Holds the directory at `path`. Blocks.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::open(path, HELD, Mode::empty())?;
        let real = real_path(&directory)?;
        Ok(Self { directory, real })
    }

    /// The directory at the absolute path `path`, which must lie beneath this one. Links on the way
    /// may not leave it. Blocks.
    ///
    /// # Errors
    /// [`PathError::Outside`] if it does not lie beneath.
    pub fn find(&self, path: impl Into<PathBuf>) -> Result<Root, PathError> {
        let path = path.into();
        let rest = self.rest(&path)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.directory, &rest, HELD, Mode::empty(), resolve) {
            Ok(directory) => {
                let root = Root::of_open(path, &directory);
                self.holds(&root).then_some(root).ok_or(PathError::Outside)
            }
            Err(Errno::NOENT) => Ok(Root {
                path,
                real: self.real.join(rest),
                id: None,
            }),
            Err(Errno::XDEV | Errno::LOOP) => Err(PathError::Outside),
            Err(error) => Err(PathError::Io(error.into())),
        }
    }

    /// The directory that a guest's session had before: see [`Root::find_again`]. Blocks.
    ///
    /// # Errors
    /// [`PathError::Outside`] if it does not lie beneath.
    pub fn find_again(&self, path: &Path, real: Option<&Path>) -> Result<Root, PathError> {
        let Some(real) = real else {
            return self.find(path);
        };
        let root = Root::find_again(path, real);
        self.holds(&root).then_some(root).ok_or(PathError::Outside)
    }

    /// Whether a root lies in it by its real path.
    fn holds(&self, root: &Root) -> bool {
        let is_plain = |part: Component<'_>| part != Component::ParentDir;
        root.real.starts_with(&self.real) && root.real.components().all(is_plain)
    }

    /// `path` as seen from here: by its spelling, or by where the part of it above this directory
    /// leads. The first part that leads here counts, so nothing below is followed yet.
    fn rest(&self, path: &Path) -> Result<PathBuf, PathError> {
        let own = DirectoryId::of(&self.directory)?;
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        let is_here = |part: &&Path| {
            let opened = rustix::fs::open(*part, HELD, Mode::empty());
            opened.is_ok_and(|found| DirectoryId::of(&found).is_ok_and(|found| found == own))
        };
        let base = above.into_iter().find(is_here).ok_or(PathError::Outside)?;
        let rest = path.strip_prefix(base).map_err(|_| PathError::Outside)?;
        match rest.as_os_str().is_empty() {
            true => Ok(PathBuf::from(".")),
            false => Ok(rest.to_owned()),
        }
    }
}

/// `path` with those links followed that lie in directories of the system, which this user cannot
/// change: `/home` may be a link, for example. Others stay in it.
fn behind_system_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        let link = above.into_iter().find_map(|part| {
            let to = std::fs::read_link(part).ok()?;
            Some((part.parent()?.to_owned(), part.to_owned(), to))
        });
        let Some((within, link, to)) = link else {
            break;
        };
        let rest = path.strip_prefix(&link).map(Path::to_owned);
        let (true, Ok(rest)) = (is_of_the_system(&within), rest) else {
            break;
        };
        path = plain(&within.join(to).join(rest));
    }
    path
}

/// Whether only the system's owner can put something into `directory`, and that is not this user;
/// what lies at the very top never belongs to a session.
fn is_of_the_system(directory: &Path) -> bool {
    if directory == Path::new("/") {
        return true;
    }
    let is_open = |mode: u32| mode & 0o022 != 0;
    let found = File::open(directory).and_then(|file| file.metadata());
    let is_root = rustix::process::getuid().is_root();
    !is_root && found.is_ok_and(|found| found.uid() == 0 && !is_open(found.mode()))
}

/// `path` without `.` and `..`, by its spelling.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::RootDir | Component::Normal(_) | Component::Prefix(_) => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
