//! The library of a session: skills that a model can load and commands that a person can type, as
//! files of the project and of the person.
//!
//! Only names and descriptions are kept; a text is read when it is wanted. [`Library::gather`] is
//! where they are found.

mod expand;
pub(crate) mod front_matter;
mod gather;
pub(crate) mod yaml;

use std::sync::Arc;

use domain::limits::LIBRARY_FILE_BYTES_MAX;

use crate::roots::Roots;

pub use gather::Sources;
pub(crate) use gather::is_name;

/// All skills and commands of a session, each name once.
#[derive(Clone, Debug, Default)]
pub struct Library {
    skills: Vec<Entry>,
    commands: Vec<Entry>,
    problems: Vec<String>,
}

/// What is wanted of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Everything.
    All,
    /// Only skills.
    Skills,
    /// Only commands.
    Commands,
}

/// A skill or a command.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As it is called.
    pub name: String,
    /// In one line.
    pub description: String,
    /// What to type after it.
    pub hint: Option<String>,
    /// The size of its file.
    pub bytes: u64,
    /// Its file.
    pub path: String,
    roots: Arc<Roots>,
}

impl Library {
    /// The skills, by name.
    #[must_use]
    pub fn skills(&self) -> &[Entry] {
        &self.skills
    }

    /// The commands, by name.
    #[must_use]
    pub fn commands(&self) -> &[Entry] {
        &self.commands
    }

    /// What was left out, and why.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Leaves out what is not wanted.
    pub fn keep(&mut self, keeps: Kept) {
        match keeps {
            Kept::All => {}
            Kept::Skills => self.commands.clear(),
            Kept::Commands => self.skills.clear(),
        }
    }

    /// The skill called `name`.
    #[must_use]
    pub fn skill(&self, name: &str) -> Option<&Entry> {
        self.skills.iter().find(|entry| entry.name == name)
    }

    /// The command called `name`.
    #[must_use]
    pub fn command(&self, name: &str) -> Option<&Entry> {
        self.commands.iter().find(|entry| entry.name == name)
    }

    /// What a prompt that begins with `/name` says to the model, if there is such a command or
    /// skill. Reads its file.
    ///
    /// # Errors
    /// If there is one and it cannot be read.
    pub fn expand_prompt(&self, prompt: &str) -> Option<Result<Expanded, String>> {
        let typed = prompt.trim_start().strip_prefix('/')?;
        let end = typed.find(char::is_whitespace).unwrap_or(typed.len());
        let (name, arguments) = typed.split_at(end);
        let text = match (self.command(name), self.skill(name)) {
            (Some(command), _) => command.expand(arguments),
            (None, Some(skill)) => skill.load().map(|text| expand::expand(&text, arguments)),
            (None, None) => return None,
        };
        let first = prompt.trim();
        Some(text.map(|text| Expanded {
            name: name.to_owned(),
            // What the person typed comes first, so that the model knows what the rest is.
            text: format!("{first}\n\n{text}"),
        }))
    }
}

/// A prompt that named a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// The command.
    pub name: String,
    /// What the model reads.
    pub text: String,
}

impl Entry {
    /// A skill's text, and where it lies: it may speak of files beside it.
    ///
    /// # Errors
    /// In words for a model, if it cannot be read.
    pub fn load(&self) -> Result<String, String> {
        let body = self.body()?;
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Ok(format!(
            "Skill {} (its files are in {folder}):\n\n{body}",
            self.name
        ))
    }

    /// A command's text, with what was typed after it.
    ///
    /// # Errors
    /// In words for a model, if it cannot be read.
    pub fn expand(&self, arguments: &str) -> Result<String, String> {
        Ok(expand::expand(&self.body()?, arguments))
    }

    fn body(&self) -> Result<String, String> {
        let read = self.roots.read_text(&self.path, LIBRARY_FILE_BYTES_MAX);
        let read = read.map_err(|error| format!("{} cannot be read: {error}.", self.name))?;
        let (_, body) = front_matter::split(&read.text);
        let body = body.trim();
        if body.is_empty() {
            return Err(format!("{} says nothing.", self.name));
        }
        let note = match read.is_cut {
            true => format!("\n[cut: only the first {LIBRARY_FILE_BYTES_MAX} bytes are shown]"),
            false => String::new(),
        };
        Ok(format!("{body}{note}"))
    }
}

#[cfg(test)]
mod tests;
