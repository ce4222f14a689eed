//! `slash_command`: the text of a command that a person could have typed.

use domain::event::ToolKind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, RunsOnLibrary, Shown, Tool, one_line, parse_input};
use crate::library::Library;
use crate::roots::Roots;

pub(crate) struct SlashCommand;

#[derive(Deserialize)]
struct Input {
    name: String,
    #[serde(default)]
    args: Option<String>,
}

impl Tool for SlashCommand {
    fn name(&self) -> &'static str {
        "slash_command"
    }

    fn description(&self) -> &'static str {
        "Loads the text of one of the project's commands from the list of commands. Then do what it \
         says."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Name of the command"},
                "args": {"type": "string", "description": "Its arguments"},
            },
            "required": ["name"],
        })
    }

    fn show(&self, input: &Value, _roots: &Roots) -> Shown {
        let text = |key| input.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = text("name").trim_start_matches('/');
        Shown {
            title: one_line(&format!("/{name} {}", text("args"))),
            kind: ToolKind::Other,
            locations: Vec::new(),
            content: Vec::new(),
        }
    }

    fn on_library(&self) -> Option<&dyn RunsOnLibrary> {
        Some(self)
    }
}

impl RunsOnLibrary for SlashCommand {
    fn has_work(&self, library: &Library) -> bool {
        !library.commands().is_empty()
    }

    fn run(&self, input: Value, library: &Library) -> Outcome {
        let Input { name, args } = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        let name = name.trim_start_matches('/');
        let command = library.command(name);
        match command.map(|command| command.expand(args.as_deref().unwrap_or_default())) {
            Some(Ok(text)) => Outcome::completed(text),
            Some(Err(problem)) => Outcome::failed(problem),
            None => Outcome::failed(format!("There is no command called {name}.")),
        }
    }
}
