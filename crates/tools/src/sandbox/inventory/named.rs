//! Files that git's settings name: what they include, hooks and programs in a work tree.

use std::path::{Path, PathBuf};

use super::super::git_config::{Setting, read};
use super::{Inventory, Role, SearchArea};

/// Settings that include others, one in the other.
const INCLUDES_MAX: usize = 10;

/// Sections whose values are names and addresses, never programs or files that are read.
const NOT_FILES: &[&str] = &["branch.", "user.", "submodule.", "extensions.", "author."];

/// Keys that hold a path although they need no slash in it.
const PATHS: &[&str] = &["core.hookspath", "core.attributesfile"];

impl Inventory {
    /// Adds the files beneath the roots that settings name.
    pub(super) fn add_named(&mut self, area: &SearchArea) {
        let shared: Vec<Source> = area
            .git_settings
            .iter()
            .map(|path| Source::new(path, None))
            .collect();
        let mut named = Vec::new();
        for directory in self.repositories.clone() {
            let place = Repository::of(&directory);
            let own = place.settings.iter().map(|path| Source::new(path, None));
            for source in own.chain(shared.iter().cloned()) {
                source.collect(&place.top, &mut named);
            }
        }
        // The repository around a root is not beneath it, but its settings can name what is.
        for root in &area.roots {
            let above = root.ancestors().skip(1);
            let around = above.map(|above| above.join(".git"));
            for git in around.filter(|git| git.join("HEAD").exists()) {
                let place = Repository::of(&git);
                for path in &place.settings {
                    Source::new(path, None).collect(&place.top, &mut named);
                }
            }
        }
        named.extend(
            std::mem::take(&mut self.linked)
                .into_iter()
                .map(|path| Named {
                    path,
                    may_be_directory: true,
                }),
        );
        for named in named {
            self.add_if_beneath(area, &named);
        }
    }

    fn add_if_beneath(&mut self, area: &SearchArea, named: &Named) {
        let real = named.path.canonicalize();
        // Behind a link only the place that it leads to can be mounted and put back.
        let link = named.path.is_symlink().then(|| named.path.clone());
        let places = [link, real.ok()];
        for place in places.into_iter().flatten() {
            let is_beneath = |root: &PathBuf| place.starts_with(root) && place != *root;
            let is_repository = self
                .repositories
                .iter()
                .any(|directory| directory.starts_with(&place));
            if !area.roots.iter().any(is_beneath) || is_repository {
                continue;
            }
            let metadata = place.symlink_metadata().ok();
            let metadata = metadata.filter(|found| !found.is_dir() || named.may_be_directory);
            if let Some(metadata) = metadata {
                self.add(place, Role::Named, metadata.is_symlink());
            }
        }
    }
}

/// A path that settings name.
struct Named {
    path: PathBuf,
    /// Whether a directory with all that is in it is meant.
    may_be_directory: bool,
}

/// Where a repository's settings and its work tree are.
struct Repository {
    settings: Vec<PathBuf>,
    top: PathBuf,
}

impl Repository {
    fn of(directory: &Path) -> Self {
        let line = |name: &str| {
            let text = std::fs::read_to_string(directory.join(name)).ok()?;
            Some(directory.join(text.trim_end_matches(['\n', '\r'])))
        };
        let common = line("commondir").unwrap_or_else(|| directory.to_owned());
        let settings = vec![common.join("config"), directory.join("config.worktree")];
        let is_git = directory.file_name().is_some_and(|name| name == ".git");
        let written = || {
            let found = read(&directory.join("config"))?;
            let found = found
                .iter()
                .rev()
                .find(|setting| setting.key == "core.worktree")?;
            Some(directory.join(&found.value))
        };
        // A work tree's `gitdir` names its `.git`.
        let top = match (line("gitdir"), is_git) {
            (Some(git), _) => git.parent().map(Path::to_owned),
            (None, true) => directory.parent().map(Path::to_owned),
            (None, false) => written(),
        };
        Self {
            settings,
            top: top.unwrap_or_else(|| directory.to_owned()),
        }
    }
}

/// A file with settings, and what is in it.
#[derive(Clone)]
struct Source {
    path: PathBuf,
    settings: Vec<Setting>,
    included: Vec<Source>,
}

impl Source {
    fn new(path: &Path, depth: Option<usize>) -> Self {
        let depth = depth.unwrap_or(INCLUDES_MAX);
        let settings = read(path).unwrap_or_default();
        let includes = settings.iter().filter(|setting| is_include(setting));
        let included = match depth {
            0 => Vec::new(),
            _ => includes
                .map(|setting| Self::new(&beside(path, &setting.value), Some(depth - 1)))
                .collect(),
        };
        Self {
            path: path.to_owned(),
            settings,
            included,
        }
    }

    /// Adds the files that it names, for a repository whose work tree is at `top`.
    fn collect(&self, top: &Path, named: &mut Vec<Named>) {
        for setting in &self.settings {
            if is_include(setting) {
                named.push(Named {
                    path: beside(&self.path, &setting.value),
                    may_be_directory: false,
                });
                continue;
            }
            let key = setting.key.as_str();
            if NOT_FILES.iter().any(|section| key.starts_with(section)) {
                continue;
            }
            if PATHS.contains(&key) {
                named.push(Named {
                    path: plain(&top.join(&setting.value)),
                    may_be_directory: true,
                });
                continue;
            }
            named.extend(programs(&setting.value).map(|word| Named {
                path: plain(&top.join(word)),
                may_be_directory: false,
            }));
        }
        for source in &self.included {
            source.collect(top, named);
        }
    }
}

/// The programs that a value may name: the first two words of each command in it, for the first may
/// be an interpreter. One without a slash is looked for in `PATH`, not in the work tree.
fn programs(value: &str) -> impl Iterator<Item = &str> {
    let commands = value.split([';', '|', '&', '\n', '(', ')', '`']);
    let words = commands.flat_map(|command| {
        let words = command.split([' ', '\t', '\'', '"', '!']);
        words.filter(|word| !word.is_empty()).take(2)
    });
    words.filter(|word| word.contains('/') && !word.contains("://"))
}

fn is_include(setting: &Setting) -> bool {
    let key = setting.key.as_str();
    key == "include.path" || key.starts_with("includeif.") && key.ends_with(".path")
}

fn beside(file: &Path, value: &str) -> PathBuf {
    plain(&file.parent().unwrap_or(file).join(value))
}

/// `path` without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    super::super::places::plain(path)
}
