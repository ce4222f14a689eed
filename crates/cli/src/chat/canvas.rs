//! How the terminal is written to: what is finished goes into its own scrollback, and below it a few
//! rows are drawn anew each time.
//!
//! Pure: [`Canvas::frame`] gives the bytes to write. Nothing here knows what the lines mean.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::text::{Line, Paint};

/// Finished lines that are kept to draw the screen anew after its size has changed: more than any
/// screen shows.
const KEPT_LINES_MAX: usize = 400;

/// Begins and ends a change that the terminal shows at once, where it can.
const TOGETHER: [&str; 2] = ["\x1b[?2026h\x1b[?25l", "\x1b[?25h\x1b[?2026l"];

/// Size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// The rows at the bottom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Live {
    /// Shown from the end on if there are too many.
    pub(super) above: Vec<Line>,
    /// Always shown, as far as there is room: where the person writes, and the state.
    pub(super) below: Vec<Line>,
    /// Where the cursor stands in `below`: row and column.
    pub(super) cursor: (usize, usize),
}

/// What is on the terminal.
#[derive(Debug)]
pub(super) struct Canvas {
    size: Size,
    paint: Paint,
    /// Rows between the first live one and the cursor.
    above_cursor: usize,
    finished: VecDeque<Line>,
    /// Rows that were finished since the beginning, at most a screenful.
    filled: usize,
}

