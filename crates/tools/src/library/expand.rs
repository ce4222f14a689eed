//! Putting what a person typed after a command into its text.

/// `text` with `$ARGUMENTS` and `$1` to `$9` replaced by what was typed; typed words that the text
/// has no place for come after it.
pub(super) fn expand(text: &str, typed: &str) -> String {
    let typed = typed.trim();
    let words = words(typed);
    let mut expanded = String::with_capacity(text.len() + typed.len());
    let (mut rest, mut has_place) = (text, false);
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        expanded.push_str(before);
        let digit = after.chars().next().filter(|c| ('1'..='9').contains(c));
        let is_longer = after.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
        if let Some(left) = after.strip_prefix("ARGUMENTS") {
            expanded.push_str(typed);
            (rest, has_place) = (left, true);
        } else if let Some(number) = digit
            .and_then(|digit| digit.to_digit(10))
            .filter(|_| !is_longer)
        {
            let word = words.get(number as usize - 1);
            expanded.push_str(word.map_or("", String::as_str));
            (rest, has_place) = (&after[1..], true);
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    if !has_place && !typed.is_empty() {
        let text = expanded.trim_end().len();
        expanded.truncate(text);
        expanded.push_str("\n\n");
        expanded.push_str(typed);
    }
    expanded
}

/// What was typed, word by word; quotes hold words together.
fn words(typed: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    for letter in typed.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (Some(_) | None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn what_was_typed_stands_where_the_text_wants_it() {
        let cases = [
            ("fix $ARGUMENTS now", "a b", "fix a b now"),
            (
                "$1 then $2, not $3.",
                "one \"two words\"",
                "one then two words, not .",
            ),
            ("costs $5 or $10 or $", "", "costs  or $10 or $"),
            ("no place\n", "left over", "no place\n\nleft over"),
            ("no place\n", " ", "no place\n"),
            ("$ARGUMENTS", "$1 $ARGUMENTS", "$1 $ARGUMENTS"),
            ("$1", "it's open", "its open"),
            ("é$1é", "ü", "éüé"),
        ];
        for (text, typed, expected) in cases {
            assert_eq!(expand(text, typed), expected, "{text} with {typed}");
        }
    }
}
