//! Markdown as it streams in, a line at a time: headings, lists, quotes, code in colour, emphasis.
//!
//! A line is finished when its end has come. A long one is finished row by row before that, which
//! works because how a row looks depends on what stands before it and never on what follows.

use super::code::Lexer;
use super::text::{Line, Style};

/// Rows of an unfinished line that stay live.
const OPEN_ROWS_MAX: usize = 3;
/// Longest line that is looked at again with each piece; a longer one is cut.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// A text on its way.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    fence: Option<Fence>,
    /// The line that has no end yet.
    open: String,
    /// Characters of how it looks that are finished already.
    settled: usize,
}

/// A block of code.
#[derive(Clone, Debug)]
struct Fence {
    /// What ends it: as many of the same character, at least.
    mark: char,
    length: usize,
    lexer: Lexer,
}

impl Markdown {
    /// Takes a piece of text; gives the lines that it finishes.
    pub(super) fn push(&mut self, text: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut rest = text;
        while let Some((line, after)) = rest.split_once('\n') {
            self.open.push_str(line);
            lines.extend(self.end_line());
            rest = after;
        }
        self.open.push_str(rest);
        while self.open.len() > LINE_BYTES_MAX {
            let cut = self.open.floor_char_boundary(LINE_BYTES_MAX);
            let after = self.open.split_off(cut);
            lines.extend(self.end_line());
            self.open = after;
        }
        lines
    }

    /// The text is over: what is open is finished.
    pub(super) fn end(&mut self) -> Vec<Line> {
        let lines = match self.open.is_empty() {
            true => Vec::new(),
            false => Vec::from_iter(self.end_line()),
        };
        self.fence = None;
        lines
    }

    /// The rows that are settled though their line has not ended, at `width` columns.
    pub(super) fn settle(&mut self, width: usize) -> Vec<Line> {
        let shown = self.shown();
        let rows = shown.rows_after(self.settled, width);
        let over = rows.len().saturating_sub(OPEN_ROWS_MAX);
        let Some(next) = rows.get(over).filter(|_| over > 0) else {
            return Vec::new();
        };
        self.settled = next.start;
        rows.into_iter().take(over).map(|row| row.line).collect()
    }

    /// The rows that may still change.
    pub(super) fn live(&self, width: usize) -> Vec<Line> {
        if self.open.is_empty() {
            return Vec::new();
        }
        let rows = self.shown().rows_after(self.settled, width);
        rows.into_iter().map(|row| row.line).collect()
    }

    fn shown(&self) -> Line {
        match &self.fence {
            Some(fence) => fence.clone().line(&self.open),
            None => line(&self.open),
        }
    }

    /// Finishes the open line; nothing is left of one that was settled to its end.
    fn end_line(&mut self) -> Vec<Line> {
        let source = std::mem::take(&mut self.open);
        let settled = std::mem::take(&mut self.settled);
        let shown = match &mut self.fence {
            Some(fence) if fence.is_ended_by(&source) => {
                self.fence = None;
                Line::of(Style::Dim, source.trim_end())
            }
            Some(fence) => fence.line(&source),
            None => {
                self.fence = Fence::begun_by(&source);
                line(&source)
            }
        };
        match settled {
            0 => vec![shown],
            settled if settled >= shown.len() => Vec::new(),
            settled => vec![shown.after(settled)],
        }
    }
}

impl Fence {
    fn begun_by(line: &str) -> Option<Self> {
        let (mark, length, rest) = fence_mark(line)?;
        let name = rest.split_whitespace().next().unwrap_or_default();
        Some(Self {
            mark,
            length,
            lexer: Lexer::new(name),
        })
    }

    fn is_ended_by(&self, line: &str) -> bool {
        fence_mark(line).is_some_and(|(mark, length, rest)| {
            mark == self.mark && length >= self.length && rest.trim().is_empty()
        })
    }

    fn line(&mut self, source: &str) -> Line {
        self.lexer.line(Line::default(), source)
    }
}

