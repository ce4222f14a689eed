//! Text as the terminal gets it: lines of styled pieces, wrapped to a width.
//!
//! What a model, a tool or a file says enters a [`Line`] only through [`Line::push`], which leaves out
//! what a terminal would act on and shows hidden characters by their number (see [`TextFilter`]). Escape sequences are written by [`Line::painted`] and by the
//! canvas, and by nobody else.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::safe_text::TextFilter;

/// Spaces that a tab stands for.
const TAB: &str = "    ";

/// Most code points that are shown as one character. No script or emoji comes near; text that heaps marks
/// on a letter must not make each further one dearer.
const CLUSTER_CHARS_MAX: usize = 32;

/// What a piece of text is; colours follow from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Style {
    #[default]
    Plain,
    Dim,
    Bold,
    Italic,
    Heading,
    Code,
    Keyword,
    Literal,
    Number,
    Comment,
    Added,
    Removed,
    Good,
    Bad,
    Warning,
    Accent,
    /// The option that Enter confirms.
    Chosen,
}

impl Style {
    /// The parameters of the escape sequence that turns it on.
    fn parameters(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Italic => "3",
            Self::Heading => "1;36",
            Self::Code => "36",
            Self::Keyword => "35",
            Self::Literal | Self::Added | Self::Good => "32",
            Self::Number => "33",
            Self::Comment => "2;3",
            Self::Removed | Self::Bad => "31",
            Self::Warning => "33;1",
            Self::Accent => "34;1",
            Self::Chosen => "7",
        }
    }
}

/// Whether colours and other attributes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Coloured,
    Bare,
}

/// One code point with its style. Several make up what is seen as one character (a grapheme cluster): a
/// letter with its marks, a flag, an emoji with joiners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    c: char,
    style: Style,
    /// The columns of the whole cluster, at its first code point; none at the others.
    width: usize,
    /// Whether it belongs to the cluster of the cell before it. No line is broken there.
    continues: bool,
}

/// One line of text without line breaks, of any length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    cells: Vec<Cell>,
    /// Columns by which its second and later rows are set in.
    indent: usize,
}

/// A row of a line that was wrapped, and where in the line it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) line: Line,
    pub(super) start: usize,
}

impl Line {
    /// A line of one style.
    pub(super) fn of(style: Style, text: &str) -> Self {
        Self::default().with(style, text)
    }

    /// The same with more text at its end.
    pub(super) fn with(mut self, style: Style, text: &str) -> Self {
        self.push(style, text);
        self
    }

    /// The same with all of `other` at its end.
    pub(super) fn joined(mut self, other: &Self) -> Self {
        self.cells.extend(&other.cells);
        self
    }

    /// The same, its later rows set in by `columns`.
    pub(super) fn hanging(mut self, columns: usize) -> Self {
        self.indent = columns;
        self
    }

    /// Adds text at the end. Line breaks become spaces, tabs become several; control characters are left
    /// out, and hidden ones are shown by their number.
    pub(super) fn push(&mut self, style: Style, text: &str) {
        let before = self.cells.last().map(|cell| cell.c);
        let new = self.cells.len();
        for c in TextFilter::after(before).push(text).chars() {
            match c {
                '\t' => self.cells.extend(TAB.chars().map(|c| cell(c, style))),
                '\n' => self.cells.push(cell(' ', style)),
                c => self.cells.push(cell(c, style)),
            }
        }
        self.measure(new);
    }

    /// Finds the clusters from the cell `new` on, which may continue the one before it.
    fn measure(&mut self, new: usize) {
        let is_plain = |cell: &Cell| cell.c.is_ascii();
        if self.cells[new.saturating_sub(1)..].iter().all(is_plain) {
            return;
        }
        let before = &self.cells[..new];
        let last = before.iter().rposition(|cell| !cell.continues);
        let mut at = last.unwrap_or_default();
        let text: String = self.cells[at..].iter().map(|cell| cell.c).collect();
        for cluster in text.graphemes(true) {
            let mut rest = cluster;
            while !rest.is_empty() {
                let end = rest.char_indices().nth(CLUSTER_CHARS_MAX);
                let (part, later) = rest.split_at(end.map_or(rest.len(), |(end, _)| end));
                let count = part.chars().count();
                for cell in self.cells.iter_mut().skip(at).take(count) {
                    (cell.width, cell.continues) = (0, true);
                }
                if let Some(first) = self.cells.get_mut(at) {
                    (first.width, first.continues) = (part.width(), false);
                }
                at += count;
                rest = later;
            }
        }
    }

