//! What a command prints, however much: its beginning and its end for the model, its newest lines
//! for whoever watches, and the rest in a file that `read` can open.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use domain::limits::{
    COMMAND_OUTPUT_BYTES_MAX, COMMAND_OUTPUT_FILE_BYTES_MAX, COMMAND_OUTPUT_FILES_MAX,
    COMMAND_OUTPUT_LINE_CHARS_MAX, PROGRESS_BYTES_MAX, TOOL_RESULT_LINES_MAX,
};

use crate::plain::{line_within, plain};

/// What a path begins with that names kept output.
pub const SCHEME: &str = "output:";

/// Half of what is shown: as much of the beginning as of the end.
const HALF: usize = COMMAND_OUTPUT_BYTES_MAX / 2;

/// The output of one command.
#[derive(Debug)]
pub struct Output {
    /// Everything, until it is too much; then the beginning.
    head: Vec<u8>,
    /// The end, from then on.
    tail: VecDeque<u8>,
    bytes: u64,
    place: PathBuf,
    file: Kept,
}

/// Where the whole of it is.
#[derive(Debug)]
enum Kept {
    /// In memory.
    NotYet,
    File {
        file: File,
        name: String,
        bytes: u64,
    },
    /// The file could not be made or written.
    Failed,
}

impl Output {
    /// Nothing so far; files go to the directory `place`.
    #[must_use]
    pub fn new(place: PathBuf) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            place,
            file: Kept::NotYet,
        }
    }

    /// Takes in more. Writes to a file once it is much: to the page cache, which is quicker than
    /// handing it to another thread.
    pub fn push(&mut self, more: &[u8]) {
        self.bytes += more.len() as u64;
        if matches!(self.file, Kept::NotYet) {
            self.head.extend_from_slice(more);
            if self.head.len() > COMMAND_OUTPUT_BYTES_MAX {
                self.file = Kept::begin(&self.place, &self.head);
                self.tail = self.head.split_off(HALF).into();
                self.trim();
            }
            return;
        }
        self.file.write(more);
        self.tail.extend(more);
        self.trim();
    }

    /// The newest lines, as many as a person watches.
    #[must_use]
    pub fn newest(&self) -> String {
        let mut end: Vec<u8> = self
            .tail
            .iter()
            .rev()
            .take(PROGRESS_BYTES_MAX)
            .copied()
            .collect();
        let rest = PROGRESS_BYTES_MAX - end.len();
        if self.tail.is_empty() {
            end.extend(self.head.iter().rev().take(rest));
        }
        end.reverse();
        let is_cut = (end.len() as u64) < self.bytes;
        let text = plain(&end);
        match text.split_once('\n') {
            // The first line is likely half of one.
            Some((_, whole)) if is_cut => format!("…\n{whole}"),
            Some(_) | None => text,
        }
    }

    /// All of it as far as it is shown, with a note on what is not and where that is.
    #[must_use]
    pub fn shown(mut self) -> String {
        let half = TOOL_RESULT_LINES_MAX / 2;
        let (first, last, all) = if self.tail.is_empty() {
            let text = plain(&self.head);
            let lines = text.split_inclusive('\n').count();
            if lines <= TOOL_RESULT_LINES_MAX {
                return lines_within(&text);
            }
            self.file = Kept::begin(&self.place, &self.head);
            (text.clone(), text, Some(lines))
        } else {
            let tail: Vec<u8> = self.tail.iter().copied().collect();
            (plain(&self.head), plain(&tail), None)
        };
        let first: Vec<&str> = first.split_inclusive('\n').take(half).collect();
        let last: Vec<&str> = last.split_inclusive('\n').collect();
        let last = &last[last.len().saturating_sub(half)..];
        let left_out = match all {
            Some(lines) => format!("{} lines", lines.saturating_sub(first.len() + last.len())),
            None => "the middle".to_owned(),
        };
        let (first, last) = (lines_within(&first.concat()), lines_within(&last.concat()));
        let gap = if first.ends_with('\n') { "" } else { "\n" };
        let kept = self.file.words(self.bytes);
        format!(
            "{first}{gap}[{left_out} of {} bytes left out; {kept}]\n{last}",
            self.bytes
        )
    }

    fn trim(&mut self) {
        let excess = self.tail.len().saturating_sub(HALF);
        self.tail.drain(..excess);
    }
}

impl Kept {
    fn begin(place: &Path, all: &[u8]) -> Self {
        let made = make_file(place).and_then(|(mut file, name)| {
            file.write_all(all)?;
            let bytes = all.len() as u64;
            Ok(Self::File { file, name, bytes })
        });
        made.unwrap_or(Self::Failed)
    }

    fn write(&mut self, more: &[u8]) {
        let Self::File { file, bytes, .. } = self else {
            return;
        };
        let room = COMMAND_OUTPUT_FILE_BYTES_MAX.saturating_sub(*bytes);
        let more = &more[..more.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        *bytes += more.len() as u64;
        if file.write_all(more).is_err() {
            *self = Self::Failed;
        }
    }

    /// Where the whole output is, for the model.
    fn words(&self, all: u64) -> String {
        match self {
            Self::File { name, bytes, .. } if *bytes < all => {
                format!("its first {bytes} bytes can be read as {SCHEME}{name}")
            }
            Self::File { name, .. } => format!("all of it can be read as {SCHEME}{name}"),
            Self::NotYet | Self::Failed => "it was not kept".to_owned(),
        }
    }
}

/// A new file for output. The oldest makes room, so that a session keeps a bounded number.
fn make_file(place: &Path) -> io::Result<(File, String)> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(place)?;
    let mut there = Vec::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        there.push((entry.metadata()?.modified()?, entry.path()));
    }
    there.sort();
    let excess = (there.len() + 1).saturating_sub(COMMAND_OUTPUT_FILES_MAX);
    for (_, oldest) in there.into_iter().take(excess) {
        fs::remove_file(oldest)?;
    }
    let name = uuid::Uuid::new_v4().simple().to_string();
    let mut new = File::options();
    let file = new
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(place.join(&name))?;
    Ok((file, name))
}

/// Text whose lines are no longer than is of use.
fn lines_within(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .map(|line| line_within(line, COMMAND_OUTPUT_LINE_CHARS_MAX))
        .collect()
}

#[cfg(test)]
mod tests;
