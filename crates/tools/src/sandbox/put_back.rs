//! Looks at protected files when a command has ended, and undoes what it did to them.
//!
//! With bubblewrap those that exist are mounted read-only, so this is about new ones. Landlock grants
//! whole directories, so with Landlock alone it is about all. A new or changed file is renamed to
//! `NAME.set-aside-…`, never deleted, and a changed file is put back. What git itself makes (a
//! repository without hooks and with plain settings) stays.
//!
//! By then nothing of the command runs any more, but other sessions may. So the directories are held
//! open from before the command on ([`beneath`](super::beneath)): what lies at their paths by then may be
//! something else. [`journal`](super::journal) keeps the snapshot on disk, for the case that this process
//! is killed first.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::limits::{PROTECTED_BYTES_MAX, PROTECTED_LINES_MAX};
use serde::{Deserialize, Serialize};

use super::aside::{self, Content, FileContent};
use super::beneath::OpenRoots;
use super::cage::{Cage, Layer};
use super::git_config::{self, Setting};
use super::inventory::{FoundFile, Inventory, Role, SearchArea};
use super::path_text;
use super::places::plain;

/// What there was before a command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Snapshot {
    area: SearchArea,
    /// The directories of the area.
    #[serde(skip)]
    roots: OpenRoots,
    #[serde(with = "path_text::many")]
    repositories: Vec<PathBuf>,
    /// All that the command may change.
    #[serde(default, with = "path_text::many")]
    writable: Vec<PathBuf>,
    files: Vec<KeptFile>,
    /// Whether the user allowed the command to make repositories.
    may_make_repositories: bool,
    /// Whether the search before the command came to its end.
    is_whole: bool,
    /// Whether it is a program that runs for as long as a session. Meanwhile the user works in the same
    /// directories, so files of editors and shells are only reported.
    #[serde(default)]
    is_program: bool,
}

/// A protected file that was there.
#[derive(Debug, Serialize, Deserialize)]
struct KeptFile {
    #[serde(flatten)]
    file: FoundFile,
    /// What it was; `None` if the command cannot have changed it.
    was: Option<Content>,
}

impl Snapshot {
    /// Looks at all that must not change in `cage`. Blocks.
    ///
    /// # Errors
    /// If a directory is not the one that was checked.
    pub(super) fn of(cage: &Cage, is_program: bool) -> io::Result<Self> {
        let places = &cage.places;
        let roots = OpenRoots::open(&places.area);
        if let Some(path) = roots.replaced.first() {
            let path = path.display();
            return Err(io::Error::other(format!(
                "{path} is not what it was when the command was checked; try again"
            )));
        }
        let mut room = PROTECTED_BYTES_MAX;
        let is_mounted = |file: &FoundFile| match cage.layer {
            Layer::Bubblewrap { .. } => {
                places.keep.contains(&file.path) && !aside::has_other_names(&roots, &file.path)
            }
            Layer::Landlock => false,
        };
        let mut content =
            |file: &FoundFile| Content::at(&roots, (&file.path, file.role), &mut room, None);
        let kept = places.protected.iter().map(|file| KeptFile {
            was: (!is_mounted(file)).then(|| content(file)),
            file: file.clone(),
        });
        let change = places.change.iter();
        Ok(Self {
            files: kept.collect(),
            area: places.area.clone(),
            roots,
            repositories: places.repositories.clone(),
            writable: change.map(|shown| shown.real.clone()).collect(),
            may_make_repositories: cage.may_make_repositories,
            is_whole: places.is_searched,
            is_program,
        })
    }

    /// The directories that it is about.
    pub(super) fn into_roots(self) -> Vec<PathBuf> {
        self.area.roots
    }

    /// Undoes what a command did whose supervisor was killed, as far as the directories are still
    /// where they were. What is newer than `until` does not count: the user may have worked since.
    pub(super) fn recover(&mut self, until: SystemTime) -> Vec<String> {
        self.roots = OpenRoots::open(&self.area);
        let replaced = self.roots.replaced.iter().map(|path| {
            let path = path.display();
            format!("[{path} is not the directory that it was, so nothing was checked there]")
        });
        let mut told: Vec<String> = replaced.collect();
        told.extend(self.settle(Some(until)));
        told
    }

