//! What a person wrote before, kept in the data directory for the next time.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::serve::announcement::private_file;

/// Entries that are kept; nobody presses Up more often.
const ENTRIES_MAX: usize = 500;
/// Longest entry that is kept: what is longer was pasted.
const ENTRY_BYTES_MAX: usize = 8 * 1024;
/// The file is written anew with what counts once it is longer than this.
const FILE_BYTES_MAX: u64 = 512 * 1024;

/// Earlier texts, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: Vec<String>,
    path: Option<PathBuf>,
}

impl History {
    /// That of a data directory. One that cannot be read is empty.
    pub(super) fn load(data_dir: &Path) -> Self {
        let path = data_dir.join("chat.history");
        let mut text = String::new();
        let file = std::fs::File::open(&path);
        // A file longer than we write is not ours; its beginning will do.
        let read = file.and_then(|file| file.take(2 * FILE_BYTES_MAX).read_to_string(&mut text));
        if let Err(error) = read {
            tracing::debug!(%error, "there is no history");
        }
        let entries = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let mut entries: Vec<String> = entries.collect();
        entries.drain(..entries.len().saturating_sub(ENTRIES_MAX));
        let path = Some(path);
        Self { entries, path }
    }

    #[cfg(test)]
    pub(super) fn of(entries: &[&str]) -> Self {
        Self {
            entries: entries.iter().map(|&entry| entry.to_owned()).collect(),
            path: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entry(&self, at: usize) -> Option<&str> {
        self.entries.get(at).map(String::as_str)
    }

    /// Remembers `text`, unless it is what was remembered last.
    pub(super) fn add(&mut self, text: &str) {
        let is_again = self.entries.last().is_some_and(|last| last == text);
        if text.trim().is_empty() || text.len() > ENTRY_BYTES_MAX || is_again {
            return;
        }
        self.entries.push(text.to_owned());
        if self.entries.len() > ENTRIES_MAX {
            self.entries.remove(0);
        }
        // Another time nothing comes back; that is no reason not to talk now.
        if let Err(error) = self.store(text) {
            tracing::debug!(%error, "the history cannot be written");
        }
    }

    fn store(&self, text: &str) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(line(text).as_bytes())?;
        if file.metadata()?.len() <= FILE_BYTES_MAX {
            return Ok(());
        }
        let temporary = path.with_extension("history.new");
        let mut file = private_file(&temporary)?;
        file.set_len(0)?;
        let newest = self.entries.iter().rev().map(|entry| line(entry));
        let mut bytes = 0;
        let kept = newest.take_while(|line| {
            bytes += line.len() as u64;
            bytes <= FILE_BYTES_MAX / 2
        });
        let kept: Vec<String> = kept.collect();
        for line in kept.iter().rev() {
            file.write_all(line.as_bytes())?;
        }
        std::fs::rename(&temporary, path)
    }
}

/// One line, whatever is in the text.
fn line(text: &str) -> String {
    format!("{}\n", serde_json::Value::from(text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{ENTRIES_MAX, FILE_BYTES_MAX, History};

    #[test]
    fn what_was_written_is_there_the_next_time_for_its_owner_only() {
        let place = tempfile::tempdir().unwrap();
        let mut history = History::load(place.path());
        for text in ["one", "two\nlines", "two\nlines", "  "] {
            history.add(text);
        }
        let again = History::load(place.path());
        assert_eq!(again.entries, ["one", "two\nlines"]);
        let file = std::fs::metadata(place.path().join("chat.history")).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_file_stays_bounded_and_keeps_the_newest() {
        let place = tempfile::tempdir().unwrap();
        let mut history = History::load(place.path());
        for number in 0..700 {
            history.add(&format!("{number} {}", "x".repeat(2_000)));
        }
        let path = place.path().join("chat.history");
        assert!(std::fs::metadata(&path).unwrap().len() <= FILE_BYTES_MAX);
        let again = History::load(place.path());
        assert!(again.len() <= ENTRIES_MAX);
        assert!(again.entries.last().unwrap().starts_with("699 "));
        let mode = std::fs::metadata(&path).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
}
