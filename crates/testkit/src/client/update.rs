//! What an agent tells about a session, in a form that reads well in a test.

use serde_json::Value;

/// One `session/update`.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The session it is about.
    pub session: String,
    /// Its `sessionUpdate`.
    pub kind: String,
    /// The update itself.
    pub update: Value,
    /// `_meta.fastness`: the cursor after it.
    pub cursor: Value,
}

/// A finished prompt: what was said and how it ended.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The agent's text, put together; without the greeting.
    pub text: String,
    /// The agent's thoughts, put together.
    pub thoughts: String,
    /// Why the turn ended.
    pub stop_reason: String,
    /// Everything told about the session since the last answer, in order.
    pub updates: Vec<Update>,
    /// The whole result.
    pub result: Value,
}

impl Update {
    /// Reads the parameters of a `session/update`.
    pub(super) fn new(params: &Value) -> Self {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            session: word(&params["sessionId"]),
            kind: word(&params["update"]["sessionUpdate"]),
            update: params["update"].clone(),
            cursor: params["_meta"]["fastness"].clone(),
        }
    }

    /// Its text, if it is a chunk of text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.update["content"]["text"].as_str()
    }

    /// The sequence number of its cursor.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        self.cursor["seq"].as_u64()
    }

    /// Whether it tells how things stand and not what happened: it carries no cursor.
    #[must_use]
    pub fn is_state(&self) -> bool {
        self.seq().is_none()
    }

    /// Whether it is the greeting that precedes the first prompt.
    #[must_use]
    pub fn is_greeting(&self) -> bool {
        self.cursor["greeting"] == true || self.update["_meta"]["fastness"]["greeting"] == true
    }
}

impl Answer {
    pub(super) fn new(updates: Vec<Update>, result: Value) -> Self {
        Self {
            text: text_of(&updates, "agent_message_chunk"),
            thoughts: text_of(&updates, "agent_thought_chunk"),
            stop_reason: result["stopReason"].as_str().unwrap_or_default().to_owned(),
            updates,
            result,
        }
    }

    /// The kinds of its updates, in order, repeats left out.
    #[must_use]
    pub fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<_> = self.updates.iter().map(|u| u.kind.as_str()).collect();
        kinds.dedup();
        kinds
    }
}

/// The text of all chunks of `kind`, put together; without greetings.
#[must_use]
pub fn text_of<'a>(updates: impl IntoIterator<Item = &'a Update>, kind: &str) -> String {
    updates
        .into_iter()
        .filter(|update| update.kind == kind && !update.is_greeting())
        .filter_map(Update::text)
        .collect()
}
