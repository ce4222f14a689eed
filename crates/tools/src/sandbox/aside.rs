//! Remembering protected files, renaming new ones, and putting old ones back.
//!
//! Everything is reached from a root that is held open, without following links.

use std::ffi::{OsStr, OsString};
use std::fs::File as OpenFile;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use domain::limits::{PROTECTED_DEPTH_MAX, PROTECTED_TREE_FILES_MAX};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use serde::{Deserialize, Serialize};

use super::beneath::{LISTED, OpenRoots, open_beneath, open_file};
use super::inventory::Role;
use super::path_text;
use super::state_files::lines_that_run;

/// How something is opened to know what it is.
const HELD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    /// Nothing.
    Nothing,
    /// A file.
    File(FileContent),
    /// A link, and where it leads.
    Link(#[serde(with = "path_text::one")] PathBuf),
    /// A directory: its files, by path from it.
    Tree(#[serde(with = "path_text::keyed")] Vec<(PathBuf, FileContent)>),
    /// The lines of a file that matter.
    Lines(Vec<String>),
    /// Too large to remember, or of another kind: when and how often it was changed.
    Stamp(#[serde(with = "path_text::stamps")] Vec<(PathBuf, u64, i64, i64)>),
}

/// What is in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    mode: u32,
    /// It is a link, and the bytes say where it leads.
    is_link: bool,
    /// If the bytes were too many to remember: the inode, and when it was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<(u64, i64, i64)>,
}

impl Content {
    /// What is at `path` now; `room` is how many bytes may still be remembered. Files that `like` has
    /// only stamps of get stamps as well, so that the two can be compared. Blocks.
    pub(super) fn at(
        roots: &OpenRoots,
        (path, role): (&Path, Role),
        room: &mut u64,
        like: Option<&Self>,
    ) -> Self {
        let Ok((parent, name)) = roots.parent(path) else {
            return Self::Nothing;
        };
        let name = Path::new(&name);
        let Some(found) = look(&parent, name) else {
            return Self::Nothing;
        };
        match FileType::from_raw_mode(found.1.st_mode) {
            FileType::Symlink => read_link(&found.0).map_or(Self::Nothing, Self::Link),
            FileType::RegularFile => match (role, FileContent::at(&parent, name, room)) {
                (Role::Todo, Some(content)) => Self::Lines(lines_that_run(path, &content.bytes)),
                (_, Some(content)) => Self::File(content),
                (_, None) => Self::Stamp(vec![stamp(path, &found.1)]),
            },
            FileType::Directory => Self::of_tree(&parent, (path, role), room, like),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Stamp(vec![stamp(path, &found.1)]),
        }
    }

    fn of_tree(
        parent: &OwnedFd,
        (path, role): (&Path, Role),
        room: &mut u64,
        like: Option<&Self>,
    ) -> Self {
        let name = Path::new(path.file_name().unwrap_or(OsStr::new(".")));
        let Ok(top) = open_beneath(parent, name, LISTED) else {
            return Self::Stamp(Vec::new());
        };
        let mut files = Vec::new();
        let is_whole = list(&top, Path::new(""), role, &mut files, 0);
        files.sort();
        if !is_whole {
            let stamps = files.iter().filter_map(|file| {
                let (_, stat) = look(&top, file)?;
                Some(stamp(&path.join(file), &stat))
            });
            return Self::Stamp(stamps.collect());
        }
        let is_stamped = |file: &PathBuf| match like {
            Some(Self::Tree(known)) => known
                .binary_search_by(|(known, _)| known.cmp(file))
                .is_ok_and(|at| known[at].1.stamp.is_some()),
            _ => false,
        };
        let read = files.iter().filter_map(|file| {
            let content = match is_stamped(file) {
                true => None,
                false => FileContent::at(&top, file, room),
            };
            let content = content.or_else(|| FileContent::stamp_of(&top, file))?;
            Some((file.clone(), content))
        });
        Self::Tree(read.collect())
    }

    /// Whether there is nothing to put back.
    pub(super) fn is_nothing(&self) -> bool {
        match self {
            Self::Nothing | Self::Lines(_) | Self::Stamp(_) => true,
            Self::Tree(files) => files.is_empty(),
            Self::File(_) | Self::Link(_) => false,
        }
    }

    /// The files of a directory of which not all could be remembered.
    pub(super) fn partly_kept(&self) -> Option<&[(PathBuf, FileContent)]> {
        match self {
            Self::Tree(files) => {
                let is_partly = files.iter().any(|(_, file)| file.stamp.is_some());
                is_partly.then_some(files.as_slice())
            }
            Self::Nothing | Self::File(_) | Self::Link(_) | Self::Lines(_) | Self::Stamp(_) => None,
        }
    }

    /// Makes it so at `path`, where nothing is.
    pub(super) fn put(&self, roots: &OpenRoots, path: &Path) -> io::Result<()> {
        let (parent, name) = roots.parent(path)?;
        match self {
            Self::Nothing => Ok(()),
            Self::File(file) => file.put(&parent, Path::new(&name)),
            Self::Link(to) => Ok(rustix::fs::symlinkat(to, &parent, &name)?),
            Self::Tree(files) => {
                rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(0o755))?;
                let directory = open_beneath(&parent, Path::new(&name), LISTED)?;
                for (file, content) in files {
                    make_above(&directory, file)?;
                    content.put(&directory, file)?;
                }
                Ok(())
            }
            Self::Lines(_) | Self::Stamp(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl FileContent {
    fn at(directory: &OwnedFd, rest: &Path, room: &mut u64) -> Option<Self> {
        let (held, stat) = look(directory, rest)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Symlink {
            return Some(Self {
                bytes: read_link(&held)?.into_os_string().into_vec(),
                mode: 0,
                is_link: true,
                stamp: None,
            });
        }
        let size = u64::try_from(stat.st_size).ok()?;
        if kind != FileType::RegularFile || size > *room {
            return None;
        }
        let mut bytes = Vec::new();
        let file = open_file(directory, rest).ok()?;
        file.take(*room + 1).read_to_end(&mut bytes).ok()?;
        *room = room.checked_sub(bytes.len() as u64)?;
        Some(Self {
            bytes,
            mode: stat.st_mode & 0o7777,
            is_link: false,
            stamp: None,
        })
    }

    /// What is known of a file that is too large to remember.
    fn stamp_of(directory: &OwnedFd, rest: &Path) -> Option<Self> {
        let (_, stat) = look(directory, rest)?;
        let (_, number, seconds, nanoseconds) = stamp(rest, &stat);
        Some(Self {
            bytes: Vec::new(),
            mode: stat.st_mode & 0o7777,
            is_link: false,
            stamp: Some((number, seconds, nanoseconds)),
        })
    }

    /// Makes the file at `path`, where nothing is.
    pub(super) fn put_at(&self, roots: &OpenRoots, path: &Path) -> io::Result<()> {
        let (parent, name) = roots.parent(path)?;
        self.put(&parent, Path::new(&name))
    }

    fn put(&self, directory: &OwnedFd, rest: &Path) -> io::Result<()> {
        let (parent, name) = split(directory, rest)?;
        if self.stamp.is_some() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.is_link {
            let to = Path::new(OsStr::from_bytes(&self.bytes));
            return Ok(rustix::fs::symlinkat(to, &parent, name)?);
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o600))?;
        let mut file = OpenFile::from(file);
        file.write_all(&self.bytes)?;
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(self.mode))?)
    }
}

/// What is at `rest` beneath `directory`, if no link is on the way: held, and its metadata.
fn look(directory: &OwnedFd, rest: &Path) -> Option<(OwnedFd, Stat)> {
    let held = open_beneath(directory, rest, HELD).ok()?;
    let stat = rustix::fs::fstat(&held).ok()?;
    Some((held, stat))
}

fn read_link(held: &OwnedFd) -> Option<PathBuf> {
    let to = rustix::fs::readlinkat(held, "", Vec::new()).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(to.as_bytes())))
}

