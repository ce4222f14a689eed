//! The text that a person is writing: several lines, a cursor, and what was written before.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

use super::history::History;
use super::keys::{Key, PASTE_BYTES_MAX};
use super::text::{Line, Style};

/// Most bytes that can be written at a time.
const TEXT_BYTES_MAX: usize = 2 * PASTE_BYTES_MAX;
/// Rows of it that are shown at a time.
const ROWS_MAX: usize = 8;
/// What stands before the first row, and what before the others.
const PROMPT: [&str; 2] = ["❯ ", "  "];

/// The text and its cursor.
#[derive(Debug, Default)]
pub(super) struct Editor {
    text: String,
    /// A byte index between two characters as a person sees them (grapheme clusters).
    cursor: usize,
    history: History,
    /// Which entry of the history is shown, and what was written before that.
    recalled: Option<(usize, String)>,
}

/// How it looks.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) rows: Vec<Line>,
    /// Where the cursor stands: row and column.
    pub(super) cursor: (usize, usize),
}

impl Editor {
    /// An empty text.
    pub(super) fn new(history: History) -> Self {
        Self {
            history,
            ..Self::default()
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text up to the cursor.
    pub(super) fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes the text out to be sent, and remembers it.
    pub(super) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.recalled = None;
        self.history.add(&text);
        text
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
        self.recalled = None;
    }

    /// Replaces what stands from `from` to the cursor.
    pub(super) fn replace_before_cursor(&mut self, from: usize, with: &str) {
        if from <= self.cursor && self.text.is_char_boundary(from) {
            self.text.replace_range(from..self.cursor, with);
            self.cursor = from + with.len();
            self.settle();
        }
    }

    /// Does what `key` means for a text; gives back what means nothing for one.
    pub(super) fn press(&mut self, key: Key) -> Option<Key> {
        match key {
            Key::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => self.insert(&text),
            Key::NewLine => self.insert("\n"),
            Key::Backspace => self.remove(self.left()..self.cursor),
            Key::Delete => self.remove(self.cursor..self.right()),
            Key::DeleteWord => self.remove(self.word_left()..self.cursor),
            Key::DeleteToStart => self.remove(self.line_start()..self.cursor),
            Key::DeleteToEnd => self.remove(self.cursor..self.line_end()),
            Key::Left => self.cursor = self.left(),
            Key::Right => self.cursor = self.right(),
            Key::WordLeft => self.cursor = self.word_left(),
            Key::WordRight => self.cursor = self.word_right(),
            Key::Home => self.cursor = self.line_start(),
            Key::End => self.cursor = self.line_end(),
            Key::Up => self.up(),
            Key::Down => self.down(),
            Key::Enter
            | Key::Tab
            | Key::BackTab
            | Key::Escape
            | Key::PasteTooLong
            | Key::Ctrl(_) => return Some(key),
        }
        self.settle();
        None
    }

    /// The rows around the cursor, and where it is in them.
    pub(super) fn shown(&self, width: usize) -> Shown {
        let room = width.saturating_sub(PROMPT[0].chars().count()).max(1);
        let mut rows = Vec::new();
        let mut cursor = (0, 0);
        let mut start = 0;
        for text in self.text.split('\n') {
            let (mut row, mut columns, mut at) = (Line::default(), 0, start);
            for character in text.graphemes(true) {
                let count = row.len();
                row.push(Style::Plain, character);
                let mut wide = row.after(count).width();
                if columns + wide > room && columns > 0 {
                    row.truncate(count);
                    rows.push(std::mem::take(&mut row));
                    row.push(Style::Plain, character);
                    (columns, wide) = (0, row.width());
                }
                if at == self.cursor {
                    cursor = (rows.len(), columns);
                }
                columns += wide;
                at += character.len();
            }
            if at == self.cursor {
                if columns >= room {
                    rows.push(std::mem::take(&mut row));
                    columns = 0;
                }
                cursor = (rows.len(), columns);
            }
            rows.push(row);
            start = at + 1;
        }
        let first = (cursor.0 + 1).saturating_sub(ROWS_MAX);
        let shown = rows.iter().enumerate().skip(first).take(ROWS_MAX);
        let prompt = |index: usize| Line::of(Style::Accent, PROMPT[index.min(1)]);
        Shown {
            rows: shown
                .map(|(index, row)| prompt(index).joined(row))
                .collect(),
            cursor: (cursor.0 - first, cursor.1 + PROMPT[0].chars().count()),
        }
    }

    fn insert(&mut self, text: &str) {
        // Characters that a terminal acts on have no business in a prompt.
        let text: String = text
            .chars()
            .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
            .collect();
        if self.text.len() + text.len() <= TEXT_BYTES_MAX {
            self.text.insert_str(self.cursor, &text);
            self.cursor += text.len();
        }
    }

    fn remove(&mut self, range: std::ops::Range<usize>) {
        self.cursor = range.start;
        self.text.replace_range(range, "");
    }

    /// Moves the cursor on if it stands within a character: what was inserted or removed may have joined
    /// what is on both sides of it.
    fn settle(&mut self) {
        let mut place = GraphemeCursor::new(self.cursor, self.text.len(), true);
        if place.is_boundary(&self.text, 0) == Ok(false) {
            self.cursor = self.right();
        }
    }

    fn left(&self) -> usize {
        let mut place = GraphemeCursor::new(self.cursor, self.text.len(), true);
        let before = place.prev_boundary(&self.text, 0);
        before.ok().flatten().unwrap_or_default()
    }

    fn right(&self) -> usize {
        let mut place = GraphemeCursor::new(self.cursor, self.text.len(), true);
        let next = place.next_boundary(&self.text, 0);
        next.ok().flatten().unwrap_or(self.text.len())
    }

    fn word_left(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before.rfind(char::is_whitespace).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        })
    }

    fn word_right(&self) -> usize {
        let after = &self.text[self.cursor..];
        let space = after.len() - after.trim_start().len();
        let end = after[space..].find(char::is_whitespace);
        self.cursor + end.map_or(after.len(), |end| space + end)
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        let end = self.text[self.cursor..].find('\n');
        end.map_or(self.text.len(), |at| self.cursor + at)
    }

    fn up(&mut self) {
        let start = self.line_start();
        if start == 0 {
            return self.recall_older();
        }
        let column = columns(&self.text[start..self.cursor]);
        self.cursor = start - 1;
        self.go_to_column(column);
    }

    fn down(&mut self) {
        let end = self.line_end();
        if end == self.text.len() {
            return self.recall_newer();
        }
        let column = columns(&self.text[self.line_start()..self.cursor]);
        self.cursor = end + 1;
        self.go_to_column(column);
    }

    /// The last place of the cursor's line that is no further right than `column`.
    fn go_to_column(&mut self, column: usize) {
        let line = self.line_start()..self.line_end();
        let mut left = column;
        self.cursor = line.start;
        for character in self.text[line].graphemes(true) {
            let Some(rest) = left.checked_sub(columns(character)) else {
                return;
            };
            left = rest;
            self.cursor += character.len();
        }
    }

    fn recall_older(&mut self) {
        let at = match &self.recalled {
            Some((at, _)) => at.checked_sub(1),
            None => self.history.len().checked_sub(1),
        };
        let Some((at, entry)) = at.and_then(|at| Some((at, self.history.entry(at)?.to_owned())))
        else {
            return;
        };
        let written = match self.recalled.take() {
            Some((_, written)) => written,
            None => std::mem::take(&mut self.text),
        };
        self.recalled = Some((at, written));
        self.cursor = entry.len();
        self.text = entry;
    }

    fn recall_newer(&mut self) {
        let Some((at, written)) = self.recalled.take() else {
            return;
        };
        match self.history.entry(at + 1) {
            Some(entry) => {
                self.text = entry.to_owned();
                self.recalled = Some((at + 1, written));
            }
            None => self.text = written,
        }
        self.cursor = self.text.len();
    }
}

/// How many columns a text without line breaks takes.
fn columns(text: &str) -> usize {
    Line::of(Style::Plain, text).width()
}

#[cfg(test)]
mod tests;
