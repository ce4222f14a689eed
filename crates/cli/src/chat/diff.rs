//! What changes in a file, as lines that are added and removed with a few that stay around them.

use tools::line_diff::{Hunk, LineChange, TooManyLines, hunks};

use super::text::{Line, Style};
use crate::render::LineEndings;
use crate::safe_text::exact;

/// Lines that stay, shown around a change.
const CONTEXT: usize = 2;

/// The changes between two texts as lines to show; empty if they are the same.
pub(super) fn lines(old: &str, new: &str) -> Vec<Line> {
    let endings = LineEndings::of(old, new);
    let hunks = match hunks(old, new, CONTEXT) {
        Ok(hunks) => hunks,
        Err(TooManyLines { old, new }) => {
            let count = old + new;
            let why = format!("a change of {count} lines is too large to be compared");
            return vec![Line::of(Style::Dim, &why)];
        }
    };
    let mut lines = Vec::new();
    for hunk in &hunks {
        if !lines.is_empty() {
            lines.push(Line::of(Style::Dim, "⋮"));
        }
        for (change, text) in &hunk.lines {
            let (mark, style) = match change {
                LineChange::Kept => (' ', Style::Dim),
                LineChange::Removed => ('-', Style::Removed),
                LineChange::Added => ('+', Style::Added),
            };
            let (text, note) = endings.shown(*change, text);
            lines.push(Line::of(style, &format!("{mark} {}", exact(text))).hanging(2));
            lines.extend(note.map(|note| Line::of(Style::Dim, note)));
        }
    }
    lines
}

/// How many lines are added, and how many removed.
pub(super) fn counts(old: &str, new: &str) -> (usize, usize) {
    match hunks(old, new, 0) {
        Ok(hunks) => {
            let sum = |change| hunks.iter().map(|hunk: &Hunk<'_>| hunk.count(change)).sum();
            (sum(LineChange::Added), sum(LineChange::Removed))
        }
        Err(TooManyLines { old, new }) => (new, old),
    }
}

#[cfg(test)]
mod tests {
    use super::{counts, lines};

    fn shown(old: &str, new: &str) -> Vec<String> {
        lines(old, new).iter().map(|line| line.plain()).collect()
    }

    #[test]
    fn a_change_is_shown_with_what_stands_around_it() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
        let new = "a\nb\nc\nD\ne\nf\ng\nh\ni\nj\nk\n";
        assert_eq!(
            shown(old, new),
            [
                "  b", "  c", "- d", "+ D", "  e", "  f", "⋮", "  i", "  j", "+ k"
            ]
        );
        assert_eq!(counts(old, new), (2, 1));
    }

    #[test]
    fn new_files_empty_files_and_no_change() {
        assert_eq!(shown("", "x\n"), ["+ x"]);
        assert_eq!(shown("x", ""), ["- x"]);
        assert!(shown("same\n", "same\n").is_empty());
    }

    #[test]
    fn distant_changes_in_a_long_text_are_separate_hunks() {
        let old: String = (0..4_000).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 10\n", "ten\n");
        let new = new.replace("line 3990\n", "last\n");
        assert_eq!(counts(&old, &new), (2, 2));
        assert_eq!(
            shown(&old, &new),
            [
                "  line 8",
                "  line 9",
                "- line 10",
                "+ ten",
                "  line 11",
                "  line 12",
                "⋮",
                "  line 3988",
                "  line 3989",
                "- line 3990",
                "+ last",
                "  line 3991",
                "  line 3992",
            ]
        );
    }

    #[test]
    fn changed_line_endings_are_visible() {
        assert_eq!(shown("a\nb\n", "a\nb\r\n"), ["  a", "- b", "+ b<U+000D>"]);
        assert_eq!(
            shown("a\nb", "a\nb\n"),
            ["  a", "- b", "\\ no newline at end", "+ b"]
        );
        // In a text whose lines all end so, it says nothing.
        assert_eq!(shown("a\r\nb\r\n", "a\r\nc\r\n"), ["  a", "- b", "+ c"]);
    }

    #[test]
    fn unlike_texts_are_compared_in_bounded_time() {
        let many =
            |word: &str| -> String { (0..90_000).map(|n| format!("{word} {n}\n")).collect() };
        assert_eq!(counts(&many("a"), &many("b")), (90_000, 90_000));
        let (long, longer) = ("\n".repeat(1_000_000), "x\n".repeat(1_000_000));
        assert_eq!(
            shown(&long, &longer),
            ["a change of 2000000 lines is too large to be compared"]
        );
        assert_eq!(counts(&long, &longer), (1_000_000, 1_000_000));
    }
}
