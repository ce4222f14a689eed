//! What is taken and given, as types. The description in OpenAPI is made from these.

use domain::event::{PermissionOption, PermissionOptionKind, StopReason, Usage};
use domain::{SessionId, TurnError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use session::{Asked, Glance, TurnPhase};
use utoipa::{IntoParams, ToSchema};

/// How a new session shall be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSession {
    /// The absolute directory it works in; the server's own if none is given.
    pub(super) cwd: Option<String>,
    /// Its title; made from the first prompt if none is given.
    #[schema(min_length = 1, max_length = 1024)]
    pub(super) title: Option<String>,
    /// One of the models that `/info` names.
    pub(super) model: Option<String>,
}

/// What shall change in a session; what is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// Its title.
    #[schema(min_length = 1, max_length = 1024)]
    pub(super) title: Option<String>,
    /// Whether it is put away.
    pub(super) archived: Option<bool>,
}

/// Where to copy a session from.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkAt {
    /// The last event to copy; inside a turn, the end of the last finished turn before it.
    pub(super) at: u64,
}

/// A session.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    /// 32 hexadecimal digits.
    #[schema(value_type = String)]
    pub(super) id: SessionId,
    /// The directory it works in.
    pub(super) cwd: String,
    /// Its title, once it has one.
    pub(super) title: Option<String>,
    /// The model that its next turn uses.
    pub(super) model: String,
    /// When it was made, in RFC 3339.
    pub(super) created_at: String,
    /// When something last happened in it.
    pub(super) updated_at: String,
    /// The number of its newest event.
    pub(super) head: u64,
    /// How often recovery could not keep all that clients may have seen.
    pub(super) epoch: u64,
    /// Whether it was put away.
    pub(super) archived: bool,
    /// Its newest turn.
    pub(super) turn: Turn,
}

impl Session {
    /// A session at a glance, where `model` is the server's own.
    pub(super) fn of(glance: Glance, models: &[String], own: &str) -> Self {
        let (meta, phase) = (glance.meta, glance.phase);
        let model = meta.model.filter(|model| models.contains(model));
        Self {
            id: meta.id,
            cwd: meta.cwd,
            title: meta.title,
            model: model.unwrap_or_else(|| own.to_owned()),
            created_at: meta.created_at.to_rfc3339(),
            updated_at: meta.updated_at.to_rfc3339(),
            head: meta.head.0,
            epoch: meta.epoch,
            archived: meta.archived,
            turn: Turn {
                id: Some(meta.turns),
                state: phase.into(),
            },
        }
    }
}

/// A turn: one prompt and what the agent makes of it.
#[derive(Serialize, ToSchema)]
pub(super) struct Turn {
    /// Its number in the session, from 1 on; 0 before the first, `null` while it is queued.
    pub(super) id: Option<u64>,
    /// What it is doing.
    pub(super) state: State,
}

/// What a turn is doing.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// It works.
    Running,
    /// It waits for a person: see `/permissions`.
    Waiting,
    /// There is none, or it is over.
    Idle,
    /// It waits behind another turn.
    Queued,
}

impl From<TurnPhase> for State {
    fn from(phase: TurnPhase) -> Self {
        match phase {
            TurnPhase::Running => Self::Running,
            TurnPhase::Waiting => Self::Waiting,
            TurnPhase::Idle => Self::Idle,
        }
    }
}

/// For how long others may look.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct NewShare {
    /// A day if it is left out.
    #[schema(minimum = 1, maximum = 2592000)]
    pub(super) expires_in_secs: Option<u64>,
}

/// A share that was made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shared {
    /// To take it back by.
    pub(super) id: String,
    /// The secret, which is not shown again.
    pub(super) token: String,
    /// When it ends, in RFC 3339; not after the token that made it.
    pub(super) expires_at: String,
    /// The page, with the secret where no server or log sees it.
    pub(super) url: String,
}

/// A share.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Share {
    pub(super) id: String,
    /// When it ends, if it does: `fastness token` makes some that do not.
    pub(super) expires_at: Option<String>,
    pub(super) created_at: String,
}

/// With what others may look at a session.
#[derive(Serialize, ToSchema)]
pub(super) struct Shares {
    pub(super) shares: Vec<Share>,
}

