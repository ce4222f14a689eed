//! Protected files in what a command may change: each is mounted read-only, and every directory on the
//! way to it is a mount, for a mount cannot be renamed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use domain::limits::PROTECTED_FILES_MAX;

use super::super::cage::Shown;
use super::super::inventory::{FoundFile, Inventory, Role, SearchArea};
use super::{Finder, shown};

/// Git's settings for the user.
const USER_SETTINGS: &[&str] = &[".gitconfig", ".config/git/config"];

/// Git's settings for the machine.
const SYSTEM_SETTINGS: &str = "/etc/gitconfig";

impl Finder {
    /// Looks for protected files in all that can be changed so far, and has them kept.
    pub(super) fn protect(&mut self, makes_repositories: bool, git_settings: &[PathBuf]) {
        let roots = self.places.change.clone();
        let mut area = SearchArea {
            roots: roots.iter().map(|root| root.real.clone()).collect(),
            git_settings: vec![SYSTEM_SETTINGS.into()],
            home: self.home.clone().unwrap_or_default(),
            hidden: self.hidden.clone(),
            ..SearchArea::default()
        };
        area.roots.sort();
        area.roots.dedup();
        area.identify();
        let home = self.home.iter();
        area.git_settings
            .extend(home.flat_map(|home| USER_SETTINGS.iter().map(|name| home.join(name))));
        area.git_settings.extend(git_settings.iter().cloned());
        let inventory = Inventory::of(&area);
        let is_kept = |file: &&FoundFile| match file.role {
            Role::Todo => false,
            // Git adds a submodule to the settings of the repository. They are looked at afterwards.
            Role::Config if makes_repositories => false,
            Role::GitFile
            | Role::Config
            | Role::CommonDir
            | Role::Hooks
            | Role::GitOther
            | Role::Named
            | Role::Other => !file.is_link,
        };
        let kept = inventory.found.iter().filter(is_kept);
        let mut kept: Vec<&Path> = kept.map(|file| file.path.as_path()).collect();
        // Those that git and editors see first come first.
        kept.sort_by_key(|path| path.components().count());
        kept.truncate(PROTECTED_FILES_MAX);
        let mut on_the_way = BTreeSet::new();
        for root in &roots {
            for path in &kept {
                let Ok(rest) = path.strip_prefix(&root.real) else {
                    continue;
                };
                self.places.keep.push(root.at.join(rest));
                add_above(root, rest, &mut on_the_way);
            }
            for path in inventory.repositories.iter().take(PROTECTED_FILES_MAX) {
                let Ok(rest) = path.strip_prefix(&root.real) else {
                    continue;
                };
                add_above(root, &rest.join("x"), &mut on_the_way);
                if has_room_for_hooks(path) {
                    self.places.keep_out.push(root.at.join(rest).join("hooks"));
                }
            }
        }
        self.places.hold.extend(on_the_way);
        self.places.protected = inventory.found;
        self.places.repositories = inventory.repositories.into_iter().collect();
        self.places.area = area;
        self.places.is_searched = inventory.is_whole;
    }

    /// Holds the directories on the way from `roots` to what is hidden in them.
    pub(super) fn hold_hidden(&mut self, roots: &[Shown]) {
        let mut on_the_way = BTreeSet::new();
        let places = &self.places;
        for path in places.hide.iter().chain(&places.hide_files) {
            for root in roots {
                if let Ok(rest) = path.strip_prefix(&root.at) {
                    add_above(root, rest, &mut on_the_way);
                }
            }
        }
        let is_held = |shown: &Shown| places.hold.contains(shown);
        let new: Vec<Shown> = on_the_way.into_iter().filter(|one| !is_held(one)).collect();
        self.places.hold.extend(new);
    }
}

/// Adds the directories between `root` and `rest` in it.
fn add_above(root: &Shown, rest: &Path, on_the_way: &mut BTreeSet<Shown>) {
    let above = rest.ancestors().skip(1);
    for part in above.filter(|part| !part.as_os_str().is_empty()) {
        on_the_way.insert(shown(&root.at.join(part), &root.real.join(part)));
    }
}

/// Whether git would run hooks in `directory` that are not there yet.
fn has_room_for_hooks(directory: &Path) -> bool {
    let is_there = |name: &str| directory.join(name).symlink_metadata().is_ok();
    is_there("HEAD") && !is_there("commondir") && !is_there("hooks")
}
