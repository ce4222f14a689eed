//! What a session knows of files: how each was when a tool last read or wrote it.
//!
//! A change that is meant for one version of a file must not be made to another. It is forgotten
//! with the session's memory, and then a file has to be read again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::limits::FILES_SEEN_MAX;

/// The files of one session. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    files: Arc<Mutex<HashMap<String, Known>>>,
}

/// How much is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// All of it, as a number that another content would not have.
    Whole(u64),
    /// Only a part was seen.
    Part,
}

/// Why a file may not be changed as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// Nobody has looked at it.
    #[error("it was not read in this session; read it first")]
    NeverRead,
    /// Somebody else has written it.
    #[error("it has changed since it was read; read it again")]
    Changed,
}

/// A file that the model has not read as it is, for a model that may.
#[derive(Clone, Debug)]
pub struct Unread {
    seen: Seen,
    name: String,
    number: u64,
    text: String,
}

impl Unread {
    /// What to show the model; from then on the file counts as read.
    #[must_use]
    pub fn show(self) -> String {
        self.seen.insert(self.name, Known::Whole(self.number));
        self.text
    }
}

impl PartialEq for Unread {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.number, &self.text) == (&other.name, other.number, &other.text)
    }
}

impl Eq for Unread {}

impl Seen {
    /// The file `name` with this `content`, which the model would be shown as `text`.
    #[must_use]
    pub fn unread(&self, name: String, content: &[u8], text: String) -> Unread {
        Unread {
            seen: self.clone(),
            name,
            number: number(content),
            text,
        }
    }

    /// The file `name` has this content.
    pub fn note(&self, name: String, content: &[u8]) {
        self.insert(name, Known::Whole(number(content)));
    }

    /// A part of the file `name` was seen; what was known of the whole is outdated.
    pub fn note_part(&self, name: String) {
        self.insert(name, Known::Part);
    }

    /// Whether the file `name`, which has this content now, is as it was.
    ///
    /// # Errors
    /// If it is not, or was never seen.
    pub fn check(&self, name: &str, content: &[u8]) -> Result<(), Stale> {
        match self.files().get(name) {
            None => Err(Stale::NeverRead),
            Some(Known::Whole(known)) if *known != number(content) => Err(Stale::Changed),
            Some(Known::Whole(_) | Known::Part) => Ok(()),
        }
    }

    fn insert(&self, name: String, known: Known) {
        let mut files = self.files();
        if files.len() >= FILES_SEEN_MAX && !files.contains_key(&name) {
            // Whichever: it costs one more read.
            let any = files.keys().next().cloned();
            any.map(|any| files.remove(&any));
        }
        files.insert(name, known);
    }

    /// The map is whole at every step, so a panic elsewhere does not spoil it.
    fn files(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}
