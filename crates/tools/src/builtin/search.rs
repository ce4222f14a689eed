//! What `glob` and `grep` have in common: walking a tree side by side, as ripgrep does, within
//! bounds.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use domain::limits::SEARCH_THREADS_MAX;
use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::roots::{SearchRoot, Watch};

/// Which files are wanted, by their path from where the search begins.
#[derive(Debug)]
pub(super) struct Wanted {
    matcher: GlobMatcher,
    /// The pattern has no directories, so it is about names.
    is_name: bool,
    /// The pattern itself names something hidden.
    pub(super) names_hidden: bool,
}

impl Wanted {
    pub(super) fn parse(pattern: &str) -> Result<Self, String> {
        let plain = pattern.trim_start_matches("./");
        let glob = GlobBuilder::new(plain).literal_separator(true).build();
        let glob = glob.map_err(|error| format!("The pattern is not valid: {error}."))?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            is_name: !plain.contains('/'),
            names_hidden: plain.split('/').any(|part| part.starts_with('.')),
        })
    }

    pub(super) fn has(&self, rest: &Path) -> bool {
        match rest.file_name() {
            Some(name) if self.is_name => self.matcher.is_match(name),
            Some(_) | None => self.matcher.is_match(rest),
        }
    }
}

/// How far a search came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Everywhere.
    Whole,
    /// It was told to stop, or its time was up, or nobody waits for it any more.
    Part,
}

/// Whether a search goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    Stop,
}

/// Hands every file beneath `root` that is not ignored to what `visitor` makes, one for each
/// thread. Paths are those from `root`. Links are neither followed nor handed over.
pub(crate) fn walk<'a, V: FnMut(&Path) -> Next + Send + 'a>(
    root: &SearchRoot,
    watch: &Watch,
    with_hidden: bool,
    mut visitor: impl FnMut() -> V,
) -> Reach {
    let is_cut = AtomicBool::new(false);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (hidden, held) = (root.hidden_paths(), root.held());
    let start = held.clone();
    let is_visible = move |entry: &DirEntry| {
        let Some(path) = beneath(&start, entry.path()) else {
            return false;
        };
        // Comparing parts is dear, and there are many files.
        let begins = |hidden: &PathBuf| bytes(path).starts_with(bytes(hidden));
        let is_hidden = |hidden: &PathBuf| begins(hidden) && path.starts_with(hidden);
        entry.file_name() != ".git" && !hidden.iter().any(is_hidden)
    };
    let walker = WalkBuilder::new(&held)
        .hidden(!with_hidden)
        // A file of the person's own settings, found by the environment, which is not ours to read.
        .git_global(false)
        .threads(threads.min(SEARCH_THREADS_MAX))
        .filter_entry(is_visible)
        .build_parallel();
    walker.run(|| {
        let mut visit = visitor();
        let (is_cut, held) = (&is_cut, &held);
        Box::new(move |entry| {
            // What cannot be read is not there for us.
            let Ok(entry) = entry else {
                return WalkState::Continue;
            };
            if watch.is_over() {
                is_cut.store(true, Ordering::Relaxed);
                return WalkState::Quit;
            }
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            match beneath(held, entry.path()) {
                Some(rest) if is_file => match visit(rest) {
                    Next::GoOn => WalkState::Continue,
                    Next::Stop => {
                        is_cut.store(true, Ordering::Relaxed);
                        WalkState::Quit
                    }
                },
                Some(_) | None => WalkState::Continue,
            }
        })
    });
    if is_cut.into_inner() {
        Reach::Part
    } else {
        Reach::Whole
    }
}

/// What comes after `root` in a path that was made of it.
fn beneath<'a>(root: &Path, path: &'a Path) -> Option<&'a Path> {
    let rest = bytes(path).strip_prefix(bytes(root))?;
    let rest = rest.strip_prefix(b"/").unwrap_or(rest);
    Some(Path::new(OsStr::from_bytes(rest)))
}

/// The order of paths, part by part as [`Path`] has it, but found by their bytes: results are
/// thousands, and comparing parts is many times as dear.
pub(super) fn by_path(one: &Path, other: &Path) -> std::cmp::Ordering {
    let (one, other) = (bytes(one), bytes(other));
    // What ends a part comes before whatever could go on with it.
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    let differ = one.iter().zip(other).find(|(one, other)| one != other);
    match differ {
        Some((one, other)) => rank(*one).cmp(&rank(*other)),
        None => one.len().cmp(&other.len()),
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// A path found beneath `start`, as the model can use it.
pub(crate) fn shown(start: &str, rest: &Path) -> String {
    let start = start.trim_end_matches('/');
    let rest = rest.to_string_lossy();
    match start {
        "" | "." => rest.into_owned(),
        start => format!("{start}/{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{beneath, by_path};

    #[test]
    fn paths_are_ordered_as_their_parts_are() {
        let names = [
            "a", "a-b", "a.b", "a/b", "a/b/c", "ab", "a\u{1}", "A", "ß", "a/-", "-/a",
        ];
        let mut ours: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        let mut theirs = ours.clone();
        ours.sort_by(|one, other| by_path(one, other));
        theirs.sort();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn what_lies_beneath_is_told_from_there() {
        let rest = |root, path| beneath(Path::new(root), Path::new(path)).map(Path::to_path_buf);
        assert_eq!(rest("/a/b", "/a/b/c/d"), Some("c/d".into()));
        assert_eq!(rest("/", "/a"), Some("a".into()));
        assert_eq!(rest("/a", "/a"), Some("".into()));
        assert_eq!(rest("/a", "/b"), None);
    }
}
