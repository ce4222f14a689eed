//! Notifications that are not events of the journal: state sent on attach, turns, withdrawals.

use domain::event::StopReason;
use domain::{EventSeq, PromptId, QueuedPrompt, SessionId, TurnError, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::meta::{TurnState, UpdateMeta};
use super::settings::{AvailableCommand, Settings};
use super::updates::{Update, update_frame};
use crate::rpc::RequestId;

/// A turn began, waits, or ended: the parameters of `_fastness/turn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnNotice {
    /// In which session.
    pub session_id: SessionId,
    /// The event that says so; moves the cursor.
    pub seq: EventSeq,
    /// Which turn.
    pub turn: TurnId,
    /// How it stands.
    pub state: TurnState,
    /// Why it ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// How it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    /// The client's name of the prompt that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<PromptId>,
    /// The queued prompt that started it, by its event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<EventSeq>,
}

/// The queue of a session changed: the parameters of `_fastness/queue`. A queued prompt leaves the queue
/// by this, or by the `_fastness/turn` that names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueNotice {
    /// In which session.
    pub session_id: SessionId,
    /// The event that says so; moves the cursor.
    pub seq: EventSeq,
    /// Bytes sent of the open message, while one is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// What changed.
    #[serde(flatten)]
    pub change: QueueChange,
}

/// A change of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum QueueChange {
    /// A prompt waits.
    Queued {
        /// Which.
        prompt: QueuedPrompt,
    },
    /// A prompt will not run.
    Dropped {
        /// The event that queued it.
        queued: EventSeq,
        /// Whether the process ended; otherwise it was cancelled.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
}

/// Part of a session was undone: the parameters of `_fastness/rewound`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RewoundNotice {
    /// Which session.
    pub session_id: SessionId,
    /// The event that says so; moves the cursor.
    pub seq: EventSeq,
    /// The last event that counts: what came after it is to be dropped.
    pub to: EventSeq,
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeSeverity {
    /// Good to know.
    Info,
    /// Something may go wrong.
    Warning,
    /// Something did.
    Error,
}

/// `_fastness/turn`, for clients that asked for it.
#[must_use]
pub fn turn_notification(notice: &TurnNotice) -> String {
    json!({"jsonrpc": "2.0", "method": "_fastness/turn", "params": notice}).to_string()
}

/// `_fastness/queue`, for clients that asked for it.
#[must_use]
pub fn queue_notification(notice: &QueueNotice) -> String {
    json!({"jsonrpc": "2.0", "method": "_fastness/queue", "params": notice}).to_string()
}

/// `_fastness/rewound`, for clients that asked for turns.
#[must_use]
pub fn rewound_notification(notice: &RewoundNotice) -> String {
    json!({"jsonrpc": "2.0", "method": "_fastness/rewound", "params": notice}).to_string()
}

/// `$/cancel_request`: we no longer need the answer to our request `id`.
#[must_use]
pub fn cancel_request(id: &RequestId) -> String {
    let prefix = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"#;
    [prefix, id.as_json(), "}}"].concat()
}

/// The mode as it is now; carries no cursor.
#[must_use]
pub fn current_mode_update(session: SessionId, mode: &str) -> String {
    let current_mode_id = mode;
    state_frame(session, &Update::CurrentModeUpdate { current_mode_id })
}

/// The settings as they are now; carries no cursor.
#[must_use]
pub fn config_option_update(session: SessionId, settings: &Settings<'_>) -> String {
    let config_options = &settings.options();
    state_frame(session, &Update::ConfigOptionUpdate { config_options })
}

/// The commands there are now; carries no cursor.
#[must_use]
pub fn available_commands_update(session: SessionId, commands: &[AvailableCommand]) -> String {
    let commands: Value = commands.iter().map(AvailableCommand::to_value).collect();
    let available_commands = &commands;
    state_frame(
        session,
        &Update::AvailableCommandsUpdate { available_commands },
    )
}

/// Something the server says, for clients that declared `session.notices`. ACP wants it to be
/// non-empty; an empty one gives `None`.
#[must_use]
pub fn notice_update(
    session: SessionId,
    severity: NoticeSeverity,
    title: &str,
    meta: &UpdateMeta,
) -> Option<String> {
    if title.is_empty() {
        return None;
    }
    let severity = match severity {
        NoticeSeverity::Info => "info",
        NoticeSeverity::Warning => "warning",
        NoticeSeverity::Error => "error",
    };
    update_frame(session, &Update::Notice { severity, title }, Some(meta))
}

fn state_frame(session: SessionId, update: &Update<'_>) -> String {
    update_frame(session, update, None).unwrap_or_default()
}
