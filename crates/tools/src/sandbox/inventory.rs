//! Looks through directories for protected files ([`protected`](crate::protected)) and repositories.
//!
//! It follows no links and stops at a limit: then [`Inventory::is_whole`] is false, and a command is
//! asked about. Names are read with `getdents`, so nothing is opened but directories and the few files
//! that are found.

mod named;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use domain::limits::{
    PROTECTED_DEPTH_MAX, PROTECTED_DIRECTORIES_MAX, PROTECTED_FILES_MAX, PROTECTED_FOUND_MAX,
    PROTECTED_SEARCH_TIME_MAX,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use serde::{Deserialize, Serialize};

use crate::protected::{FILES, GIT_FILES, Keeping, PACKAGES, ProtectedFile, RepositoryMarks};

/// Bytes of names that are read at once.
const NAMES_BYTES: usize = 32 * 1024;

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SearchArea {
    /// Directories, without links.
    pub(super) roots: Vec<PathBuf>,
    /// Git's settings for the user and the machine: they too can name programs in a work tree.
    pub(super) git_settings: Vec<PathBuf>,
    /// Hidden directories, which are not looked into.
    pub(super) hidden: Vec<PathBuf>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    /// Protected files and directories that are there, by path.
    pub(super) found: Vec<FoundFile>,
    /// Directories that git takes for a repository's.
    pub(super) repositories: BTreeSet<PathBuf>,
    /// Protected files behind a link.
    linked: Vec<PathBuf>,
    /// Whether everything was looked at.
    pub(super) is_whole: bool,
    /// Directories that were looked at.
    pub(super) directories: usize,
}

/// A protected file or directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct FoundFile {
    /// Where it is.
    pub(super) path: PathBuf,
    /// What it is to git or another program.
    pub(super) role: Role,
    /// Whether it is a link, or a link on the way to it.
    pub(super) is_link: bool,
}

/// What a protected file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// A `.git` that is not a directory: it says where the repository is.
    GitFile,
    /// A repository's settings.
    Config,
    /// Where the rest of a repository is.
    CommonDir,
    /// A repository's hooks.
    Hooks,
    /// A list of steps that git takes.
    Todo,
    /// Something else that git reads in a repository.
    GitOther,
    /// A file that git's settings name.
    Named,
    /// A file of another program.
    Other,
}

impl Inventory {
    /// Looks through `area`. Blocks.
    pub(super) fn of(area: &SearchArea) -> Self {
        let mut search = Search {
            inventory: Self {
                is_whole: true,
                ..Self::default()
            },
            path: PathBuf::new(),
            hidden: &area.hidden,
            deadline: Instant::now() + PROTECTED_SEARCH_TIME_MAX,
        };
        for root in outermost(&area.roots) {
            search.path.clone_from(root);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            if let Ok(directory) = rustix::fs::open(root, flags, Mode::empty()) {
                let is_package = root.iter().any(|name| name == PACKAGES);
                search.look_into(&directory, is_package, 0);
            }
        }
        let mut inventory = search.inventory;
        inventory.add_named(area);
        inventory.found.sort();
        inventory
            .found
            .dedup_by(|one, other| one.path == other.path);
        inventory.is_whole &= inventory.found.len() <= PROTECTED_FILES_MAX;
        inventory
    }

    /// What is protected at `path`, if something is.
    pub(super) fn at(&self, path: &Path) -> Option<&FoundFile> {
        let at = self
            .found
            .binary_search_by(|found| found.path.as_path().cmp(path));
        at.ok().map(|at| &self.found[at])
    }

