//! What we answer when a server speaks first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
    ProtocolVersion,
};
use rmcp::service::{NotificationContext, RoleClient};
use tokio::sync::{Notify, watch};

use crate::error::quoted;

/// The client's side of one connection. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handler {
    /// Where calls hear how far they are.
    progress: Arc<Mutex<HashMap<ProgressToken, watch::Sender<String>>>>,
    /// Rings when the server's tools have changed.
    changed: Arc<Notify>,
}

impl Handler {
    /// Waits until the server says that its tools have changed. Cancel safe.
    pub(crate) async fn tools_changed(&self) {
        self.changed.notified().await;
    }

    /// Follows the call with this token, until what is given is dropped.
    pub(crate) fn follow(&self, token: &ProgressToken) -> Following {
        let (sender, newest) = watch::channel(String::new());
        self.calls().insert(token.clone(), sender);
        Following {
            handler: self.clone(),
            token: token.clone(),
            newest,
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, watch::Sender<String>>> {
        // Whole at every step, so a panic elsewhere does not spoil it.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The progress of one call.
pub(crate) struct Following {
    handler: Handler,
    token: ProgressToken,
    newest: watch::Receiver<String>,
}

impl Following {
    /// The next news of it. Cancel safe.
    pub(crate) async fn next(&mut self) -> String {
        match self.newest.changed().await {
            Ok(()) => self.newest.borrow_and_update().clone(),
            // Its sender goes with this.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.handler.calls().remove(&self.token);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("fastness", env!("CARGO_PKG_VERSION"));
        let config = ClientConfig::new(ClientCapabilities::default(), us);
        config.with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Some(call) = self.calls().get(&params.progress_token) {
            call.send_replace(words(&params));
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// How far a call is, in one line.
fn words(params: &ProgressNotificationParam) -> String {
    let far = match params.total {
        Some(total) => format!("{} of {total}", params.progress),
        None => params.progress.to_string(),
    };
    match &params.message {
        Some(message) => quoted(&format!("{message} ({far})")),
        None => far,
    }
}
