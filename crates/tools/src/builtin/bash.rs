//! `bash`: a command, in a terminal of the client that prompted ([`there`]) or else on the server
//! ([`here`]).

mod here;
mod there;

use std::time::Duration;

use domain::event::ToolKind;
use domain::limits::{COMMAND_TIME_DEFAULT, COMMAND_TIME_MAX};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{RunsCommands, RunsThere, Shown, Tool};
use crate::client_side::Offers;
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
        "Runs a shell command and returns its output. It has no terminal and no input, and everything \
         it starts ends with it."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command"},
                "timeoutMs": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Time limit in milliseconds; default: two minutes",
                },
                "cwd": {"type": "string", "description": "Directory to run it in; default: the working directory"},
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
            content: Vec::new(),
        }
    }

    fn as_command(&self) -> Option<&dyn RunsCommands> {
        Some(self)
    }

    fn there(&self, offers: Offers) -> Option<&dyn RunsThere> {
        offers.terminal.then_some(self)
    }
}

impl Input {
    fn time_max(&self) -> Duration {
        let asked = self.timeout_ms.map(Duration::from_millis);
        asked.unwrap_or(COMMAND_TIME_DEFAULT).min(COMMAND_TIME_MAX)
    }

    fn cwd(&self) -> &str {
        self.cwd.as_deref().unwrap_or(".")
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

/// How the command ended, and below it what was printed: the model reads first what matters most.
fn with_note(printed: &str, note: &str) -> String {
    match printed {
        "" => note.to_owned(),
        printed => format!("{note}\n{printed}"),
    }
}

/// How a command ended that took too long.
fn timed_out(time_max: Duration) -> String {
    let seconds = time_max.as_secs_f64();
    format!("[timed out: stopped after {seconds} s]")
}
