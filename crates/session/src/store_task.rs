//! Running the journal's blocking calls beside the async world.

use domain::FailureKind;
use journal::StoreError;
use tokio::sync::oneshot;

use crate::disk_threads;

/// Runs `work` on a thread that may block.
///
/// A panic in there is reported as a failed store: after it, only recovery knows what is on disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let Some(threads) = disk_threads::get() else {
        return match tokio::task::spawn_blocking(work).await {
            Ok(done) => done,
            Err(_) => Err(StoreError::Fenced),
        };
    };
    let (done, told) = oneshot::channel();
    threads.run(Box::new(move || {
        // If nobody waits any more it was done all the same.
        let _ = done.send(work());
    }));
    told.await.unwrap_or(Err(StoreError::Fenced))
}

/// What a client is told of `error`.
pub(crate) fn failure_kind(error: &StoreError) -> FailureKind {
    error.kind().unwrap_or(FailureKind::StorageFailed)
}
