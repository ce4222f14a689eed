//! What a server says that wants to know who asks: the `WWW-Authenticate` header.

use http::header::{HeaderMap, WWW_AUTHENTICATE};
use serde::{Deserialize, Serialize};

/// A `Bearer` challenge, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Challenge {
    /// Where the server describes itself.
    pub(crate) resource_metadata: Option<String>,
    /// What a token must be good for.
    pub(crate) scope: Option<String>,
    /// What was wrong with the token that it got.
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// The first `Bearer` challenge of a response; one that says nothing if there is none.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let all = headers.get_all(WWW_AUTHENTICATE).into_iter();
        let mut texts = all.filter_map(|value| value.to_str().ok());
        texts.find_map(parse).unwrap_or_default()
    }

    /// Whether the token was good, though not for this.
    pub(crate) fn lacks_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// The `Bearer` challenge in `text`, which may hold those of other schemes too.
fn parse(text: &str) -> Option<Challenge> {
    let mut found = None;
    let mut is_bearer = false;
    for item in items(text) {
        // A scheme is a word of its own; the first parameter may follow it.
        let (scheme, parameter) = match item.split_once(char::is_whitespace) {
            Some((first, rest)) if !first.contains('=') => (Some(first), rest.trim()),
            None if !item.contains('=') => (Some(item), ""),
            Some(_) | None => (None, item),
        };
        if let Some(scheme) = scheme {
            if found.is_some() {
                break;
            }
            is_bearer = scheme.eq_ignore_ascii_case("bearer");
        }
        if is_bearer {
            let challenge = found.get_or_insert_with(Challenge::default);
            take(challenge, parameter);
        }
    }
    found
}

fn take(challenge: &mut Challenge, parameter: &str) {
    let Some((name, value)) = parameter.split_once('=') else {
        return;
    };
    let value = unquoted(value.trim());
    let slot = match name.trim().to_ascii_lowercase().as_str() {
        "resource_metadata" => &mut challenge.resource_metadata,
        "scope" => &mut challenge.scope,
        "error" => &mut challenge.error,
        _ => return,
    };
    slot.get_or_insert(value);
}

/// The parts between commas that stand outside of quotes.
fn items(text: &str) -> Vec<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let separates = |letter: char| {
        let separates = letter == ',' && !is_quoted;
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        separates
    };
    let items = text.split(separates).map(str::trim);
    items.filter(|item| !item.is_empty()).collect()
}

fn unquoted(value: &str) -> String {
    let inner = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let Some(inner) = inner else {
        return value.to_owned();
    };
    let mut plain = String::with_capacity(inner.len());
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        plain.extend(match letter {
            '\\' => letters.next(),
            other => Some(other),
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{Challenge, parse};

    #[test]
    fn a_bearer_challenge_is_found_among_others_and_quotes_are_honoured() {
        let text = r#"Basic realm="a, Bearer scope=x", Bearer error="insufficient_scope", scope="read \"all\"", resource_metadata="https://h/p?a=b,c", Digest scope="no""#;
        let expected = Challenge {
            resource_metadata: Some("https://h/p?a=b,c".to_owned()),
            scope: Some("read \"all\"".to_owned()),
            error: Some("insufficient_scope".to_owned()),
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("Bearer"), Some(Challenge::default()));
        assert_eq!(parse("bearer scope=one"), {
            let scope = Some("one".to_owned());
            Some(Challenge {
                scope,
                ..Challenge::default()
            })
        });
        for other in ["", "Basic realm=x", ",,=,", "\"Bearer\"", "Negotiate abc=="] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
