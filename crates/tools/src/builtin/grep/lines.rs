//! The lines that were found in one file.

use std::io;

use domain::limits::{GREP_LINE_CHARS_MAX, TOOL_RESULT_LINES_MAX};
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use crate::roots::Watched;

/// Lines of one file, in order, as many as could be shown.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    bytes: usize,
    is_cut: bool,
    has_context: bool,
    /// The file turned out to be binary.
    is_binary: bool,
}

#[derive(Debug)]
enum Line {
    Match(u64, String),
    Context(u64, String),
    Break,
}

impl Lines {
    /// Searches `file`. One that cannot be read to its end, or that nobody waits for any more, gives
    /// what was found until then.
    pub(super) fn of(searcher: &mut Searcher, matcher: &RegexMatcher, mut file: Watched) -> Self {
        let mut lines = Self::default();
        let _ = searcher.search_reader(matcher, &mut file, &mut lines);
        lines.is_cut |= file.was_stopped();
        if lines.is_binary {
            return Self::default();
        }
        lines
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// About how much memory they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn has_context(&self) -> bool {
        self.has_context
    }

    /// The lines as they are shown, of the file `path`.
    pub(super) fn shown<'a>(&'a self, path: &'a str) -> impl Iterator<Item = String> + 'a {
        self.lines.iter().map(move |line| match line {
            Line::Match(number, text) => format!("{path}:{number}:{text}\n"),
            Line::Context(number, text) => format!("{path}-{number}-{text}\n"),
            Line::Break => "--\n".to_owned(),
        })
    }

    /// Takes a line; says whether there may be more.
    fn push(&mut self, line: Line) -> bool {
        if self.lines.len() >= TOOL_RESULT_LINES_MAX {
            self.is_cut = true;
            return false;
        }
        self.bytes += size_of::<Line>()
            + match &line {
                Line::Match(_, text) | Line::Context(_, text) => text.len(),
                Line::Break => 0,
            };
        self.lines.push(line);
        true
    }
}

impl Sink for &mut Lines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let number = found.line_number().unwrap_or_default();
        Ok(self.push(Line::Match(number, text(found.bytes()))))
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.has_context = true;
        let number = around.line_number().unwrap_or_default();
        Ok(self.push(Line::Context(number, text(around.bytes()))))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        Ok(self.push(Line::Break))
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A line without its end, no longer than is of use.
fn text(bytes: &[u8]) -> String {
    // A character has at most four bytes; what lies beyond need not be looked at.
    let looked_at = &bytes[..bytes.len().min(4 * GREP_LINE_CHARS_MAX)];
    let line = String::from_utf8_lossy(looked_at);
    let line = line.trim_end_matches(['\n', '\r']);
    match line.char_indices().nth(GREP_LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
