//! `fastness acp`: an ACP agent on stdin and stdout, for editors; in this process, or as a
//! [`bridge`] to a server.

mod bridge;

use std::io::{BufReader, stdin, stdout};
use std::process::ExitCode;
use std::time::Duration;

use auth::{Door, Gate};

use crate::args::AcpArgs;
use crate::engine;
use crate::reach::Missing;
use crate::render::Exit;
use crate::settings::Settings;
use crate::{signals, trim};

/// Serves until the input ends or a signal comes; a turn that runs then is recorded as interrupted.
///
/// # Errors
/// If the engine cannot start, or the server cannot be reached.
pub(crate) async fn run(args: &AcpArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    if args.spawn {
        return bridge::run(settings, Missing::IsStarted).await;
    }
    if settings.server.server.is_some() {
        return bridge::run(settings, Missing::IsAnError).await;
    }
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
pub(crate) const READ_BYTES: usize = 64 * 1024;