/// Which sessions to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Listing {
    /// At most so many.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u64>,
    /// The `nextCursor` of the page before.
    pub(super) cursor: Option<String>,
    /// Only those that work in this directory.
    pub(super) cwd: Option<String>,
}

/// One page of sessions, the newest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionPage {
    pub(super) sessions: Vec<Session>,
    /// Where the next page starts, if there is one.
    pub(super) next_cursor: Option<String>,
}

/// What became of sessions.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionChanges {
    /// These are new, or not as they were.
    pub(super) sessions: Vec<Session>,
    /// These were deleted.
    pub(super) removed: Vec<String>,
    /// Whether `sessions` is the first page of the list as it is now, to start over with.
    pub(super) snapshot: bool,
    /// With such a page: what to ask `/sessions` for more with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// What was typed of a file's name.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FileQuery {
    /// Its letters in order, perhaps with others between; any file if it is left out.
    #[param(max_length = 256)]
    pub(super) query: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u64>,
}

/// Files of a session, the best answers first.
#[derive(Serialize, ToSchema)]
pub(super) struct FileNames {
    pub(super) files: Vec<FileName>,
}

/// A file of a session.
#[derive(Serialize, ToSchema)]
pub(super) struct FileName {
    /// From the working directory, or whole if it lies in another of the session's.
    pub(super) path: String,
}

/// Which events to give.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct After {
    /// Those with a larger number; all if it is left out.
    #[param(maximum = 9007199254740991u64)]
    pub(super) after: Option<u64>,
    /// At most so many; there may be fewer.
    #[param(minimum = 1, maximum = 1000)]
    pub(super) limit: Option<u64>,
}

/// Some of a session's events, in order.
#[derive(Serialize, ToSchema)]
pub(super) struct EventPage {
    /// Each with `seq`, `ts`, `type` and what belongs to its type.
    #[schema(value_type = Vec<Object>)]
    pub(super) events: Vec<Box<RawValue>>,
    /// The number of the newest event there is.
    pub(super) head: u64,
    /// How often recovery could not keep all that clients may have seen.
    pub(super) epoch: u64,
}

/// Where to begin following.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Following {
    /// An event's number, or the `id` of an event of such a stream; without it only what comes now.
    pub(super) after: Option<String>,
}

/// What to ask.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPrompt {
    pub(super) prompt: PromptContent,
}

/// Text, or content blocks as ACP has them.
#[derive(Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "`prompt` must be a string or a list of content blocks"
)]
pub(super) enum PromptContent {
    Text(String),
    Blocks(Vec<Value>),
}

/// A prompt that was taken.
#[derive(Serialize, ToSchema)]
pub(super) struct Prompted {
    pub(super) turn: Turn,
}

/// A turn that has ended.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ended {
    #[schema(value_type = String)]
    pub(super) session_id: SessionId,
    /// What the assistant said.
    pub(super) text: String,
    /// Why it ended, unless it failed.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop_reason: Option<StopReason>,
    /// How it failed, if it did.
    #[schema(value_type = Option<Failure>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<TurnError>,
    /// What it used.
    #[schema(value_type = Option<Object>)]
    pub(super) usage: Option<Usage>,
}

/// How a turn failed.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only describes what is in `domain`")]
pub(super) struct Failure {
    /// Such as `model_error`.
    kind: String,
    /// For a person.
    message: String,
    /// Whether sending the same prompt again may help, if that is known.
    retryable: Option<bool>,
}

/// Something that a person is asked.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Permission {
    /// Its name, to answer it by.
    pub(super) id: String,
    #[schema(value_type = String)]
    pub(super) session_id: SessionId,
    /// The call that waits for it.
    pub(super) tool_call_id: String,
    pub(super) kind: PermissionKind,
    /// What it is about, for a person.
    pub(super) title: String,
    /// The answers that can be chosen.
    pub(super) options: Vec<Choice>,
}

/// What is asked.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum PermissionKind {
    /// Whether a call may run.
    Permission,
    /// What the agent wants to know.
    Question,
}

/// An answer that can be chosen.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Choice {
    pub(super) option_id: String,
    /// For a person.
    pub(super) name: String,
    /// Such as `allow_once`.
    #[schema(value_type = String)]
    pub(super) kind: PermissionOptionKind,
}

