//! Which tools can do something in a project: a model is not told of the others.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use domain::limits::PROJECT_FILES_LOOKED_AT;

use crate::builtin::has_language_server;
use crate::builtin::search::{self, Next, Reach};
use crate::lsp::{Language, LanguageServers};
use crate::roots::Roots;
use crate::shell::Shell;

/// What of a project matters to which tools are offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProjectFiles {
    /// Some file may have a language server.
    pub(crate) has_server: bool,
    /// Some file may be a notebook.
    pub(crate) has_notebook: bool,
}

impl Default for ProjectFiles {
    /// Not looked at yet: everything is possible.
    fn default() -> Self {
        Self {
            has_server: true,
            has_notebook: true,
        }
    }
}

#[derive(Default)]
struct Found {
    files: usize,
    has_notebook: bool,
    languages: BTreeSet<&'static str>,
}

/// Looks at the first files of the session's directories. Blocks, for a moment.
pub(crate) fn look(
    roots: &Arc<Roots>,
    shell: Option<&Shell>,
    servers: &LanguageServers,
) -> ProjectFiles {
    let found = Mutex::new(Found::default());
    let mut is_whole = true;
    for directory in roots.directories() {
        let Some(root) = directory.to_str().and_then(|path| roots.search(path).ok()) else {
            continue;
        };
        let reach = search::walk(&root, &root.watch(), false, || {
            |rest: &Path| {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.note(rest);
                match found.files < PROJECT_FILES_LOOKED_AT {
                    true => Next::GoOn,
                    false => Next::Stop,
                }
            }
        });
        is_whole &= reach == Reach::Whole;
    }
    if !is_whole {
        return ProjectFiles::default();
    }
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let has_server = |key: &&str| {
        let language = Language::by_key(key);
        language.is_some_and(|language| has_language_server(language, servers, shell))
    };
    ProjectFiles {
        has_server: found.languages.iter().any(has_server),
        has_notebook: found.has_notebook,
    }
}

impl Found {
    fn note(&mut self, path: &Path) {
        self.files += 1;
        self.has_notebook |= path.extension().is_some_and(|end| end == "ipynb");
        if let Some((language, _)) = Language::of(path) {
            self.languages.insert(language.key);
        }
    }
}