/// The directory that `rest` lies in, beneath `directory`, and the last name.
fn split<'a>(directory: &OwnedFd, rest: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    let name = rest.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = rest.parent().filter(|above| !above.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    Ok((open_beneath(directory, parent, HELD)?, name))
}

/// Makes the directories above `rest`, beneath `directory`.
fn make_above(directory: &OwnedFd, rest: &Path) -> io::Result<()> {
    let mut above: Vec<&Path> = rest.ancestors().skip(1).collect();
    above.reverse();
    for above in above.iter().filter(|above| !above.as_os_str().is_empty()) {
        let (parent, name) = split(directory, above)?;
        // It may be there for the file before.
        let _ = rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755));
    }
    Ok(())
}

/// Lists the files in `directory`, which is `below` where the list begins; says whether it came to an
/// end. What git does not run, as hooks with `.sample` at the end of their name, is left out.
fn list(
    directory: &OwnedFd,
    below: &Path,
    role: Role,
    files: &mut Vec<PathBuf>,
    depth: usize,
) -> bool {
    let Ok(entries) = Dir::read_from(directory) else {
        return false;
    };
    for entry in entries {
        let Ok(entry) = entry else { return false };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if files.len() >= PROTECTED_TREE_FILES_MAX || depth > PROTECTED_DEPTH_MAX {
            return false;
        }
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let Ok(stat) = stat else { return false };
        let path = below.join(name);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let inner = rustix::fs::openat(directory, name, LISTED, Mode::empty());
            if !inner.is_ok_and(|inner| list(&inner, &path, role, files, depth + 1)) {
                return false;
            }
            continue;
        }
        let is_sample = role == Role::Hooks && path.extension().is_some_and(|end| end == "sample");
        if !is_sample {
            files.push(path);
        }
    }
    true
}

