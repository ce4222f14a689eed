//! The files that a language server works on, as they were when it was last told: whatever changed
//! since, by a tool, a command or a person, it is told before it is asked again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use domain::limits::{LSP_CHANGES_MAX, LSP_WATCHED_FILES_MAX};
use serde_json::{Value, json};

use crate::builtin::search::{self, Next, Reach};
use crate::roots::Roots;

/// What the protocol calls each way to change.
const CREATED: u8 = 1;
const CHANGED: u8 = 2;
const DELETED: u8 = 3;

/// What is known of the files beneath a directory.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: HashMap<PathBuf, Stamp>,
    /// There were more than are looked at.
    is_part: bool,
}

/// How a file is told from what it was.
type Stamp = (Option<SystemTime>, u64);

impl Disk {
    /// The files beneath `root` now, without what is ignored.
    pub(super) async fn look(roots: &Arc<Roots>, root: &Path) -> Self {
        let (roots, root) = (Arc::clone(roots), root.to_owned());
        // Looking at the disk blocks.
        let looked = tokio::task::spawn_blocking(move || Self::read(&roots, &root));
        looked.await.unwrap_or_default()
    }

    fn read(roots: &Roots, root: &Path) -> Self {
        let Some(start) = root.to_str().and_then(|root| roots.search(root).ok()) else {
            return Self::default();
        };
        let files = Mutex::new(HashMap::new());
        let reach = search::walk(&start, &start.watch(), false, || {
            |rest: &Path| {
                let path = start.real().join(rest);
                let Ok(found) = path.symlink_metadata() else {
                    return Next::GoOn;
                };
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                if files.len() >= LSP_WATCHED_FILES_MAX {
                    return Next::Stop;
                }
                files.insert(path, (found.modified().ok(), found.len()));
                Next::GoOn
            }
        });
        Self {
            files: files.into_inner().unwrap_or_else(PoisonError::into_inner),
            is_part: reach == Reach::Part,
        }
    }

    /// What the protocol calls the changes from `self` to `now`; `None` if there are none. Where only
    /// a part was looked at, what is in one of them alone may have been there all the time.
    pub(super) fn changes_to(&self, now: &Self) -> Option<Value> {
        let is_whole = !self.is_part && !now.is_part;
        let newer = now
            .files
            .iter()
            .filter_map(|(path, stamp)| match self.files.get(path) {
                Some(known) if known == stamp => None,
                Some(_) => Some((path, CHANGED)),
                None => is_whole.then_some((path, CREATED)),
            });
        let gone = self
            .files
            .keys()
            .filter(|path| !now.files.contains_key(*path));
        let gone = gone.filter(|_| is_whole).map(|path| (path, DELETED));
        let changes = newer.chain(gone).filter_map(|(path, how)| {
            let uri = super::server::uri(path)?;
            Some(json!({"uri": uri, "type": how}))
        });
        let changes: Vec<Value> = changes.take(LSP_CHANGES_MAX).collect();
        (!changes.is_empty()).then(|| json!({ "changes": changes }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Disk;
    use crate::roots::Roots;

    #[tokio::test]
    async fn what_was_made_changed_and_deleted_is_told_and_what_is_ignored_is_not() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let roots = Arc::new(Roots::new(root.clone(), Vec::new(), Vec::new()));
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        write(".gitignore", "*.log\n");
        for name in ["kept.py", "changed.py", "gone.py", "a.log"] {
            write(name, "x");
        }
        let before = Disk::look(&roots, &root).await;
        assert_eq!(before.changes_to(&Disk::look(&roots, &root).await), None);
        write("changed.py", "longer");
        write("made.py", "x");
        write("a.log", "longer");
        std::fs::remove_file(root.join("gone.py")).unwrap();
        let now = Disk::look(&roots, &root).await;
        let told = before.changes_to(&now).unwrap();
        let changes = told["changes"].as_array().unwrap().iter();
        let mut changes: Vec<(String, u64)> = changes
            .map(|change| {
                let name = change["uri"].as_str().unwrap().rsplit('/').next().unwrap();
                (name.to_owned(), change["type"].as_u64().unwrap())
            })
            .collect();
        changes.sort();
        let expected = [("changed.py", 2), ("gone.py", 3), ("made.py", 1)];
        assert_eq!(changes, expected.map(|(name, how)| (name.to_owned(), how)));
        let part = Disk {
            is_part: true,
            ..now
        };
        let told = before.changes_to(&part).unwrap();
        assert_eq!(told["changes"].as_array().unwrap().len(), 1, "{told}");
    }
}
