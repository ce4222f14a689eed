//! Being asked to stop: SIGTERM and SIGINT.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for requests to stop from the moment it is made.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Starts to listen.
    ///
    /// # Errors
    /// If the system does not let us.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("signals cannot be received");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Returns when somebody wants the program to stop.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
