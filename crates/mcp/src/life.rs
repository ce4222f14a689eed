//! When and why a connection ended.
//!
//! Whoever notices first says so; all that wait on the connection hear it at once, whatever the
//! layers between them are still busy with.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use domain::limits::{MCP_COMPLAINT_BYTES_MAX, MCP_ERROR_BYTES_MAX, MCP_LOG_LINES_MAX};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::error::quoted;

/// The life of one connection. Cheap to clone; clones are the same life.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    over: CancellationToken,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    why: Option<String>,
    complaints: VecDeque<u8>,
    /// What the server is called.
    server: String,
    /// Lines of its log so far.
    logged: usize,
}

impl Life {
    /// It is over; the first who says so says why.
    pub(crate) fn end(&self, why: impl Into<String>) {
        self.shared().why.get_or_insert_with(|| why.into());
        self.over.cancel();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits for the end. Cancel safe.
    pub(crate) async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Why it ended, with the last words of the server.
    pub(crate) fn why(&self) -> String {
        let shared = self.shared();
        let why = shared.why.as_deref().unwrap_or("it was closed").to_owned();
        // The last words, for those come closest to the reason.
        let skipped = shared
            .complaints
            .len()
            .saturating_sub(MCP_ERROR_BYTES_MAX / 2);
        let complaints: Vec<u8> = shared.complaints.iter().skip(skipped).copied().collect();
        let complaints = quoted(&String::from_utf8_lossy(&complaints));
        match complaints.is_empty() {
            true => why,
            false => format!("{why}; it complained: {complaints}"),
        }
    }

    /// Notes what the server complained about; the newest is kept.
    pub(crate) fn complained(&self, more: &[u8]) {
        let complaints = &mut self.shared().complaints;
        complaints.extend(more);
        let excess = complaints.len().saturating_sub(MCP_COMPLAINT_BYTES_MAX);
        complaints.drain(..excess);
    }

    /// It is the life of a connection to `server`.
    pub(crate) fn is_of(&self, server: &str) {
        server.clone_into(&mut self.shared().server);
    }

    /// Takes over a line of the server's own log.
    pub(crate) fn log(&self, logger: Option<&str>, data: &Value) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let mut shared = self.shared();
        shared.logged += 1;
        if shared.logged > MCP_LOG_LINES_MAX {
            return;
        }
        let words = data
            .as_str()
            .map_or_else(|| data.to_string(), str::to_owned);
        let (server, logger) = (quoted(&shared.server), quoted(logger.unwrap_or_default()));
        let is_last = shared.logged == MCP_LOG_LINES_MAX;
        drop(shared);
        tracing::debug!(
            server,
            logger,
            is_last,
            "a tool server says: {}",
            quoted(&words)
        );
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        // Whole at every step, so a panic elsewhere does not spoil it.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Life;

    #[test]
    fn the_first_reason_stands_and_the_last_words_are_kept() {
        let life = Life::default();
        life.complained(&vec![b'x'; 10_000]);
        life.complained(b"\nout of memory\n");
        life.end("it ended with 1");
        life.end("its input is closed");
        assert!(life.is_over());
        let why = life.why();
        assert!(
            why.starts_with("it ended with 1; it complained: x"),
            "{why}"
        );
        assert!(why.ends_with("x out of memory"), "{why}");
        assert!(why.len() < 5_000);
    }
}
