//! Results of the methods that a client calls, as values for [`crate::rpc::response`].

use domain::clock::Timestamp;
use domain::event::{StopReason, Usage};
use domain::{Cursor, EventSeq, QueuedPrompt, SessionId};
use serde_json::{Map, Value, json};

use super::PROTOCOL_VERSION;
use super::meta::{ResumeToken, TurnStatus, UpdateMeta};
use super::settings::Settings;

/// What the answers to `session/new`, `load` and `resume` say.
#[derive(Clone, Debug)]
pub struct Attached<'a> {
    /// What is set, and what could be.
    pub settings: Settings<'a>,
    /// The newest turn.
    pub turn: TurnStatus,
    /// By which the client may come back.
    pub resume_token: Option<&'a ResumeToken>,
    /// Where delivery starts when the client's cursor was void.
    pub resync_from: Option<EventSeq>,
    /// After what delivery goes on, where the client could not know it.
    pub cursor: Option<Cursor>,
    /// Where the journal is damaged: what lies before was replayed, and nothing can be added.
    pub damaged_at: Option<EventSeq>,
    /// The prompts that wait, for clients that asked for the queue.
    pub queue: &'a [QueuedPrompt],
    /// Names of parameters that had no effect.
    pub ignored: &'a [&'a str],
}

/// One session in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEntry {
    /// Which.
    pub session: SessionId,
    /// Where it works.
    pub cwd: String,
    /// Its other roots.
    pub additional_directories: Vec<String>,
    /// What people call it.
    pub title: Option<String>,
    /// When something last happened in it.
    pub updated_at: Option<Timestamp>,
}

/// The id of the one authentication method: storing an API key with `fastness login`.
pub const LOGIN_METHOD: &str = "fastness-login";

/// How a client can have the user store an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginOffer {
    /// Not at all: the client is a guest, and the keys are the operator's.
    None,
    /// It runs us in a terminal, with arguments of ours after its own.
    Terminal,
    /// It cannot run a terminal, and tells the user what to do.
    Agent,
}

impl LoginOffer {
    fn methods(self) -> Value {
        let name = "API key";
        match self {
            Self::None => json!([]),
            Self::Terminal => json!([{
                "type": "terminal",
                "id": LOGIN_METHOD,
                "name": name,
                "description": "Store an API key for a model provider",
                "args": ["--login"],
            }]),
            // A method without a type is of type `agent`; the schema has no other way to say so.
            Self::Agent => json!([{
                "id": LOGIN_METHOD,
                "name": name,
                "description": "Run `fastness login` in a terminal to store an API key",
            }]),
        }
    }
}

/// The answer to `initialize`: who we are, what we speak, what we can do.
#[must_use]
pub fn initialize_result(version: &str, message_bytes_max: usize, login: LoginOffer) -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "fastness", "title": "Fastness", "version": version},
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
            "mcpCapabilities": {"http": true, "sse": true},
            "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
        },
        "authMethods": login.methods(),
        "_meta": {"fastness": {"maxMessageBytes": message_bytes_max}},
    })
}

/// The answer to `session/new`.
#[must_use]
pub fn new_session_result(session: SessionId, attached: &Attached<'_>) -> Value {
    let mut result = load_result(attached);
    result["sessionId"] = json!(session);
    result
}

/// The answer to `session/load`.
#[must_use]
pub fn load_result(attached: &Attached<'_>) -> Value {
    let mut fastness = Map::new();
    fastness.insert("turn".into(), json!(attached.turn));
    if let Some(token) = attached.resume_token {
        fastness.insert("resumeToken".into(), json!(token));
    }
    if let Some(from) = attached.resync_from {
        fastness.insert("resyncFrom".into(), json!(from));
    }
    if let Some(cursor) = attached.cursor {
        fastness.insert("cursor".into(), json!(UpdateMeta::at(cursor)));
    }
    if let Some(at) = attached.damaged_at {
        fastness.insert("damagedAt".into(), json!(at));
    }
    if !attached.queue.is_empty() {
        fastness.insert("queue".into(), json!(attached.queue));
    }
    if !attached.ignored.is_empty() {
        fastness.insert("ignored".into(), json!(attached.ignored));
    }
    json!({
        "modes": attached.settings.mode_state(),
        "configOptions": attached.settings.options(),
        "_meta": {"fastness": fastness},
    })
}

/// The answer to `session/resume`, which ACP shapes as that to `session/load`.
#[must_use]
pub fn resume_result(attached: &Attached<'_>) -> Value {
    load_result(attached)
}

/// The answer to `session/list`.
#[must_use]
pub fn list_result(sessions: &[SessionEntry], next_cursor: Option<&str>) -> Value {
    let sessions: Vec<Value> = sessions.iter().map(session_info).collect();
    let mut result = json!({"sessions": sessions});
    if let Some(cursor) = next_cursor {
        result["nextCursor"] = json!(cursor);
    }
    result
}

/// The answer to `session/prompt` when its turn did not fail.
#[must_use]
pub fn prompt_result(stop_reason: StopReason, usage: Option<&Usage>) -> Value {
    let mut result = json!({"stopReason": stop_reason});
    if let Some(usage) = usage {
        result["_meta"] = json!({"fastness": {"usage": usage}});
    }
    result
}

/// The answer to `_fastness/session/rewind`: the last event that counts, and the one that says so.
#[must_use]
pub fn rewind_result(to: EventSeq, seq: EventSeq) -> Value {
    json!({"to": to, "seq": seq})
}

/// The answer to `session/set_config_option`: all options as they stand now.
#[must_use]
pub fn set_config_option_result(settings: &Settings<'_>) -> Value {
    json!({"configOptions": settings.options()})
}

/// The answer to `session/set_mode`, `close`, `delete`, `authenticate` and `logout`.
#[must_use]
pub fn empty_result() -> Value {
    json!({})
}

fn session_info(entry: &SessionEntry) -> Value {
    let mut info = json!({"sessionId": entry.session, "cwd": entry.cwd});
    if !entry.additional_directories.is_empty() {
        info["additionalDirectories"] = json!(entry.additional_directories);
    }
    if let Some(title) = &entry.title {
        info["title"] = json!(title);
    }
    if let Some(updated_at) = entry.updated_at {
        info["updatedAt"] = json!(updated_at.to_rfc3339());
    }
    info
}
