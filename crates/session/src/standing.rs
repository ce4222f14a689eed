//! Whether new work would be taken: the store can be written, and the process is not ending.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{FailureKind, Limits};
use journal::FileStore;
use tokio::time::Instant;

use crate::store_task::{blocking, failure_kind};

/// How long one look at the store is believed: anybody may ask, and each look writes.
const LOOK: Duration = Duration::from_secs(1);

/// What is known of it. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Standing {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_draining: AtomicBool,
    looked: Mutex<Option<(Instant, Result<(), FailureKind>)>>,
}

impl Standing {
    /// From now on nothing new is taken.
    pub(crate) fn drain(&self) {
        self.shared.is_draining.store(true, Ordering::Release);
    }

    /// Whether nothing new is taken any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.shared.is_draining.load(Ordering::Acquire)
    }

    /// Says why new work would be refused, if it would.
    pub(crate) async fn check(
        &self,
        store: &FileStore,
        limits: &Limits,
    ) -> Result<(), FailureKind> {
        if self.is_draining() {
            return Err(FailureKind::Draining);
        }
        let now = Instant::now();
        if let Some(known) = self.known(now) {
            return known;
        }
        let (store, free_min) = (store.clone(), limits.disk_free_min);
        let looked = blocking(move || {
            store.check_writable()?;
            Ok(store.free_bytes()? < free_min)
        });
        let found = match looked.await {
            Ok(false) => Ok(()),
            Ok(true) => Err(FailureKind::StorageFull),
            Err(error) => Err(failure_kind(&error)),
        };
        // Descriptors come back at any moment, and looking for one costs nothing.
        if found != Err(FailureKind::OpenFilesExhausted) {
            *self.lock() = Some((now, found));
        }
        found
    }

    fn known(&self, now: Instant) -> Option<Result<(), FailureKind>> {
        let (at, found) = (*self.lock())?;
        (now < at + LOOK).then_some(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Result<(), FailureKind>)>> {
        let looked = self.shared.looked.lock();
        looked.unwrap_or_else(PoisonError::into_inner)
    }
}
