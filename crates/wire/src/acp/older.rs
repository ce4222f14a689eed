//! The older spellings that clients still use: flat method names, snake_case parameters, and
//! prompts that are plain strings. What leaves here is spelled as ACP 1 spells it.

use serde_json::{Map, Value, json};

/// The methods that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `initialize`
    Initialize,
    /// `authenticate`
    Authenticate,
    /// `logout`
    Logout,
    /// `session/new`
    NewSession,
    /// `session/load`
    LoadSession,
    /// `session/resume`
    ResumeSession,
    /// `session/list`
    ListSessions,
    /// `session/close`
    CloseSession,
    /// `session/delete`
    DeleteSession,
    /// `session/prompt`
    Prompt,
    /// `session/set_mode`
    SetMode,
    /// `session/set_config_option`
    SetConfigOption,
    /// `_fastness/session/rewind`
    Rewind,
    /// `session/cancel`
    Cancel,
    /// `$/cancel_request`
    CancelRequest,
}

impl Method {
    /// The method of that name, old or new.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "initialize" => Self::Initialize,
            "authenticate" => Self::Authenticate,
            "logout" => Self::Logout,
            "session/new" | "new_session" => Self::NewSession,
            "session/load" | "load_session" => Self::LoadSession,
            "session/resume" | "resume_session" => Self::ResumeSession,
            "session/list" | "list_sessions" => Self::ListSessions,
            "session/close" | "close_session" => Self::CloseSession,
            "session/delete" | "delete_session" => Self::DeleteSession,
            "session/prompt" | "prompt" => Self::Prompt,
            "session/set_mode" | "set_mode" | "set_session_mode" => Self::SetMode,
            "session/set_config_option" | "set_config_option" | "set_session_config_option" => {
                Self::SetConfigOption
            }
            "_fastness/session/rewind" => Self::Rewind,
            "session/cancel" | "cancel" => Self::Cancel,
            "$/cancel_request" => Self::CancelRequest,
            _ => return None,
        })
    }
}

/// Spells the parameters of `method` as ACP 1 does.
///
/// Only keys that ACP defines are renamed, and only where it defines them: `_meta`, texts and
/// whatever else a client may fill freely stay as they are.
pub(super) fn modernise(method: Method, params: &mut Map<String, Value>) {
    rename(params, TOP_LEVEL);
    match method {
        Method::Initialize => {
            within(params, "clientCapabilities", |capabilities| {
                within(capabilities, "fs", |fs| rename(fs, FILE_SYSTEM));
                within(capabilities, "session", |session| {
                    rename(session, CLIENT_SESSION)
                });
            });
        }
        Method::NewSession | Method::LoadSession => {
            params.entry("mcpServers").or_insert_with(|| json!([]));
        }
        Method::Prompt => modernise_prompt(params),
        Method::Authenticate
        | Method::Logout
        | Method::ResumeSession
        | Method::ListSessions
        | Method::CloseSession
        | Method::DeleteSession
        | Method::SetMode
        | Method::SetConfigOption
        | Method::Rewind
        | Method::Cancel
        | Method::CancelRequest => {}
    }
}

type Names = &'static [(&'static str, &'static str)];

const TOP_LEVEL: Names = &[
    ("additional_directories", "additionalDirectories"),
    ("client_capabilities", "clientCapabilities"),
    ("client_info", "clientInfo"),
    ("config_id", "configId"),
    ("mcp_servers", "mcpServers"),
    ("method_id", "methodId"),
    ("mode_id", "modeId"),
    ("protocol_version", "protocolVersion"),
    ("session_id", "sessionId"),
];
const FILE_SYSTEM: Names = &[
    ("read_text_file", "readTextFile"),
    ("write_text_file", "writeTextFile"),
];
const CLIENT_SESSION: Names = &[("config_options", "configOptions")];
const CONTENT: Names = &[("mime_type", "mimeType")];
const ANNOTATIONS: Names = &[("last_modified", "lastModified")];

fn modernise_prompt(params: &mut Map<String, Value>) {
    let Some(prompt) = params.get_mut("prompt") else {
        return;
    };
    if prompt.is_string() {
        *prompt = Value::Array(vec![prompt.take()]);
    }
    for block in prompt.as_array_mut().into_iter().flatten() {
        if block.is_string() {
            let text = block.take();
            *block = json!({"type": "text"});
            block["text"] = text;
        } else if let Value::Object(block) = block {
            rename(block, CONTENT);
            within(block, "resource", |resource| rename(resource, CONTENT));
            within(block, "annotations", |annotations| {
                rename(annotations, ANNOTATIONS)
            });
        }
    }
}

/// Runs `change` on the object at `key`, if there is one.
fn within(
    object: &mut Map<String, Value>,
    key: &str,
    change: impl FnOnce(&mut Map<String, Value>),
) {
    if let Some(Value::Object(inner)) = object.get_mut(key) {
        change(inner);
    }
}

/// Renames old keys. Where both spellings stand, the new one counts.
fn rename(object: &mut Map<String, Value>, names: Names) {
    for (old, new) in names {
        if let Some(value) = object.swap_remove(*old) {
            object.entry(*new).or_insert(value);
        }
    }
}
