//! Commands in a terminal of the client that prompted.

use std::sync::Arc;
use std::time::Duration;

use domain::limits::{TOOL_RESULT_BYTES_MAX, TOOL_RESULT_LINES_MAX};
use serde_json::Value;

use super::super::{Outcome, Running, RunsThere, There, Tool as _, parse_input};
use super::{Bash, Input, timed_out, with_note};
use crate::client_side::{
    ClientError, ClientSide, TerminalCommand, TerminalExit, TerminalId, TerminalOutput,
};

impl RunsThere for Bash {
    fn run(&self, input: Value, there: There) -> Running {
        let input = parse_input::<Input>(self.name(), input);
        Box::pin(async move {
            let input = match input {
                Ok(input) => input,
                Err(outcome) => return outcome,
            };
            let (cwd, client) = match place(&input, &there).await {
                Ok(place) => place,
                Err(refusal) => return refusal,
            };
            let time_max = input.time_max();
            match run(input.command, cwd, time_max, client, &there).await {
                Ok((ended, output)) => outcome(ended.as_ref(), time_max, &output),
                Err(error) => {
                    let text = format!("The command could not be run to its end: {error}.");
                    if error.may_have_run() {
                        Outcome::unknown(text)
                    } else {
                        Outcome::failed(text)
                    }
                }
            }
        })
    }
}

/// Where the command runs, and with whom.
async fn place(input: &Input, there: &There) -> Result<(String, Arc<dyn ClientSide>), Outcome> {
    let cwd = input.cwd();
    let checked = there.path(cwd).await;
    let path = checked
        .map_err(|error| Outcome::failed(format!("The command cannot run in {cwd}: {error}.")))?;
    let client = there.seat.client().await;
    let client = client
        .map_err(|error| Outcome::failed(format!("The command could not be run: {error}.")))?;
    Ok((path, client))
}

/// Runs the command to its end, or for as long as it may; gives how it ended and what it printed.
async fn run(
    command: String,
    cwd: String,
    time_max: Duration,
    client: Arc<dyn ClientSide>,
    there: &There,
) -> Result<(Option<TerminalExit>, TerminalOutput), ClientError> {
    let wanted = TerminalCommand {
        command: "bash".to_owned(),
        args: vec!["-c".to_owned(), command],
        cwd,
        output_bytes_max: TOOL_RESULT_BYTES_MAX as u64,
    };
    let id = client.create_terminal(wanted).await?;
    let terminal = Terminal {
        client,
        id,
        is_ours: true,
    };
    terminal.client.show_terminal(&there.call, &terminal.id);
    let ending = terminal.client.wait_for_exit(&terminal.id);
    let ended = match tokio::time::timeout(time_max, ending).await {
        Ok(ended) => Some(ended?),
        Err(_) => {
            terminal.client.kill_terminal(&terminal.id).await?;
            None
        }
    };
    let output = terminal.client.terminal_output(&terminal.id).await?;
    terminal.release().await;
    Ok((ended, output))
}

/// A terminal that somebody must give back.
struct Terminal {
    client: Arc<dyn ClientSide>,
    id: TerminalId,
    is_ours: bool,
}

impl Terminal {
    async fn release(mut self) {
        // A client that cannot release it has told us all there is to know of the command.
        let _ = self.client.release_terminal(&self.id).await;
        self.is_ours = false;
    }
}

impl Drop for Terminal {
    /// However the call ends, by a failure or with its turn, nothing of it goes on running.
    fn drop(&mut self) {
        if self.is_ours {
            self.client.let_go(&self.id);
        }
    }
}

/// What the model is told; `None` is a command that took too long.
fn outcome(ended: Option<&TerminalExit>, time_max: Duration, output: &TerminalOutput) -> Outcome {
    let printed = newest_part(output);
    let note = match ended {
        None => timed_out(time_max),
        Some(exit) => match (exit.code, &exit.signal) {
            (Some(0), None) if printed.is_empty() => "[no output]".to_owned(),
            (Some(0), None) => return Outcome::completed(printed),
            (Some(code), None) => format!("[exit code {code}]"),
            (_, Some(signal)) => format!("[ended by {signal}]"),
            (None, None) => "[ended]".to_owned(),
        },
    };
    let text = with_note(&printed, &note);
    match ended {
        Some(TerminalExit {
            code: Some(0) | None,
            signal: None,
        }) => Outcome::completed(text),
        Some(_) | None => Outcome::failed(text),
    }
}

/// The end of the output, as much as a result may hold.
fn newest_part(output: &TerminalOutput) -> String {
    let text = &output.text;
    let from = text.len().saturating_sub(TOOL_RESULT_BYTES_MAX);
    let kept = &text[text.ceil_char_boundary(from)..];
    let lines = kept.split_inclusive('\n').count();
    let skipped = lines.saturating_sub(TOOL_RESULT_LINES_MAX);
    let kept: String = kept.split_inclusive('\n').skip(skipped).collect();
    if output.truncated || from > 0 || skipped > 0 {
        format!("[cut: only the end of the output is shown]\n{kept}")
    } else {
        kept
    }
}
