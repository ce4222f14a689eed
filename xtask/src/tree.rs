//! The source tree as the rules see it: every file that is ours, with its text.
//!
//! [`Tree::read`] takes it from disk; tests make one up with `Tree::of`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Failure;

/// Larger files are data; the rules look at their names only.
const TEXT_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// All files by their path from the root, with `/` between names.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads everything under `root` that `.gitignore` does not name.
    pub(crate) fn read(root: &Path) -> Result<Self, Failure> {
        let ignored = Ignored::parse(&text_of(&root.join(".gitignore")));
        let mut tree = Self::default();
        tree.read_folder(root, "", &ignored)
            .map_err(|error| format!("cannot read the source tree: {error}"))?;
        Ok(tree)
    }

    /// A made-up tree.
    #[cfg(test)]
    pub(crate) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let own = |(path, text): (&str, &str)| (path.to_owned(), text.to_owned());
        Self {
            files: files.into_iter().map(own).collect(),
        }
    }

    /// The text of one file; empty if it is not text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Every file with its text, in the order of their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let borrowed = |(path, text)| (String::as_str(path), String::as_str(text));
        self.files.iter().map(borrowed)
    }

    /// The Rust sources.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| has_extension(path, "rs"))
    }

    /// The Markdown pages.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| has_extension(path, "md"))
    }

    /// The manifests of workspace members: the folder's name and the manifest's text.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter_map(|(path, text)| {
            let folder = path.strip_suffix("/Cargo.toml")?;
            let name = folder.strip_prefix("crates/").unwrap_or(folder);
            (name == "xtask" || folder.starts_with("crates/")).then_some((name, text))
        })
    }

    /// Whether `path` names a file or a folder.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let below = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(below.clone()..)
                .next()
                .is_some_and(|(next, _)| next.starts_with(&below))
    }

    fn read_folder(&mut self, root: &Path, at: &str, ignored: &Ignored) -> std::io::Result<()> {
        for entry in std::fs::read_dir(root.join(at))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if at.is_empty() {
                name.clone()
            } else {
                format!("{at}/{name}")
            };
            let kind = entry.file_type()?;
            if ignored.covers(&path, &name) {
                continue;
            }
            if kind.is_dir() {
                self.read_folder(root, &path, ignored)?;
            } else if kind.is_file() {
                let small = entry.metadata()?.len() <= TEXT_BYTES_MAX;
                let text = if small {
                    text_of(&entry.path())
                } else {
                    String::new()
                };
                self.files.insert(path, text);
            }
        }
        Ok(())
    }
}

/// The two forms of `.gitignore` lines that we use: `/path/from/root` and `name`.
struct Ignored {
    paths: Vec<String>,
    names: Vec<String>,
}

impl Ignored {
    fn parse(gitignore: &str) -> Self {
        let lines = gitignore.lines().map(|line| line.trim_end_matches('/'));
        let (paths, mut names): (Vec<_>, Vec<_>) = lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .partition(|line| line.starts_with('/'));
        names.push(".git".to_owned());
        Self { paths, names }
    }

    fn covers(&self, path: &str, name: &str) -> bool {
        self.names.iter().any(|ignored| ignored == name)
            || self.paths.iter().any(|ignored| &ignored[1..] == path)
    }
}

/// A file's text; a missing or binary file has none.
fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|found| found == extension)
}
