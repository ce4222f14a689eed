//! What `glob` and `grep` have in common: walking a tree side by side, as ripgrep does, within
//! bounds.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use domain::limits::{SEARCH_THREADS_MAX, SEARCH_TIME_MAX};
use globset::{GlobBuilder, GlobMatcher};
use ignore::{WalkBuilder, WalkState};

use crate::roots::SearchRoot;

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
pub(super) enum Reach {
    /// Everywhere.
    Whole,
    /// It was told to stop, or its time was up, or nobody waits for it any more.
    Part,
}

/// Whether a search goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Stop,
}

/// Hands every file beneath `root` that is not ignored to what `visitor` makes, one for each
/// thread. Paths are those from `root`. Links are neither followed nor handed over.
pub(super) fn walk<'a, V: FnMut(PathBuf) -> Next + Send + 'a>(
    root: &SearchRoot,
    with_hidden: bool,
    mut visitor: impl FnMut() -> V,
) -> Reach {
    let deadline = Instant::now() + SEARCH_TIME_MAX;
    let is_cut = AtomicBool::new(false);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let hidden = root.hidden_paths();
    let is_visible = move |path: &Path| {
        let is_git = path.file_name().is_some_and(|name| name == ".git");
        !is_git && !hidden.iter().any(|hidden| path.starts_with(hidden))
    };
    let walker = WalkBuilder::new(root.real())
        .hidden(!with_hidden)
        // A file of the person's own settings, found by the environment, which is not ours to read.
        .git_global(false)
        .threads(threads.min(SEARCH_THREADS_MAX))
        .filter_entry(move |entry| is_visible(entry.path()))
        .build_parallel();
    walker.run(|| {
        let mut visit = visitor();
        let is_cut = &is_cut;
        Box::new(move |entry| {
            // What cannot be read is not there for us.
            let Ok(entry) = entry else {
                return WalkState::Continue;
            };
            if root.is_stopped() || Instant::now() > deadline {
                is_cut.store(true, Ordering::Relaxed);
                return WalkState::Quit;
            }
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            let rest = entry.path().strip_prefix(root.real());
            match rest {
                Ok(rest) if is_file => match visit(rest.to_owned()) {
                    Next::GoOn => WalkState::Continue,
                    Next::Stop => {
                        is_cut.store(true, Ordering::Relaxed);
                        WalkState::Quit
                    }
                },
                Ok(_) | Err(_) => WalkState::Continue,
            }
        })
    });
    if is_cut.into_inner() {
        Reach::Part
    } else {
        Reach::Whole
    }
}

/// A path found beneath `start`, as the model can use it.
pub(super) fn shown(start: &str, rest: &Path) -> String {
    let start = start.trim_end_matches('/');
    let rest = rest.to_string_lossy();
    match start {
        "" | "." => rest.into_owned(),
        start => format!("{start}/{rest}"),
    }
}
