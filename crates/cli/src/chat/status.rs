//! What stands in the last row: model, mode, how full the model's window is, what it cost.

use serde_json::Value;

use super::text::{Line, Style};

/// Commands that are offered for completion; more than anybody reads.
const COMMANDS_MAX: usize = 500;

/// What the server told of the session besides its stream.
#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) model: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) title: Option<String>,
    /// Models and modes that can be chosen, by the option that sets them.
    choices: Vec<(String, Vec<Choice>)>,
    /// Tokens in the model's window, and how many fit.
    usage: Option<(u64, u64)>,
    cost: Option<f64>,
    pub(super) commands: Vec<Command>,
}

/// Something that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) value: String,
    pub(super) name: String,
}

/// Something that can be typed after a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) description: String,
}

impl Status {
    /// Takes an update, if it is about this.
    pub(super) fn update(&mut self, kind: &str, raw: &Value) {
        match kind {
            "config_option_update" => self.options(&raw["configOptions"]),
            "current_mode_update" => self.mode = said(&raw["currentModeId"]),
            "session_info_update" => self.title = said(&raw["title"]).or(self.title.take()),
            "usage_update" => {
                self.usage = raw["used"].as_u64().zip(raw["size"].as_u64());
                self.cost = raw["cost"]["amount"].as_f64().or(self.cost);
            }
            "available_commands_update" => {
                let commands = raw["availableCommands"].as_array().into_iter().flatten();
                let commands = commands.filter_map(|command| {
                    Some(Command {
                        name: said(&command["name"])?,
                        description: said(&command["description"]).unwrap_or_default(),
                    })
                });
                self.commands = commands.take(COMMANDS_MAX).collect();
            }
            _ => {}
        }
    }

    /// Takes ACP's list of options.
    pub(super) fn options(&mut self, options: &Value) {
        let options = options.as_array().into_iter().flatten();
        for option in options {
            let (Some(id), current) = (said(&option["id"]), said(&option["currentValue"])) else {
                continue;
            };
            match id.as_str() {
                "model" => self.model = current,
                "mode" => self.mode = current,
                _ => continue,
            }
            let choices = option["options"].as_array().into_iter().flatten();
            let choices = choices.filter_map(|choice| {
                let value = said(&choice["value"])?;
                let name = said(&choice["name"]).unwrap_or_else(|| value.clone());
                Some(Choice { value, name })
            });
            let choices = choices.collect();
            self.choices.retain(|(of, _)| *of != id);
            self.choices.push((id, choices));
        }
    }

    /// What can be chosen for an option.
    pub(super) fn choices(&self, option: &str) -> &[Choice] {
        let found = self.choices.iter().find(|(of, _)| of == option);
        found
            .map(|(_, choices)| choices.as_slice())
            .unwrap_or_default()
    }

    /// The row, beginning with `doing`.
    pub(super) fn line(&self, doing: Line, place: &str) -> Line {
        let mut line = doing;
        let mut add = |style, text: &str| {
            if line.len() > 0 {
                line.push(Style::Dim, " · ");
            }
            line.push(style, text);
        };
        if let Some(model) = &self.model {
            add(Style::Dim, model);
        }
        match self.mode.as_deref() {
            None | Some("default") => {}
            Some("bypass") => add(Style::Warning, "bypass"),
            Some(mode) => add(Style::Accent, mode),
        }
        if let Some((used, size @ 1..)) = self.usage {
            add(
                Style::Dim,
                &format!("{}% of {}k", used * 100 / size, size / 1000),
            );
        }
        if let Some(cost) = self.cost.filter(|cost| *cost > 0.0) {
            add(Style::Dim, &format!("${cost:.3}"));
        }
        add(Style::Dim, place);
        line
    }
}

fn said(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Status;
    use crate::chat::text::{Line, Style};

    #[test]
    fn the_last_row_says_what_is_known_and_nothing_else() {
        let mut status = Status::default();
        let line = |status: &Status| status.line(Line::of(Style::Good, "ready"), "3f2a").plain();
        assert_eq!(line(&status), "ready · 3f2a");
        let options = json!([
            {"id": "model", "currentValue": "a:b", "options": [{"value": "a:b", "name": "B"}]},
            {"id": "mode", "currentValue": "default", "options": []},
            {"id": "unknown", "currentValue": "x"},
        ]);
        status.update("config_option_update", &json!({"configOptions": options}));
        status.update("current_mode_update", &json!({"currentModeId": "plan"}));
        let usage = json!({"used": 50_000, "size": 200_000, "cost": {"amount": 0.1234}});
        status.update("usage_update", &usage);
        assert_eq!(
            line(&status),
            "ready · a:b · plan · 25% of 200k · $0.123 · 3f2a"
        );
        assert_eq!(status.choices("model")[0].name, "B");
        assert!(status.choices("unknown").is_empty());
    }

    #[test]
    fn updates_that_make_no_sense_change_nothing() {
        let mut status = Status::default();
        for kind in [
            "config_option_update",
            "usage_update",
            "available_commands_update",
        ] {
            status.update(kind, &json!({"configOptions": 7, "used": -1, "size": 0}));
        }
        assert_eq!(status.line(Line::default(), "x").plain(), "x");
    }
}
