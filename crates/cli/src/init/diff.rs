//! The difference between two texts that differ in one place, as a person reads it.

use crate::render::{Palette, printable};

/// Lines shown before and after what changes.
const CONTEXT: usize = 3;

/// What goes and what comes, line by line, with a little around it.
pub(super) fn lines(before: &str, after: &str, palette: Palette) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev());
    let tail = tail.take(rest).take_while(|(a, b)| a == b).count();
    let first = same.saturating_sub(CONTEXT);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let shown_end = (new_end + CONTEXT).min(new.len());
    let head = format!(
        "@@ -{},{} +{},{} @@",
        first + 1,
        old_end + (shown_end - new_end) - first,
        first + 1,
        shown_end - first
    );
    let mut out = palette.dim(&head) + "\n";
    let mut put = |mark: char, line: &str| {
        let line = format!("{mark}{}", printable(line));
        out += &match mark {
            '+' => palette.green(&line),
            '-' => palette.red(&line),
            _ => line,
        };
        out.push('\n');
    };
    new[first..same].iter().for_each(|line| put(' ', line));
    old[same..old_end].iter().for_each(|line| put('-', line));
    new[same..new_end].iter().for_each(|line| put('+', line));
    new[new_end..shown_end]
        .iter()
        .for_each(|line| put(' ', line));
    out
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
}
