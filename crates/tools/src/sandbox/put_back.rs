//! Looks at protected files when a command has ended, and undoes what it did to them.
//!
//! With bubblewrap those that exist are mounted read-only, so this is about new ones. Landlock grants
//! whole directories, so with Landlock alone it is about all. A new or changed file is renamed to
//! `NAME.set-aside-…`, never deleted, and a changed file is put back. What git itself makes (a
//! repository without hooks and with plain settings) stays.
//!
//! By then nothing of the command runs any more. [`journal`](super::journal) keeps the snapshot on disk,
//! for the case that this process is killed first.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::limits::PROTECTED_BYTES_MAX;
use serde::{Deserialize, Serialize};

use super::aside::{self, Content};
use super::cage::{Cage, Layer};
use super::git_config::{self, Setting};
use super::inventory::{FoundFile, Inventory, Role, SearchArea};

/// What there was before a command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Snapshot {
    area: SearchArea,
    repositories: Vec<PathBuf>,
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
    pub(super) fn of(cage: &Cage, is_program: bool) -> Self {
        let places = &cage.places;
        let mut room = PROTECTED_BYTES_MAX;
        let is_mounted = |file: &FoundFile| match cage.layer {
            Layer::Bubblewrap { .. } => {
                places.keep.contains(&file.path) && !aside::has_other_names(&file.path)
            }
            Layer::Landlock => false,
        };
        let kept = places.protected.iter().map(|file| KeptFile {
            was: (!is_mounted(file)).then(|| Content::at(&file.path, file.role, &mut room)),
            file: file.clone(),
        });
        Self {
            files: kept.collect(),
            area: places.area.clone(),
            repositories: places.repositories.clone(),
            may_make_repositories: cage.may_make_repositories,
            is_whole: places.is_searched,
            is_program,
        }
    }

    /// The directories that it is about.
    pub(super) fn into_roots(self) -> Vec<PathBuf> {
        self.area.roots
    }

    /// Undoes what the command did. Gives what the user should know, a line each. After a crash only
    /// what is not newer than `until` counts: the user may have worked since.
    pub(super) fn settle(&self, until: Option<SystemTime>) -> Vec<String> {
        let now = Inventory::of(&self.area);
        let before: BTreeMap<&Path, &KeptFile> = self
            .files
            .iter()
            .map(|kept| (kept.file.path.as_path(), kept))
            .collect();
        let mut told = Vec::new();
        let round = Round {
            snapshot: self,
            before: &before,
            now: &now,
        };
        for file in &now.found {
            let is_newer = until.is_some_and(|until| aside::is_newer(&file.path, until));
            if !is_newer {
                told.extend(round.look_at(file));
            }
        }
        // After a crash the user may have removed them.
        for kept in self.files.iter().filter(|_| until.is_none()) {
            if now.at(&kept.file.path).is_none() {
                told.extend(round.look_for(kept));
            }
        }
        if self.is_whole && !now.is_whole {
            told.push(
                "[there are too many directories to find every git repository in them: look before \
                 you use git in a new one]"
                    .to_owned(),
            );
        }
        told
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
        let mut room = PROTECTED_BYTES_MAX;
        let content = Content::at(&file.path, file.role, &mut room);
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
        let Ok(name) = self.set_aside(&file.path) else {
            return Some(format!(
                "[{shown} was changed and could not be set aside: look at it before you use git or \
                 an editor there]"
            ));
        };
        let Some(was) = was else {
            return Some(format!(
                "[{shown} is new and protected, so it is now called {name}]"
            ));
        };
        Some(match was.put(&self.snapshot.area.roots, &file.path) {
            Ok(()) => {
                format!("[{shown} is protected and was put back; the new one is called {name}]")
            }
            Err(_) => format!(
                "[{shown} was changed, and is now called {name}; what was there before is lost]"
            ),
        })
    }

    /// Looks for a file that is not there any more.
    fn look_for(&self, kept: &KeptFile) -> Option<String> {
        let path = &kept.file.path;
        let was = kept.was.as_ref()?;
        let moved = self.now.found.iter().any(|file| {
            let mut room = PROTECTED_BYTES_MAX;
            file.path.file_name() == path.file_name()
                && Content::at(&file.path, file.role, &mut room) == *was
        });
        let has_parent = path.parent().is_some_and(Path::is_dir);
        let is_users = self.snapshot.is_program && kept.file.role == Role::Other;
        if moved || is_users || !has_parent || kept.file.role == Role::Todo || was.is_nothing() {
            return None;
        }
        let shown = path.display();
        Some(match was.put(&self.snapshot.area.roots, path) {
            Ok(()) => format!("[{shown} is protected and was put back]"),
            Err(_) => format!("[{shown} was removed, and could not be put back]"),
        })
    }

    /// Whether the same thing was elsewhere before: a directory above it was renamed.
    fn was_moved(&self, file: &FoundFile, content: &Content) -> bool {
        let is_it = |kept: &&KeptFile| {
            kept.was.as_ref() == Some(content)
                && kept.file.role == file.role
                && kept.file.path.file_name() == file.path.file_name()
        };
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
                "core.worktree" => self.is_beneath(&path.with_file_name(&setting.value)),
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
        let to = path.parent().unwrap_or(path).join(to);
        let Ok(to) = to.canonicalize() else {
            return false;
        };
        let known = &self.snapshot.repositories;
        match self.is_beneath(&to) {
            true => known.contains(&to) || self.now.repositories.contains(&to),
            false => to.join("HEAD").is_file(),
        }
    }

    fn is_beneath(&self, path: &Path) -> bool {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let roots = &self.snapshot.area.roots;
        roots.iter().any(|root| path.starts_with(root))
    }

    fn is_in_new_tree(&self, path: &Path) -> bool {
        let known = &self.snapshot.repositories;
        path.ancestors().skip(1).any(|above| {
            let git = above.join(".git");
            let was_there = known.contains(&git) || self.before.contains_key(git.as_path());
            !was_there && git.symlink_metadata().is_ok() && self.is_beneath(above)
        })
    }

    fn set_aside(&self, path: &Path) -> io::Result<String> {
        aside::set_aside(&self.snapshot.area.roots, path)
    }
}

#[cfg(test)]
mod tests;
