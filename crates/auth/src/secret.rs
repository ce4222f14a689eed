//! Text that must never be printed.

use std::fmt;

use subtle::ConstantTimeEq;

/// A secret: it compares in constant time and prints as `[secret]`.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes `text` into custody.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether `shown` is this secret, in time that depends on lengths only.
    #[must_use]
    pub fn matches(&self, shown: &str) -> bool {
        self.0.as_bytes().ct_eq(shown.as_bytes()).into()
    }

    /// The text itself, for the one place that must send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
