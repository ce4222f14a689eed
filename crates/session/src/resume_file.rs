//! The resume tokens of one session, in memory and beside its journal.

use std::sync::{Arc, Mutex, PoisonError};

use auth::ResumeTokens;
use domain::SessionId;
use journal::FileStore;

use crate::store_task::blocking;

/// The tokens, and the file that has their hashes.
pub(crate) struct ResumeFile {
    store: FileStore,
    id: SessionId,
    pub(crate) tokens: ResumeTokens,
    version: u64,
    /// The newest version that is in the file: an older one must not replace it.
    written: Arc<Mutex<u64>>,
}

impl ResumeFile {
    pub(crate) fn new(store: FileStore, id: SessionId) -> Self {
        Self {
            store,
            id,
            tokens: ResumeTokens::default(),
            version: 0,
            written: Arc::default(),
        }
    }

    /// Takes over what an earlier life of the session kept. What cannot be read is forgotten:
    /// clients then enter as who they are.
    pub(crate) async fn load(&mut self) {
        let (store, id) = (self.store.clone(), self.id);
        let kept = blocking(move || Ok(store.load_resume(id))).await;
        let kept = kept.unwrap_or_default();
        self.tokens = serde_json::from_slice(&kept).unwrap_or_default();
    }

    /// Writes them down. The session does not wait for it.
    pub(crate) fn save(&mut self) -> impl Future<Output = ()> + Send + 'static {
        self.version += 1;
        let (store, id, version) = (self.store.clone(), self.id, self.version);
        let written = Arc::clone(&self.written);
        let kept = serde_json::to_vec(&self.tokens).unwrap_or_default();
        let saving = tokio::task::spawn_blocking(move || {
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            if *written >= version {
                return;
            }
            *written = version;
            if let Err(error) = store.save_resume(id, &kept) {
                tracing::debug!(session = %id, %error, "resume tokens were not saved");
            }
        });
        async move {
            // If it did not end well, clients enter as who they are.
            let _ = saving.await;
        }
    }
}