    /// Undoes what the command did. Gives what the user should know, a line each. After a crash only
    /// what is not newer than `until` counts.
    pub(super) fn settle(&self, until: Option<SystemTime>) -> Vec<String> {
        let now = Inventory::after_command(&self.area, &self.roots);
        let mut told: Vec<String> = self.roots.moved().map(tell_moved).collect();
        told.extend(now.opened.iter().map(|path| {
            let path = path.display();
            format!("[{path} could not be listed; its owner can list it now]")
        }));
        let before: BTreeMap<&Path, &KeptFile> = self
            .files
            .iter()
            .map(|kept| (kept.file.path.as_path(), kept))
            .collect();
        let round = Round {
            snapshot: self,
            before: &before,
            now: &now,
        };
        let is_newer =
            |path: &Path| until.is_some_and(|until| aside::is_newer(&self.roots, path, until));
        for file in now.found.iter().filter(|file| !is_newer(&file.path)) {
            told.extend(round.look_at(file));
        }
        // Whatever the search left out, what was there is looked at.
        for kept in &self.files {
            let path = &kept.file.path;
            match (now.at(path), self.roots.stat(path)) {
                (Some(_), _) => {}
                (None, Some(_)) if !is_newer(path) => told.extend(round.look_at(&kept.file)),
                (None, Some(_)) => {}
                // After a crash the user may have removed it.
                (None, None) if until.is_none() => told.extend(round.look_for(kept)),
                (None, None) => {}
            }
        }
        shorten(&mut told);
        if let (true, Some(gap)) = (self.is_whole, &now.gap) {
            told.push(format!(
                "[not everything could be searched for protected files: {gap}. Look there before you \
                 use git or an editor. Until it is gone, every command is asked about]"
            ));
        }
        told
    }
}

fn tell_moved(path: &Path) -> String {
    let path = path.display();
    format!(
        "[{path} was replaced while the command ran. What is there now was not touched; the directory \
         that was there was checked where it is now]"
    )
}

/// Leaves as many lines as a user reads.
fn shorten(told: &mut Vec<String>) {
    let more = told.len().saturating_sub(PROTECTED_LINES_MAX);
    if more > 0 {
        told.truncate(PROTECTED_LINES_MAX);
        told.push(format!("[and {more} more of that kind]"));
    }
}

/// One comparison of what is there with what there was.
struct Round<'a> {
    snapshot: &'a Snapshot,
    before: &'a BTreeMap<&'a Path, &'a KeptFile>,
    now: &'a Inventory,
}

