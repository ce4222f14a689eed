//! The difference between two texts as a unified diff, as a person reads it.

use tools::line_diff::{Hunk, LineChange, TooManyLines, hunks};

use crate::render::{LineEndings, Palette};
use crate::safe_text::exact;

/// Lines shown before and after what changes.
const CONTEXT: usize = 3;

/// What goes and what comes, line by line, with a little around it.
pub(super) fn lines(before: &str, after: &str, palette: Palette) -> String {
    let endings = LineEndings::of(before, after);
    let hunks = match hunks(before, after, CONTEXT) {
        Ok(hunks) => hunks,
        Err(TooManyLines { old, new }) => {
            return format!("{old} lines become {new}: too many to be compared\n");
        }
    };
    let mut out = String::new();
    for hunk in &hunks {
        out += &palette.dim(&head(hunk));
        out.push('\n');
        for (change, text) in &hunk.lines {
            let (text, note) = endings.shown(*change, text);
            let text = exact(text);
            out += &match change {
                LineChange::Kept => format!(" {text}"),
                LineChange::Removed => palette.red(&format!("-{text}")),
                LineChange::Added => palette.green(&format!("+{text}")),
            };
            out.push('\n');
            if let Some(note) = note {
                out += &palette.dim(note);
                out.push('\n');
            }
        }
    }
    out
}

/// Where a hunk stands and how long it is, on both sides.
fn head(hunk: &Hunk<'_>) -> String {
    let kept = hunk.count(LineChange::Kept);
    format!(
        "@@ -{},{} +{},{} @@",
        hunk.old_start + 1,
        kept + hunk.count(LineChange::Removed),
        hunk.new_start + 1,
        kept + hunk.count(LineChange::Added),
    )
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::render::Palette;

    #[test]
    fn what_comes_and_goes_stands_between_what_stays() {
        let (before, after) = ("a\nb\nc\nd\ne\nf\ng\n", "a\nb\nc\nd\nE\nE2\nf\ng\n");
        assert_eq!(
            lines(before, after, Palette::default()),
            "@@ -2,6 +2,7 @@\n b\n c\n d\n-e\n+E\n+E2\n f\n g\n"
        );
        assert_eq!(
            lines("", "x\n", Palette::default()),
            "@@ -1,0 +1,1 @@\n+x\n"
        );
    }

    #[test]
    fn changes_apart_are_hunks_and_line_endings_are_visible() {
        let before: String = (1..=30).map(|n| format!("{n}\n")).collect();
        let after = before
            .replace("\n5\n", "\nfive\n")
            .replace("25\n", "25\r\n");
        assert_eq!(
            lines(&before, &after, Palette::default()),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
             @@ -22,7 +22,7 @@\n 22\n 23\n 24\n-25\n+25<U+000D>\n 26\n 27\n 28\n"
        );
    }
}
