//! A provider's key: usable in a request, never printed.

use std::fmt;

/// An API key, and where it comes from.
#[derive(Clone, Debug)]
pub struct Key {
    /// The key.
    pub secret: Secret,
    /// A short clause for people, such as `OPENAI_API_KEY is set`.
    pub source: String,
}

/// A key that does not show itself in logs or error messages.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a key as it came, without the white space that copying leaves around it.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: AsRef<str>> From<T> for Key {
    fn from(text: T) -> Self {
        Self {
            secret: Secret::new(text),
            source: "a key is set".to_owned(),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}
