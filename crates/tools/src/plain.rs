//! What programs print, made plain: text that neither a model nor a terminal acts on.

use std::borrow::Cow;

/// Text without what drives a terminal.
///
/// Escape sequences go, a line that was written over and over keeps its last form, and bytes that
/// are no text become one mark for each run of them.
#[must_use]
pub fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = Plain::default();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => skip_escape(&mut rest),
            '\u{9b}' => skip_csi(&mut rest),
            other => plain.push(other),
        }
    }
    plain.end_line();
    plain.text
}

/// A line, with or without its end, of at most `chars_max` characters and a note on the rest.
#[must_use]
pub fn line_within(line: &str, chars_max: usize) -> Cow<'_, str> {
    let body = line.trim_end_matches('\n');
    match body.char_indices().nth(chars_max) {
        Some((end, _)) => {
            let (shown, rest) = body.split_at(end);
            let end_of_line = &line[body.len()..];
            let note = format!("[{} bytes of this line left out]", rest.len());
            Cow::Owned(format!("{shown}{note}{end_of_line}"))
        }
        None => Cow::Borrowed(line),
    }
}

/// What has been made plain so far.
#[derive(Default)]
struct Plain {
    text: String,
    line: String,
    /// A carriage return came; what follows takes the place of the line.
    is_returned: bool,
}

impl Plain {
    fn push(&mut self, c: char) {
        match c {
            '\n' => {
                self.is_returned = false;
                self.end_line();
                self.text.push('\n');
            }
            '\r' => self.is_returned = true,
            '\u{8}' => drop(self.line.pop()),
            '\t' => self.write('\t'),
            c if c.is_control() || is_direction(c) || c == char::REPLACEMENT_CHARACTER => {
                if !self.line.ends_with(char::REPLACEMENT_CHARACTER) {
                    self.write(char::REPLACEMENT_CHARACTER);
                }
            }
            c => self.write(c),
        }
    }

    fn write(&mut self, c: char) {
        if std::mem::take(&mut self.is_returned) {
            self.line.clear();
        }
        self.line.push(c);
    }

    fn end_line(&mut self) {
        self.text.push_str(&self.line);
        self.line.clear();
    }
}

/// Whether a character makes others appear in another order than they stand.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Skips the rest of an escape sequence.
fn skip_escape(rest: &mut std::str::Chars<'_>) {
    let mut ahead = rest.clone();
    match ahead.next() {
        Some('[') => {
            *rest = ahead;
            skip_csi(rest);
        }
        // A string for the terminal (a title, a link): up to a bell or to the next escape.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = ahead.next() {
                if c == '\x07' {
                    *rest = ahead;
                    return;
                }
                if c == '\x1b' {
                    if ahead.as_str().starts_with('\\') {
                        ahead.next();
                    }
                    *rest = ahead;
                    return;
                }
                // One that is not ended within its line is none.
                if c == '\n' {
                    return;
                }
            }
        }
        // Two or three characters: a choice of letters, a mode.
        Some(' '..='/') => {
            ahead.next();
            *rest = ahead;
        }
        Some('0'..='~') => *rest = ahead,
        Some(_) | None => {}
    }
}

/// Skips parameters and the letter that ends them.
fn skip_csi(rest: &mut std::str::Chars<'_>) {
    let mut ahead = rest.clone();
    while let Some(c) = ahead.next() {
        match c {
            ' '..='?' => {}
            '@'..='~' => {
                *rest = ahead;
                return;
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn f_35_colours_titles_and_cursor_moves_leave_only_the_text() {
        let printed = b"\x1b]0;owned\x07\x1b[1;31mred\x1b[0m \x1b(Bplain\x1b[2J\n";
        assert_eq!(plain(printed), "red plain\n");
        assert_eq!(plain(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "link");
        assert_eq!(plain(b"cut off \x1b["), "cut off ");
        assert_eq!(plain(b"\x1b]0;not ended\nnext"), "]0;not ended\nnext");
    }

    #[test]
    fn f_35_a_line_written_over_keeps_its_last_form() {
        assert_eq!(plain(b" 1%\r 50%\r100%\ndone\r\n"), "100%\ndone\n");
        assert_eq!(plain(b"abc\x08\x08x"), "ax");
        assert_eq!(plain(b"waiting\r"), "waiting");
    }

    #[test]
    fn f_35_bytes_that_are_no_text_become_a_mark() {
        assert_eq!(plain(b"a\x00\x01\xff\xfeb"), "a\u{fffd}b");
        assert_eq!(plain("a\u{202e}b".as_bytes()), "a\u{fffd}b");
        assert_eq!(plain("grün\tß".as_bytes()), "grün\tß");
    }
}
