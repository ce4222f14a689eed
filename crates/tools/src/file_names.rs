//! Names of files for what somebody has typed of one: what completing `@file` needs.
//!
//! [`offer`] walks the session's roots as `glob` does, with the same ignore files and the same
//! things unseen, for as long as somebody waits, and keeps only the best of what it finds.

use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use domain::limits::{FILE_NAMES_TIME_MAX, FILES_LOOKED_AT_MAX};

use crate::builtin::search::{self, Next};
use crate::roots::{Roots, StopFlag};

/// The files beneath `roots` that best answer to `typed`, the best first, at most `count_max`.
/// Those in the working directory are told from there, others by their whole path.
///
/// Ends early with what it has when time is up; when nobody waits any more it stops.
pub async fn offer(roots: Roots, typed: String, count_max: usize) -> Vec<String> {
    // Dropped with this future, which tells the thread that nobody waits for it.
    let (stop, stopped) = StopFlag::new();
    let roots = roots.stopped_by(stopped);
    let finding = tokio::task::spawn_blocking(move || find(&roots, &typed, count_max));
    let found = finding.await.unwrap_or_default();
    drop(stop);
    found
}

fn find(roots: &Roots, typed: &str, count_max: usize) -> Vec<String> {
    let typed = Typed::new(typed);
    let best = Best::new(count_max);
    let looked_at = AtomicUsize::new(0);
    let mut watch = None;
    for (number, directory) in roots.directories().enumerate() {
        let start = directory.to_string_lossy();
        let Ok(root) = roots.search(&start) else {
            continue;
        };
        let watch = &*watch.get_or_insert_with(|| root.watch_for(FILE_NAMES_TIME_MAX));
        search::walk(&root, watch, typed.names_hidden, || {
            |rest: &Path| {
                if looked_at.fetch_add(1, Ordering::Relaxed) >= FILES_LOOKED_AT_MAX {
                    return Next::Stop;
                }
                // A name that is no text could not be sent back as it is.
                let Some(rest) = rest.to_str() else {
                    return Next::GoOn;
                };
                if let Some(rank) = typed.rank(rest) {
                    best.put(Found::new(rank, number, rest));
                }
                Next::GoOn
            }
        });
    }
    let found = best.sorted().into_iter();
    let there = found.filter_map(|found| {
        let directory = roots.directories().nth(found.root)?.to_string_lossy();
        let path = match found.root {
            0 => found.rest,
            _ => search::shown(&directory, Path::new(&found.rest)),
        };
        // What became a link since it was found, or lies hidden, is not told of.
        roots.open_file(&path).is_ok().then_some(path)
    });
    there.collect()
}

/// What somebody has typed, in lower case.
struct Typed {
    text: String,
    /// It names something hidden.
    names_hidden: bool,
}

/// How well a file answers: less is better.
type Rank = u8;

impl Typed {
    fn new(typed: &str) -> Self {
        let text = typed.trim().trim_start_matches("./").to_lowercase();
        let names_hidden = text.split('/').any(|part| part.starts_with('.'));
        Self { text, names_hidden }
    }

    /// How well the file at `rest` answers, if it does at all: by its name before its directories,
    /// as typed before with gaps.
    fn rank(&self, rest: &str) -> Option<Rank> {
        if self.text.is_empty() {
            return Some(0);
        }
        let (path, text) = (rest.to_lowercase(), self.text.as_str());
        let name = path.rsplit('/').next().unwrap_or_default();
        let tries = [
            name == text || path == text,
            name.starts_with(text) || path.starts_with(text),
            name.contains(text),
            path.contains(text),
            has_in_order(name, text),
            has_in_order(&path, text),
        ];
        let first = tries.iter().position(|answers| *answers)?;
        Rank::try_from(first).ok()
    }
}

/// Whether the letters of `typed` stand in `text` in this order, perhaps with others between.
fn has_in_order(text: &str, typed: &str) -> bool {
    let mut letters = text.chars();
    let mut typed = typed.chars();
    typed.all(|wanted| letters.any(|letter| letter == wanted))
}