fn stamp(path: &Path, stat: &Stat) -> (PathBuf, u64, i64, i64) {
    let nanoseconds = i64::try_from(stat.st_ctime_nsec).unwrap_or_default();
    (path.to_owned(), stat.st_ino, stat.st_ctime, nanoseconds)
}

/// The metadata of what is at `path`, or of all files in it; `None` if not all could be listed.
fn stats(roots: &OpenRoots, path: &Path) -> Option<Vec<Stat>> {
    let (parent, name) = roots.parent(path).ok()?;
    let (_, stat) = look(&parent, Path::new(&name))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Some(vec![stat]);
    }
    let top = open_beneath(&parent, Path::new(&name), LISTED).ok()?;
    let mut files = Vec::new();
    if !list(&top, Path::new(""), Role::Other, &mut files, 0) {
        return None;
    }
    let stats = files.iter().filter_map(|file| Some(look(&top, file)?.1));
    Some(stats.collect())
}

/// Whether a file at `path`, or one in it, has another name as well, by which it could be written.
pub(super) fn has_other_names(roots: &OpenRoots, path: &Path) -> bool {
    let is_nothing = roots.stat(path).is_none();
    let has_others = |files: Vec<Stat>| files.iter().any(|file| file.st_nlink > 1);
    !is_nothing && stats(roots, path).is_none_or(has_others)
}

/// Whether everything at `path` was changed after `then`.
pub(super) fn is_newer(roots: &OpenRoots, path: &Path, then: SystemTime) -> bool {
    let then = then.duration_since(SystemTime::UNIX_EPOCH);
    let then = then.unwrap_or(Duration::ZERO).as_secs().cast_signed();
    let is_newer = |file: &Stat| file.st_ctime > then;
    match stats(roots, path) {
        Some(files) if !files.is_empty() => files.iter().all(is_newer),
        _ => roots.stat(path).as_ref().is_some_and(is_newer),
    }
}

/// Renames what is at `path` so that no program reads it; gives its new name.
pub(super) fn set_aside(roots: &OpenRoots, path: &Path) -> io::Result<String> {
    let (parent, name) = roots.parent(path)?;
    let new = new_name(&name);
    rustix::fs::renameat(&parent, &name, &parent, &new)?;
    Ok(new.to_string_lossy().into_owned())
}

/// Moves `files` of the directory `path` to a new directory beside it; gives that one's name.
pub(super) fn set_files_aside(
    roots: &OpenRoots,
    path: &Path,
    files: &[&Path],
) -> io::Result<String> {
    let (parent, name) = roots.parent(path)?;
    let new = new_name(&name);
    let from = open_beneath(&parent, Path::new(&name), HELD)?;
    rustix::fs::mkdirat(&parent, &new, Mode::from_raw_mode(0o755))?;
    let to = open_beneath(&parent, Path::new(&new), HELD)?;
    for file in files {
        make_above(&to, file)?;
        let (old, name) = split(&from, file)?;
        let (new, _) = split(&to, file)?;
        rustix::fs::renameat(&old, name, &new, name)?;
    }
    Ok(new.to_string_lossy().into_owned())
}

fn new_name(name: &OsStr) -> OsString {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let mut new = name.to_owned();
    new.push(format!(".set-aside-{}", &id[..8]));
    new
}
