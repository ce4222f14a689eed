//! Hearing of sessions as they change: what a list that stays open needs.
//!
//! After each commit a session puts itself on the [`Board`], where each [`Listener`] that may see
//! it keeps it until it is taken. What waits is a set of sessions, not of changes: a session that
//! changes a thousand times meanwhile is told of once, as it is then. Without a listener a session
//! pays for one look at a number.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use auth::Principal;
use domain::limits::CHANGED_SESSIONS_MAX;
use domain::{PrincipalId, SessionId};
use journal::{FileStore, Meta};
use tokio::sync::Notify;

use crate::directory::Sessions;
use crate::overview::{Glance, Shown};
use crate::store_task::blocking;

/// Sessions that a listener was not told of yet. Dropped, it hears no more.
pub struct Changes {
    listener: Arc<Listener>,
    board: Arc<Board>,
    store: FileStore,
}

/// What became of some sessions.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// These are new, or not as they were.
    pub sessions: Vec<Glance>,
    /// These were deleted.
    pub removed: Vec<SessionId>,
}

/// So many sessions changed that not all could be kept in mind: start over with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many sessions have changed")]
pub struct FellBehind;

impl Sessions {
    /// Begins to hear of the sessions that `principal` may enter. Those of sub-agents are heard of
    /// through the sessions that they work for.
    #[must_use]
    pub fn changes(&self, principal: &Principal) -> Changes {
        let listener = Arc::new(Listener {
            principal: principal.clone(),
            waiting: Mutex::default(),
            rung: Notify::new(),
        });
        let board = Arc::clone(self.board());
        board.add(&listener);
        Changes {
            listener,
            board,
            store: self.store.clone(),
        }
    }
}

impl Changes {
    /// Returns when there is something to take. Cancel safe.
    pub async fn ready(&self) {
        loop {
            // Registered before looking, so that what comes in between is not missed.
            let rung = self.listener.rung.notified();
            if !self.listener.waiting().is_empty() {
                return;
            }
            rung.await;
        }
    }

    /// Takes at most `count_max` of what waits, the oldest first.
    ///
    /// # Errors
    /// If too much has happened since the last time.
    pub async fn take(&self, count_max: usize) -> Result<Changed, FellBehind> {
        let (changed, removed) = self.listener.waiting().take(count_max)?;
        let store = self.store.clone();
        let looking = blocking(move || {
            let seen = changed.into_iter().filter_map(|(id, shown)| {
                let shown = lock(&shown).clone();
                // Its files may be closed; one that is just being deleted is told of as that.
                shown.or_else(|| store.meta(id).ok().map(Glance::at_rest))
            });
            Ok(seen.collect())
        });
        Ok(Changed {
            sessions: looking.await.unwrap_or_default(),
            removed,
        })
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.board.remove(&self.listener);
    }
}

/// Where sessions are put that have changed.
#[derive(Default)]
pub(crate) struct Board {
    listeners: Mutex<Vec<Weak<Listener>>>,
    /// How many there are, so that whoever has nobody to tell need not wait for a lock.
    count: AtomicUsize,
}

impl Board {
    /// The session with this `meta` is new or has changed; what it is like now is in `shown`.
    pub(crate) fn changed(&self, meta: &Meta, shown: &Shown) {
        // A sub-agent's is no part of any list.
        if meta.parent.is_none() {
            self.tell((meta.id, &meta.owner), |waiting| {
                waiting.change(meta.id, shown);
            });
        }
    }

    /// The session `id` of `owner` was deleted.
    pub(crate) fn removed(&self, id: SessionId, owner: &PrincipalId) {
        self.tell((id, owner), |waiting| waiting.remove(id));
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    fn tell(&self, (id, owner): (SessionId, &PrincipalId), note: impl Fn(&mut Waiting)) {
        if !self.is_heard() {
            return;
        }
        for listener in self.listeners().iter().filter_map(Weak::upgrade) {
            if listener.principal.may_enter(id, owner) {
                note(&mut listener.waiting());
                listener.rung.notify_one();
            }
        }
    }

    fn add(&self, listener: &Arc<Listener>) {
        let mut listeners = self.listeners();
        listeners.push(Arc::downgrade(listener));
        self.count.store(listeners.len(), Ordering::Release);
    }

    fn remove(&self, listener: &Arc<Listener>) {
        let mut listeners = self.listeners();
        listeners.retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(listener)));
        self.count.store(listeners.len(), Ordering::Release);
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Weak<Listener>>> {
        lock(&self.listeners)
    }
}

/// Somebody who wants to hear, and what they were not told of yet.
struct Listener {
    principal: Principal,
    waiting: Mutex<Waiting>,
    rung: Notify,
}

impl Listener {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }
}

/// What a listener was not told of yet: each session once.
#[derive(Default)]
struct Waiting {
    changed: HashMap<SessionId, Shown>,
    /// In which order they came.
    order: VecDeque<SessionId>,
    removed: HashSet<SessionId>,
    is_behind: bool,
}

impl Waiting {
    fn change(&mut self, id: SessionId, shown: &Shown) {
        if self.changed.insert(id, Arc::clone(shown)).is_none() {
            self.order.push_back(id);
            self.check_room();
        }
    }

    fn remove(&mut self, id: SessionId) {
        if self.changed.remove(&id).is_some() {
            self.order.retain(|known| *known != id);
        }
        self.removed.insert(id);
        self.check_room();
    }

    fn check_room(&mut self) {
        if self.changed.len() + self.removed.len() > CHANGED_SESSIONS_MAX {
            *self = Self {
                is_behind: true,
                ..Self::default()
            };
        }
    }

    fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty() && !self.is_behind
    }

    #[expect(clippy::type_complexity, reason = "the two kinds of what waits")]
    fn take(
        &mut self,
        count_max: usize,
    ) -> Result<(Vec<(SessionId, Shown)>, Vec<SessionId>), FellBehind> {
        if std::mem::take(&mut self.is_behind) {
            *self = Self::default();
            return Err(FellBehind);
        }
        let removed: Vec<_> = self.removed.iter().copied().take(count_max).collect();
        for id in &removed {
            self.removed.remove(id);
        }
        let room = count_max
            .saturating_sub(removed.len())
            .min(self.order.len());
        let next = self.order.drain(..room);
        let changed = next.filter_map(|id| self.changed.remove_entry(&id));
        Ok((changed.collect(), removed))
    }
}

/// What is kept here is whole at every step, so a panic elsewhere does not spoil it.
fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