/// The marks of a line that begins or ends a block of code, how many, and what follows them.
fn fence_mark(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    (length >= 3).then(|| (mark, length, &line[length..]))
}

/// A line of text outside code.
fn line(source: &str) -> Line {
    let text = source.trim_start_matches(' ');
    let (space, _) = source.split_at(source.len() - text.len());
    if fence_mark(source).is_some() {
        return Line::of(Style::Dim, source);
    }
    if let Some(heading) = heading(text) {
        return inline(Line::default(), heading, Style::Heading);
    }
    if is_rule(text) {
        return Line::of(Style::Dim, "────────────────");
    }
    if let Some(quoted) = text.strip_prefix('>') {
        let line = Line::of(Style::Dim, "│ ").hanging(2);
        return inline(line, quoted.trim_start(), Style::Italic);
    }
    let bullet = ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| text.strip_prefix(mark));
    if let Some(item) = bullet {
        let line = Line::of(Style::Plain, space).with(Style::Accent, "• ");
        let hanging = line.width();
        return inline(line.hanging(hanging), item, Style::Plain);
    }
    if let Some((number, item)) = numbered(text) {
        let line = Line::of(Style::Plain, space).with(Style::Accent, number);
        let hanging = line.width();
        return inline(line.hanging(hanging), item, Style::Plain);
    }
    inline(Line::of(Style::Plain, space), text, Style::Plain)
}

fn heading(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    ((1..=6).contains(&level)).then(|| rest.strip_prefix(' '))?
}

fn is_rule(text: &str) -> bool {
    let text = text.trim_end();
    ['-', '*', '_']
        .iter()
        .any(|mark| text.len() >= 3 && text.chars().all(|c| c == *mark))
}

/// `12. ` and what follows it.
fn numbered(text: &str) -> Option<(&str, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &text[digits..];
    let marked = rest.starts_with(". ") || rest.starts_with(") ");
    ((1..=4).contains(&digits) && marked).then(|| text.split_at(digits + 2))
}

/// Adds text with emphasis and code in it. A mark counts as soon as it is there: whether it is
/// closed later must not change what was shown before.
fn inline(mut line: Line, text: &str, base: Style) -> Line {
    let (mut is_code, mut is_bold, mut is_italic) = (false, false, false);
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let stars = rest.chars().take_while(|c| *c == '*').count();
        let after = rest[stars.max(c.len_utf8())..].chars().next();
        // A mark opens before a word and closes behind one; `2 * 3` and `*.rs` have none.
        let opens = !before.is_alphanumeric() && after.is_some_and(char::is_alphanumeric);
        let closes = !before.is_whitespace();
        let used = match (c, stars) {
            ('`', _) => {
                is_code = !is_code;
                1
            }
            ('\\', _) if !is_code && after.is_some_and(|c| c.is_ascii_punctuation()) => {
                let escaped = &rest[1..2];
                line.push(style(base, is_code, is_bold, is_italic), escaped);
                2
            }
            ('*', 2..) if !is_code && (if is_bold { closes } else { opens }) => {
                is_bold = !is_bold;
                2
            }
            ('*', 1) if !is_code && (if is_italic { closes } else { opens }) => {
                is_italic = !is_italic;
                1
            }
            _ => {
                let shown = &rest[..c.len_utf8()];
                line.push(style(base, is_code, is_bold, is_italic), shown);
                c.len_utf8()
            }
        };
        before = rest[..used].chars().next_back().unwrap_or(' ');
        rest = &rest[used..];
    }
    line
}

#[expect(
    clippy::fn_params_excessive_bools,
    reason = "three marks that are each open or not, as the text has them"
)]
fn style(base: Style, is_code: bool, is_bold: bool, is_italic: bool) -> Style {
    match (is_code, is_bold, is_italic) {
        (true, _, _) => Style::Code,
        (false, true, _) => Style::Bold,
        (false, false, true) => Style::Italic,
        (false, false, false) => base,
    }
}

#[cfg(test)]
mod tests;
