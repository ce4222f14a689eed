//! Calls under way on one connection, and who can be asked on their behalf.
//!
//! A server does not say which call makes it ask. It is the newest one: a session runs one call of a
//! server's tool after the other, and only its sub-agents may do so at the same time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::CallId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tools::asks::Asks;

/// A call, and who can be asked while it runs.
#[derive(Clone, Debug)]
pub(crate) struct OnBehalf {
    pub(crate) call: CallId,
    pub(crate) asks: Arc<dyn Asks>,
}

/// The calls of one connection that somebody can be asked about. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Callers {
    calls: Arc<Mutex<Vec<Caller>>>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) on_behalf: OnBehalf,
    /// The call has ended, and with it what is asked about it.
    pub(crate) over: CancellationToken,
    /// How many questions are open.
    open: watch::Sender<usize>,
}

impl Callers {
    /// Lets the server ask `on_behalf` of a call, until what is given is dropped.
    pub(crate) fn stand_by(&self, on_behalf: Option<OnBehalf>) -> Standing {
        let (open, asked) = watch::channel(0);
        let over = CancellationToken::new();
        if let Some(on_behalf) = on_behalf {
            self.calls().push(Caller {
                on_behalf,
                over: over.clone(),
                open: open.clone(),
            });
        }
        Standing {
            callers: self.clone(),
            over,
            asked,
            _open: open,
        }
    }

    /// The call that a question of the server's belongs to.
    pub(crate) fn newest(&self) -> Option<Caller> {
        self.calls().last().cloned()
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Caller>> {
        // Whole at every step, so a panic elsewhere does not spoil it.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller {
    /// Notes that a person is asked, until what is given is dropped.
    pub(crate) fn asking(&self) -> Open {
        self.open.send_modify(|open| *open += 1);
        Open(self.open.clone())
    }
}

/// An open question.
pub(crate) struct Open(watch::Sender<usize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// A call that can be asked about.
pub(crate) struct Standing {
    callers: Callers,
    over: CancellationToken,
    asked: watch::Receiver<usize>,
    /// Keeps the other end alive where nobody can be asked.
    _open: watch::Sender<usize>,
}

impl Standing {
    /// Whether a person is being asked.
    pub(crate) fn is_asked(&mut self) -> bool {
        *self.asked.borrow_and_update() > 0
    }

    /// Waits until that may have changed. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        // The other end goes with this.
        let _ = self.asked.changed().await;
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.over.cancel();
        self.callers
            .calls()
            .retain(|call| !call.over.is_cancelled());
    }
}
