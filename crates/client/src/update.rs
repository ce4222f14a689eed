//! What a session tells its clients, as far as a client of ours acts on it.

use domain::Cursor;
use domain::event::ToolKind;
use serde_json::Value;
use wire::acp::TurnNotice;

/// One update with its place in the session's stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Received {
    /// What happened.
    pub(crate) update: Update,
    /// Where the client stands after it; `None` for state that is not an event, and inside a group
    /// of updates that belong to one event.
    pub(crate) cursor: Option<Cursor>,
    /// The update as it came; null for what is not ACP's.
    pub(crate) raw: Value,
}

/// What happened in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A piece of the answer.
    Text {
        /// The piece.
        text: String,
        /// Whether this is the greeting that names the model, and no part of the answer.
        greeting: bool,
        /// The id of the message that it is a piece of, if the server says so.
        message: Option<String>,
    },
    /// A piece of the thinking before the answer.
    Thought {
        /// The piece.
        text: String,
    },
    /// A tool call was proposed.
    ToolCall(ToolCall),
    /// Something about a tool call changed; only what changed is there.
    ToolUpdate(ToolCall),
    /// Something the server says to the person.
    Notice {
        /// What.
        text: String,
    },
    /// A turn started, waits or ended.
    Turn(TurnNotice),
    /// Anything else, by the name of its kind.
    Other {
        /// The value of `sessionUpdate`.
        kind: String,
    },
}

/// A tool call, or the part of it that an update names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// Its id; never empty.
    pub id: String,
    /// The tool's own name, such as `bash`.
    pub name: Option<String>,
    /// What a person reads.
    pub title: Option<String>,
    /// What sort of thing it does.
    pub kind: Option<ToolKind>,
    /// `pending`, `in_progress`, `completed` or `failed`.
    pub status: Option<String>,
    /// The tool's input.
    pub input: Option<Value>,
    /// How it ended in the journal's words (`denied`, `cancelled` …), where the server says so.
    pub outcome: Option<String>,
    /// Why it was denied, in the server's words.
    pub denial: Option<String>,
    /// Whether it is a question to the person, and no wish to do something.
    pub is_question: bool,
}
