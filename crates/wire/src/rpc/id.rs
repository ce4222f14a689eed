//! The name of a request, kept as it was written so that it can be echoed exactly.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use domain::limits::RPC_ID_BYTES_MAX;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::text::push_string;

/// A request's name: null, an integer or a string.
///
/// Printed and serialised exactly as it was written; compared by what it means, so `"a"` and
/// `"\u0061"` are the same id and `1` and `"1"` are not. Cheap to clone.
#[derive(Clone)]
pub struct RequestId {
    json: Arc<str>,
    /// What a string says, where its escapes make that differ from how it is written.
    unescaped: Option<Arc<str>>,
}

/// The JSON value is not null, an integer, or a string of acceptable length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is null, an integer or a string of at most {RPC_ID_BYTES_MAX} bytes")]
pub struct NotARequestId;

impl RequestId {
    /// The id `null`.
    #[must_use]
    pub fn null() -> Self {
        Self::plain("null".into())
    }

    /// An integer.
    #[must_use]
    pub fn integer(value: i64) -> Self {
        Self::plain(value.to_string().into())
    }

    /// A string.
    pub fn string(value: impl Into<String>) -> Self {
        let value = value.into();
        let mut json = String::with_capacity(value.len() + 2);
        push_string(&mut json, &value);
        let unescaped = json.contains('\\').then(|| value.into());
        Self {
            json: json.into(),
            unescaped,
        }
    }

    /// Takes an id from JSON text.
    ///
    /// # Errors
    /// If it is another kind of value, or too long to be echoed.
    pub fn from_json(json: &str) -> Result<Self, NotARequestId> {
        const QUOTES: usize = 2;
        let json = json.trim_ascii();
        if json.len() > RPC_ID_BYTES_MAX + QUOTES {
            return Err(NotARequestId);
        }
        if json.starts_with('"') {
            let value: String = serde_json::from_str(json).map_err(|_| NotARequestId)?;
            let unescaped = json.contains('\\').then(|| value.into());
            return Ok(Self {
                json: json.into(),
                unescaped,
            });
        }
        if json == "null" || is_integer(json) {
            return Ok(Self::plain(json.into()));
        }
        Err(NotARequestId)
    }

    /// What it says if it is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        let written = self.json.strip_prefix('"')?.strip_suffix('"')?;
        Some(self.unescaped.as_deref().unwrap_or(written))
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        &*self.json == "null"
    }

    /// The id as JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.json
    }

    fn plain(json: Arc<str>) -> Self {
        Self {
            json,
            unescaped: None,
        }
    }

    /// What counts when ids are compared: whether it is a string, and what it says.
    fn meaning(&self) -> (bool, &str) {
        match self.as_str() {
            Some(text) => (true, text),
            // The only integer with two spellings.
            None if &*self.json == "-0" => (false, "0"),
            None => (false, &self.json),
        }
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.meaning() == other.meaning()
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning().hash(state);
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.json).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(raw.get()).map_err(serde::de::Error::custom)
    }
}

/// Whether `json` is an integer as JSON writes them: no leading zero, no fraction, no exponent.
fn is_integer(json: &str) -> bool {
    let digits = json.strip_prefix('-').unwrap_or(json);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number && (digits.len() == 1 || !digits.starts_with('0')) && digits.len() <= RPC_ID_BYTES_MAX
}
