//! `fastness acp --server`: an editor on stdin and stdout, a session in a server that outlives both.

use std::process::ExitCode;

use client::{ClientError, Line, Transport};
use server::transport::stdio::{LineReader, LineWriter};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::reach::{self, Missing};
use crate::render::Exit;
use crate::settings::Settings;
use crate::signals;

/// Carries until the input ends, a signal comes, or the server does not come back.
///
/// # Errors
/// If the server cannot be reached, or was lost for good.
pub(super) async fn run(settings: &Settings, missing: Missing) -> anyhow::Result<ExitCode> {
    let mut stop = signals::Stop::listen()?;
    let dialer = reach::dialer(settings, missing);
    let (transport, _) = Transport::lasting_later(dialer, &settings.limits);
    // One at a time: what is more waits in the pipes, where whoever fills them feels it.
    let (lines, from_editor) = mpsc::channel(1);
    let (to_editor, frames) = mpsc::channel(1);
    let input = LineReader::stdin(settings.limits.line_bytes_max)?;
    let output = LineWriter::stdout()?;
    tokio::spawn(read_lines(input, lines));
    let written = tokio::spawn(write_lines(frames, output));
    let ended = tokio::select! {
        ended = client::bridge(transport, from_editor, to_editor) => ended,
        () = stop.asked() => Ok(()),
    };
    // What was answered is also written, unless nobody takes it.
    let _ = timeout(domain::limits::CLOSE_WAIT, written).await;
    ended.map_err(ClientError::Connect)?;
    Ok(Exit::Success.into())
}

async fn read_lines(mut input: LineReader, lines: mpsc::Sender<Line>) {
    while let Ok(Some(line)) = input.next().await {
        let line = line.map_or(Line::TooLong, Line::Whole);
        if lines.send(line).await.is_err() {
            return;
        }
    }
}

async fn write_lines(mut frames: mpsc::Receiver<String>, mut output: LineWriter) {
    while let Some(mut frame) = frames.recv().await {
        frame.push('\n');
        if output.write_all(frame.into_bytes()).await.is_err() {
            // Nobody reads any more: the editor is gone.
            return;
        }
    }
}
