//! Front matter: the few plain fields at the top of a skill or command.
//!
//! Names and descriptions are read line by line, because people write `description: Use when: x`,
//! which is not YAML. Other fields are read as YAML ([`super::yaml`]).

use domain::limits::FRONT_MATTER_BYTES_MAX;

use super::yaml::{self, Field};

/// The fields at the top of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontMatter {
    fields: Vec<(String, String)>,
    /// All lines.
    text: String,
}

impl FrontMatter {
    /// The value of `key`, unless it is empty.
    pub(crate) fn field(&self, key: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(name, _)| name == key);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// The value of `key`, read as YAML.
    pub(crate) fn yaml(&self, key: &str) -> Field {
        yaml::field(&self.text, key)
    }

    /// The value of `key` without the comment after it.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.yaml(key) {
            Field::Text(text) => Some(text),
            Field::Absent | Field::Null => None,
            Field::List(_) | Field::Unreadable => self.field(key).map(str::to_owned),
        }
    }
}

/// The fields of a file and the text after them. Without an end they are no fields.
pub(crate) fn split(text: &str) -> (FrontMatter, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(inside) = first_line(text)
        .filter(|(line, _)| *line == "---")
        .map(|(_, rest)| rest)
    else {
        return (FrontMatter::default(), text);
    };
    let mut lines = Vec::new();
    let mut rest = inside;
    while let Some((line, after)) = first_line(rest) {
        if inside.len() - rest.len() > FRONT_MATTER_BYTES_MAX {
            break;
        }
        if line == "---" || line == "..." {
            return (fields(&lines), after);
        }
        lines.push(line);
        rest = after;
    }
    (FrontMatter::default(), text)
}

fn first_line(text: &str) -> Option<(&str, &str)> {
    if text.is_empty() {
        return None;
    }
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    Some((line.strip_suffix('\r').unwrap_or(line), rest))
}

fn fields(all: &[&str]) -> FrontMatter {
    let mut fields = Vec::new();
    let mut lines = all.iter().peekable();
    while let Some(line) = lines.next() {
        // Lines that are set in belong to something we do not read.
        let is_key = line.starts_with(|first: char| first.is_alphanumeric());
        let Some((key, value)) = line.split_once(':').filter(|_| is_key) else {
            continue;
        };
        let value = match value.trim() {
            "|" | "|-" | "|+" | ">" | ">-" | ">+" | "" => {
                let mut block = Vec::new();
                while let Some(more) = lines.next_if(|line| is_inside(line)) {
                    block.push(more.trim());
                }
                block.join(" ").trim().to_owned()
            }
            plain => unquoted(plain),
        };
        fields.push((key.trim().to_owned(), value));
    }
    let text = all.join("\n");
    FrontMatter { fields, text }
}

fn is_inside(line: &str) -> bool {
    line.starts_with([' ', '\t']) || line.is_empty()
}

fn unquoted(value: &str) -> String {
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    match (inside('"'), inside('\'')) {
        (Some(text), _) => text.replace("\\\"", "\"").replace("\\\\", "\\"),
        (None, Some(text)) => text.replace("''", "'"),
        (None, None) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, Strategy, prop};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::super::yaml::Field;
    use super::split;

    #[test]
    fn plain_quoted_and_folded_fields_are_read_and_the_rest_is_the_body() {
        let text = "---\r\nname: review\ndescription: >\n  Looks at\n  a change\nargument-hint: \"[\\\"file\\\"]\"\nmetadata:\n  name: other\n---\nbody\n---\n";
        let (fields, body) = split(text);
        assert_eq!(fields.field("name"), Some("review"));
        assert_eq!(fields.field("description"), Some("Looks at a change"));
        assert_eq!(fields.field("argument-hint"), Some("[\"file\"]"));
        assert_eq!(fields.field("metadata"), Some("name: other"));
        assert_eq!(fields.field("missing"), None);
        assert_eq!(body, "body\n---\n");
    }

    #[test]
    fn without_an_end_or_too_long_it_is_all_body() {
        for text in [
            String::new(),
            "no fields".to_owned(),
            "---\nname: x\n".to_owned(),
            format!("---\n{}---\nbody", "a: b\n".repeat(10_000)),
            format!("---\n{}\n---\nbody", "x".repeat(20_000)),
        ] {
            let (fields, body) = split(&text);
            assert_eq!((fields.field("name"), body), (None, text.as_str()));
        }
    }

    /// Lines as people write them at the top of a file, right and wrong.
    fn lines() -> impl Strategy<Value = String> {
        let line = prop::sample::select(vec![
            "---",
            "...",
            "name: x",
            "description: Use when: y",
            "tools: Read, Grep",
            "tools: [Read",
            "tools:",
            "- Read",
            "  - Grep",
            "  more: z",
            "# remark",
            "",
            "text without a colon",
            "\ttab: 1",
            "model: >",
            "metadata: {a: b}",
        ]);
        prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn tools_that_are_named_are_never_absent(inside in lines(), body in lines()) {
            let text = format!("---\n{inside}\n---\n{body}");
            let (fields, rest) = split(&text);
            prop_assert!(text.ends_with(rest));
            let end = inside.lines().position(|line| line == "---" || line == "...");
            let own: Vec<&str> = inside.lines().take(end.unwrap_or(usize::MAX)).collect();
            let is_named = own.iter().any(|line| line.starts_with("tools:"));
            prop_assert_eq!(fields.yaml("tools") != Field::Absent, is_named, "{}", text);
            let dos = text.replace('\n', "\r\n");
            prop_assert_eq!(split(&dos).0, fields);
        }
    }
}
