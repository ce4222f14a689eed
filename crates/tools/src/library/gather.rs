//! Finding skills and commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::limits::{
    COMMAND_LEVELS_MAX, DESCRIPTION_CHARS_MAX, DIRECTORY_NAMES_MAX, FRONT_MATTER_BYTES_MAX,
    LIBRARY_ENTRIES_MAX,
};

use super::{Entry, Library, front_matter};
use crate::builtin::one_line;
use crate::roots::{PathError, Roots};
use crate::stamps::Stamps;

/// Folders that hold `skills` and `commands`.
const FOLDERS: [&str; 2] = [".agents", ".claude"];

/// Names that are commands of ours.
const RESERVED: [&str; 1] = ["compact"];

/// Files and folders of one tree that are opened at most: links can make a small one look endless.
const LOOKS_MAX: usize = 512;

/// Longest name: it is typed.
const NAME_CHARS_MAX: usize = 64;

/// Where to look: directories, the one that counts most first, each with what may be read there.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Each directory lies beneath its roots.
    pub directories: Vec<(PathBuf, Arc<Roots>)>,
}

impl Library {
    /// Looks for skills and commands, noting in `stamps` what was looked at. Blocks.
    #[must_use]
    pub fn gather(sources: &Sources, stamps: &mut Stamps) -> Self {
        let mut search = Search {
            library: Self::default(),
            stamps,
            looks: 0,
        };
        for (directory, roots) in &sources.directories {
            for folder in FOLDERS {
                search.looks = 0;
                search.skills(&directory.join(folder).join("skills"), roots);
                search.looks = 0;
                let commands = directory.join(folder).join("commands");
                search.commands(&commands, "", COMMAND_LEVELS_MAX, roots);
            }
        }
        let mut library = search.library;
        library.skills.sort_by(|a, b| a.name.cmp(&b.name));
        library.commands.sort_by(|a, b| a.name.cmp(&b.name));
        library
    }
}

struct Search<'a> {
    library: Library,
    stamps: &'a mut Stamps,
    looks: usize,
}

impl Search<'_> {
    fn skills(&mut self, folder: &Path, roots: &Arc<Roots>) {
        for name in self.names(folder, roots) {
            if self.library.skills.len() >= LIBRARY_ENTRIES_MAX {
                return self.too_many("skills", folder);
            }
            let file = folder.join(&name).join("SKILL.md");
            let Some(entry) = self.read(&file, &name, roots) else {
                continue;
            };
            if self.library.skill(&entry.name).is_none() {
                self.library.skills.push(entry);
            }
        }
    }

    fn commands(&mut self, folder: &Path, prefix: &str, levels: usize, roots: &Arc<Roots>) {
        for name in self.names(folder, roots) {
            if self.library.commands.len() >= LIBRARY_ENTRIES_MAX {
                return self.too_many("commands", folder);
            }
            let Some(stem) = name.strip_suffix(".md") else {
                if levels > 1 && !name.starts_with('.') {
                    let prefix = format!("{prefix}{name}:");
                    self.commands(&folder.join(&name), &prefix, levels - 1, roots);
                }
                continue;
            };
            let named = format!("{prefix}{stem}");
            let Some(entry) = self.read(&folder.join(&name), &named, roots) else {
                continue;
            };
            // A command is called as its file is.
            let entry = Entry {
                name: named,
                ..entry
            };
            if self.library.command(&entry.name).is_none() {
                self.library.commands.push(entry);
            }
        }
    }

    /// The names in a folder; none if there is no such folder.
    fn names(&mut self, folder: &Path, roots: &Roots) -> Vec<String> {
        let Some(path) = self.look(folder) else {
            return Vec::new();
        };
        match roots.names(path, DIRECTORY_NAMES_MAX) {
            Ok(found) => {
                if found.is_cut {
                    let problem = format!("only {DIRECTORY_NAMES_MAX} names are looked at");
                    self.problem(folder, &problem);
                }
                // Twice as many as can be used: some may be no skills.
                found
                    .names
                    .into_iter()
                    .take(2 * LIBRARY_ENTRIES_MAX)
                    .collect()
            }
            Err(PathError::Io(_)) => Vec::new(),
            Err(
                error @ (PathError::Outside
                | PathError::NotAFile
                | PathError::NoName
                | PathError::Replaced(_)),
            ) => {
                self.problem(folder, &error.to_string());
                Vec::new()
            }
        }
    }

    /// The entry in `file`, called `name` unless it says otherwise.
    fn read(&mut self, file: &Path, name: &str, roots: &Arc<Roots>) -> Option<Entry> {
        let path = self.look(file)?;
        let read = match roots.read_text(path, 2 * FRONT_MATTER_BYTES_MAX) {
            Ok(read) => read,
            // A folder without a skill in it is none.
            Err(PathError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                return None;
            }
            Err(PathError::Io(error)) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return None;
            }
            Err(error) => {
                self.problem(file, &error.to_string());
                return None;
            }
        };
        let (fields, body) = front_matter::split(&read.text);
        let own = fields.field("name").filter(|own| is_name(own));
        let name = own.unwrap_or(name);
        if !is_name(name) || RESERVED.contains(&name) {
            self.problem(file, "its name cannot be used");
            return None;
        }
        let first = || body.lines().map(str::trim).find(|line| !line.is_empty());
        let description = fields.field("description").or_else(first);
        let shortened =
            |text: &str| -> String { one_line(text).chars().take(DESCRIPTION_CHARS_MAX).collect() };
        Some(Entry {
            name: name.to_owned(),
            description: description.map(shortened).unwrap_or_default(),
            hint: fields.field("argument-hint").map(shortened),
            bytes: read.bytes,
            path: path.to_owned(),
            roots: Arc::clone(roots),
        })
    }

    /// Notes that `path` is opened, unless there have been too many.
    fn look<'p>(&mut self, path: &'p Path) -> Option<&'p str> {
        self.looks += 1;
        if self.looks == LOOKS_MAX {
            self.problem(
                path,
                "there are too many files to look at; the rest is left out",
            );
        }
        if self.looks >= LOOKS_MAX {
            return None;
        }
        self.stamps.note(path.to_owned());
        path.to_str()
    }

    fn too_many(&mut self, what: &str, folder: &Path) {
        let problem = format!("only {LIBRARY_ENTRIES_MAX} {what} are used");
        self.problem(folder, &problem);
    }

    fn problem(&mut self, path: &Path, problem: &str) {
        if self.library.problems.len() < LIBRARY_ENTRIES_MAX {
            let problem = format!("{}: {problem}", path.display());
            self.library.problems.push(one_line(&problem));
        }
    }
}

/// Whether it can be typed after a slash, and stands in a list without disturbing it.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_.:".contains(letter);
    (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && name.chars().all(is_plain)
}
