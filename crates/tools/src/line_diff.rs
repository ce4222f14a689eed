//! What differs between two texts, line by line, in hunks with some unchanged lines around them.
//!
//! The comparing is the crate `similar`'s (Myers). This module bounds it: lines that both texts begin or
//! end with are never collected, the number of compared lines is limited, and so is the time.

use domain::limits::{DIFF_LINES_MAX, DIFF_TIME_MAX};
use similar::{ChangeTag, TextDiff};

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineChange {
    Kept,
    Removed,
    Added,
}

/// Changes that are near each other, with the unchanged lines around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk<'a> {
    /// How many lines of the old text stand before it.
    pub old_start: usize,
    /// How many lines of the new text stand before it.
    pub new_start: usize,
    /// Each with its line ending.
    pub lines: Vec<(LineChange, &'a str)>,
}

/// Two texts that differ in more lines than are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLines {
    /// Lines of the old text that are not at the beginning or the end of both.
    pub old: usize,
    /// The same of the new text.
    pub new: usize,
}

impl Hunk<'_> {
    /// How many of its lines changed like this.
    #[must_use]
    pub fn count(&self, change: LineChange) -> usize {
        self.lines.iter().filter(|(tag, _)| *tag == change).count()
    }

    /// Its lines in the old text.
    #[must_use]
    pub fn old_text(&self) -> String {
        self.text_without(LineChange::Added)
    }

    /// Its lines in the new text.
    #[must_use]
    pub fn new_text(&self) -> String {
        self.text_without(LineChange::Removed)
    }

    fn text_without(&self, change: LineChange) -> String {
        let lines = self.lines.iter().filter(|(tag, _)| *tag != change);
        lines.map(|(_, line)| *line).collect()
    }
}

/// The hunks of two texts, with up to `context` unchanged lines on each side of a change; none if
/// the texts are the same. Lines that differ only in how they end are different.
///
/// Past [`DIFF_TIME_MAX`] the rest of the comparison is coarse: still correct, but not the shortest.
///
/// # Errors
/// If more lines than [`DIFF_LINES_MAX`] would have to be compared.
pub fn hunks<'a>(
    old: &'a str,
    new: &'a str,
    context: usize,
) -> Result<Vec<Hunk<'a>>, TooManyLines> {
    let (skipped, old, new) = differing_part(old, new, context);
    let count = |text: &str| text.split_inclusive('\n').count();
    let found = TooManyLines {
        old: count(old),
        new: count(new),
    };
    if found.old + found.new > DIFF_LINES_MAX {
        return Err(found);
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (
        old.split_inclusive('\n').collect(),
        new.split_inclusive('\n').collect(),
    );
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME_MAX)
        .diff_slices(&old, &new);
    let mut hunks = Vec::new();
    for ops in diff.grouped_ops(context) {
        let Some(first) = ops.first() else { continue };
        let mut lines = Vec::new();
        for op in &ops {
            for change in op.iter_changes(&old[..], &new[..]) {
                let tag = match change.tag() {
                    ChangeTag::Equal => LineChange::Kept,
                    ChangeTag::Delete => LineChange::Removed,
                    ChangeTag::Insert => LineChange::Added,
                };
                lines.push((tag, change.value()));
            }
        }
        hunks.push(Hunk {
            old_start: skipped + first.old_range().start,
            new_start: skipped + first.new_range().start,
            lines,
        });
    }
    Ok(hunks)
}

/// Both texts without the lines that they begin and end with alike, except for `context` of them;
/// and how many lines were skipped at the beginning.
fn differing_part<'a>(old: &'a str, new: &'a str, context: usize) -> (usize, &'a str, &'a str) {
    let same = |pair: &(&str, &str)| pair.0 == pair.1;
    let lines = |text: &'a str| text.split_inclusive('\n');
    let alike = lines(old).zip(lines(new)).take_while(same).count();
    let skipped = alike.saturating_sub(context);
    let start: usize = lines(old).take(skipped).map(str::len).sum();
    // What is left at the end must not reach into what both begin with.
    let head: usize = lines(old).take(alike).map(str::len).sum();
    let ends = lines(&old[head..]).rev().zip(lines(&new[head..]).rev());
    let alike = ends.take_while(same).count();
    let end = lines(&old[head..])
        .rev()
        .take(alike.saturating_sub(context));
    let end: usize = end.map(str::len).sum();
    (
        skipped,
        &old[start..old.len() - end],
        &new[start..new.len() - end],
    )
}

#[cfg(test)]
mod tests;
