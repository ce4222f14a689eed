//! Waiting for something that tells nobody when it happens.

use std::time::Duration;

use tokio::time::Instant;

use crate::program::DEADLINE;

/// Looks until `happened`, which `what` names.
///
/// # Panics
/// If it does not happen in time.
pub async fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !happened() {
        assert!(Instant::now() < deadline, "did not happen in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