/// A file that answers. The order is that of the list.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    rank: Rank,
    depth: usize,
    root: usize,
    rest: String,
}

impl Found {
    fn new(rank: Rank, root: usize, rest: &str) -> Self {
        let rest = rest.to_owned();
        let depth = rest.matches('/').count();
        Self {
            rank,
            depth,
            root,
            rest,
        }
    }

    fn key(&self) -> (Rank, usize, usize, usize) {
        (self.rank, self.depth, self.rest.len(), self.root)
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> Order {
        let by_key = self.key().cmp(&other.key());
        by_key.then_with(|| self.rest.cmp(&other.rest))
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

/// The best so far, from all threads; the worst of them on top.
struct Best {
    kept: Mutex<BinaryHeap<Found>>,
    count_max: usize,
}

impl Best {
    fn new(count_max: usize) -> Self {
        let kept = Mutex::default();
        Self { kept, count_max }
    }

    fn put(&self, found: Found) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < self.count_max {
            kept.push(found);
        } else if let Some(mut worst) = kept.peek_mut()
            && found < *worst
        {
            *worst = found;
        }
    }

    fn sorted(self) -> Vec<Found> {
        let kept = self.kept.into_inner();
        kept.unwrap_or_else(PoisonError::into_inner)
            .into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{Typed, find};
    use crate::roots::Roots;

    fn tree(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        (directory, root)
    }

    fn offered(root: &Path, typed: &str) -> Vec<String> {
        let roots = Roots::new(root.to_owned(), Vec::new(), vec![root.join("data")]);
        find(&roots, typed, 10)
    }

    #[test]
    fn the_name_counts_before_its_directories_and_whole_before_gaps() {
        let ranks = [
            "main.rs",
            "main.rs.bak",
            "old-main.rs",
            "main.rs/x",
            "m.a.i.n.rrs",
            "main-rs",
        ];
        let typed = Typed::new("Main.rs");
        let given: Vec<_> = ranks.iter().map(|path| typed.rank(path)).collect();
        assert_eq!(given, [Some(0), Some(1), Some(2), Some(1), Some(4), None]);
        let typed = Typed::new("smr");
        assert_eq!(typed.rank("src/main.rs"), Some(5));
        assert_eq!(typed.rank("smear.txt"), Some(4));
        assert_eq!(typed.rank("rms"), None);
    }

    #[test]
    fn files_are_offered_best_first_without_what_is_ignored_hidden_or_data() {
        let (_directory, root) = tree(&[
            ".git/HEAD",
            ".gitignore",
            ".env",
            "src/main.rs",
            "src/deep/main.rs",
            "docs/maintenance.md",
            "target/main.rs",
            "data/main.rs",
        ]);
        fs::write(root.join(".gitignore"), "target/\n").unwrap();
        assert_eq!(
            offered(&root, "main"),
            ["src/main.rs", "docs/maintenance.md", "src/deep/main.rs"]
                .map(str::to_owned)
                .to_vec()
        );
        assert_eq!(offered(&root, "sdm"), ["src/deep/main.rs"]);
        assert_eq!(offered(&root, "head"), Vec::<String>::new());
        assert_eq!(offered(&root, ".en"), [".env"]);
        assert_eq!(offered(&root, "").len(), 3);
        assert_eq!(offered(&root, "../"), Vec::<String>::new());
    }

    #[test]
    fn a_link_out_of_the_roots_leads_nowhere_and_other_roots_are_told_whole() {
        let (_outside, outside) = tree(&["secret.txt"]);
        let (_directory, root) = tree(&["a/plain.txt"]);
        let (_second, second) = tree(&["b/plain.txt"]);
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("secret.txt"), root.join("secret.txt")).unwrap();
        assert_eq!(offered(&root, "secret"), Vec::<String>::new());
        let roots = Roots::new(root, vec![second.clone()], Vec::new());
        let other = second.join("b/plain.txt").to_string_lossy().into_owned();
        assert_eq!(find(&roots, "plain", 10), ["a/plain.txt".to_owned(), other]);
        assert_eq!(find(&roots, "plain", 1), ["a/plain.txt"]);
    }
}
