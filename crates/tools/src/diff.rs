//! What a change does to a file, for a person to see: ACP's `diff` content.

use domain::limits::{DIFF_BYTES_MAX, DIFF_HUNKS_MAX};
use serde_json::{Value, json};

use crate::line_diff::{Hunk, hunks};

/// Lines around a change that are shown with it.
const CONTEXT_LINES: usize = 3;

/// The change of the file at the absolute `path` from `old`, if there is one, to `new`: a block for
/// each hunk. Empty if nothing differs, or too much to look at.
pub(crate) fn blocks(path: &str, old: Option<&str>, new: &str) -> Vec<Value> {
    let parts: Vec<(Option<String>, String)> = match old {
        Some(old) => {
            let Ok(hunks) = hunks(old, new, CONTEXT_LINES) else {
                return Vec::new();
            };
            let parts = bounded(old, new, &hunks).into_iter();
            parts.map(|(old, new)| (Some(old), new)).collect()
        }
        None => vec![(None, new.to_owned())],
    };
    let bytes = parts
        .iter()
        .map(|(old, new)| path.len() + old.as_ref().map_or(0, String::len) + new.len());
    if bytes.sum::<usize>() > DIFF_BYTES_MAX {
        return Vec::new();
    }
    parts
        .into_iter()
        .map(|(old, new)| json!({"type": "diff", "path": path, "oldText": old, "newText": new}))
        .collect()
}

/// Both sides of each hunk. The hunks past the limit become one, with all lines between them.
fn bounded(old: &str, new: &str, hunks: &[Hunk<'_>]) -> Vec<(String, String)> {
    let sides = |hunk: &Hunk<'_>| (hunk.old_text(), hunk.new_text());
    let (separate, rest) = match hunks.get(DIFF_HUNKS_MAX - 1..) {
        Some(rest) if rest.len() > 1 => (&hunks[..DIFF_HUNKS_MAX - 1], rest),
        Some(_) | None => (hunks, &[][..]),
    };
    let mut parts: Vec<(String, String)> = separate.iter().map(sides).collect();
    if let (Some(first), Some(last)) = (rest.first(), rest.last()) {
        let span = |text: &str, from: usize, last_start: usize, last_text: &str| -> String {
            let until = last_start + last_text.split_inclusive('\n').count();
            let lines = text.split_inclusive('\n').skip(from);
            lines.take(until - from).collect()
        };
        parts.push((
            span(old, first.old_start, last.old_start, &last.old_text()),
            span(new, first.new_start, last.new_start, &last.new_text()),
        ));
    }
    parts
}

#[cfg(test)]
mod tests {
    use domain::limits::{DIFF_BYTES_MAX, DIFF_HUNKS_MAX};

    use super::blocks;

    fn sides(old: &str, new: &str) -> Vec<(String, String)> {
        let text = |block: &serde_json::Value, side: &str| block[side].as_str().unwrap().to_owned();
        let blocks = blocks("/w/a", Some(old), new);
        let sides = blocks.iter();
        sides
            .map(|block| (text(block, "oldText"), text(block, "newText")))
            .collect()
    }

    fn numbers(count: usize) -> String {
        (1..=count).map(|number| format!("{number}\n")).collect()
    }

    #[test]
    fn only_the_lines_that_differ_are_shown_with_some_around_them() {
        let old = numbers(20);
        let new = old.replace("10\n", "ten\n");
        let expected = ("7\n8\n9\n10\n11\n12\n13\n", "7\n8\n9\nten\n11\n12\n13\n");
        assert_eq!(
            sides(&old, &new),
            [(expected.0.to_owned(), expected.1.to_owned())]
        );
        let longer = format!("{old}21");
        assert_eq!(sides(&old, &longer)[0].1, "18\n19\n20\n21");
        assert_eq!(sides("a\na\n", "a\n")[0].1, "a\n");
    }

    #[test]
    fn a_new_file_has_no_old_text_and_no_change_is_no_difference() {
        let made = blocks("/w/a", None, "new\n");
        assert!(made[0]["oldText"].is_null());
        assert_eq!(made[0]["newText"], "new\n");
        assert!(blocks("/w/a", Some("same"), "same").is_empty());
        assert!(blocks("/w/a", None, &"x".repeat(1_000_000)).is_empty());
    }

    #[test]
    fn many_hunks_end_in_one_block_for_the_rest() {
        let old = numbers(DIFF_HUNKS_MAX * 40);
        let new = old.replace("0\n", "O\n");
        let sides = sides(&old, &new);
        assert_eq!(sides.len(), DIFF_HUNKS_MAX);
        let (old_rest, new_rest) = sides.last().unwrap();
        assert!(old.ends_with(old_rest.as_str()), "{old_rest}");
        assert!(new.ends_with(new_rest.as_str()), "{new_rest}");
        assert_eq!(
            old_rest.lines().next(),
            Some(format!("{}", DIFF_HUNKS_MAX * 10 - 3).as_str())
        );
        let bytes: usize = sides.iter().map(|(old, new)| old.len() + new.len()).sum();
        assert!(bytes <= DIFF_BYTES_MAX);
    }
}
