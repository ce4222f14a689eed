//! Our own extensions of ACP, under `_meta.fastness`.

use std::fmt;

use agent_client_protocol_schema::v1;
use domain::limits::PROMPT_ID_BYTES_MAX;
use domain::{Cursor, EventSeq, PromptId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rpc::RpcError;

/// The key under `_meta`.
pub(super) const FASTNESS: &str = "fastness";

/// What a client's request may carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FastnessMeta {
    /// The client's name for its prompt; sending it twice runs it once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<PromptId>,
    /// Wait behind a running turn instead of being refused.
    #[serde(skip_serializing_if = "is_false")]
    pub queue: bool,
    /// Wait for MCP servers that are still starting as long as they may take.
    #[serde(skip_serializing_if = "is_false")]
    pub wait_for_servers: bool,
    /// Deliver what comes after this event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<EventSeq>,
    /// Bytes seen of the message that was open there; missing means 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The epoch of the cursor; missing means the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The right to come back to a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<ResumeToken>,
}

impl FastnessMeta {
    /// What a client sends to go on after `cursor`.
    #[must_use]
    pub fn after(cursor: Cursor) -> Self {
        Self {
            after_seq: Some(cursor.seq),
            offset: Some(cursor.offset),
            epoch: Some(cursor.epoch),
            ..Self::default()
        }
    }

    /// Takes ours out of a request's `_meta`.
    ///
    /// Unlike the rest of `_meta` it is judged strictly: a cursor that was not understood would
    /// silently lose part of the stream.
    pub(super) fn take(meta: Option<v1::Meta>) -> Result<Self, RpcError> {
        let Some(fields) = meta.and_then(|mut meta| meta.swap_remove(FASTNESS)) else {
            return Ok(Self::default());
        };
        let meta: Self = serde_json::from_value(fields).map_err(|_| {
            RpcError::invalid_params("`_meta.fastness` has a field of a wrong type")
        })?;
        let prompt_id = meta.prompt_id.as_ref().map(PromptId::as_str);
        if prompt_id.is_some_and(|id| id.len() > PROMPT_ID_BYTES_MAX) {
            return Err(RpcError::invalid_params(format!(
                "`promptId` has at most {PROMPT_ID_BYTES_MAX} bytes"
            )));
        }
        Ok(meta)
    }
}

/// The right to come back to one session. A secret: it does not print.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResumeToken(String);

impl ResumeToken {
    /// Takes a token as it came.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token itself, to be compared or sent.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeToken(…)")
    }
}

/// The cursor after an update, and what else is said about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateMeta {
    /// The highest event number sent so far.
    pub seq: EventSeq,
    /// The epoch of the stream.
    #[serde(default)]
    pub epoch: u64,
    /// Bytes sent of the open message, while one is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// More updates of the same event follow; the cursor has not moved yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
    /// The client's name of the prompt that this update echoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<PromptId>,
    /// The server's own first words, not the model's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub greeting: bool,
}

impl UpdateMeta {
    /// What says that a client stands at `cursor`.
    #[must_use]
    pub fn at(cursor: Cursor) -> Self {
        Self {
            seq: cursor.seq,
            epoch: cursor.epoch,
            offset: (cursor.offset > 0).then_some(cursor.offset),
            ..Self::default()
        }
    }

    /// The cursor to keep after this update.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor {
            epoch: self.epoch,
            seq: self.seq,
            offset: self.offset.unwrap_or_default(),
        }
    }
}

/// Whether a session works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnState {
    /// A turn runs.
    Running,
    /// A turn waits for an answer to a question.
    Waiting,
    /// Nothing runs.
    #[default]
    Idle,
}

/// The newest turn of a session, as the answers to `new`, `load` and `resume` tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStatus {
    /// Its number; 0 before the first.
    pub id: TurnId,
    /// Whether it still runs.
    pub state: TurnState,
    /// The client's name of the prompt that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<PromptId>,
}

/// Whether `what` is declared in `clientCapabilities._meta.fastness`.
pub(super) fn declares(capabilities: &v1::ClientCapabilities, what: &str) -> bool {
    let ours = capabilities
        .meta
        .as_ref()
        .and_then(|meta| meta.get(FASTNESS));
    ours.and_then(|ours| ours.get(what))
        .is_some_and(|declared| {
            // Present and not switched off, whether as `true` or as an object of options.
            !matches!(declared, Value::Null | Value::Bool(false))
        })
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}
