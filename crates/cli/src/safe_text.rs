//! Text of others made safe for a terminal: what models, tools, files, MCP servers and clients say.
//!
//! Three kinds of characters do not simply appear. A terminal acts on *controls*. *Hidden* characters
//! change how the text around them reads without being seen: they turn the direction of writing, have
//! no width, or carry data. And a few hidden ones *join* what stands beside them, in emoji and in some
//! scripts; there they stay. [`printable`] and [`one_line`] leave controls out and show hidden
//! characters by their number, `<U+202E>`; [`exact_line`] also shows controls, for commands and paths that
//! a user decides about. Data that goes into a pipe or into JSON does not pass through here.

/// Text over several lines: line breaks and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    let mut filter = TextFilter::default();
    filter.push(text)
}

/// The same in one line, with single spaces.
pub(crate) fn one_line(text: &str) -> String {
    joined(&printable(text))
}

/// A command, a path or a title that a user decides about, in one line: nothing in it is left out.
pub(crate) fn exact_line(text: &str) -> String {
    joined(&exact(text))
}

/// The same over several lines.
pub(crate) fn exact(text: &str) -> String {
    let mut filter = TextFilter {
        controls: Controls::Shown,
        ..TextFilter::default()
    };
    filter.push(text)
}

/// Shows hidden characters and leaves everything else as it is, also escape sequences of ours.
pub(crate) fn without_hidden(text: &str) -> String {
    let mut filter = TextFilter {
        controls: Controls::Kept,
        ..TextFilter::default()
    };
    filter.push(text)
}

/// Leaves control characters out and everything else as it is: for files, which stay exact otherwise.
pub(crate) fn without_controls(text: &str) -> String {
    TextFilter::for_files().push(text)
}

/// Makes a text safe that comes in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextFilter {
    controls: Controls,
    keeps_hidden: bool,
    /// The character before the next piece.
    before: Option<char>,
}

/// What happens to control characters other than line breaks and tabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Controls {
    #[default]
    Dropped,
    Shown,
    Kept,
}

impl TextFilter {
    /// For text that follows the character `before`.
    pub(crate) fn after(before: Option<char>) -> Self {
        Self {
            before,
            ..Self::default()
        }
    }

    /// Leaves only control characters out.
    pub(crate) fn for_files() -> Self {
        Self {
            keeps_hidden: true,
            ..Self::default()
        }
    }

    /// The next piece as the terminal may get it.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut safe = String::with_capacity(text.len());
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            let next = characters.peek().copied();
            match self.class(c, next) {
                Class::Plain => safe.push(c),
                Class::Dropped => {}
                Class::Shown => safe.push_str(&shown(c)),
            }
            self.before = Some(c);
        }
        safe
    }

    fn class(&self, c: char, next: Option<char>) -> Class {
        match (c, self.controls) {
            ('\n' | '\t', _) => Class::Plain,
            (c, Controls::Dropped) if c.is_control() => Class::Dropped,
            (c, Controls::Shown) if c.is_control() => Class::Shown,
            (_, _) if self.keeps_hidden => Class::Plain,
            (c, _) if is_hidden(c) && !joins(self.before, c, next) => Class::Shown,
            (_, _) => Class::Plain,
        }
    }
}

enum Class {
    Plain,
    Dropped,
    Shown,
}

/// How a character is shown that cannot be seen.
fn shown(c: char) -> String {
    format!("<U+{:04X}>", u32::from(c))
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a terminal shows nothing for it, or shows what follows in another order: format characters,
/// fillers, separators, variation selectors and tags. Marks of numbers in Arabic are format characters,
/// too, but can be seen.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}'
        // Fillers of Hangul and Khmer, and selectors of Mongolian.
        | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{3164}' | '\u{ffa0}'
        // Zero width, marks of direction; separators, embeddings and overrides; invisible operators,
        // isolates and deprecated format characters.
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        // Tags, and the supplement of variation selectors.
        | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a hidden character does here what it is for. Where a piece ends, `next` is not known yet.
fn joins(before: Option<char>, c: char, next: Option<char>) -> bool {
    let Some(before) = before else {
        return false;
    };
    let is_between = |is_it: fn(char) -> bool| is_it(before) && next.is_none_or(is_it);
    match c {
        '\u{200d}' => {
            let is_emoji = is_pictograph(before) || before == '\u{fe0f}';
            (is_emoji && next.is_none_or(is_pictograph)) || is_between(is_of_joining_script)
        }
        '\u{200c}' => is_between(is_of_joining_script),
        // Whether a symbol is shown as an emoji or as text; `1` and the like become keys.
        '\u{fe0e}' | '\u{fe0f}' => {
            let is_key = matches!(before, '0'..='9' | '#' | '*') && next == Some('\u{20e3}');
            is_pictograph(before) || is_key
        }
        _ => false,
    }
}

/// Emoji, and symbols that can be shown as one.
fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2190}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Scripts whose letters take other forms beside a joiner: Arabic and its relatives, those of India and
/// South-East Asia, Mongolian.
fn is_of_joining_script(c: char) -> bool {
    matches!(c,
        '\u{620}'..='\u{6d3}' | '\u{6ee}'..='\u{6ff}' | '\u{710}'..='\u{8ff}'
        | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17b3}'
        | '\u{17b6}'..='\u{17ff}' | '\u{1820}'..='\u{18af}' | '\u{a840}'..='\u{a87f}'
        | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{1e900}'..='\u{1e95f}')
}

