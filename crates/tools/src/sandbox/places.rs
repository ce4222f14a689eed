//! What of the disk a command sees: found anew for each, since disks change.
//!
//! The system is shown as it is, except for what runs (`/run`, `/tmp`, `/var`), what belongs to
//! others (`/home`, `/root`) and known secrets; of the person's home what [`Home`] tells. On top come
//! the session's roots, which can be changed. What is hidden stays so whatever else is said.

mod kept;
mod sockets;
mod system;

use std::path::{Component, Path, PathBuf};

use super::bubblewrap::SCRATCH;
use super::cage::{Places, Shown};
use super::home::{self, Home, names_in};
use crate::helpers::leads_through_writable;
use crate::hidden;
use crate::roots::Root;
use crate::tool_chains::{self, Part};

/// Directories at the top that are not shown, or made anew.
const NOT_SHOWN: &[&str] = &[
    "boot",
    "dev",
    "home",
    "lost+found",
    "media",
    "mnt",
    "proc",
    "root",
    "run",
    "tmp",
    "var",
];

/// What is shown of directories that are not: where some systems keep all their programs.
const SYSTEM_NEEDED: &[&str] = &["/run/current-system"];

/// Links on the way to one directory: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// What the places are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    /// The session's directories.
    pub(super) roots: &'a [Root],
    /// What nobody may see.
    pub(super) hidden: &'a [PathBuf],
    /// The person's home.
    pub(super) home: Option<&'a Path>,
    /// Whether it is somebody else's: then only its tool chains are shown.
    pub(super) is_guest: bool,
    /// Where tool chains are, by the variables that are passed on.
    pub(super) tools: &'a [PathBuf],
    /// What the operator shows beyond that.
    pub(super) read: &'a [PathBuf],
    /// What the operator lets commands change beyond that.
    pub(super) write: &'a [PathBuf],
    /// What the operator hides.
    pub(super) hide: &'a [PathBuf],
    /// Git's settings for the user, besides those in the home.
    pub(super) git_settings: &'a [PathBuf],
    /// Whether names are resolved and addresses reached.
    pub(super) network: bool,
    /// Whether the command may make git repositories.
    pub(super) makes_repositories: bool,
}

/// Looks around on the disk. Blocks.
pub(super) fn find(ground: &Ground<'_>) -> Places {
    let hidden: Vec<PathBuf> = ground.hidden.iter().chain(ground.hide).cloned().collect();
    let hidden = hidden::locations(&hidden);
    let mut finder = Finder {
        home: ground.home.and_then(real),
        hidden: hidden.iter().filter_map(|path| real(path)).collect(),
        places: Places::default(),
    };
    finder.system(ground.network);
    let covers_home = finder.roots(ground.roots);
    let hidden = finder.home(match (ground.is_guest, covers_home) {
        (true, _) => Plain::NotShown,
        (false, true) => Plain::Changed,
        (false, false) => Plain::Seen,
    });
    finder.protect(ground.makes_repositories, ground.git_settings);
    let roots = finder.places.change.clone();
    finder.tools(ground.tools);
    // Once all names are known under which it could be seen.
    for path in &hidden {
        finder.mask(path);
    }
    for path in ground
        .read
        .iter()
        .filter(|path| !leads_through_writable(path))
    {
        finder.see(path);
    }
    for path in ground
        .write
        .iter()
        .filter(|path| !leads_through_writable(path))
    {
        finder.change(path);
    }
    let secrets = system::secrets();
    for path in secrets.iter().chain(&finder.hidden.clone()) {
        finder.mask(path);
    }
    let named: Vec<&PathBuf> = ground.read.iter().chain(ground.write).collect();
    for socket in sockets::listening() {
        if !named.contains(&&socket) {
            finder.mask(&socket);
        }
    }
    finder.hold_hidden(&roots);
    finder.places
}

