//! How the ends of lines are shown in a diff: only where they tell something.

use tools::line_diff::LineChange;

/// What stands below a last line without a line break, if that is a part of the change.
const NO_NEWLINE: &str = "\\ no newline at end";

/// How two texts end their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEndings {
    /// Every line of both ends with a carriage return and a line feed, so that it says nothing.
    is_all_crlf: bool,
    /// Exactly one of them ends without a line break.
    is_end_changed: bool,
}

impl LineEndings {
    /// Those of the two sides of a change.
    pub(crate) fn of(old: &str, new: &str) -> Self {
        let has_break = |line: &&str| line.ends_with('\n');
        let lines = old.split_inclusive('\n').chain(new.split_inclusive('\n'));
        let is_whole = |text: &str| text.ends_with('\n');
        Self {
            is_all_crlf: lines.filter(has_break).all(|line| line.ends_with("\r\n")),
            is_end_changed: !old.is_empty() && !new.is_empty() && is_whole(old) != is_whole(new),
        }
    }

    /// What is shown of a line, and what below it.
    pub(crate) fn shown(self, change: LineChange, line: &str) -> (&str, Option<&'static str>) {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let has_break = text.len() < line.len();
        let is_noted = self.is_end_changed && !has_break && change != LineChange::Kept;
        let text = match text.strip_suffix('\r') {
            Some(short) if self.is_all_crlf && has_break => short,
            Some(_) | None => text,
        };
        (text, is_noted.then_some(NO_NEWLINE))
    }
}
