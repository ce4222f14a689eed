//! Text that is like a pattern in which each `*` stands for anything: names of tools in rules, hooks and
//! lists, commands, addresses.

/// Whether all of `text` is like `pattern`. Linear for each star: no tower of attempts.
#[must_use]
pub fn is_like(text: &str, pattern: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn stars_stand_for_anything_also_nothing_and_pieces_do_not_overlap() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("a*", "a"),
            ("a*b*c", "a.b.b.c"),
            ("**", "x"),
        ] {
            assert!(is_like(text, pattern), "{pattern} {text}");
        }
        for (pattern, text) in [("", "x"), ("ab*b", "ab"), ("a*b", "abc"), ("*é", "e")] {
            assert!(!is_like(text, pattern), "{pattern} {text}");
        }
    }
}
