//! What must not change in a repository: what its owner's own git would run.

use std::path::Path;

use super::super::cage::{Places, Shown};
use super::super::home::names_in;

/// Submodules that are looked at.
const MODULES_MAX: usize = 64;

/// Has the repository at `root`, if there is one, keep its settings and hooks.
pub(super) fn protect(root: &Path, places: &mut Places) {
    let git = root.join(".git");
    let Ok(metadata) = git.symlink_metadata() else {
        return;
    };
    if !metadata.is_dir() {
        // A file that names a repository, or a link: another one could be put in its place.
        if metadata.is_file() {
            places.keep.push(git);
        }
        return;
    }
    // Where something is mounted, nothing else can be put.
    let real = git.canonicalize().unwrap_or_else(|_| git.clone());
    places.change.push(Shown {
        at: git.clone(),
        real,
    });
    keep(&git, places);
    for module in names_in(&git.join("modules")).iter().take(MODULES_MAX) {
        keep(module, places);
    }
}

fn keep(git: &Path, places: &mut Places) {
    for name in ["config", "config.worktree", "hooks"] {
        let path = git.join(name);
        match path.symlink_metadata() {
            // A link could be replaced, as could what it leads to: nothing here may change then.
            Ok(metadata) if metadata.is_symlink() => places.keep.push(git.to_owned()),
            Ok(_) => places.keep.push(path),
            Err(_) if name == "hooks" && git.join("HEAD").exists() => places.keep_out.push(path),
            Err(_) => {}
        }
    }
}
