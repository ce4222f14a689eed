//! Finding what is to be replaced in a text, and replacing it. Pure.

use std::ops::Range;

/// Which places to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// The one there is.
    One,
    /// All of them.
    All,
}

/// A text with the replacement made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) text: String,
    /// How many places there were.
    pub(super) places: usize,
    /// The line of the first, from 1.
    pub(super) line: u32,
    /// The places were found only without regard to the space around lines.
    pub(super) is_loose: bool,
}

/// Why nothing was replaced, in words for a model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotReplaced {
    #[error("`old` is empty; use write to make a file")]
    Empty,
    #[error("`old` and `new` are the same")]
    Same,
    #[error("`old` is not in it")]
    NotFound,
    #[error("`old` is in it {0} times; give more of the text around it, or set replaceAll")]
    Ambiguous(usize),
    #[error(
        "`old` is not in it exactly, and {0} places are alike but for space; give it exactly as it is there"
    )]
    LooselyAmbiguous(usize),
}

/// Replaces `old` by `new` in `text`: where it stands exactly, or else in the one place that
/// differs from it only in the space around its lines.
pub(super) fn replace(
    text: &str,
    old: &str,
    new: &str,
    places: Places,
) -> Result<Replaced, NotReplaced> {
    if old.is_empty() {
        return Err(NotReplaced::Empty);
    }
    if old == new {
        return Err(NotReplaced::Same);
    }
    let found: Vec<usize> = text.match_indices(old).map(|(at, _)| at).collect();
    match (&found[..], places) {
        ([], _) => match without_numbers(old) {
            // Copied from what `read` shows, with the numbers of the lines.
            Some(old) => {
                let new = without_numbers(new).unwrap_or_else(|| new.to_owned());
                replace(text, &old, &new, places)
            }
            None => loosely(text, old, new),
        },
        ([at], _) => Ok(Replaced {
            text: text.replace(old, new),
            places: 1,
            line: line_of(text, *at),
            is_loose: false,
        }),
        ([at, ..], Places::All) => Ok(Replaced {
            text: text.replace(old, new),
            places: found.len(),
            line: line_of(text, *at),
            is_loose: false,
        }),
        ([..], Places::One) => Err(NotReplaced::Ambiguous(found.len())),
    }
}

/// Lines without the numbers that `read` puts before them, if all of them have one and the numbers
/// count up.
fn without_numbers(text: &str) -> Option<String> {
    let mut expected = None;
    let mut bare = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (number, rest) = line.trim_start_matches(' ').split_once(['\t', '→', '|'])?;
        let number: u64 = number.trim().parse().ok()?;
        if expected.is_some_and(|expected| expected != number) {
            return None;
        }
        expected = number.checked_add(1);
        bare.push_str(rest);
    }
    expected.map(|_| bare)
}

/// Replaces the only run of lines that is `old` but for the space around each.
fn loosely(text: &str, old: &str, new: &str) -> Result<Replaced, NotReplaced> {
    let wanted: Vec<&str> = old.lines().map(str::trim).collect();
    if wanted.iter().all(|line| line.is_empty()) {
        return Err(NotReplaced::NotFound);
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_alike = |run: &&[&str]| run.iter().zip(&wanted).all(|(a, b)| a.trim() == *b);
    let alike = lines.windows(wanted.len()).enumerate();
    let alike: Vec<usize> = alike
        .filter(|(_, run)| is_alike(run))
        .map(|(at, _)| at)
        .collect();
    let at = match alike[..] {
        [] => return Err(NotReplaced::NotFound),
        [at] => at,
        _ => return Err(NotReplaced::LooselyAmbiguous(alike.len())),
    };
    let run = &lines[at..at + wanted.len()];
    let fitted = fitted(new, old, run);
    let range = range_of(&lines, at, run.len());
    let replaced = format!("{}{fitted}{}", &text[..range.start], &text[range.end..]);
    Ok(Replaced {
        text: replaced,
        places: 1,
        line: u32::try_from(at + 1).unwrap_or(u32::MAX),
        is_loose: true,
    })
}

/// `new`, indented and ended like the lines it replaces.
fn fitted(new: &str, old: &str, run: &[&str]) -> String {
    let (from, to) = (first_indent(old.lines()), first_indent(run.iter().copied()));
    let is_windows = run.iter().any(|line| line.ends_with("\r\n"));
    let ending = if is_windows { "\r\n" } else { "\n" };
    let shifted = new.lines().map(|line| match line.strip_prefix(from) {
        Some(rest) if !line.trim().is_empty() => format!("{to}{rest}"),
        Some(_) | None => line.to_owned(),
    });
    let mut fitted = shifted.collect::<Vec<_>>().join(ending);
    let had_end = run.last().is_some_and(|line| line.ends_with('\n'));
    if had_end && !fitted.is_empty() {
        fitted.push_str(ending);
    }
    fitted
}

/// The space before the first line that is not blank.
fn first_indent<'a>(mut lines: impl Iterator<Item = &'a str>) -> &'a str {
    let line = lines.find(|line| !line.trim().is_empty());
    line.map_or("", |line| &line[..line.len() - line.trim_start().len()])
}