    /// The same without its first characters; what is left is set in like a later row.
    pub(super) fn after(&self, skip: usize) -> Self {
        let mut rest = Self::default();
        rest.push(Style::Plain, &" ".repeat(self.indent));
        rest.cells
            .extend(self.cells.get(skip..).unwrap_or_default());
        rest.hanging(self.indent)
    }

    /// The same, all of it set in by `columns` more.
    pub(super) fn set_in(&self, columns: usize) -> Self {
        let mut line = Self::of(Style::Plain, &" ".repeat(columns));
        line.cells.extend(&self.cells);
        line.hanging(self.indent + columns)
    }

    /// Leaves only its first `count` characters.
    pub(super) fn truncate(&mut self, count: usize) {
        self.cells.truncate(count);
    }

    /// The columns that it takes in one row.
    pub(super) fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width).sum()
    }

    /// How many code points it has.
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// What it says, without styles.
    pub(super) fn plain(&self) -> String {
        self.cells.iter().map(|cell| cell.c).collect()
    }

    /// What it says, with escape sequences for its styles.
    pub(super) fn painted(&self, paint: Paint) -> String {
        let mut text = String::new();
        let mut style = Style::Plain;
        for cell in &self.cells {
            if paint == Paint::Coloured && cell.style != style && !cell.continues {
                if style != Style::Plain {
                    text.push_str("\x1b[0m");
                }
                if cell.style != Style::Plain {
                    text.push_str("\x1b[");
                    text.push_str(cell.style.parameters());
                    text.push('m');
                }
                style = cell.style;
            }
            text.push(cell.c);
        }
        if style != Style::Plain {
            text.push_str("\x1b[0m");
        }
        text
    }

    /// The rows that it takes at `width` columns: broken at spaces where there are any. At least one.
    pub(super) fn rows(&self, width: usize) -> Vec<Row> {
        self.rows_after(0, width)
    }

    /// The same of what comes after its first `skip` characters, which stand elsewhere already.
    pub(super) fn rows_after(&self, skip: usize, width: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut from = skip.min(self.cells.len());
        loop {
            // Where it is too narrow for that, nothing is set in.
            let indent = if from == 0 || self.indent * 2 > width {
                0
            } else {
                self.indent
            };
            let (shown, next) = self.fitting(from, width.saturating_sub(indent).max(1));
            let mut line = Self::default();
            line.cells
                .extend((0..indent).map(|_| cell(' ', Style::Plain)));
            line.cells.extend(self.cells.get(shown).unwrap_or_default());
            rows.push(Row { line, start: from });
            if next >= self.cells.len() {
                return rows;
            }
            from = next;
        }
    }

    /// As much of it as fits into one row of `width` columns; what is cut shows as `…`.
    pub(super) fn clipped(&self, width: usize) -> Self {
        if self.width() <= width {
            return self.clone();
        }
        let mut clipped = Self::default();
        let mut columns = 1;
        for cell in &self.cells {
            columns += cell.width;
            if columns > width {
                break;
            }
            clipped.cells.push(*cell);
        }
        if width > 0 {
            clipped.push(Style::Dim, "…");
        }
        clipped
    }

    /// The characters from `from` on that one row shows, and where the next one begins.
    fn fitting(&self, from: usize, width: usize) -> (Range<usize>, usize) {
        let mut columns = 0;
        let mut space = None;
        for (at, cell) in self.cells.iter().enumerate().skip(from) {
            columns += cell.width;
            if columns > width && at > from && !cell.continues {
                // A space that does not fit is the break itself.
                let at_space = if cell.c == ' ' { Some(at) } else { space };
                return match at_space {
                    Some(space) => (from..space, self.past_spaces(space)),
                    None => (from..at, at),
                };
            }
            // Spaces that set a line in are no place to break it.
            if cell.c == ' ' && self.cells[from..at].iter().any(|cell| cell.c != ' ') {
                space = Some(at);
            }
        }
        (from..self.cells.len(), self.cells.len())
    }

    fn past_spaces(&self, from: usize) -> usize {
        let spaces = self.cells.iter().skip(from);
        from + spaces.take_while(|cell| cell.c == ' ').count()
    }
}

