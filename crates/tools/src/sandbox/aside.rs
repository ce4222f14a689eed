//! Remembering protected files, renaming new ones, and putting old ones back.
//!
//! Every change goes through a directory that was opened beneath a root without following links.

use std::fs::File as OpenFile;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use domain::limits::{PROTECTED_DEPTH_MAX, PROTECTED_TREE_FILES_MAX};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::{Deserialize, Serialize};

use super::inventory::Role;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    /// Nothing.
    Nothing,
    /// A file.
    File(FileContent),
    /// A link, and where it leads.
    Link(PathBuf),
    /// A directory: its files, by path from it.
    Tree(Vec<(PathBuf, FileContent)>),
    /// The lines of a file that matter.
    Lines(Vec<String>),
    /// Too large to remember, or of another kind: when and how often it was changed.
    Stamp(Vec<(PathBuf, u64, i64, i64)>),
}

/// What is in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    mode: u32,
    /// It is a link, and the bytes say where it leads.
    is_link: bool,
}

impl Content {
    /// What is at `path` now; `room` is how many bytes may still be remembered. Blocks.
    pub(super) fn at(path: &Path, role: Role, room: &mut u64) -> Self {
        let Ok(metadata) = path.symlink_metadata() else {
            return Self::Nothing;
        };
        if metadata.is_symlink() {
            return std::fs::read_link(path).map_or(Self::Nothing, Self::Link);
        }
        if metadata.is_file() {
            let content = FileContent::at(path, room);
            return match (role, content) {
                (Role::Todo, Some(content)) => Self::Lines(steps_that_run(&content.bytes)),
                (_, Some(content)) => Self::File(content),
                (_, None) => Self::Stamp(vec![stamp(path)]),
            };
        }
        let mut files = Vec::new();
        let is_whole = metadata.is_dir() && list(path, path, role, &mut files, 0);
        files.sort();
        let read = |file: &PathBuf| {
            let content = FileContent::at(&path.join(file), room)?;
            Some((file.clone(), content))
        };
        let read = is_whole.then(|| files.iter().map(read).collect::<Option<Vec<_>>>());
        match read.flatten() {
            Some(read) => Self::Tree(read),
            None => Self::Stamp(files.iter().map(|file| stamp(&path.join(file))).collect()),
        }
    }

    /// Whether there is nothing to put back.
    pub(super) fn is_nothing(&self) -> bool {
        match self {
            Self::Nothing | Self::Lines(_) | Self::Stamp(_) => true,
            Self::Tree(files) => files.is_empty(),
            Self::File(_) | Self::Link(_) => false,
        }
    }

    /// Makes it so at `path`, where nothing is.
    pub(super) fn put(&self, roots: &[PathBuf], path: &Path) -> io::Result<()> {
        let (parent, name) = open_parent(roots, path)?;
        match self {
            Self::Nothing => Ok(()),
            Self::File(file) => file.put(&parent, Path::new(&name)),
            Self::Link(to) => Ok(rustix::fs::symlinkat(to, &parent, &name)?),
            Self::Tree(files) => {
                rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(0o755))?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let directory = rustix::fs::openat(&parent, &name, flags, Mode::empty())?;
                for (file, content) in files {
                    let mut above: Vec<&Path> = file.ancestors().skip(1).collect();
                    above.reverse();
                    for above in above.iter().filter(|above| !above.as_os_str().is_empty()) {
                        // It may be there for the file before.
                        let _ = rustix::fs::mkdirat(&directory, *above, Mode::from_raw_mode(0o755));
                    }
                    content.put(&directory, file)?;
                }
                Ok(())
            }
            Self::Lines(_) | Self::Stamp(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl FileContent {
    fn at(path: &Path, room: &mut u64) -> Option<Self> {
        let metadata = path.symlink_metadata().ok()?;
        if metadata.is_symlink() {
            let to = std::fs::read_link(path).ok()?;
            return Some(Self {
                bytes: to.as_os_str().as_bytes().to_vec(),
                mode: 0,
                is_link: true,
            });
        }
        // A pipe would keep us waiting.
        if !metadata.is_file() || metadata.len() > *room {
            return None;
        }
        let mut bytes = Vec::new();
        let file = OpenFile::open(path).ok()?;
        file.take(*room + 1).read_to_end(&mut bytes).ok()?;
        *room = room.checked_sub(bytes.len() as u64)?;
        Some(Self {
            bytes,
            mode: metadata.permissions().mode() & 0o7777,
            is_link: false,
        })
    }

    fn put(&self, directory: &OwnedFd, name: &Path) -> io::Result<()> {
        if self.is_link {
            let to = Path::new(std::ffi::OsStr::from_bytes(&self.bytes));
            return Ok(rustix::fs::symlinkat(to, directory, name)?);
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600))?;
        let mut file = OpenFile::from(file);
        file.write_all(&self.bytes)?;
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(self.mode))?)
    }
}

