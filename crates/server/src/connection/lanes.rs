//! Which way a frame goes to its client: all on one socket, or on a stream per session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::SessionId;
use domain::limits::WAITING_STREAMS_MAX;

use super::outbox::{Close, Conflict, Mark, Outbox, Reader};

/// The outboxes of one client. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Lanes {
    /// One socket or pipe for everything.
    One(Outbox),
    /// A stream for the connection, and one for each session.
    Split(Arc<Split>),
}

impl Lanes {
    /// For what belongs to no session.
    pub(crate) fn main(&self) -> &Outbox {
        match self {
            Self::One(outbox) => outbox,
            Self::Split(split) => &split.main,
        }
    }

    /// For what belongs to a session that the client is attached to.
    pub(crate) fn of(&self, session: SessionId) -> Outbox {
        match self {
            Self::One(outbox) => outbox.clone(),
            Self::Split(split) => split.of(&session.to_string()),
        }
    }

    /// Whether the client reads what belongs to a session.
    pub(crate) fn is_read(&self, session: SessionId) -> bool {
        match self {
            Self::One(_) => true,
            Self::Split(split) => {
                let sessions = split.lock();
                let lane = sessions.get(session.to_string().as_str());
                lane.is_some_and(Outbox::is_read)
            }
        }
    }

    /// Bytes that wait for the client.
    pub(crate) fn queued_bytes(&self) -> usize {
        match self {
            Self::One(outbox) => outbox.queued_bytes(),
            Self::Split(split) => {
                let of_sessions = split
                    .lock()
                    .values()
                    .map(Outbox::stream_bytes)
                    .sum::<usize>();
                // Answers are counted together, whichever lane they are in.
                split.main.queued_bytes() + of_sessions
            }
        }
    }

    /// A session has ended here; its lane is not needed unless somebody reads it.
    pub(crate) fn forget(&self, session: SessionId) {
        if let Self::Split(split) = self {
            split.forget(&session.to_string());
        }
    }

    /// Ends the connection. The first call decides how.
    pub(crate) fn close(&self, close: Close) {
        match self {
            Self::One(outbox) => outbox.close(close),
            Self::Split(split) => split.close(close),
        }
    }
}

/// A stream for the connection, and one for each session.
pub(crate) struct Split {
    main: Outbox,
    session_bytes_max: usize,
    /// By the name a client gave, which may be of no session at all.
    sessions: Mutex<HashMap<String, Outbox>>,
}

impl Split {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            main: Outbox::recording(bytes_max),
            session_bytes_max: bytes_max / SESSIONS_PER_BUDGET,
            sessions: Mutex::default(),
        }
    }

    /// The connection's own stream.
    pub(crate) fn main(&self) -> &Outbox {
        &self.main
    }

    /// Begins to read a session's stream; one that is not attached yet stays empty until it is.
    ///
    /// # Errors
    /// If somebody reads it, what was asked for is not to be had, or too many wait.
    pub(crate) fn read(&self, session: &str, after: Option<Mark>) -> Result<Reader, Refused> {
        let mut sessions = self.lock();
        if let Some(lane) = sessions.get(session) {
            return lane.read_after(after).map_err(|Conflict| Refused::Conflict);
        }
        if after.is_some() {
            return Err(Refused::Conflict);
        }
        let waiting = sessions.values().filter(|lane| !lane.is_followed()).count();
        if waiting >= WAITING_STREAMS_MAX {
            return Err(Refused::TooMany);
        }
        let lane = self.main.beside(self.session_bytes_max);
        let reader = lane.read_after(None).map_err(|Conflict| Refused::Conflict);
        sessions.insert(session.to_owned(), lane);
        reader
    }

    /// Forgets a session's stream if nobody reads and nobody fills it, and nothing waits in it.
    pub(crate) fn forget(&self, session: &str) {
        let mut sessions = self.lock();
        let unused = |lane: &Outbox| !lane.is_read() && !lane.is_followed() && lane.is_empty();
        if sessions.get(session).is_some_and(unused) {
            sessions.remove(session);
        }
    }

    fn of(&self, session: &str) -> Outbox {
        let mut sessions = self.lock();
        if let Some(lane) = sessions.get(session) {
            return lane.clone();
        }
        let lane = self.main.beside(self.session_bytes_max);
        sessions.insert(session.to_owned(), lane.clone());
        lane
    }

    /// Ends every stream. The first call decides how.
    pub(crate) fn close(&self, close: Close) {
        self.main.close(close);
        self.lock().values().for_each(|lane| lane.close(close));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Outbox>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Somebody reads it, or what was asked for is not to be had.
    Conflict,
    /// Too many streams wait for sessions that are not attached.
    TooMany,
}

/// What may wait for one client is shared among this many sessions' streams.
const SESSIONS_PER_BUDGET: usize = 8;
