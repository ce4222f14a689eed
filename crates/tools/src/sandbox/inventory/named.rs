//! Files that git's settings name: what they include, hooks, and every word of a command that is a file.
//! The user's own settings count as well if they lie in a root, also behind a link.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::super::beneath::OpenRoots;
use super::super::git_config::{Setting, read};
use super::{FoundFile, Inventory, Role, SearchArea};

/// Settings that include others, one in the other.
const INCLUDES_MAX: usize = 10;

/// Sections whose values are names and addresses, never programs or files that are read.
const NOT_FILES: &[&str] = &["branch.", "user.", "submodule.", "extensions.", "author."];

/// Keys whose values are files that git only reads as text.
const TEXTS: &[&str] = &[
    "blame.ignorerevsfile",
    "commit.template",
    "core.excludesfile",
    "format.signaturefile",
    "mailmap.file",
];

/// Keys that hold a path, which may be a directory.
const PATHS: &[&str] = &["core.hookspath", "core.attributesfile"];

/// Links on the way to one file: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// What names the homes of users.
const USERS: &str = "/etc/passwd";

impl Inventory {
    /// Adds the files beneath the roots that settings name.
    pub(super) fn add_named(&mut self, area: &SearchArea, roots: &OpenRoots) {
        let new = |path: &Path| Source::new(path, &area.home, INCLUDES_MAX);
        let shared: Vec<Source> = area.git_settings.iter().map(|path| new(path)).collect();
        let mut named: BTreeSet<Named> = area
            .git_settings
            .iter()
            .map(|path| Named {
                path: path.clone(),
                may_be_directory: false,
            })
            .collect();
        for directory in self.repositories.clone() {
            let place = Repository::of(&directory);
            let own: Vec<Source> = place.settings.iter().map(|path| new(path)).collect();
            for source in own.iter().chain(&shared) {
                source.collect(&place.top, &area.home, &mut named);
            }
        }
        for root in &area.roots {
            // They also count where there is no repository yet.
            for source in &shared {
                source.collect(root, &area.home, &mut named);
            }
            // The repository around a root is not beneath it, but its settings can name what is.
            let above = root.ancestors().skip(1);
            let around = above.map(|above| above.join(".git"));
            for git in around.filter(|git| git.join("HEAD").exists()) {
                let place = Repository::of(&git);
                for path in &place.settings {
                    new(path).collect(&place.top, &area.home, &mut named);
                }
            }
        }
        let linked = std::mem::take(&mut self.linked).into_iter();
        named.extend(linked.map(|path| Named {
            path,
            may_be_directory: true,
        }));
        for named in named {
            self.add_if_beneath(roots, &named);
        }
    }

    fn add_if_beneath(&mut self, roots: &OpenRoots, named: &Named) {
        // Only links and the place that they lead to can be mounted and put back.
        for place in places_on_the_way(&named.path) {
            let is_root = roots.iter().any(|root| root.path == place);
            let mut repositories = self.repositories.iter();
            if is_root || repositories.any(|directory| directory.starts_with(&place)) {
                continue;
            }
            let Some(stat) = roots.stat(&place) else {
                continue;
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind != FileType::Directory || named.may_be_directory {
                self.found.push(FoundFile {
                    path: place,
                    role: Role::Named,
                    is_link: kind == FileType::Symlink,
                    base: None,
                });
            }
        }
    }
}

/// The links on the way to `path`, and where they lead in the end; nothing if nothing is there. These are
/// only names: what is there is looked at from a root that is held.
fn places_on_the_way(path: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let mut path = plain(path);
    for _ in 0..LINKS_MAX {
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        let link = above.into_iter().find_map(|part| {
            let to = std::fs::read_link(part).ok()?;
            let rest = path.strip_prefix(part).ok()?;
            Some((part.to_owned(), part.parent()?.join(to).join(rest)))
        });
        let Some((link, next)) = link else {
            break;
        };
        places.push(link);
        path = plain(&next);
    }
    match path.symlink_metadata() {
        Ok(_) => places.push(path),
        Err(_) => places.clear(),
    }
    places
}

/// A path that settings name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
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
struct Source {
    path: PathBuf,
    settings: Vec<Setting>,
    included: Vec<Source>,
}

impl Source {
    fn new(path: &Path, home: &Path, depth: usize) -> Self {
        let settings = read(path).unwrap_or_default();
        let includes = settings.iter().filter(|setting| is_include(setting));
        let included = match depth {
            0 => Vec::new(),
            _ => includes
                .map(|setting| Self::new(&beside(path, &setting.value, home), home, depth - 1))
                .collect(),
        };
        Self {
            path: path.to_owned(),
            settings,
            included,
        }
    }

    /// Adds the files that it names, for a repository whose work tree is at `top`.
    fn collect(&self, top: &Path, home: &Path, named: &mut BTreeSet<Named>) {
        for setting in &self.settings {
            let key = setting.key.as_str();
            let is_include = is_include(setting);
            let is_other = NOT_FILES.iter().any(|section| key.starts_with(section));
            if !is_include && (is_other || TEXTS.contains(&key)) {
                continue;
            }
            if is_include || PATHS.contains(&key) {
                let path = match is_include {
                    true => beside(&self.path, &setting.value, home),
                    false => plain(&top.join(expand(&setting.value, home))),
                };
                named.insert(Named {
                    path,
                    may_be_directory: !is_include,
                });
                continue;
            }
            named.extend(words(&setting.value, home).map(|word| Named {
                path: plain(&top.join(word)),
                may_be_directory: false,
            }));
        }
        for source in &self.included {
            source.collect(top, home, named);
        }
    }
}

/// The words of a value that may be files: any word of a command may be what an interpreter runs. Of a
/// word with a variable or after a substitution only the end is known.
fn words<'a>(value: &'a str, home: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let is_end = |c: char| c.is_whitespace() || ";|&()`'\"!<>=,".contains(c);
    let words = value.split(is_end).filter(|word| !word.is_empty());
    let words = words.filter(|word| !word.contains("://"));
    words.flat_map(|word| {
        let from_home = ["$HOME", "${HOME}"].iter().find_map(|name| {
            let rest = word.strip_prefix(name)?.strip_prefix('/')?;
            Some(home.join(rest))
        });
        let ending = match word.starts_with(['/', '$']) {
            true => word.split_once('/').map(|(_, rest)| PathBuf::from(rest)),
            false => None,
        };
        let plain = Some(expand(word, home));
        [plain, from_home, ending].into_iter().flatten()
    })
}

/// `value` with the home that it begins with, `~` or `~user`.
fn expand(value: &str, home: &Path) -> PathBuf {
    let Some(rest) = value.strip_prefix('~') else {
        return PathBuf::from(value);
    };
    let (user, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let home = match user {
        "" => Some(home.to_owned()),
        _ => home_of(user),
    };
    home.map_or_else(|| PathBuf::from(value), |home| home.join(rest))
}

/// The home of another user.
fn home_of(user: &str) -> Option<PathBuf> {
    let users = std::fs::read_to_string(USERS).ok()?;
    let home = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(4))?
    });
    home.map(PathBuf::from)
}

fn is_include(setting: &Setting) -> bool {
    let key = setting.key.as_str();
    key == "include.path" || key.starts_with("includeif.") && key.ends_with(".path")
}

fn beside(file: &Path, value: &str, home: &Path) -> PathBuf {
    plain(&file.parent().unwrap_or(file).join(expand(value, home)))
}

/// `path` without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    super::super::places::plain(path)
}