/// Lists the files in `directory`, from `top` on; says whether it came to an end. What git does not
/// run, as hooks with `.sample` at the end of their name, is left out.
fn list(top: &Path, directory: &Path, role: Role, files: &mut Vec<PathBuf>, depth: usize) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    for entry in entries {
        let Ok(entry) = entry else { return false };
        let path = entry.path();
        let Ok(kind) = entry.file_type() else {
            return false;
        };
        let is_sample = role == Role::Hooks && path.extension().is_some_and(|end| end == "sample");
        if files.len() > PROTECTED_TREE_FILES_MAX || depth > PROTECTED_DEPTH_MAX {
            return false;
        }
        if kind.is_dir() {
            if !list(top, &path, role, files, depth + 1) {
                return false;
            }
        } else if !is_sample && let Ok(below) = path.strip_prefix(top) {
            files.push(below.to_owned());
        }
    }
    true
}

/// The lines of a list of steps that run a program.
fn steps_that_run(todo: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(todo);
    let lines = text.lines().map(str::trim);
    let runs = |line: &&str| {
        let step = line.split_whitespace().next();
        step.is_some_and(|step| matches!(step, "exec" | "x"))
    };
    lines.filter(runs).map(str::to_owned).collect()
}

fn stamp(path: &Path) -> (PathBuf, u64, i64, i64) {
    let found = path.symlink_metadata();
    let stamp = found.map(|found| (found.ino(), found.ctime(), found.ctime_nsec()));
    let (number, seconds, rest) = stamp.unwrap_or_default();
    (path.to_owned(), number, seconds, rest)
}

/// Whether a file at `path`, or one in it, has another name as well, by which it could be written.
pub(super) fn has_other_names(path: &Path) -> bool {
    let Ok(metadata) = path.symlink_metadata() else {
        return false;
    };
    if !metadata.is_dir() {
        return metadata.nlink() > 1;
    }
    let mut files = Vec::new();
    let is_whole = list(path, path, Role::Other, &mut files, 0);
    let mut files = files
        .iter()
        .filter_map(|file| path.join(file).symlink_metadata().ok());
    !is_whole || files.any(|file| file.nlink() > 1)
}

/// Whether everything at `path` was changed after `then`.
pub(super) fn is_newer(path: &Path, then: SystemTime) -> bool {
    let then = then.duration_since(SystemTime::UNIX_EPOCH);
    let then = then.unwrap_or(Duration::ZERO).as_secs().cast_signed();
    let is_newer = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|found| found.ctime() > then)
    };
    let mut files = Vec::new();
    let _ = path.is_dir() && list(path, path, Role::Other, &mut files, 0);
    match files.is_empty() {
        true => is_newer(path),
        false => files.iter().all(|file| is_newer(&path.join(file))),
    }
}

/// Renames what is at `path` so that no program reads it; gives its new name.
pub(super) fn set_aside(roots: &[PathBuf], path: &Path) -> io::Result<String> {
    let (parent, name) = open_parent(roots, path)?;
    let id = uuid::Uuid::new_v4().simple().to_string();
    let mut new = name.clone();
    new.push(format!(".set-aside-{}", &id[..8]));
    rustix::fs::renameat(&parent, &name, &parent, &new)?;
    Ok(new.to_string_lossy().into_owned())
}

/// The directory that `path` lies in, opened beneath one of `roots` without following links, and the
/// last name.
fn open_parent(roots: &[PathBuf], path: &Path) -> io::Result<(OwnedFd, std::ffi::OsString)> {
    let beneath = roots.iter().find_map(|root| {
        let rest = path.strip_prefix(root).ok()?;
        Some((root, rest))
    });
    let (root, rest) = beneath.ok_or(io::ErrorKind::NotFound)?;
    let (parent, name) = match (rest.parent(), rest.file_name()) {
        (Some(parent), Some(name)) => (parent, name.to_owned()),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let parent = rustix::fs::openat2(&root, parent, flags, Mode::empty(), resolve)?;
    Ok((parent, name))
}
