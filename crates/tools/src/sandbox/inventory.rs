//! Looks through directories for protected files ([`protected`](crate::protected)) and repositories.
//!
//! It follows no links, and leaves out what is beyond a limit: then [`Inventory::is_whole`] is false, and
//! a command is asked about. Names are read with `getdents`, so nothing is opened but directories and the
//! few files that are found.

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
    PROTECTED_NEW_MAX, PROTECTED_SEARCH_TIME_MAX,
};
use rustix::fs::{Access, AtFlags, FileType, Mode, RawDir};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::beneath::{self, LISTED, OpenRoots};
use super::path_text;
use crate::protected::{
    FILES, GIT_FILES, Keeping, PACKAGES, ProtectedFile, RepositoryMarks, is_git_name, may_be_first,
};
use crate::roots::DirectoryId;

/// Bytes of names that are read at once.
const NAMES_BYTES: usize = 32 * 1024;

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SearchArea {
    /// Directories, without links.
    #[serde(with = "path_text::many")]
    pub(super) roots: Vec<PathBuf>,
    /// Which directories those were when they were checked.
    #[serde(default, with = "path_text::keyed")]
    pub(super) identities: Vec<(PathBuf, DirectoryId)>,
    /// Git's settings for the user and the machine: they too can name programs in a work tree.
    #[serde(with = "path_text::many")]
    pub(super) git_settings: Vec<PathBuf>,
    /// The user's home, which settings call `~`; empty if there is none.
    #[serde(default, with = "path_text::one")]
    pub(super) home: PathBuf,
    /// Hidden directories, which are not looked into.
    #[serde(with = "path_text::many")]
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
    /// The first thing that was not looked at, in words.
    pub(super) gap: Option<String>,
    /// Directories that had to be made listable.
    pub(super) opened: Vec<PathBuf>,
    /// Directories that were looked at.
    pub(super) directories: usize,
}

/// A protected file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FoundFile {
    /// Where it is.
    #[serde(with = "path_text::one")]
    pub(super) path: PathBuf,
    /// What it is to git or another program.
    pub(super) role: Role,
    /// Whether it is a link, or a link on the way to it.
    pub(super) is_link: bool,
    /// The directory in which it counts: a repository's, or the one in which its name begins. A file
    /// that is found elsewhere in the same directory was renamed along with it.
    #[serde(default)]
    pub(super) base: Option<DirectoryId>,
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
        let mut inventory = Self::search(area, &OpenRoots::open(area), Purpose::Before);
        inventory.is_whole &= inventory.found.len() <= PROTECTED_FILES_MAX;
        inventory
    }

    /// Looks through `area` when a command has ended. Directories of the user's own that cannot be
    /// listed are made listable: a command may have closed them to hide something. Blocks.
    pub(super) fn after_command(area: &SearchArea, roots: &OpenRoots) -> Self {
        Self::search(area, roots, Purpose::After)
    }

    fn search(area: &SearchArea, roots: &OpenRoots, purpose: Purpose) -> Self {
        let mut search = Search {
            inventory: Self {
                is_whole: true,
                ..Self::default()
            },
            path: PathBuf::new(),
            hidden: &area.hidden,
            user: rustix::process::geteuid().as_raw(),
            purpose,
            deadline: Instant::now() + PROTECTED_SEARCH_TIME_MAX,
        };
        for path in &roots.replaced {
            search.leave_out(format!("{} was replaced", path.display()));
        }
        for root in roots.iter() {
            search.path.clone_from(&root.path);
            if let Some(directory) = search.open(&root.directory, OsStr::new(".")) {
                let is_package = root.path.iter().any(|name| name == PACKAGES);
                search.look_into(&directory, is_package, 0);
            }
        }
        let mut inventory = search.inventory;
        inventory.add_named(area, roots);
        let key = |file: &FoundFile| (file.path.clone(), file.role);
        inventory.found.sort_by_cached_key(key);
        inventory
            .found
            .dedup_by(|one, other| one.path == other.path);
        inventory
    }

    /// What is protected at `path`, if something is.
    pub(super) fn at(&self, path: &Path) -> Option<&FoundFile> {
        let at = self
            .found
            .binary_search_by(|found| found.path.as_path().cmp(path));
        at.ok().map(|at| &self.found[at])
    }
}

/// What a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To know what a command must not change.
    Before,
    /// To find what it did.
    After,
}