impl Round<'_> {
    /// Looks at a file that is there now.
    fn look_at(&self, file: &FoundFile) -> Option<String> {
        let before = self.before.get(file.path.as_path());
        // The command could not change it, so another program did.
        if before.is_some_and(|kept| kept.was.is_none()) {
            return None;
        }
        let was = before.and_then(|kept| kept.was.as_ref());
        let content = self.content(file, was);
        if was == Some(&content) || self.was_moved(file, &content) {
            return None;
        }
        if self.is_harmless(file, was, &content) {
            return None;
        }
        let shown = file.path.display();
        if self.snapshot.is_program && file.role == Role::Other {
            return Some(format!(
                "[{shown} was made or changed while this ran: look at it]"
            ));
        }
        if let (Some(kept), Content::Tree(files)) = (was.and_then(Content::partly_kept), &content) {
            return self.mend(&file.path, kept, files);
        }
        let Ok(name) = self.set_aside(&file.path) else {
            return Some(tell_stuck(&file.path));
        };
        let Some(was) = was else {
            return Some(format!(
                "[{shown} is new and protected, so it is now called {name}]"
            ));
        };
        Some(match was.put(&self.snapshot.roots, &file.path) {
            Ok(()) => {
                format!("[{shown} is protected and was put back; the new one is called {name}]")
            }
            Err(_) => format!(
                "[{shown} was changed, and is now called {name}; what was there before is lost]"
            ),
        })
    }

    /// Puts a directory in order of which not all files were remembered: sets aside those that are new
    /// or changed, and puts back what is known of the old ones.
    fn mend(
        &self,
        path: &Path,
        kept: &[(PathBuf, FileContent)],
        now: &[(PathBuf, FileContent)],
    ) -> Option<String> {
        let is_same = |file: &&(PathBuf, FileContent)| kept.contains(file);
        let new = now.iter().filter(|file| !is_same(file));
        let new: Vec<&Path> = new.map(|(file, _)| file.as_path()).collect();
        let roots = &self.snapshot.roots;
        let name = match new.is_empty() {
            true => None,
            false => match aside::set_files_aside(roots, path, &new) {
                Ok(name) => Some(name),
                Err(_) => return Some(tell_stuck(path)),
            },
        };
        let is_there = |(file, _): &&(PathBuf, FileContent)| {
            let at = now.binary_search_by(|(known, _)| known.cmp(file));
            at.is_ok_and(|at| is_same(&&now[at]))
        };
        let mut lost = 0;
        for (file, content) in kept.iter().filter(|file| !is_there(file)) {
            lost += usize::from(content.put_at(roots, &path.join(file)).is_err());
        }
        let shown = path.display();
        let aside = name.map_or_else(String::new, |name| {
            format!("; its new files are now in {name}")
        });
        let lost = match lost {
            0 => String::new(),
            _ => format!("; {lost} files were too large to be kept, and are lost"),
        };
        Some(format!(
            "[{shown} is protected and was put back{aside}{lost}]"
        ))
    }

    fn content(&self, file: &FoundFile, like: Option<&Content>) -> Content {
        let mut room = PROTECTED_BYTES_MAX;
        let at = (file.path.as_path(), file.role);
        Content::at(&self.snapshot.roots, at, &mut room, like)
    }

    /// Looks for a file that is not there any more.
    fn look_for(&self, kept: &KeptFile) -> Option<String> {
        let path = &kept.file.path;
        let was = kept.was.as_ref()?;
        let moved =
            self.now.found.iter().any(|file| {
                is_same_file(&kept.file, file) && self.content(file, Some(was)) == *was
            });
        let roots = &self.snapshot.roots;
        let is_users = self.snapshot.is_program && kept.file.role == Role::Other;
        let has_parent = roots.parent(path).is_ok();
        if moved || is_users || !has_parent || kept.file.role == Role::Todo || was.is_nothing() {
            return None;
        }
        let shown = path.display();
        Some(match was.put(roots, path) {
            Ok(()) => format!("[{shown} is protected and was put back]"),
            Err(_) => format!("[{shown} was removed, and could not be put back]"),
        })
    }

    /// Whether a directory above it was renamed, and it is what it was.
    fn was_moved(&self, file: &FoundFile, content: &Content) -> bool {
        let is_it =
            |kept: &&KeptFile| kept.was.as_ref() == Some(content) && is_same_file(&kept.file, file);
        // Where such a file leads depends on where it lies.
        let is_relative = matches!(file.role, Role::GitFile | Role::CommonDir);
        !is_relative && !file.is_link && self.snapshot.files.iter().any(|kept| is_it(&kept))
    }

    /// Whether nothing is run because of what is new in it.
    fn is_harmless(&self, file: &FoundFile, was: Option<&Content>, content: &Content) -> bool {
        if file.is_link {
            return false;
        }
        let path = &file.path;
        match (file.role, content) {
            (Role::Config, Content::File(now)) => {
                self.is_harmless_config(path, was, &String::from_utf8_lossy(&now.bytes))
            }
            (Role::GitFile, Content::File(now)) => {
                let text = String::from_utf8_lossy(&now.bytes).into_owned();
                let to = text.strip_prefix("gitdir: ").map(str::trim_end);
                to.is_some_and(|to| self.leads_to_repository(path, to))
            }
            (Role::CommonDir, Content::File(now)) if was.is_none() => {
                let text = String::from_utf8_lossy(&now.bytes).into_owned();
                self.leads_to_repository(path, text.trim_end())
            }
            (Role::Hooks | Role::GitOther, Content::Tree(files)) => files.is_empty(),
            (Role::GitOther, Content::File(_)) => {
                self.snapshot.may_make_repositories && path.ends_with("objects/info/alternates")
            }
            (Role::Todo, Content::Lines(now)) => {
                let known = match was {
                    Some(Content::Lines(lines)) => lines.as_slice(),
                    _ => &[],
                };
                now.iter().all(|line| known.contains(line))
            }
            // What a repository that the user had cloned brings along.
            (Role::Other, _) => self.snapshot.may_make_repositories && self.is_in_new_tree(path),
            _ => false,
        }
    }

    fn is_harmless_config(&self, path: &Path, was: Option<&Content>, now: &str) -> bool {
        let Some(now) = git_config::parse(now) else {
            return false;
        };
        let Some(was) = was else {
            let stays = |setting: &Setting| match setting.key.as_str() {
                "core.worktree" => self.is_own_work_tree(path, &setting.value),
                _ => true,
            };
            return now
                .iter()
                .all(|setting| setting.is_harmless() && stays(setting));
        };
        // Of a repository that was there only a submodule may be added, and only if that was allowed.
        let Content::File(was) = was else {
            return false;
        };
        let Some(was) = git_config::parse(&String::from_utf8_lossy(&was.bytes)) else {
            return false;
        };
        let mut added = now.iter().filter(|setting| !was.contains(setting));
        self.snapshot.may_make_repositories
            && was.iter().all(|setting| now.contains(setting))
            && added.all(Setting::is_of_submodule)
    }

    /// Whether `to`, as the file `path` says it, is a repository that is itself looked at, or one
    /// outside, where the command can change nothing.
    fn leads_to_repository(&self, path: &Path, to: &str) -> bool {
        let Some(to) = without_links(&path.parent().unwrap_or(path).join(to)) else {
            return false;
        };
        let known = &self.snapshot.repositories;
        if self.is_beneath(&to) {
            return known.contains(&to) || self.now.repositories.contains(&to);
        }
        let is_writable = |above: &PathBuf| to.starts_with(above);
        !self.snapshot.writable.iter().any(is_writable) && to.join("HEAD").is_file()
    }

    /// Whether `value`, as the new settings `config` say it, is the work tree that belongs to them: the
    /// directory of a `.git`, or that of a submodule, which leads back. Git writes to any other one
    /// when the user checks something out where the settings are.
    fn is_own_work_tree(&self, config: &Path, value: &str) -> bool {
        let git = config.parent().unwrap_or(config);
        let Some(top) = without_links(&git.join(value)).filter(|top| self.is_beneath(top)) else {
            return false;
        };
        if git.ends_with(".git") {
            return git.parent() == Some(&top);
        }
        let is_submodule = git.iter().any(|name| name == ".git");
        let file = FoundFile {
            path: top.join(".git"),
            role: Role::GitFile,
            is_link: false,
            base: None,
        };
        let Content::File(file) = self.content(&file, None) else {
            return false;
        };
        let text = String::from_utf8_lossy(&file.bytes).into_owned();
        let to = text.strip_prefix("gitdir: ").map(str::trim_end);
        is_submodule && to.is_some_and(|to| without_links(&top.join(to)).as_deref() == Some(git))
    }

    /// Whether `path`, which has no links, lies in what is looked at.
    fn is_beneath(&self, path: &Path) -> bool {
        self.snapshot.roots.covers(path)
    }

    fn is_in_new_tree(&self, path: &Path) -> bool {
        let known = &self.snapshot.repositories;
        path.ancestors().skip(1).any(|above| {
            let git = above.join(".git");
            let was_there = known.contains(&git) || self.before.contains_key(git.as_path());
            !was_there && self.snapshot.roots.stat(&git).is_some() && self.is_beneath(above)
        })
    }

    fn set_aside(&self, path: &Path) -> io::Result<String> {
        aside::set_aside(&self.snapshot.roots, path)
    }
}

fn tell_stuck(path: &Path) -> String {
    let shown = path.display();
    format!(
        "[{shown} was changed and could not be set aside: look at it before you use git or an editor \
         there]"
    )
}

/// Whether two are the same file, although a directory above it may have another name by now.
fn is_same_file(one: &FoundFile, other: &FoundFile) -> bool {
    one.base.is_some()
        && one.base == other.base
        && one.role == other.role
        && one.path.file_name() == other.path.file_name()
}

/// `path` as it is spelled, if it leads there without a link: a link could lead elsewhere later.
fn without_links(path: &Path) -> Option<PathBuf> {
    let spelled = plain(path);
    let real = path.canonicalize().ok()?;
    (real == spelled).then_some(real)
}

#[cfg(test)]
mod tests;