/// An ASCII character; others are measured with what stands around them.
fn cell(c: char, style: Style) -> Cell {
    Cell {
        c,
        style,
        width: 1,
        continues: false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Paint, Style};

    fn rows(text: &str, width: usize) -> Vec<String> {
        let rows = Line::of(Style::Plain, text).rows(width);
        rows.iter().map(|row| row.line.plain()).collect()
    }

    #[test]
    fn lines_are_broken_at_spaces_and_long_words_where_they_must() {
        assert_eq!(rows("the quick brown fox", 9), ["the quick", "brown fox"]);
        assert_eq!(rows("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(rows("", 4), [""]);
        assert_eq!(rows("    indented text", 10), ["    indent", "ed text"]);
        assert_eq!(rows("日本語です", 4), ["日本", "語で", "す"]);
        assert_eq!(rows("ab", 0), ["a", "b"]);
    }

    #[test]
    fn characters_of_several_code_points_are_never_split() {
        let family = "👨\u{200d}👩\u{200d}👧";
        assert_eq!(
            rows(&family.repeat(3), 4),
            [family.repeat(2), family.to_owned()]
        );
        assert_eq!(rows("🇩🇪🇫🇷🇮🇹", 2), ["🇩🇪", "🇫🇷", "🇮🇹"]);
        assert_eq!(rows("abe\u{301}\u{323}c", 3), ["abe\u{301}\u{323}", "c"]);
        let syllable = "\u{1112}\u{1161}\u{11ab}";
        assert_eq!(rows(&syllable.repeat(2), 3), [syllable, syllable]);
        assert_eq!(Line::of(Style::Plain, family).width(), 2);
        assert_eq!(Line::of(Style::Plain, "❤\u{fe0f}").width(), 2);
        let clipped = Line::of(Style::Plain, &format!("a{family}{family}")).clipped(4);
        assert_eq!(clipped.plain(), format!("a{family}…"));
    }

    #[test]
    fn a_character_that_comes_in_parts_is_one() {
        let family = "👨\u{200d}👩\u{200d}👧";
        let mut line = Line::default();
        for c in family.chars() {
            line.push(Style::Plain, c.encode_utf8(&mut [0; 4]));
        }
        assert_eq!(line.width(), 2);
        assert_eq!(line, Line::of(Style::Plain, family));
        // However many marks are heaped on a letter, the next one costs the same.
        let mut line = Line::of(Style::Plain, "a");
        for _ in 0..20_000 {
            line.push(Style::Plain, "\u{301}");
        }
        assert_eq!((line.len(), line.width()), (20_001, 1));
    }

    #[test]
    fn what_was_written_stays_where_it_is_when_more_follows() {
        let text = "one two three four five six seven eight nine ten";
        let whole = Line::of(Style::Plain, text).rows(12);
        for end in 1..text.len() {
            let part = Line::of(Style::Plain, &text[..end]).rows(12);
            let (_, settled) = part.split_last().unwrap();
            for (row, of_whole) in settled.iter().zip(&whole) {
                assert_eq!(row, of_whole, "after {end} characters");
            }
        }
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_gets_through() {
        let hostile = "a\x1b[2Jb\x07c\u{9b}1Ad\re\u{202e}f\n\tg";
        let line = Line::of(Style::Plain, hostile);
        assert_eq!(line.plain(), "a[2Jbc1Ade<U+202E>f     g");
        assert_eq!(line.painted(Paint::Bare), line.plain());
    }

    #[test]
    fn later_rows_are_set_in_where_there_is_room() {
        let line = Line::of(Style::Plain, "• one two three").hanging(2);
        let rows = |width| -> Vec<String> {
            let rows = line.rows(width);
            rows.iter().map(|row| row.line.plain()).collect()
        };
        assert_eq!(rows(9), ["• one two", "  three"]);
        assert_eq!(rows(3), ["•", "one", "two", "thr", "ee"]);
    }

    #[test]
    fn styles_become_colours_only_where_they_are_wanted() {
        let line = Line::of(Style::Bold, "a").with(Style::Plain, "b");
        assert_eq!(line.painted(Paint::Coloured), "\x1b[1ma\x1b[0mb");
        assert_eq!(line.painted(Paint::Bare), "ab");
        assert_eq!(Line::of(Style::Plain, "abcdef").clipped(4).plain(), "abc…");
    }
}