/// A search under way.
struct Search<'a> {
    inventory: Inventory,
    hidden: &'a [PathBuf],
    /// The directory that is looked into.
    path: PathBuf,
    /// The number of the user that we are.
    user: u32,
    purpose: Purpose,
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
    /// Notes that something was not looked at, and why.
    fn leave_out(&mut self, why: String) {
        self.inventory.is_whole = false;
        self.inventory.gap.get_or_insert(why);
    }

    /// Whether the search has to stop.
    fn is_over(&mut self) -> bool {
        self.inventory.directories += 1;
        let count = self.inventory.directories;
        // The clock is asked now and then only. Once it is late, it stays so.
        let is_late = count.is_multiple_of(64) && Instant::now() > self.deadline;
        if count > PROTECTED_DIRECTORIES_MAX || is_late {
            self.inventory.directories = PROTECTED_DIRECTORIES_MAX;
            self.leave_out("there are too many directories".to_owned());
            return true;
        }
        false
    }

    fn look_into(&mut self, directory: &OwnedFd, is_package: bool, depth: usize) {
        if self.is_over() {
            return;
        }
        let shown = || self.path.display();
        if depth > PROTECTED_DEPTH_MAX {
            let why = format!("{} has too many levels of directories above it", shown());
            return self.leave_out(why);
        }
        let Some(names) = read_names(directory) else {
            let why = format!("{} cannot be read", shown());
            return self.leave_out(why);
        };
        for (name, kind) in &names.first {
            self.note(directory, name, *kind, is_package);
        }
        if self.path.file_name().is_some_and(is_git_name) || names.marks.is_repository() {
            self.note_repository(directory);
        }
        for name in names.directories {
            self.path.push(&name);
            if !self.hidden.contains(&self.path)
                && let Some(below) = self.open(directory, &name)
            {
                self.look_into(&below, is_package || name == PACKAGES, depth + 1);
            }
            self.path.pop();
        }
    }

    /// Opens a directory to list it and to look at what is in it. One that only others can enter is left
    /// out: neither a command nor git of the user reaches what is in it.
    fn open(&mut self, directory: &OwnedFd, name: &OsStr) -> Option<OwnedFd> {
        let attempt = || -> rustix::io::Result<OwnedFd> {
            let below = rustix::fs::openat(directory, name, LISTED, Mode::empty())?;
            // Root may enter everything.
            if self.user != 0 {
                rustix::fs::accessat(&below, ".", Access::EXEC_OK, AtFlags::empty())?;
            }
            Ok(below)
        };
        let error = match attempt() {
            Ok(below) => return Some(below),
            // It is gone, or something else by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return None,
            Err(error) => error,
        };
        let shown = self.path.display().to_string();
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let is_own = stat.is_some_and(|stat| stat.st_uid == self.user);
        let is_closed = error == Errno::ACCESS;
        if is_closed && is_own && self.purpose == Purpose::After {
            let made = beneath::make_listable(directory, Path::new(name));
            if let (Ok(()), Ok(below)) = (made, attempt()) {
                self.inventory.opened.push(self.path.clone());
                return Some(below);
            }
        }
        let can_enter =
            || rustix::fs::accessat(directory, name, Access::EXEC_OK, AtFlags::empty()).is_ok();
        if is_own || !is_closed || can_enter() {
            self.leave_out(format!("{shown} cannot be listed"));
        }
        None
    }

    fn add(&mut self, path: PathBuf, role: Role, is_link: bool, directory: &OwnedFd) {
        let most = match self.purpose {
            Purpose::Before => PROTECTED_FOUND_MAX,
            Purpose::After => PROTECTED_NEW_MAX,
        };
        if self.inventory.found.len() > most {
            return self.leave_out("there are too many protected files".to_owned());
        }
        self.inventory.found.push(FoundFile {
            path,
            role,
            is_link,
            base: DirectoryId::of(directory).ok(),
        });
    }

    /// Notes the protected files whose names begin with `name`.
    fn note(&mut self, directory: &OwnedFd, name: &OsStr, kind: FileType, is_package: bool) {
        for file in FILES.iter().filter(|file| file.begins_with(name)) {
            if file.name == ".git" {
                if kind != FileType::Directory {
                    let is_link = kind == FileType::Symlink;
                    self.add(self.path.join(name), Role::GitFile, is_link, directory);
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
        self.add(path, role, link.is_some(), directory);
    }
}

/// Reads the names in `directory`; none if that fails.
fn read_names(directory: &OwnedFd) -> Option<Names> {
    let mut names = Names::default();
    let mut buffer = [MaybeUninit::uninit(); NAMES_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.ok()?;
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
    Some(names)
}

#[cfg(test)]
mod tests;
