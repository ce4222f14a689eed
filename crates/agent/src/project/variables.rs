//! Variables of the environment that a project's `.mcp.json` may name: `${NAME}`, `${NAME:-default}`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Names that begin like this are our own, and what models cost is paid with them.
const OURS: &[&str] = &["FASTNESS_", "ANTHROPIC_", "OPENAI_"];

/// What a project's file may name. It does not print.
#[derive(Clone, Default)]
pub struct Variables {
    known: Arc<BTreeMap<String, String>>,
}

impl Variables {
    /// These, without our own.
    #[must_use]
    pub fn new<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let is_ours = |name: &str| OURS.iter().any(|prefix| name.starts_with(prefix));
        let theirs = variables.filter(|(name, _)| !is_ours(name));
        let known = theirs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let known = Arc::new(known.collect());
        Self { known }
    }

    /// `text` with the variables in it put in. What looks like none stays as it is.
    ///
    /// # Errors
    /// The name of one that is not there and has no default.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let (mut expanded, mut rest) = (String::new(), text);
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else {
                break;
            };
            let (before, inside) = (&rest[..start], &rest[start + 2..start + length]);
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            expanded.push_str(before);
            if !is_name(name) {
                expanded.push_str("${");
                rest = &rest[start + 2..];
                continue;
            }
            let value = self.known.get(name).map(String::as_str);
            // As in a shell, one that is empty gives way to the default.
            let value = value.filter(|value| default.is_none() || !value.is_empty());
            expanded.push_str(value.or(default).ok_or_else(|| name.to_owned())?);
            rest = &rest[start + length + 1..];
        }
        Ok(expanded + rest)
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(is_part) && !text.starts_with(|c: char| c.is_ascii_digit())
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Variables(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::Variables;

    #[test]
    fn variables_are_put_in_and_ours_are_not_there() {
        let set = [
            ("A", "1"),
            ("EMPTY", ""),
            ("FASTNESS_TOKEN", "s"),
            ("OPENAI_API_KEY", "s"),
        ];
        let variables = Variables::new(set.into_iter());
        let expand = |text: &str| variables.expand(text);
        assert_eq!(expand("x${A}y${A}").as_deref(), Ok("x1y1"));
        assert_eq!(expand("${B:-b}${EMPTY:-e}${A:-z}").as_deref(), Ok("be1"));
        assert_eq!(expand("$A ${ {A}").as_deref(), Ok("$A ${ {A}"));
        for ours in ["FASTNESS_TOKEN", "OPENAI_API_KEY", "B"] {
            assert_eq!(expand(&format!("${{{ours}}}")), Err(ours.to_owned()));
        }
        assert!(!format!("{variables:?}").contains('1'), "it does not print");
    }
}
