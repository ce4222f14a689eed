//! `fastness acp`: an ACP agent on stdin and stdout, for editors; in this process, or as a
//! [`bridge`] to a server.

mod bridge;

use std::process::ExitCode;
use std::time::Duration;

use auth::{Door, Gate};
use server::transport::stdio::{self, LineReader, LineWriter};

use crate::args::AcpArgs;
use crate::engine;
use crate::reach::Missing;
use crate::render::Exit;
use crate::settings::Settings;
use crate::{login, signals, trim};

/// Serves until the input ends or a signal comes; a turn that runs then is recorded as interrupted.
///
/// # Errors
/// If the engine cannot start, or the server cannot be reached.
pub(crate) async fn run(args: &AcpArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    if args.login {
        return login::log_in(None, settings);
    }
    if args.spawn {
        return bridge::run(settings, Missing::IsStarted).await;
    }
    if settings.server.server.is_some() {
        return bridge::run(settings, Missing::IsAnError).await;
    }
    let running = engine::start(settings, Gate::this_process_only(), Door::default(), &[]).await?;
    tokio::spawn(trim::once_started());
    let input = LineReader::stdin(settings.limits.line_bytes_max)?;
    let output = LineWriter::stdout()?;
    let mut stop = signals::Stop::listen()?;
    tokio::select! {
        served = stdio::serve(&running.service, input, output) => served?,
        () = stop.asked() => {}
    }
    running.service.shut_down_within(Duration::ZERO).await;
    Ok(Exit::Success.into())
}