impl Canvas {
    pub(super) fn new(size: Size, paint: Paint) -> Self {
        Self {
            size,
            paint,
            above_cursor: 0,
            finished: VecDeque::new(),
            filled: 0,
        }
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Finishes `lines` and draws `live` below them.
    pub(super) fn frame(&mut self, lines: Vec<Line>, live: &Live) -> String {
        let mut out = TOGETHER[0].to_owned();
        self.erase(&mut out);
        for line in lines {
            self.finish(&mut out, line);
        }
        self.draw(&mut out, live);
        out.push_str(TOGETHER[1]);
        out
    }

    /// The terminal has another size now, and has moved its rows about in a way of its own. Once the
    /// screen is all ours it is drawn anew; what lies above stays as it is.
    pub(super) fn resized(&mut self, size: Size, live: &Live) -> String {
        let is_ours = self.filled >= self.size.rows.max(size.rows);
        self.size = size;
        let mut out = TOGETHER[0].to_owned();
        if is_ours {
            out.push_str("\x1b[2J\x1b[H");
            self.above_cursor = 0;
            let room = size.rows.saturating_sub(self.live_rows(live).len());
            let tail: Vec<Line> = self.tail(room);
            for row in &tail {
                self.put(&mut out, row);
                out.push_str("\r\n");
            }
        } else {
            self.erase(&mut out);
        }
        self.draw(&mut out, live);
        out.push_str(TOGETHER[1]);
        out
    }

    /// Draws everything that is known from the top of a cleared screen.
    pub(super) fn redrawn(&mut self, live: &Live) -> String {
        self.filled = self.size.rows;
        self.resized(self.size, live)
    }

    /// Leaves the terminal with the cursor below what is finished.
    pub(super) fn left(&mut self) -> String {
        let mut out = String::new();
        self.erase(&mut out);
        out.push_str("\x1b[?25h");
        out
    }

    /// Goes to the first live row and clears from there on.
    fn erase(&mut self, out: &mut String) {
        if self.above_cursor > 0 {
            // Writing to a string cannot fail; likewise below.
            let _ = write!(out, "\x1b[{}A", self.above_cursor);
        }
        out.push_str("\r\x1b[J");
        self.above_cursor = 0;
    }

    fn finish(&mut self, out: &mut String, line: Line) {
        for row in line.rows(self.size.columns) {
            self.put(out, &row.line);
            out.push_str("\r\n");
            self.filled = (self.filled + 1).min(usize::MAX / 2);
        }
        self.finished.push_back(line);
        if self.finished.len() > KEPT_LINES_MAX {
            self.finished.pop_front();
        }
    }

    /// The last rows of what is finished.
    fn tail(&self, room: usize) -> Vec<Line> {
        let mut rows: VecDeque<Line> = VecDeque::new();
        for line in self.finished.iter().rev() {
            for row in line.rows(self.size.columns).into_iter().rev() {
                if rows.len() >= room {
                    return rows.into();
                }
                rows.push_front(row.line);
            }
        }
        rows.into()
    }

    fn draw(&mut self, out: &mut String, live: &Live) {
        let rows = self.live_rows(live);
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                out.push_str("\r\n");
            }
            self.put(out, row);
        }
        let below = live.below.len().min(rows.len());
        let row = rows.len() - below + live.cursor.0.min(below.saturating_sub(1));
        let up = rows.len().saturating_sub(row + 1);
        if up > 0 {
            let _ = write!(out, "\x1b[{up}A");
        }
        out.push('\r');
        let column = live.cursor.1.min(self.size.columns.saturating_sub(1));
        if column > 0 {
            let _ = write!(out, "\x1b[{column}C");
        }
        self.above_cursor = row;
    }

    /// One row each, as many as the screen has.
    fn live_rows(&self, live: &Live) -> Vec<Line> {
        let room = self.size.rows.saturating_sub(1).max(1);
        let below = &live.below[..live.below.len().min(room)];
        let above = live.above.iter();
        let hidden = live.above.len().saturating_sub(room - below.len());
        // The last column stays free: a terminal that has written it may be in the next row already.
        let width = self.size.columns.saturating_sub(1).max(1);
        let rows = above.skip(hidden).chain(below);
        rows.map(|row| row.clipped(width)).collect()
    }

    fn put(&self, out: &mut String, row: &Line) {
        out.push_str(&row.painted(self.paint));
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::super::text::{Line, Paint, Style};
    use super::{Canvas, Live, Size};

    fn line(text: &str) -> Line {
        Line::of(Style::Plain, text)
    }

    fn live(above: &[&str], below: &[&str]) -> Live {
        Live {
            above: above.iter().map(|text| line(text)).collect(),
            below: below.iter().map(|text| line(text)).collect(),
            cursor: (0, 2),
        }
    }

    struct Screen {
        parser: vt100::Parser,
        canvas: Canvas,
    }

    fn number(of: usize) -> NonZeroU16 {
        NonZeroU16::new(u16::try_from(of).unwrap()).unwrap()
    }

    impl Screen {
        fn new(columns: usize, rows: usize) -> Self {
            Self {
                parser: vt100::Parser::new(number(rows), number(columns), 1_000),
                canvas: Canvas::new(Size { columns, rows }, Paint::Bare),
            }
        }

        fn frame(&mut self, lines: &[&str], live: &Live) {
            let lines = lines.iter().map(|text| line(text)).collect();
            let bytes = self.canvas.frame(lines, live);
            self.parser.process(bytes.as_bytes());
        }

        fn resize(&mut self, columns: usize, rows: usize, live: &Live) {
            self.parser
                .screen_mut()
                .set_size(number(rows), number(columns));
            let bytes = self.canvas.resized(Size { columns, rows }, live);
            self.parser.process(bytes.as_bytes());
        }

        fn text(&self) -> String {
            let text = self.parser.screen().contents();
            text.trim_end().to_owned()
        }
    }

    #[test]
    fn finished_lines_stay_and_live_rows_are_replaced() {
        let mut screen = Screen::new(20, 8);
        screen.frame(&["one"], &live(&["working"], &["> hello", "state"]));
        assert_eq!(screen.text(), "one\nworking\n> hello\nstate");
        assert_eq!(screen.parser.screen().cursor_position(), (2, 2));
        screen.frame(&["two", "three"], &live(&[], &["> h"]));
        assert_eq!(screen.text(), "one\ntwo\nthree\n> h");
        screen.frame(&[], &live(&["a", "b"], &["> h"]));
        assert_eq!(screen.text(), "one\ntwo\nthree\na\nb\n> h");
    }

    #[test]
    fn what_scrolls_away_is_in_the_scrollback_whole_and_once() {
        let mut screen = Screen::new(20, 5);
        for number in 0..30 {
            let text = format!("line {number}");
            screen.frame(&[&text], &live(&["working"], &["> ", "state"]));
        }
        let mut seen = Vec::new();
        for back in (0..100).rev() {
            screen.parser.screen_mut().set_scrollback(back);
            let first = screen.parser.screen().contents();
            seen.push(first.lines().next().unwrap_or_default().to_owned());
        }
        seen.dedup();
        let expected: Vec<String> = (0..28).map(|number| format!("line {number}")).collect();
        assert_eq!(seen[..28], expected);
    }

    #[test]
    fn live_rows_never_outgrow_the_screen_and_writing_stays_in_sight() {
        let mut screen = Screen::new(20, 4);
        let many = ["1", "2", "3", "4", "5", "6"];
        screen.frame(&["old"], &live(&many, &["> "]));
        screen.frame(&["new"], &live(&many, &["> "]));
        assert_eq!(screen.text(), "new\n5\n6\n>");
        let wide = "much too wide for the screen";
        screen.frame(&[], &live(&[wide], &["> "]));
        assert_eq!(screen.text(), "new\nmuch too wide for …\n>");
    }

    #[test]
    fn another_size_draws_the_screen_anew() {
        let mut screen = Screen::new(20, 6);
        let state = live(&[], &["> "]);
        let lines: Vec<String> = (0..9).map(|number| format!("{number} two three")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        screen.frame(&lines, &state);
        screen.resize(8, 6, &state);
        assert_eq!(screen.text(), "three\n7 two\nthree\n8 two\nthree\n>");
        screen.resize(20, 4, &state);
        assert_eq!(screen.text(), "6 two three\n7 two three\n8 two three\n>");
    }
}
