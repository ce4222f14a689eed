//! Names of things, each its own type so that they cannot be mixed up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A session's name: 32 lower-case hexadecimal digits, never used twice.
///
/// Bytes and not a number, which would have every event that names one aligned to sixteen of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 16]);

/// The string is not 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session id is 32 lower-case hexadecimal digits")]
pub struct NotASessionId;

impl SessionId {
    /// A new name that nobody can guess and nothing else has.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().into_bytes())
    }

    /// The name whose [`SessionId::as_bytes`] these are.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The name as bytes: half as long as its digits, and sorted as they are.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = NotASessionId;

    fn from_str(text: &str) -> Result<Self, NotASessionId> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.as_bytes().iter().all(is_digit) {
            return Err(NotASessionId);
        }
        u128::from_str_radix(text, 16)
            .map(|number| Self(number.to_be_bytes()))
            .map_err(|_| NotASessionId)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SessionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An event's place in its session's journal: 1, 2, 3 … ; 0 stands before the first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EventSeq(pub u64);

impl EventSeq {
    /// The place after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for EventSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of a turn in its session, from 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TurnId(pub u64);

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes a name as it came.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// A new UUID v4 name.
            #[must_use]
            pub fn random() -> Self {
                Self(uuid::Uuid::new_v4().to_string())
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// A message of the assistant (or a user's echoed one), as ACP's `messageId`.
    MessageId
}
text_id! {
    /// One proposed tool call, as ACP's `toolCallId`.
    CallId
}
text_id! {
    /// One permission question.
    PermissionId
}
text_id! {
    /// The client's own name for a prompt, so that sending it twice runs it once.
    PromptId
}
text_id! {
    /// One connection of a client.
    ConnectionId
}

/// Who owns a session or acts on one: `local`, or a named token's own id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PrincipalId(String);

impl PrincipalId {
    /// The person at this machine: the default token, stdio, in-process commands.
    #[must_use]
    pub fn local() -> Self {
        Self("local".to_owned())
    }

    /// A principal by its stored name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The stored name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{NotASessionId, SessionId};

    #[test]
    fn a_session_id_is_exactly_32_lower_case_hex_digits() {
        let id = SessionId::random();
        assert_eq!(id.to_string().parse(), Ok(id));
        let low = "0".repeat(31) + "1";
        assert_eq!(low.parse::<SessionId>().map(|id| id.to_string()), Ok(low));
        for wrong in [
            "",
            "../../etc/passwd",
            &"A".repeat(32),
            &"0".repeat(33),
            &("+".to_owned() + &"0".repeat(31)),
        ] {
            assert_eq!(wrong.parse::<SessionId>(), Err(NotASessionId), "{wrong}");
        }
    }
}
