//! What can be known of a directory at a glance.

use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Bytes read of a file of git's: a name and a little around it.
const GIT_FILE_BYTES_MAX: u64 = 1024;

/// Longest name of a branch that is told.
const BRANCH_BYTES_MAX: usize = 200;

/// The branch that is checked out in the repository around `cwd`, if there is one.
///
/// Blocks: it looks at a few files.
#[must_use]
pub fn branch(cwd: &Path) -> Option<String> {
    let at = cwd.ancestors().map(|above| above.join(".git"));
    let git = at.into_iter().find(|git| git.exists())?;
    let directory = match git.is_dir() {
        true => git,
        // A worktree's file says where its directory is.
        false => {
            let said = read(&git)?;
            let named = PathBuf::from(said.strip_prefix("gitdir:")?.trim());
            git.parent()?.join(named)
        }
    };
    let head = read(&directory.join("HEAD"))?;
    let name = head.trim().strip_prefix("ref: refs/heads/")?;
    let is_plain = name.len() <= BRANCH_BYTES_MAX && !name.contains(char::is_control);
    is_plain.then(|| name.to_owned())
}

/// A short regular file; anything else could keep whoever reads it waiting.
fn read(path: &Path) -> Option<String> {
    if !std::fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(GIT_FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::branch;

    #[test]
    fn the_branch_is_found_from_beneath_and_from_a_worktree() {
        let place = tempfile::tempdir().unwrap();
        let below = place.path().join("src/deep");
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(branch(&below), None);
        let git = place.path().join(".git");
        std::fs::create_dir_all(git.join("worktrees/w")).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        assert_eq!(branch(&below).as_deref(), Some("feature/x"));
        std::fs::write(git.join("worktrees/w/HEAD"), "ref: refs/heads/w\n").unwrap();
        let tree = place.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join(".git"), "gitdir: ../.git/worktrees/w\n").unwrap();
        assert_eq!(branch(&tree).as_deref(), Some("w"));
        std::fs::write(git.join("HEAD"), "0123456789abcdef\n").unwrap();
        assert_eq!(branch(&below), None, "no branch is checked out");
    }
}
