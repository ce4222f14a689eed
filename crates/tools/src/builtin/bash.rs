//! `bash`: a command in a terminal of the client that prompted.
//!
//! Without such a client there is no such tool yet: the server runs no commands itself.

use std::sync::Arc;
use std::time::Duration;

use domain::event::ToolKind;
use domain::limits::{
    COMMAND_TIME_DEFAULT, COMMAND_TIME_MAX, TOOL_RESULT_BYTES_MAX, TOOL_RESULT_LINES_MAX,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, Running, RunsThere, Shown, There, Tool, parse_input};
use crate::client_side::{
    ClientError, ClientSide, Offers, TerminalCommand, TerminalExit, TerminalId, TerminalOutput,
};
use crate::roots::Roots;

/// Longest command shown in a title: a person who allows it should see all of most commands.
const TITLE_CHARS_MAX: usize = 1_000;

pub(crate) struct Bash;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    command: String,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    cwd: Option<String>,
}

impl Tool for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Runs a shell command and gives what it printed. `timeoutMs` is how long it may take \
         (two minutes unless given) and `cwd` where it runs. Asks the person first."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "timeoutMs": {"type": "integer", "minimum": 1},
                "cwd": {"type": "string"},
            },
            "required": ["command"],
        })
    }

    fn show(&self, input: &Value, _roots: &Roots) -> Shown {
        let command = input.get("command").and_then(Value::as_str);
        Shown {
            title: title(command.unwrap_or("bash")),
            kind: ToolKind::Execute,
            locations: Vec::new(),
        }
    }

    fn there(&self, offers: Offers) -> Option<&dyn RunsThere> {
        offers.terminal.then_some(self)
    }
}

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

impl Input {
    fn time_max(&self) -> Duration {
        let asked = self.timeout_ms.map(Duration::from_millis);
        asked.unwrap_or(COMMAND_TIME_DEFAULT).min(COMMAND_TIME_MAX)
    }
}

/// The command on one line, with nothing left out unless it says so.
fn title(command: &str) -> String {
    let line = command.trim().replace('\n', " ↵ ");
    match line.char_indices().nth(TITLE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Where the command runs, and with whom.
async fn place(input: &Input, there: &There) -> Result<(String, Arc<dyn ClientSide>), Outcome> {
    let cwd = input.cwd.as_deref().unwrap_or(".");
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
        None => format!("[stopped after {} s]", time_max.as_secs_f64()),
        Some(exit) => match (exit.code, &exit.signal) {
            (Some(0), None) if printed.is_empty() => "[no output]".to_owned(),
            (Some(0), None) => return Outcome::completed(printed),
            (Some(code), None) => format!("[exit code {code}]"),
            (_, Some(signal)) => format!("[ended by {signal}]"),
            (None, None) => "[ended]".to_owned(),
        },
    };
    let gap = if printed.is_empty() || printed.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let text = format!("{printed}{gap}{note}");
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
