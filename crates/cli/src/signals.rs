//! Signals: being asked to stop (SIGTERM and SIGINT), and one that must not kill us (SIGXFSZ).

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

/// Makes a write past the file-size limit (`ulimit -f`) an error of that write, where the system
/// would by default kill the program and every session in it.
///
/// A handler, unlike an ignored signal, is not inherited by the programs that tools start.
///
/// # Errors
/// If the system does not let us.
pub(crate) fn outlive_the_file_size_limit() -> anyhow::Result<()> {
    let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays when the stream of signals is dropped; nobody needs to read it.
    signal(kind)
        .map(drop)
        .context("the file-size signal cannot be handled")
}
