//! What changes in a file, as lines that are added and removed with a few that stay around them.

use super::text::{Line, Style};
use crate::safe_text::exact;

/// Lines that stay, shown around a change.
const CONTEXT: usize = 2;
/// Lines on either side that are compared one by one; a larger change is shown as a whole.
const COMPARED_MAX: usize = 1_500;

/// One line of a file, before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change<'a> {
    Stays(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The changes between two texts as lines to show; empty if they are the same.
pub(super) fn lines(old: &str, new: &str) -> Vec<Line> {
    let changes = changes(old, new);
    let is_near = |at: usize| {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(changes.len());
        let mut around = changes[around].iter();
        around.any(|change| !matches!(change, Change::Stays(_)))
    };
    let mut lines = Vec::new();
    let mut is_gap = false;
    for (at, change) in changes.iter().enumerate() {
        if !is_near(at) {
            is_gap = true;
            continue;
        }
        if std::mem::take(&mut is_gap) && !lines.is_empty() {
            lines.push(Line::of(Style::Dim, "⋮"));
        }
        let (mark, style, text) = match *change {
            Change::Stays(text) => (' ', Style::Dim, text),
            Change::Removed(text) => ('-', Style::Removed, text),
            Change::Added(text) => ('+', Style::Added, text),
        };
        lines.push(Line::of(style, &format!("{mark} {}", exact(text))).hanging(2));
    }
    lines
}

/// How many lines are added, and how many removed.
pub(super) fn counts(old: &str, new: &str) -> (usize, usize) {
    let changes = changes(old, new);
    let count = |is_it: fn(&Change<'_>) -> bool| changes.iter().filter(|it| is_it(it)).count();
    (
        count(|change| matches!(change, Change::Added(_))),
        count(|change| matches!(change, Change::Removed(_))),
    )
}

fn changes<'a>(old: &'a str, new: &'a str) -> Vec<Change<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let start = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let ends = old_rest.iter().rev().zip(new_rest.iter().rev());
    let end = ends.take_while(same).count();
    let (old_middle, old_end) = old_rest.split_at(old_rest.len() - end);
    let (new_middle, _) = new_rest.split_at(new_rest.len() - end);
    let mut changes: Vec<Change<'a>> = old[..start]
        .iter()
        .map(|line| Change::Stays(line))
        .collect();
    if old_middle.len() > COMPARED_MAX || new_middle.len() > COMPARED_MAX {
        changes.extend(old_middle.iter().map(|line| Change::Removed(line)));
        changes.extend(new_middle.iter().map(|line| Change::Added(line)));
    } else {
        compare(old_middle, new_middle, &mut changes);
    }
    changes.extend(old_end.iter().map(|line| Change::Stays(line)));
    changes
}

/// By the longest sequence of lines that both have.
fn compare<'a>(old: &[&'a str], new: &[&'a str], changes: &mut Vec<Change<'a>>) {
    let columns = new.len() + 1;
    // How long it is for what comes after a place in each.
    let mut longest = vec![0_u16; (old.len() + 1) * columns];
    for (i, old_line) in old.iter().enumerate().rev() {
        for (j, new_line) in new.iter().enumerate().rev() {
            longest[i * columns + j] = if old_line == new_line {
                longest[(i + 1) * columns + j + 1] + 1
            } else {
                longest[(i + 1) * columns + j].max(longest[i * columns + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            changes.push(Change::Stays(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len()
            && (j == new.len() || longest[(i + 1) * columns + j] >= longest[i * columns + j + 1])
        {
            changes.push(Change::Removed(old[i]));
            i += 1;
        } else {
            changes.push(Change::Added(new[j]));
            j += 1;
        }
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
    fn a_change_too_large_to_compare_is_shown_whole() {
        let many = |word: &str| -> String { (0..3_000).map(|n| format!("{word} {n}\n")).collect() };
        assert_eq!(counts(&many("a"), &many("b")), (3_000, 3_000));
    }
}
