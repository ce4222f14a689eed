//! Which directories around a session count.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::limits::PROJECT_LEVELS_MAX;
use tools::roots::{Root, Roots};
use tools::stamps::Stamps;

use super::Place;

/// Names of files with instructions.
const INSTRUCTION_NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// The directories from the repository's root to the session's own, and what may be read there.
pub(super) struct Terrain {
    /// The root first.
    pub(super) levels: Vec<PathBuf>,
    pub(super) roots: Arc<Roots>,
}

impl Terrain {
    /// Finds the repository that the session is in; without one, its directory is all there is.
    pub(super) fn of(place: &Place, stamps: &mut Stamps) -> Self {
        if place.cwd.verify().is_err() {
            // Another directory's settings and instructions are not this session's.
            return Self {
                levels: Vec::new(),
                roots: Arc::new(Roots::of(place.cwd.clone(), [], place.hidden.clone())),
            };
        }
        // Without links, so that what is above is what contains it.
        let cwd = place.cwd.real().to_owned();
        let mut levels = vec![cwd.clone()];
        if place.is_local {
            let root = repository(&cwd, stamps);
            let above = cwd.ancestors().skip(1);
            let root = root.filter(|root| *root != cwd);
            if let Some(root) = root {
                levels.extend(
                    above
                        .take_while(|level| level.starts_with(&root))
                        .map(Path::to_owned),
                );
            }
        }
        levels.reverse();
        let root = match &*levels {
            // Above it, no link may have come in between.
            [top, _, ..] => Root::find_again(top, top),
            _ => place.cwd.clone().at_real(),
        };
        let roots = Roots::of(root, [], place.hidden.clone());
        Self {
            levels,
            roots: Arc::new(roots),
        }
    }

    /// Files that may hold instructions, the most general first.
    pub(super) fn instruction_files(&self, place: &Place) -> Vec<(PathBuf, Arc<Roots>)> {
        let mut files = Vec::new();
        let config = place
            .operator
            .config_dir
            .as_ref()
            .filter(|_| place.is_local);
        if let Some(config) = config {
            let roots = self.own_roots(place, config);
            files.push((config.join("AGENTS.md"), roots));
        }
        for level in &self.levels {
            for name in INSTRUCTION_NAMES {
                files.push((level.join(name), Arc::clone(&self.roots)));
            }
        }
        files
    }

    /// Directories that may hold skills and commands, the one that counts most first.
    pub(super) fn library_directories(&self, place: &Place) -> Vec<(PathBuf, Arc<Roots>)> {
        let levels = self.levels.iter().rev();
        let mut directories: Vec<_> = levels
            .map(|level| (level.clone(), Arc::clone(&self.roots)))
            .collect();
        let home = place.operator.home.as_ref().filter(|_| place.is_local);
        if let Some(home) = home.filter(|home| !self.levels.contains(home)) {
            directories.push((home.clone(), self.own_roots(place, home)));
        }
        directories
    }

    /// What may be read of the person's own: links may lead anywhere in their home.
    fn own_roots(&self, place: &Place, directory: &Path) -> Arc<Roots> {
        let home = place.operator.home.as_ref();
        let home = home.filter(|home| directory.starts_with(home));
        let root = home.map_or(directory, PathBuf::as_path);
        Arc::new(Roots::new(
            root.to_owned(),
            Vec::new(),
            place.hidden.clone(),
        ))
    }
}

/// The nearest directory from `cwd` upward that is a repository, as long as they all belong to the
/// same user: what somebody else has put above a directory says nothing about it.
fn repository(cwd: &Path, stamps: &mut Stamps) -> Option<PathBuf> {
    let owner = cwd.metadata().ok()?.uid();
    for level in cwd.ancestors().take(PROJECT_LEVELS_MAX) {
        if level.metadata().ok()?.uid() != owner {
            return None;
        }
        let mark = level.join(".git");
        let is_there = mark.symlink_metadata().is_ok();
        stamps.note(mark);
        if is_there {
            return Some(level.to_owned());
        }
    }
    None
}