impl Permission {
    pub(super) fn of(session_id: SessionId, asked: &Asked) -> Self {
        let (kind, title) = match asked {
            Asked::Permission(asked) => (PermissionKind::Permission, asked.title.clone()),
            Asked::Person(asked) => (PermissionKind::Question, asked.question.clone()),
        };
        Self {
            id: asked.id().to_string(),
            session_id,
            tool_call_id: asked.call_id().to_string(),
            kind,
            title,
            options: choices(asked).into_iter().map(Choice::of).collect(),
        }
    }
}

impl Choice {
    fn of(option: PermissionOption) -> Self {
        Self {
            option_id: option.option_id,
            name: option.name,
            kind: option.kind,
        }
    }
}

/// The answers that can be chosen.
pub(super) fn choices(asked: &Asked) -> Vec<PermissionOption> {
    match asked {
        Asked::Permission(asked) => asked.options.clone(),
        Asked::Person(asked) => asked.choices(),
    }
}

/// All that waits for a person.
#[derive(Serialize, ToSchema)]
pub(super) struct Permissions {
    pub(super) permissions: Vec<Permission>,
}

/// A person's answer: an option, or to a question of the agent's their own words.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PermissionAnswer {
    /// One of the offered options.
    pub(super) option_id: Option<String>,
    /// Only for what is asked with the kind `question`.
    pub(super) text: Option<String>,
}

/// What the sessions of this token used.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageTotal {
    pub(super) sessions: u64,
    pub(super) turns: u64,
    /// Read and written by all model calls.
    pub(super) tokens: u64,
    /// What they cost in US dollars as far as prices are known; `null` if none is.
    pub(super) cost_usd: Option<f64>,
}

/// The server.
#[derive(Serialize, ToSchema)]
pub(super) struct Info {
    pub(super) version: String,
    /// The model that sessions use which have chosen none.
    pub(super) model: String,
    /// The models that sessions can choose.
    pub(super) models: Vec<String>,
    pub(super) limits: InfoLimits,
}

/// How the server is doing.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerView {
    pub(super) version: String,
    pub(super) uptime_secs: f64,
    pub(super) memory_bytes: u64,
    /// Processor time used.
    pub(super) cpu_secs: f64,
    pub(super) open_files: u64,
    pub(super) threads: u64,
    /// How many are connected.
    pub(super) connections_total: u64,
    /// Some of them: first those for which most waits, then the newest.
    pub(super) connections: Vec<ConnectionRow>,
    /// Cursors that clients hold on sessions.
    pub(super) attachments: u64,
    /// Bytes that wait for clients.
    pub(super) queued_bytes: u64,
    pub(super) sessions: SessionCounts,
    pub(super) turns_total: u64,
    /// Events that were stored.
    pub(super) events_total: u64,
    pub(super) model_calls_total: u64,
    pub(super) refusals_total: u64,
    /// Syncs of the disk that failed.
    pub(super) sync_failures_total: u64,
}

/// One that is connected.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConnectionRow {
    pub(super) id: String,
    /// `websocket`, `http`, `stdio`, or `stream` for a reader of server-sent events.
    pub(super) transport: String,
    pub(super) principal: String,
    /// How many sessions it is attached to.
    pub(super) sessions: u64,
    /// Bytes that wait for it.
    pub(super) queued_bytes: u64,
    pub(super) since_secs: u64,
}

/// Sessions in memory.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionCounts {
    pub(super) loaded: u64,
    /// Those with a turn that works.
    pub(super) running: u64,
    /// Those with a turn that waits for a person.
    pub(super) waiting: u64,
}

/// The bounds that a client meets.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InfoLimits {
    pub(super) body_bytes_max: u64,
    pub(super) prompt_bytes_max: u64,
    pub(super) wait_seconds_max: u64,
    pub(super) page_sessions_max: u64,
    pub(super) page_events_max: u64,
    pub(super) steps_max: u64,
    pub(super) stall_ms: u64,
    pub(super) permission_ms: u64,
    pub(super) model_call_ms: u64,
}

/// Every refusal.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only describes what every route refuses with")]
#[schema(rename_all = "camelCase")]
pub(super) struct Refusal {
    /// A word for programs, such as `not_found`.
    error: String,
    /// A sentence for people.
    message: String,
    /// The name of the request in the server's log.
    request_id: String,
}
