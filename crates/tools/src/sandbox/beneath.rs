//! The directories that are searched for protected files, held open.
//!
//! A command of another session can rename such a directory and put a link in its place. So each is
//! opened once without following links, compared with the directory that was checked, and from then on
//! everything in it is reached from that descriptor, again without following links.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat};

use super::inventory::SearchArea;
use crate::roots::DirectoryId;

/// How a directory is opened to reach what is in it.
const HELD: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How a directory is opened to list it.
pub(super) const LISTED: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The outermost directories of a search.
#[derive(Debug, Default)]
pub(super) struct OpenRoots {
    open: Vec<OpenRoot>,
    /// Directories that are not the ones that were checked.
    pub(super) replaced: Vec<PathBuf>,
}

/// A directory that is held open.
#[derive(Debug)]
pub(super) struct OpenRoot {
    /// Where it was.
    pub(super) path: PathBuf,
    /// It, to reach what is in it.
    pub(super) directory: OwnedFd,
    id: DirectoryId,
}

impl OpenRoots {
    /// Opens the directories of `area`. Blocks.
    pub(super) fn open(area: &SearchArea) -> Self {
        let mut roots = Self::default();
        for path in outermost(&area.roots) {
            let known = area.identities.iter().find(|(known, _)| known == path);
            let opened = open_root(path);
            match (opened, known) {
                (Ok((directory, id)), known) if known.is_none_or(|(_, known)| *known == id) => {
                    roots.open.push(OpenRoot {
                        path: path.clone(),
                        directory,
                        id,
                    });
                }
                // A file, or nothing, as before.
                (Err(_), None) => {}
                (Ok(_) | Err(_), _) => roots.replaced.push(path.clone()),
            }
        }
        roots
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &OpenRoot> {
        self.open.iter()
    }

    /// Directories at whose path something else lies by now. Blocks.
    pub(super) fn moved(&self) -> impl Iterator<Item = &Path> {
        let is_there = |root: &&OpenRoot| open_root(&root.path).is_ok_and(|(_, id)| id == root.id);
        let moved = self.open.iter().filter(move |root| !is_there(root));
        moved.map(|root| root.path.as_path())
    }

    /// Whether `path` is one of them or lies in one, by its spelling.
    pub(super) fn covers(&self, path: &Path) -> bool {
        self.open.iter().any(|root| path.starts_with(&root.path))
    }

    /// The directory that `path` lies in, and the last name.
    ///
    /// # Errors
    /// If it lies in none of them, or a link is on the way.
    pub(super) fn parent(&self, path: &Path) -> io::Result<(OwnedFd, OsString)> {
        let beneath = self.open.iter().find_map(|root| {
            let rest = path.strip_prefix(&root.path).ok()?;
            Some((root, rest))
        });
        let (root, rest) = beneath.ok_or(io::ErrorKind::NotFound)?;
        let (Some(parent), Some(name)) = (rest.parent(), rest.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let parent = match parent.as_os_str().is_empty() {
            true => Path::new("."),
            false => parent,
        };
        let parent = open_beneath(&root.directory, parent, HELD)?;
        Ok((parent, name.to_owned()))
    }

    /// What is at `path`.
    pub(super) fn stat(&self, path: &Path) -> Option<Stat> {
        let (parent, name) = self.parent(path).ok()?;
        rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }
}

/// Opens something beneath `directory` without following links.
pub(super) fn open_beneath(directory: &OwnedFd, rest: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::openat2(directory, rest, flags, Mode::empty(), resolve);
    Ok(opened?)
}

/// Opens the file `rest` beneath `directory` for reading, if it is a plain file. Other kinds could
/// keep us waiting.
pub(super) fn open_file(directory: &OwnedFd, rest: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(open_beneath(directory, rest, flags)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Lets the owner list and enter the directory `rest` beneath `directory`.
pub(super) fn make_listable(directory: &OwnedFd, rest: &Path) -> io::Result<()> {
    let held = open_beneath(directory, rest, HELD)?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&held)?.st_mode) | Mode::RUSR | Mode::XUSR;
    // The mode of a descriptor that is only held can be changed by its path in `/proc`.
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    Ok(rustix::fs::chmod(path, mode)?)
}

fn open_root(path: &Path) -> io::Result<(OwnedFd, DirectoryId)> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let directory = rustix::fs::openat2(CWD, path, HELD, Mode::empty(), resolve)?;
    let id = DirectoryId::of(&directory)?;
    Ok((directory, id))
}

impl SearchArea {
    /// Notes which directories the roots are now. Blocks.
    pub(super) fn identify(&mut self) {
        let found = self.roots.iter().filter_map(|path| {
            let (_, id) = open_root(path).ok()?;
            Some((path.clone(), id))
        });
        self.identities = found.collect();
    }
}

/// `roots` without those that lie in another one.
fn outermost(roots: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    roots
        .iter()
        .enumerate()
        .filter(|(number, root)| {
            let is_within = |other: usize| match roots[other] == **root {
                true => other < *number,
                false => root.starts_with(&roots[other]),
            };
            !(0..roots.len()).any(is_within)
        })
        .map(|(_, root)| root)
}
