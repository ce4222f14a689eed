//! The Agent Client Protocol, version 1: what clients ask, what the agent answers and reports.
//!
//! [`decode()`] reads a client's message, validated with the official types and freed of the older
//! spellings; [`text_chunk`] and [`event_updates`] turn a session's stream into `session/update`
//! frames; the functions that end in `_result` make answers for [`crate::rpc::response`].
//! [`client_side`] asks for a client's own files and terminals. [`decode_agent`] and [`requests`] are the other side, for our own client.

mod agent_message;
mod client_message;
pub mod client_side;
mod content;
mod decode;
mod frames;
mod meta;
mod older;
mod permission;
mod question;
pub mod requests;
mod results;
mod settings;
mod trace;
mod updates;

pub use agent_message::{AgentMessage, PermissionQuestion, SessionUpdate, decode_agent};
pub use client_message::{
    Attach, ClientCapabilities, ClientInfo, ClientMessage, ConfigValue, Initialize, ListSessions,
    McpServer, NewSession, Prompt, Rewind, SessionRef, SetConfigOption, SetMode,
};
pub use decode::decode;
pub use frames::{
    NoticeSeverity, QueueChange, QueueNotice, RewoundNotice, TurnNotice, cancel_request,
    notice_update, queue_notification, rewound_notification, turn_notification,
};
pub use frames::{available_commands_update, config_option_update, current_mode_update};
pub use meta::{FastnessMeta, ResumeToken, TurnState, TurnStatus, UpdateMeta};
pub use older::Method;
pub use permission::{PermissionReply, permission_outcome, permission_request};
pub use question::{
    FormReply, form_reply, is_form, question_choice, question_form, server_form_reply,
};
pub use results::{
    Attached, LOGIN_METHOD, LoginOffer, SessionEntry, empty_result, initialize_result, list_result,
    load_result, new_session_result, prompt_result, resume_result, rewind_result,
    set_config_option_result,
};
pub use settings::{AvailableCommand, MODES, Mode, ModelChoice, Settings};
pub use trace::trace_parent;
pub use updates::{context_update, event_updates, text_chunk, tool_progress};

/// The only version spoken; clients that ask for another are told this one.
pub const PROTOCOL_VERSION: u16 = 1;
