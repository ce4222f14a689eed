//! Why the store refused or failed, one variant for each thing a caller does differently.

use std::io;

use domain::{EventSeq, FailureKind};
use rustix::io::Errno;

use crate::storage::NotPlain;

/// Why a call to the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no session of this name.
    #[error("there is no such session")]
    NotFound,
    /// The name is, or was, another session's.
    #[error("the session's id has been used before")]
    Exists,
    /// Another writer has the session open, in this process or another.
    #[error("the session is open elsewhere{}", match .pid { Some(pid) => format!(", in process {pid}"), None => String::new() })]
    HeldElsewhere {
        /// The process that holds it, if it said so.
        pid: Option<u32>,
    },
    /// The journal cannot be believed from event `at` on.
    #[error("the journal is damaged at event {at}")]
    Damaged {
        /// The first event that could not be read.
        at: EventSeq,
    },
    /// A message's text is gone or is not what was stored.
    #[error("the text of a message is missing or damaged")]
    DamagedText,
    /// The disk or a quota is full.
    #[error("there is no space left to store the session")]
    Full,
    /// The disk failed.
    #[error("the session could not be stored or read")]
    Failed(#[source] io::Error),
    /// The process or the system has no file descriptor left. Nothing was written, and the call
    /// may be repeated once descriptors are free again.
    #[error("too many files are open (limit of the process or the system)")]
    OpenFilesExhausted,
    /// An earlier write or sync failed; open the session anew.
    #[error("an earlier write failed; the session must be opened anew")]
    Fenced,
    /// A link, a pipe or another strange thing lies where a session's file or directory belongs.
    #[error("something that is not a plain file lies in the session's place")]
    NotPlain,
    /// The entry may not come while a message is open.
    #[error("a message is still open")]
    MessageOpen,
    /// There is no open message to add to or to end.
    #[error("no message is open")]
    NoMessage,
    /// `message.started` goes through `Writer::start_message`, which opens its text as well, unless
    /// the event that ends the message comes right behind it.
    #[error("a message is started with its text, not as a bare event")]
    StartedBare,
    /// The event is nested too deeply or is too long to be read back.
    #[error("the event is too large to store")]
    TooLarge,
    /// There is nothing finished at or before this event that a fork could begin with.
    #[error("the session cannot be forked at event {at}")]
    NoFork {
        /// The event that was asked for.
        at: EventSeq,
    },
    /// The session was written in a format that a later version knows.
    #[error("the session was written in format {format}, which this version cannot read")]
    NewerFormat {
        /// The number that its first event names.
        format: u64,
    },
    /// A byte offset that lies inside a character.
    #[error("the offset lies inside a character")]
    InsideCharacter,
}

impl StoreError {
    /// What a client is told, where the error is about the store and not about the call.
    #[must_use]
    pub fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Full => Some(FailureKind::StorageFull),
            Self::OpenFilesExhausted => Some(FailureKind::OpenFilesExhausted),
            Self::Failed(_) | Self::Fenced | Self::NotPlain => Some(FailureKind::StorageFailed),
            Self::Damaged { .. } | Self::DamagedText => Some(FailureKind::Damaged),
            Self::HeldElsewhere { .. } => Some(FailureKind::HeldElsewhere),
            Self::NotFound
            | Self::Exists
            | Self::NoFork { .. }
            | Self::NewerFormat { .. }
            | Self::MessageOpen
            | Self::NoMessage
            | Self::StartedBare
            | Self::TooLarge
            | Self::InsideCharacter => None,
        }
    }

    /// The same failure for another caller whose append shared the write that failed.
    pub(crate) fn share(&self) -> Self {
        match self {
            Self::Full => Self::Full,
            Self::NotPlain => Self::NotPlain,
            Self::OpenFilesExhausted => Self::OpenFilesExhausted,
            Self::NotFound => Self::NotFound,
            Self::Failed(error) => Self::Failed(match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => error.kind().into(),
            }),
            // The rest refuses one append, or a writer that was fenced before.
            Self::Exists
            | Self::HeldElsewhere { .. }
            | Self::Damaged { .. }
            | Self::DamagedText
            | Self::Fenced
            | Self::MessageOpen
            | Self::NoMessage
            | Self::StartedBare
            | Self::TooLarge
            | Self::NoFork { .. }
            | Self::NewerFormat { .. }
            | Self::InsideCharacter => Self::Fenced,
        }
    }

    /// Whether only recovery can now say what is on disk.
    pub(crate) fn fences(&self) -> bool {
        matches!(
            self,
            Self::Full | Self::Failed(_) | Self::NotPlain | Self::NotFound
        )
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        if error.get_ref().is_some_and(|inner| inner.is::<NotPlain>()) {
            return Self::NotPlain;
        }
        match Errno::from_io_error(&error) {
            // A file-size limit is a quota too.
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Self::Full,
            // Only opening a file needs a descriptor; the writer opens before it writes.
            Some(Errno::MFILE | Errno::NFILE) => Self::OpenFilesExhausted,
            Some(Errno::NOENT) => Self::NotFound,
            _ => Self::Failed(error),
        }
    }
}