fn range_of(lines: &[&str], at: usize, count: usize) -> Range<usize> {
    let length = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
    let start = length(&lines[..at]);
    start..start + length(&lines[at..at + count])
}

fn line_of(text: &str, at: usize) -> u32 {
    let before = text[..at].matches('\n').count();
    u32::try_from(before + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{NotReplaced, Places, Replaced, replace};

    fn one(text: &str, old: &str, new: &str) -> Result<String, NotReplaced> {
        replace(text, old, new, Places::One).map(|replaced| replaced.text)
    }

    #[test]
    fn what_stands_there_once_is_replaced() {
        let replaced = replace("a\nb c\n", "b", "x", Places::One);
        let expected = Replaced {
            text: "a\nx c\n".to_owned(),
            places: 1,
            line: 2,
            is_loose: false,
        };
        assert_eq!(replaced, Ok(expected));
        assert_eq!(one("a b", "a ", ""), Ok("b".to_owned()));
    }

    #[test]
    fn what_stands_there_more_than_once_is_replaced_only_when_all_are_meant() {
        assert_eq!(one("a a a", "a", "b"), Err(NotReplaced::Ambiguous(3)));
        let all = replace("a a a", "a", "aa", Places::All).unwrap();
        assert_eq!((all.text.as_str(), all.places), ("aa aa aa", 3));
    }

    #[test]
    fn what_is_not_there_or_no_change_is_refused() {
        assert_eq!(one("a", "b", "c"), Err(NotReplaced::NotFound));
        assert_eq!(one("a", "", "c"), Err(NotReplaced::Empty));
        assert_eq!(one("a", "a", "a"), Err(NotReplaced::Same));
        assert_eq!(one("a", "\n \n", "b"), Err(NotReplaced::NotFound));
    }

    #[test]
    fn space_around_lines_may_differ_in_one_place_and_the_new_text_fits_in() {
        let text = "fn f() {\n\tif x {\n\t\ty();\n\t}\n}\n";
        let old = "    if x {\n        y();\n    }";
        let new = "    if z {\n        y();\n    }\n    w();";
        let expected = "fn f() {\n\tif z {\n\t    y();\n\t}\n\tw();\n}\n";
        assert_eq!(one(text, old, new), Ok(expected.to_owned()));
        let twice = "  a\n\n a\n";
        assert_eq!(
            one(twice, "a  ", "b"),
            Err(NotReplaced::LooselyAmbiguous(2))
        );
    }

    #[test]
    fn numbers_of_lines_that_were_copied_are_left_out() {
        let text = "a\n  b\nc\n";
        assert_eq!(
            one(text, "2\t  b\n3\tc", "2\t  x\n3\ty"),
            Ok("a\n  x\ny\n".to_owned())
        );
        assert_eq!(one(text, "     2→  b", "  x"), Ok("a\n  x\nc\n".to_owned()));
        // What stands there exactly comes first, and numbers that do not count up are text.
        assert_eq!(one("2\tb\n", "2\tb", "2\tc"), Ok("2\tc\n".to_owned()));
        assert_eq!(one(text, "2\t  b\n7\tc", "x"), Err(NotReplaced::NotFound));
    }

    #[test]
    fn line_endings_of_the_file_are_kept() {
        let text = "a\r\nb\r\nc\r\n";
        assert_eq!(
            one(text, "a\nb\n", "x\ny\n"),
            Ok("x\r\ny\r\nc\r\n".to_owned())
        );
        assert_eq!(one("a\r\nb\r\nc", "b\nc", "z"), Ok("a\r\nz".to_owned()));
        assert_eq!(one(text, "b\nc\n", ""), Ok("a\r\n".to_owned()));
    }
}