/// `path` without those `apart` from it: itself if there are none in it, else what is in it.
pub(super) fn without(path: &Path, apart: &[PathBuf]) -> Vec<PathBuf> {
    if apart.iter().any(|apart| path.starts_with(apart)) {
        return Vec::new();
    }
    if !apart.iter().any(|apart| apart.starts_with(path)) {
        return vec![path.to_owned()];
    }
    let inside = names_in(path);
    // What a link leads to is shown where it is, or not at all.
    let inside = inside.into_iter().filter(|path| !path.is_symlink());
    inside.flat_map(|path| without(&path, apart)).collect()
}

/// What becomes of plain names in the home.
#[derive(Clone, Copy)]
enum Plain {
    NotShown,
    Seen,
    Changed,
}

struct Finder {
    home: Option<PathBuf>,
    hidden: Vec<PathBuf>,
    places: Places,
}

impl Finder {
    fn system(&mut self, network: bool) {
        for path in names_in(Path::new("/")) {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| NOT_SHOWN.contains(&name)) {
                if path.is_dir() && path != Path::new(SCRATCH) {
                    self.places.bare.push(path);
                }
                continue;
            }
            if let Ok(to) = std::fs::read_link(&path) {
                self.places.links.push((path, to));
            } else if path.is_dir() && !system::is_private(&path) {
                self.see(&path);
            }
        }
        for path in SYSTEM_NEEDED {
            self.see(Path::new(path));
        }
        // Often a link into `/run`.
        let resolver = real(Path::new("/etc/resolv.conf")).filter(|_| network);
        if let Some(path) = resolver.filter(|path| !path.starts_with("/etc")) {
            self.see(&path);
        }
    }

    /// Says whether the home lies in one of the roots: then not all of it can be changed.
    fn roots(&mut self, roots: &[Root]) -> bool {
        let mut covers_home = false;
        for root in roots {
            // What was replaced is not shown. A tool that works in it says so.
            if root.verify().is_err() {
                continue;
            }
            let found = root.real().to_owned();
            let home = self.home.as_ref();
            if found == Path::new("/") || home.is_some_and(|home| home.starts_with(&found)) {
                covers_home = true;
                continue;
            }
            if self.is_hidden(&found) {
                continue;
            }
            // Under the name that was given, and the one that programs find out.
            let given = Some(root.path()).filter(|path| *path != found);
            for at in given.into_iter().chain([&*found]) {
                self.places.change.push(shown(at, &found));
            }
        }
        covers_home
    }

    /// Gives what is out of sight in it.
    fn home(&mut self, plainly: Plain) -> Vec<PathBuf> {
        let Some(path) = self.home.clone() else {
            return Vec::new();
        };
        self.places.bare.push(path.clone());
        let Home {
            plain,
            needed,
            hidden,
        } = Home::look(&path);
        // A link that a session put there would show what it leads to.
        let plain = plain.iter().filter(|path| !leads_through_writable(path));
        for path in plain {
            match plainly {
                Plain::Changed if path.is_symlink() => {}
                Plain::Changed => self.change(path),
                Plain::Seen => self.see(path),
                Plain::NotShown => {}
            }
        }
        for path in &needed {
            self.see(path);
        }
        hidden
    }

    fn tools(&mut self, tools: &[PathBuf]) {
        for path in tools {
            // It leads wherever a session wants: what lies in a root is there anyway.
            if leads_through_writable(path) {
                continue;
            }
            let Some(found) = real(path) else {
                continue;
            };
            // Such as `~/.dotnet` in a search path: only parts of it are shown anyway.
            if self.is_shown_in_parts(&found) {
                continue;
            }
            let is_seen = |shown: &Shown| found.starts_with(&shown.real) && shown.at == shown.real;
            let everything = ["/tmp", "/run", "/var/tmp"].map(PathBuf::from);
            let mut kept = everything.iter().chain(&self.home);
            if kept.any(|kept| kept.starts_with(&found)) {
                continue;
            }
            let is_seen = self.places.see.iter().any(is_seen);
            self.see_links(path, &found);
            if !is_seen {
                self.see(&found);
            }
            for secret in home::secrets_in(&found) {
                self.mask(&secret);
            }
        }
    }

    /// Whether `found` is a directory of the home that is shown in parts, or lies above some.
    fn is_shown_in_parts(&self, found: &Path) -> bool {
        let inside = self.home.as_ref().map(|home| found.strip_prefix(home));
        let Some(Ok(inside)) = inside else {
            return false;
        };
        let is_whole = |part: &Part| matches!(part, Part::All);
        let mut known = tool_chains::IN_HOME.iter();
        known.any(|(name, parts)| {
            let name = Path::new(name);
            name.starts_with(inside) && !(name == inside && parts.iter().all(is_whole))
        })
    }

    /// Shows the directory `found` under every name by which `path` leads to it, as far as that name
    /// lies in nothing that is shown: there the links themselves are.
    fn see_links(&mut self, path: &Path, found: &Path) {
        for name in names_on_the_way(path) {
            let Places {
                see, change, links, ..
            } = &self.places;
            let all = see.iter().chain(change).map(|shown| &shown.at);
            let mut all = all.chain(links.iter().map(|(at, _)| at));
            if name != found && !all.any(|at| name.starts_with(at)) {
                self.see(&name);
            }
        }
    }

    fn see(&mut self, path: &Path) {
        let found = self.found(path);
        self.places.see.extend(found);
    }

    fn change(&mut self, path: &Path) {
        let found = self.found(path);
        self.places.change.extend(found);
    }

    /// What of `path` can be shown: all, or what is in it and is not the home.
    fn found(&self, path: &Path) -> Vec<Shown> {
        let Some(found) = real(path) else {
            return Vec::new();
        };
        if self.is_hidden(&found) {
            return Vec::new();
        }
        let home: Vec<PathBuf> = self.home.iter().cloned().collect();
        if home.iter().any(|home| home.starts_with(&found)) {
            let parts = without(&found, &home);
            return parts.iter().map(|part| shown(part, part)).collect();
        }
        vec![shown(path, &found)]
    }

    fn is_hidden(&self, found: &Path) -> bool {
        self.hidden.iter().any(|hidden| found.starts_with(hidden))
    }

    /// Puts `path` out of sight wherever it would be seen.
    fn mask(&mut self, path: &Path) {
        let Some(found) = real(path) else { return };
        let Places { see, change, .. } = &mut self.places;
        see.retain(|shown| !shown.real.starts_with(&found));
        change.retain(|shown| !shown.real.starts_with(&found));
        let mut masked: Vec<PathBuf> = Vec::new();
        for shown in see.iter().chain(change.iter()) {
            if let Ok(rest) = found.strip_prefix(&shown.real) {
                masked.push(shown.at.join(rest));
            }
        }
        masked.sort();
        masked.dedup();
        if masked.is_empty() {
            return;
        }
        match found.is_dir() {
            true => self.places.hide.extend(masked),
            false => self.places.hide_files.extend(masked),
        }
        self.places.apart.push(found);
    }
}

fn shown(at: &Path, real: &Path) -> Shown {
    Shown {
        at: at.to_owned(),
        real: real.to_owned(),
    }
}

/// The names by which `path` leads to where it leads, one link after the other, itself first.
fn names_on_the_way(path: &Path) -> Vec<PathBuf> {
    let mut names = vec![path.to_owned()];
    while let Some(last) = names.last()
        && names.len() < LINKS_MAX
    {
        let mut above: Vec<&Path> = last.ancestors().collect();
        above.reverse();
        let link = above.into_iter().find_map(|part| {
            let to = std::fs::read_link(part).ok()?;
            let rest = last.strip_prefix(part).ok()?;
            Some(part.parent()?.join(to).join(rest))
        });
        match link {
            Some(next) => names.push(plain(&next)),
            None => break,
        }
    }
    names
}

/// `path` without `.` and `..`, as it is spelled.
pub(super) fn plain(path: &Path) -> PathBuf {
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

/// Where `path` leads, if something is there.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests;
