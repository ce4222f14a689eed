//! A tool's JSON schema, written once: it goes out with every call and never changes.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A JSON schema as the text that providers are sent. Cheap to clone.
#[derive(Clone)]
pub struct Schema(Arc<RawValue>);

impl Schema {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        // A value is always JSON.
        let written = to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self(written.into())
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
