//! Who is connected: what an operator is shown, kept by the connections themselves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auth::Principal;
use domain::limits::CONNECTIONS_SHOWN_MAX;
use domain::{ConnectionId, PrincipalId};
use tokio::time::Instant;

use crate::connection::lanes::Lanes;

/// All that are connected now. As many as there are slots, and those on stdio.
#[derive(Clone, Default)]
pub struct Roster(Arc<Mutex<HashMap<ConnectionId, Entry>>>);

#[derive(Clone)]
struct Entry {
    transport: &'static str,
    principal: PrincipalId,
    since: Instant,
    sessions: Arc<AtomicUsize>,
    /// What waits for it, if that is counted.
    lanes: Option<Lanes>,
}

/// One that is listed until this is dropped.
pub(crate) struct Listed {
    id: ConnectionId,
    sessions: Arc<AtomicUsize>,
    roster: Roster,
}

/// One as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connected {
    pub(crate) id: ConnectionId,
    pub(crate) transport: &'static str,
    pub(crate) principal: PrincipalId,
    pub(crate) sessions: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) since_secs: u64,
}

impl Roster {
    /// Lists a connection that speaks ACP.
    pub(crate) fn list(
        &self,
        id: &ConnectionId,
        transport: &'static str,
        (principal, lanes): (&Principal, &Lanes),
    ) -> Listed {
        self.enter(id.clone(), 0, transport, (principal, Some(lanes.clone())))
    }

    /// Lists a reader of server-sent events.
    pub(crate) fn list_stream(&self, principal: &Principal) -> Listed {
        self.enter(ConnectionId::random(), 1, "stream", (principal, None))
    }

    /// How many there are, and some of them: first those for which most waits, then the newest.
    pub(crate) fn shown(&self, now: Instant) -> (usize, Vec<Connected>) {
        let all: Vec<_> = {
            let all = self.lock();
            all.iter()
                .map(|(id, entry)| (id.clone(), entry.clone()))
                .collect()
        };
        let count = all.len();
        // Counting what waits takes each connection's own lock, one after the other.
        let mut shown: Vec<_> = all
            .into_iter()
            .map(|(id, entry)| entry.show(id, now))
            .collect();
        shown.sort_by(|one, other| {
            let fullest = other.queued_bytes.cmp(&one.queued_bytes);
            let newest = one.since_secs.cmp(&other.since_secs);
            fullest
                .then(newest)
                .then(one.id.as_str().cmp(other.id.as_str()))
        });
        shown.truncate(CONNECTIONS_SHOWN_MAX);
        (count, shown)
    }

    fn enter(
        &self,
        id: ConnectionId,
        sessions: usize,
        transport: &'static str,
        (principal, lanes): (&Principal, Option<Lanes>),
    ) -> Listed {
        let sessions = Arc::new(AtomicUsize::new(sessions));
        let entry = Entry {
            transport,
            principal: principal.id().clone(),
            since: Instant::now(),
            sessions: Arc::clone(&sessions),
            lanes,
        };
        self.lock().insert(id.clone(), entry);
        Listed {
            id,
            sessions,
            roster: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn show(self, id: ConnectionId, now: Instant) -> Connected {
        Connected {
            id,
            transport: self.transport,
            principal: self.principal,
            sessions: self.sessions.load(Ordering::Relaxed),
            queued_bytes: self.lanes.map_or(0, |lanes| lanes.queued_bytes()),
            since_secs: now.saturating_duration_since(self.since).as_secs(),
        }
    }
}

impl Listed {
    /// It is attached to so many sessions now.
    pub(crate) fn has_sessions(&self, count: usize) {
        self.sessions.store(count, Ordering::Relaxed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.roster.lock().remove(&self.id);
    }
}