#[cfg(test)]
mod tests {
    use super::{
        TextFilter, exact, exact_line, is_hidden, one_line, printable, without_controls,
        without_hidden,
    };

    #[test]
    fn hidden_characters_are_shown_by_their_number() {
        let hidden = "\u{202a}\u{202e}\u{2066}\u{2069}\u{61c}\u{200e}\u{200f}\u{200b}\u{200c}\u{200d}\
                      \u{2060}\u{2064}\u{206a}\u{feff}\u{e0001}\u{e0041}\u{e007f}\u{e0100}\u{fe0f}\
                      \u{2028}\u{2029}\u{ad}\u{fff9}\u{180e}\u{3164}";
        for c in hidden.chars() {
            let expected = format!("a<U+{:04X}>b", u32::from(c));
            for safe in [printable, one_line, exact, exact_line, without_hidden] {
                assert_eq!(safe(&format!("a{c}b")), expected);
            }
        }
        assert_eq!(printable("rm \u{202e}fdp.exe"), "rm <U+202E>fdp.exe");
    }

    #[test]
    fn controls_are_left_out_except_where_nothing_may_be() {
        let hostile = "a\x1b[2Jb\x07c\u{9b}1Ad\re\n\tf\x7f";
        assert_eq!(printable(hostile), "a[2Jbc1Ade\n\tf");
        assert_eq!(one_line(hostile), "a[2Jbc1Ade f");
        assert_eq!(
            exact_line(hostile),
            "a<U+001B>[2Jb<U+0007>c<U+009B>1Ad<U+000D>e f<U+007F>"
        );
        assert_eq!(without_hidden("\x1b[1m\u{200b}"), "\x1b[1m<U+200B>");
        assert_eq!(without_controls("\x1b[1m\u{200b}\n"), "[1m\u{200b}\n");
    }

    #[test]
    fn joiners_stay_where_they_join() {
        for kept in [
            "👨\u{200d}👩\u{200d}👧",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "日本語 é ok ا",
        ] {
            assert_eq!(printable(kept), kept);
            assert_eq!(exact_line(kept), kept);
        }
        for (text, safe) in [
            ("a\u{200d}b", "a<U+200D>b"),
            ("👨\u{200d}\u{200d}👩", "👨<U+200D><U+200D>👩"),
            ("👨\u{200d}x", "👨<U+200D>x"),
            ("\u{200d}", "<U+200D>"),
            ("7\u{fe0f}", "7<U+FE0F>"),
            ("pa\u{200c}ypal", "pa<U+200C>ypal"),
        ] {
            assert_eq!(printable(text), safe);
        }
    }

    #[test]
    fn a_text_in_pieces_reads_as_the_whole_does() {
        let text = "👨\u{200d}👩 می\u{200c}خواهم \u{202e}x";
        let mut filter = TextFilter::default();
        let pieces: String = text
            .chars()
            .map(|c| filter.push(c.encode_utf8(&mut [0; 4])))
            .collect();
        assert_eq!(pieces, printable(text));
    }

    #[test]
    fn letters_of_all_scripts_stay() {
        let count = ('\u{20}'..='\u{10ffff}')
            .filter(|c| c.is_alphanumeric() && is_hidden(*c))
            .count();
        // The fillers are letters by name.
        assert!(count <= 4, "{count}");
    }
}
