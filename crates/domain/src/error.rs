//! Why a turn failed, in the words that clients and the journal share.

use serde::{Deserialize, Serialize};

/// The kinds of failure a client can tell apart (`data.kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The model answered with an error or with something unusable.
    ModelError,
    /// The model did not answer, or stopped in mid-answer, until its deadline.
    ModelTimeout,
    /// The disk or a quota is full.
    StorageFull,
    /// The disk failed a write or a sync.
    StorageFailed,
    /// The process or the system has no file descriptor left. Nothing was written.
    OpenFilesExhausted,
    /// The session's journal is damaged; it can be read but not continued.
    Damaged,
    /// Another process has the session open.
    HeldElsewhere,
    /// The server is shutting down.
    Draining,
    /// The server died, or its input ended, while the turn ran.
    Interrupted,
}

impl FailureKind {
    /// Whether sending the same prompt again may help, if nothing more is known of the failure.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::ModelError
            | Self::ModelTimeout
            | Self::StorageFull
            | Self::OpenFilesExhausted
            | Self::HeldElsewhere
            | Self::Draining
            | Self::Interrupted => true,
            Self::StorageFailed | Self::Damaged => false,
        }
    }

    /// What a person is told who is told nothing more particular.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::ModelError => "the model failed",
            Self::ModelTimeout => "the model did not answer in time",
            Self::StorageFull => "the disk is full; free some space and prompt again",
            Self::StorageFailed => "the disk failed; the turn was not stored",
            Self::OpenFilesExhausted => {
                "the server has too many files open; close some sessions or connections, or raise \
                 the limit (ulimit -n), and prompt again"
            }
            Self::Damaged => "the session's journal is damaged; it can be read but not continued",
            Self::HeldElsewhere => "another process has the session open",
            Self::Draining => "the server is shutting down",
            Self::Interrupted => "the server stopped while the turn ran",
        }
    }

    /// The name used on the wire and in the journal.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ModelError => "model_error",
            Self::ModelTimeout => "model_timeout",
            Self::StorageFull => "storage_full",
            Self::StorageFailed => "storage_failed",
            Self::OpenFilesExhausted => "open_files_exhausted",
            Self::Damaged => "damaged",
            Self::HeldElsewhere => "held_elsewhere",
            Self::Draining => "draining",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A turn that ended by an error: what the journal stores and the client is told.
///
/// `message` is one sentence for a person. It never holds paths, tokens or causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct TurnError {
    /// What went wrong.
    pub kind: FailureKind,
    /// What to tell the person.
    pub message: String,
    /// Whether sending the same prompt again may help, where that is known better than by `kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

impl TurnError {
    /// A failure of `kind` that a person reads as `message`.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: None,
        }
    }

    /// The same failure, of which it is known that trying again `may_help`.
    #[must_use]
    pub fn retryable(self, may_help: bool) -> Self {
        let retryable = Some(may_help);
        Self { retryable, ..self }
    }

    /// Whether sending the same prompt again may help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retryable.unwrap_or_else(|| self.kind.is_retryable())
    }
}

impl From<FailureKind> for TurnError {
    fn from(kind: FailureKind) -> Self {
        Self::new(kind, kind.sentence())
    }
}
