//! `skill`: loads the text of one of the session's skills.

use domain::event::ToolKind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, RunsOnLibrary, Shown, Tool, one_line, parse_input};
use crate::library::Library;
use crate::roots::Roots;

pub(crate) struct Skill;

#[derive(Deserialize)]
struct Input {
    name: String,
}

impl Tool for Skill {
    fn name(&self) -> &'static str {
        "skill"
    }

    fn description(&self) -> &'static str {
        "Loads the instructions of a skill from the list of skills. Load a skill before you do what it \
         is for."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Name of the skill"}},
            "required": ["name"],
        })
    }

    fn show(&self, input: &Value, _roots: &Roots) -> Shown {
        let name = input.get("name").and_then(Value::as_str);
        Shown {
            title: one_line(&format!("Load skill {}", name.unwrap_or_default())),
            kind: ToolKind::Read,
            locations: Vec::new(),
            content: Vec::new(),
        }
    }

    fn on_library(&self) -> Option<&dyn RunsOnLibrary> {
        Some(self)
    }
}

impl RunsOnLibrary for Skill {
    fn has_work(&self, library: &Library) -> bool {
        !library.skills().is_empty()
    }

    fn run(&self, input: Value, library: &Library) -> Outcome {
        let Input { name } = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        match library.skill(&name).map(|skill| skill.load()) {
            Some(Ok(text)) => Outcome::completed(text),
            Some(Err(problem)) => Outcome::failed(problem),
            None => Outcome::failed(format!("There is no skill called {name}.")),
        }
    }
}
