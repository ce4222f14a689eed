//! What a change does to a file, for a person to see: ACP's `diff` content.

use domain::limits::DIFF_BYTES_MAX;
use serde_json::{Value, json};

/// Lines around a change that are shown with it.
const CONTEXT_LINES: usize = 3;

/// The change of the file at the absolute `path` from `old`, if there is one, to `new`: the lines
/// that differ and some around them. `None` if nothing differs, or too much to look at.
pub(crate) fn block(path: &str, old: Option<&str>, new: &str) -> Option<Value> {
    let (old, new) = match old {
        Some(old) if old == new => return None,
        Some(old) => {
            let (old, new) = changed_part(old, new);
            (Some(old), new)
        }
        None => (None, new.to_owned()),
    };
    if old.as_ref().map_or(0, String::len) + new.len() > DIFF_BYTES_MAX {
        return None;
    }
    Some(json!({"type": "diff", "path": path, "oldText": old, "newText": new}))
}

/// The lines that differ, on both sides, with what stands around them.
fn changed_part(old: &str, new: &str) -> (String, String) {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev());
    let after = after.take_while(same).count();
    let first = before.saturating_sub(CONTEXT_LINES);
    let part = |lines: &[&str]| {
        let last = (lines.len() - after + CONTEXT_LINES).min(lines.len());
        lines[first..last].concat()
    };
    (part(&old), part(&new))
}

#[cfg(test)]
mod tests {
    use super::{block, changed_part};

    #[test]
    fn only_the_lines_that_differ_are_shown_with_some_around_them() {
        let old: String = (1..=20).map(|number| format!("{number}\n")).collect();
        let new = old.replace("10\n", "ten\n");
        let (old_part, new_part) = changed_part(&old, &new);
        assert_eq!(old_part, "7\n8\n9\n10\n11\n12\n13\n");
        assert_eq!(new_part, "7\n8\n9\nten\n11\n12\n13\n");
        let longer = format!("{old}21");
        assert_eq!(changed_part(&old, &longer).1, "18\n19\n20\n21");
        assert_eq!(changed_part("a\na\n", "a\n").1, "a\n");
    }

    #[test]
    fn a_new_file_has_no_old_text_and_no_change_is_no_difference() {
        let made = block("/w/a", None, "new\n").unwrap();
        assert!(made["oldText"].is_null());
        assert_eq!(made["newText"], "new\n");
        assert_eq!(block("/w/a", Some("same"), "same"), None);
        assert_eq!(block("/w/a", None, &"x".repeat(1_000_000)), None);
    }
}
