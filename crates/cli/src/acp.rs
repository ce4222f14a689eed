//! `fastness acp`: an ACP agent on stdin and stdout, for editors.

use std::io::{BufReader, stdin, stdout};
use std::process::ExitCode;
use std::time::Duration;

use auth::{Door, Gate};

use crate::engine;
use crate::render::Exit;
use crate::settings::Settings;
use crate::{signals, trim};

/// Serves until the input ends or a signal comes; a turn that runs then is recorded as interrupted.
///
/// # Errors
/// If the engine cannot start.
pub(crate) async fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let running = engine::start(settings, Gate::this_process_only(), Door::default(), &[]).await?;
    tokio::spawn(trim::once_started());
    let input = BufReader::with_capacity(READ_BYTES, stdin());
    let mut stop = signals::Stop::listen()?;
    tokio::select! {
        served = server::transport::stdio::serve(&running.service, input, stdout()) => served?,
        () = stop.asked() => {}
    }
    running.service.shut_down_within(Duration::ZERO).await;
    Ok(Exit::Success.into())
}

/// Bytes read from stdin at once.
const READ_BYTES: usize = 64 * 1024;
