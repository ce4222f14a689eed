//! What every connection of a process shares.

use std::path::PathBuf;

use auth::{Credential, Door, Gate, Principal, Unauthorized};
use domain::Limits;
use session::Sessions;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::acp::{ModelChoice, Settings};

/// The sessions, who may reach them, and within what bounds.
pub struct Service {
    /// All sessions.
    pub sessions: Sessions,
    /// Who is let in.
    pub gate: Gate,
    /// How it may be addressed, and by which pages.
    pub door: Door,
    /// Every bound.
    pub limits: Limits,
    /// The model's name, as clients show it.
    pub model: ModelChoice,
    /// What no session may have as a root.
    pub data_dir: PathBuf,
    /// Fires when connections shall close, after their sessions have ended.
    pub closing: CancellationToken,
    /// The connections, so that the process can wait for them.
    pub connections: TaskTracker,
}

impl Service {
    /// Admits a caller.
    ///
    /// # Errors
    /// If the credential opens nothing.
    pub fn admit(&self, credential: &Credential<'_>) -> Result<Principal, Unauthorized> {
        self.gate.admit(credential)
    }

    /// A session's settings as ACP shows them.
    pub(crate) fn settings<'a>(&'a self, mode: &'a str) -> Settings<'a> {
        Settings {
            mode,
            model: &self.model.value,
            models: std::slice::from_ref(&self.model),
        }
    }

    /// Ends everything in order: running turns until `limits.drain`, then the sessions, then the
    /// connections, each of which first sends what waits for it.
    pub async fn shut_down(&self) {
        self.shut_down_within(self.limits.drain).await;
    }

    /// As [`Service::shut_down`], with another time for running turns.
    pub async fn shut_down_within(&self, turns: std::time::Duration) {
        self.sessions
            .shut_down(tokio::time::Instant::now() + turns)
            .await;
        self.closing.cancel();
        self.connections.close();
        // Connections flush within their stall time; a process that ends need not wait that long.
        let flushed = tokio::time::timeout(FLUSH_TIME_MAX, self.connections.wait()).await;
        if flushed.is_err() {
            tracing::warn!("some connections did not take their last messages in time");
        }
    }
}

/// How long connections may take to send their last messages when the process ends.
const FLUSH_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(2);