    fn add(&mut self, path: PathBuf, role: Role, is_link: bool) {
        if self.found.len() <= PROTECTED_FOUND_MAX {
            self.found.push(FoundFile {
                path,
                role,
                is_link,
            });
        }
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

/// A search under way.
struct Search<'a> {
    inventory: Inventory,
    hidden: &'a [PathBuf],
    /// The directory that is looked into.
    path: PathBuf,
    deadline: Instant,
}

/// The names in one directory that matter.
#[derive(Default)]
struct Names {
    directories: Vec<OsString>,
    /// With which a protected file's name begins.
    first: Vec<(OsString, FileType)>,
    marks: RepositoryMarks,
}

impl Search<'_> {
    fn look_into(&mut self, directory: &OwnedFd, is_package: bool, depth: usize) {
        self.inventory.directories += 1;
        // The clock is asked now and then only.
        let is_late =
            || self.inventory.directories.is_multiple_of(64) && Instant::now() > self.deadline;
        let is_full = self.inventory.directories > PROTECTED_DIRECTORIES_MAX;
        if is_full || depth > PROTECTED_DEPTH_MAX || is_late() {
            self.inventory.is_whole = false;
        }
        if !self.inventory.is_whole {
            return;
        }
        let names = read_names(directory);
        for (name, kind) in &names.first {
            self.note(directory, name, *kind, is_package);
        }
        let is_git = self.path.file_name().is_some_and(|name| name == ".git");
        if is_git || names.marks.is_repository() {
            self.note_repository(directory);
        }
        for name in names.directories {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // What cannot be opened cannot be used by git either.
            let Ok(below) = rustix::fs::openat(directory, &*name, flags, Mode::empty()) else {
                continue;
            };
            self.path.push(&name);
            if !self.hidden.contains(&self.path) {
                self.look_into(&below, is_package || name == PACKAGES, depth + 1);
            }
            self.path.pop();
        }
    }

    /// Notes the protected files whose names begin with `name`.
    fn note(&mut self, directory: &OwnedFd, name: &OsStr, kind: FileType, is_package: bool) {
        for file in FILES.iter().filter(|file| file.begins_with(name)) {
            if file.name == ".git" {
                if kind != FileType::Directory {
                    let is_link = kind == FileType::Symlink;
                    let path = self.path.join(name);
                    self.inventory.add(path, Role::GitFile, is_link);
                }
                continue;
            }
            if is_package || file.keeping == Keeping::Free {
                continue;
            }
            let rest: PathBuf = file.parts().skip(1).collect();
            let below = match rest.as_os_str().is_empty() {
                true => PathBuf::from(name),
                false => Path::new(name).join(rest),
            };
            self.note_file(directory, file, &below, Role::Other);
        }
    }

    /// Notes what is protected in a repository's directory.
    fn note_repository(&mut self, directory: &OwnedFd) {
        for file in GIT_FILES {
            let role = match file.name {
                "config" | "config.worktree" => Role::Config,
                "commondir" => Role::CommonDir,
                "hooks/" => Role::Hooks,
                _ if file.keeping == Keeping::Checked => Role::Todo,
                _ => Role::GitOther,
            };
            let below: PathBuf = file.parts().collect();
            self.note_file(directory, file, &below, role);
        }
        self.inventory.repositories.insert(self.path.clone());
    }

    /// Notes the file `below` the directory if it is there and of the kind that `file` has.
    fn note_file(&mut self, directory: &OwnedFd, file: &ProtectedFile, below: &Path, role: Role) {
        // The outermost link on the way to it: what it leads to is noted apart.
        let mut link = None;
        let parts = below.ancestors();
        for part in parts.filter(|part| !part.as_os_str().is_empty()) {
            let stat = rustix::fs::statat(directory, part, AtFlags::SYMLINK_NOFOLLOW);
            let Ok(stat) = stat else { return };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let fits = match part == below && !file.is_tree() {
                true => kind != FileType::Directory,
                false => kind == FileType::Directory || kind == FileType::Symlink,
            };
            // A file where a directory is expected, or the other way round, is not read.
            if !fits {
                return;
            }
            if kind == FileType::Symlink {
                link = Some(part);
            }
        }
        if link.is_some() {
            self.inventory.linked.push(self.path.join(below));
        }
        let path = self.path.join(link.unwrap_or(below));
        self.inventory.add(path, role, link.is_some());
    }
}

/// Reads the names in `directory`; none if it cannot be read.
fn read_names(directory: &OwnedFd) -> Names {
    let mut names = Names::default();
    let mut buffer = [MaybeUninit::uninit(); NAMES_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let bytes = entry.file_name().to_bytes();
        if bytes == b"." || bytes == b".." {
            continue;
        }
        let name = OsStr::from_bytes(bytes);
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            kind = stat.map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode));
        }
        names.marks.note(bytes);
        if kind == FileType::Directory {
            names.directories.push(name.to_owned());
        }
        if may_be_first(bytes) && FILES.iter().any(|file| file.begins_with(name)) {
            names.first.push((name.to_owned(), kind));
        }
    }
    names
}

/// Whether a protected file's name may begin with `name`: quick, for it is asked of every name.
fn may_be_first(name: &[u8]) -> bool {
    matches!(name, [b'.' | b'f' | b'l' | b'm' | b'o', ..]) || name.ends_with(b".code-workspace")
}

#[cfg(test)]
mod tests;
