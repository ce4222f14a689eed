//! Writing JSON text by hand where that is both infallible and quick.

/// Appends `text` as a JSON string, with quotes.
///
/// Escapes what RFC 8259 demands and nothing else, as `serde_json` does.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    // Everything that needs an escape is one ASCII byte, so both cuts are character boundaries.
    while let Some(at) = rest.bytes().position(needs_escape) {
        let (plain, tail) = rest.split_at(at);
        out.push_str(plain);
        let mut characters = tail.chars();
        if let Some(character) = characters.next() {
            push_escaped(out, character);
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Turns a JSON text into one line.
///
/// Inside strings line ends are escaped; the ones left stand between tokens, where a space is the
/// same. They come from values that are passed on as raw text.
pub(crate) fn single_line(json: String) -> String {
    if json.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) {
        json.replace(['\n', '\r'], " ")
    } else {
        json
    }
}

/// The start of `text`, at most `bytes_max` bytes and whole characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn push_escaped(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        control => {
            let code = u32::from(control);
            out.push_str("\\u00");
            for shift in [4, 0] {
                out.extend(char::from_digit((code >> shift) & 0xf, 16));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{cut, push_string, single_line};

    #[test]
    fn strings_are_escaped_as_serde_json_does() {
        let every_low_character: String = (0..0x300).filter_map(char::from_u32).collect();
        for text in [
            "",
            "plain",
            "\"",
            "a\\b\n",
            "\u{2028}é🦀\u{7f}",
            &every_low_character,
        ] {
            let mut out = String::new();
            push_string(&mut out, text);
            assert_eq!(out, serde_json::to_string(text).unwrap());
        }
    }

    #[test]
    fn line_ends_between_tokens_become_spaces() {
        assert_eq!(single_line("{\r\n\"a\":1}".into()), "{  \"a\":1}");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 9), "aé");
    }
}
