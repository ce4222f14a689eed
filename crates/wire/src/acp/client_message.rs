//! What a client may send, each message with exactly what the server needs of it.

use std::fmt;

use domain::ids::NotASessionId;
use domain::{EventSeq, SessionId};
use serde_json::Value;

use super::meta::FastnessMeta;
use crate::rpc::RequestId;

/// The session a message names. What is no session id names no session, which the server answers
/// as it answers unknown ones (`?` turns it into that error).
pub type SessionRef = Result<SessionId, NotASessionId>;

/// A request or notification of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    /// `initialize`
    Initialize(Initialize),
    /// `authenticate`, with the id of the method.
    Authenticate(String),
    /// `logout`
    Logout,
    /// `session/new`
    NewSession(NewSession),
    /// `session/load`
    LoadSession(Attach),
    /// `session/resume`
    ResumeSession(Attach),
    /// `session/list`
    ListSessions(ListSessions),
    /// `session/close`
    CloseSession(SessionRef),
    /// `session/delete`
    DeleteSession(SessionRef),
    /// `session/prompt`
    Prompt(Prompt),
    /// `session/set_mode`
    SetMode(SetMode),
    /// `session/set_config_option`
    SetConfigOption(SetConfigOption),
    /// `_fastness/session/rewind`, ours.
    Rewind(Rewind),
    /// `session/cancel`, a notification.
    Cancel(SessionRef),
    /// `$/cancel_request`, a notification that names a request of the same connection.
    CancelRequest(RequestId),
    /// A method that is not served: an error to a request, nothing to a notification.
    Unknown(String),
}

impl ClientMessage {
    /// The session it names, if it names one.
    #[must_use]
    pub fn session(&self) -> Option<SessionRef> {
        match self {
            Self::LoadSession(attach) | Self::ResumeSession(attach) => Some(attach.session),
            Self::CloseSession(session) | Self::DeleteSession(session) | Self::Cancel(session) => {
                Some(*session)
            }
            Self::Prompt(prompt) => Some(prompt.session),
            Self::SetMode(set) => Some(set.session),
            Self::SetConfigOption(set) => Some(set.session),
            Self::Rewind(rewind) => Some(rewind.session),
            Self::Initialize(_)
            | Self::Authenticate(_)
            | Self::Logout
            | Self::NewSession(_)
            | Self::ListSessions(_)
            | Self::CancelRequest(_)
            | Self::Unknown(_) => None,
        }
    }

    /// Whether the protocol defines it as a notification.
    #[must_use]
    pub fn is_notification(&self) -> bool {
        matches!(self, Self::Cancel(_) | Self::CancelRequest(_))
    }
}

/// The first message of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Initialize {
    /// The newest version the client speaks.
    pub protocol_version: u16,
    /// What it can do for the agent.
    pub capabilities: ClientCapabilities,
    /// What it calls itself.
    pub client: Option<ClientInfo>,
}

/// A client's name for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// For programs.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// Its version.
    pub version: String,
}

/// What a client can do for the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// `fs/read_text_file`
    pub read_text_file: bool,
    /// `fs/write_text_file`
    pub write_text_file: bool,
    /// All of `terminal/*`
    pub terminal: bool,
    /// It can run us in a terminal, for the user to log in.
    pub terminal_login: bool,
    /// It shows `notice` updates.
    pub notices: bool,
    /// It shows `compaction_*` updates.
    pub compaction: bool,
    /// It shows forms, by `elicitation/create`.
    pub forms: bool,
    /// It has tools of its own, by `_discover_tools` and `_call_tool`.
    pub tools: bool,
    /// It wants `_fastness/turn`.
    pub turns: bool,
    /// It wants `_fastness/queue`.
    pub queue: bool,
}

/// A wish for a new session.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSession {
    /// Where the session works; not yet checked.
    pub cwd: String,
    /// Other roots; not yet checked.
    pub additional_directories: Vec<String>,
    /// MCP servers to connect to.
    pub mcp_servers: Vec<McpServer>,
    /// Our extensions.
    pub meta: FastnessMeta,
}

/// A wish to enter an existing session, by `session/load` or `session/resume`.
#[derive(Clone, Debug, PartialEq)]
pub struct Attach {
    /// Which one.
    pub session: SessionRef,
    /// Must equal the session's own.
    pub cwd: String,
    /// Other roots; not yet checked.
    pub additional_directories: Vec<String>,
    /// MCP servers to connect to.
    pub mcp_servers: Vec<McpServer>,
    /// Our extensions: the cursor and the resume token.
    pub meta: FastnessMeta,
}

/// An MCP server as the client described it, valid by ACP. Its environment and headers may hold
/// secrets, so only its name is ever printed.
#[derive(Clone, PartialEq)]
pub struct McpServer(pub Value);

impl McpServer {
    /// What the client calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpServer").field(&self.name()).finish()
    }
}

/// One page of the list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSessions {
    /// Only those that work there.
    pub cwd: Option<String>,
    /// Where the page before this one ended.
    pub cursor: Option<String>,
}

/// A prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// For which session.
    pub session: SessionRef,
    /// Its content blocks, each valid by ACP.
    pub blocks: Vec<Value>,
    /// The same as text for a model.
    pub text: String,
    /// Our extensions: prompt id and queueing.
    pub meta: FastnessMeta,
}

/// A wish for another permission mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetMode {
    /// In which session.
    pub session: SessionRef,
    /// The id of the mode; not yet checked.
    pub mode: String,
}

/// A wish for another setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetConfigOption {
    /// In which session.
    pub session: SessionRef,
    /// The id of the option; not yet checked.
    pub option: String,
    /// What to set it to; not yet checked.
    pub value: ConfigValue,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigValue {
    /// One of the option's choices.
    Choice(String),
    /// On or off.
    Switch(bool),
}

/// A wish to undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewind {
    /// In which session.
    pub session: SessionRef,
    /// The event up to which everything stays.
    pub to: EventSeq,
}
