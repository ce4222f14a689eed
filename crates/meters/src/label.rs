//! The labels: closed lists of names, so that the number of series is known.

use domain::FailureKind;
use domain::event::{StopReason, ToolStatus};

/// A label's values.
pub trait Label: Copy + 'static {
    /// Their names, in order.
    const NAMES: &'static [&'static str];

    /// This value's place in that order.
    fn index(self) -> usize;

    /// The value's name.
    fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

macro_rules! labels {
    ($($(#[$doc:meta])* $label:ident { $($value:ident = $name:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $label {
            $(#[doc = concat!("`", $name, "`")] $value),+
        }

        impl $label {
            const ALL: &'static [Self] = &[$(Self::$value),+];

            /// How many values there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The value of that name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                let place = Self::NAMES.iter().position(|known| *known == name)?;
                Self::ALL.get(place).copied()
            }
        }

        impl Label for $label {
            const NAMES: &'static [&'static str] = &[$($name),+];

            fn index(self) -> usize {
                self as usize
            }
        }
    )+};
}

labels! {
    /// How a client is connected.
    Transport { WebSocket = "websocket", Http = "http", Stdio = "stdio" }

    /// How a session was entered.
    Way { New = "new", Load = "load", Resume = "resume" }

    /// What a session is doing.
    Phase { Running = "running", Waiting = "waiting", Idle = "idle" }

    /// How a turn ended.
    TurnOutcome {
        EndTurn = "end_turn", MaxTokens = "max_tokens", MaxTurnRequests = "max_turn_requests",
        Refusal = "refusal", Cancelled = "cancelled", ModelError = "model_error",
        ModelTimeout = "model_timeout", StorageFull = "storage_full",
        StorageFailed = "storage_failed", OpenFilesExhausted = "open_files_exhausted", Damaged = "damaged", HeldElsewhere = "held_elsewhere",
        Draining = "draining", Interrupted = "interrupted",
    }

    /// The tools by name; those of others count together.
    Tool {
        Read = "read", Write = "write", Edit = "edit", List = "list", Glob = "glob",
        Grep = "grep", Bash = "bash", WebFetch = "web_fetch", WebSearch = "web_search",
        NotebookEdit = "notebook_edit", Todo = "todo", AskUser = "ask_user", Task = "task",
        Skill = "skill", SlashCommand = "slash_command", Lsp = "lsp", Other = "other",
    }

    /// How a tool run ended.
    ToolOutcome {
        Completed = "completed", Failed = "failed", Denied = "denied", Cancelled = "cancelled",
        NotRun = "not_run", Unknown = "unknown",
    }

    /// How a model call ended.
    ModelOutcome { Completed = "completed", Failed = "failed", Cancelled = "cancelled" }

    /// Why something was refused: the `error` of an HTTP answer, or its JSON-RPC cousin.
    Reason {
        Host = "forbidden_host", Origin = "forbidden_origin", Token = "unauthorized",
        Scope = "forbidden_scope", Rate = "rate_limited", Limit = "limit",
        NotFound = "not_found", Busy = "busy", Json = "invalid_json",
        Request = "invalid_request", Params = "invalid_params", Method = "method_not_allowed",
        Size = "payload_too_large", Type = "unsupported_media_type", Time = "request_timeout",
        Overloaded = "overloaded", Draining = "draining", StorageFull = "storage_full",
        StorageFailed = "storage_failed", OpenFiles = "open_files_exhausted", Cancelled = "cancelled", Internal = "internal_error", Other = "other",
    }

    /// What was ignored.
    Ignored { Response = "response", Cancel = "cancel" }

    /// Where a request went.
    Route {
        Acp = "/acp", Ws = "/ws", Health = "/health", Ready = "/ready", Metrics = "/metrics",
        Echo = "/echo", AppendPrompt = "/tui/append-prompt", Login = "/api/v1/login",
        Rest = "/api/v1", Page = "/", Other = "other",
    }

    /// The class of an HTTP status.
    Status { Informed = "1xx", Served = "2xx", Sent = "3xx", Refused = "4xx", Failed = "5xx" }

    /// The ACP requests by name.
    Method {
        Initialize = "initialize", Authenticate = "authenticate", Logout = "logout",
        New = "session/new", Load = "session/load", Resume = "session/resume",
        List = "session/list", Close = "session/close", Delete = "session/delete",
        Fork = "session/fork", Prompt = "session/prompt", SetMode = "session/set_mode",
        SetConfigOption = "session/set_config_option", Rewind = "_fastness/session/rewind", Other = "other",
    }

    /// How a request was answered.
    Outcome { Ok = "ok", Error = "error" }
}

impl From<StopReason> for TurnOutcome {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::EndTurn => Self::EndTurn,
            StopReason::MaxTokens => Self::MaxTokens,
            StopReason::MaxTurnRequests => Self::MaxTurnRequests,
            StopReason::Refusal => Self::Refusal,
            StopReason::Cancelled => Self::Cancelled,
        }
    }
}

impl From<FailureKind> for TurnOutcome {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::ModelError => Self::ModelError,
            FailureKind::ModelTimeout => Self::ModelTimeout,
            FailureKind::StorageFull => Self::StorageFull,
            FailureKind::StorageFailed => Self::StorageFailed,
            FailureKind::OpenFilesExhausted => Self::OpenFilesExhausted,
            FailureKind::Damaged => Self::Damaged,
            FailureKind::HeldElsewhere => Self::HeldElsewhere,
            FailureKind::Draining => Self::Draining,
            FailureKind::Interrupted => Self::Interrupted,
        }
    }
}

impl From<ToolStatus> for ToolOutcome {
    fn from(status: ToolStatus) -> Self {
        match status {
            ToolStatus::Completed => Self::Completed,
            ToolStatus::Failed => Self::Failed,
            ToolStatus::Denied => Self::Denied,
            ToolStatus::Cancelled => Self::Cancelled,
            ToolStatus::NotRun => Self::NotRun,
            ToolStatus::Unknown => Self::Unknown,
        }
    }
}

impl Status {
    /// The class of `status`.
    #[must_use]
    pub fn of(status: u16) -> Self {
        match status / 100 {
            1 => Self::Informed,
            2 => Self::Served,
            3 => Self::Sent,
            4 => Self::Refused,
            _ => Self::Failed,
        }
    }
}

impl Reason {
    /// The reason behind a JSON-RPC error of ours.
    #[must_use]
    pub fn of_rpc(code: i64) -> Self {
        match code {
            -32_700 => Self::Json,
            -32_600 => Self::Request,
            -32_601 => Self::Method,
            -32_602 => Self::Params,
            -32_603 => Self::Internal,
            -32_000 => Self::Token,
            -32_002 => Self::NotFound,
            -32_010 => Self::Busy,
            -32_011 => Self::Rate,
            -32_012 => Self::Limit,
            -32_013 => Self::Scope,
            -32_800 => Self::Cancelled,
            _ => Self::Other,
        }
    }
}
