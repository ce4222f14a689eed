//! `fastness acp --server`: an editor on stdin and stdout, a session in a server that outlives both.

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::ExitCode;

use client::{ClientError, Line, Transport};
use server::transport::stdio::read_line;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::READ_BYTES;
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
    let line_bytes_max = settings.limits.line_bytes_max;
    // One at a time: what is more waits in the pipes, where whoever fills them feels it.
    let (lines, from_editor) = mpsc::channel(1);
    let (to_editor, frames) = mpsc::channel(1);
    // The reader may sit in a read for ever; it ends with the process.
    std::thread::spawn(move || {
        let input = BufReader::with_capacity(READ_BYTES, stdin());
        read_lines(input, line_bytes_max, &lines);
    });
    let (written, done) = oneshot::channel();
    std::thread::spawn(move || {
        write_lines(frames, stdout());
        let _ = written.send(());
    });
    let ended = tokio::select! {
        ended = client::bridge(transport, from_editor, to_editor) => ended,
        () = stop.asked() => Ok(()),
    };
    // What was answered is also written, unless nobody takes it.
    let _ = timeout(domain::limits::CLOSE_WAIT, done).await;
    ended.map_err(ClientError::Connect)?;
    Ok(Exit::Success.into())
}

fn read_lines(mut input: impl BufRead, line_bytes_max: usize, lines: &mpsc::Sender<Line>) {
    while let Ok(Some(line)) = read_line(&mut input, line_bytes_max) {
        let line = line.map_or(Line::TooLong, Line::Whole);
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

fn write_lines(mut frames: mpsc::Receiver<String>, mut output: impl Write) {
    while let Some(mut frame) = frames.blocking_recv() {
        frame.push('\n');
        let written = output.write_all(frame.as_bytes());
        if written.and_then(|()| output.flush()).is_err() {
            // Nobody reads any more: the editor is gone.
            return;
        }
    }
}
