//! When and why a connection ended.
//!
//! Whoever notices first says so; all that wait on the connection hear it at once, whatever the
//! layers between them are still busy with.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use domain::limits::{MCP_COMPLAINT_BYTES_MAX, MCP_ERROR_BYTES_MAX};
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
