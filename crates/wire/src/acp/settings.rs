//! The settings of a session that clients can show and change: its mode and its model.

use serde::Serialize;
use serde_json::{Value, json};

/// A permission mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// As stored and sent.
    pub id: &'static str,
    /// As people read it.
    pub name: &'static str,
    /// What it means for them.
    pub description: &'static str,
}

/// The modes there are, the usual one first.
pub const MODES: [Mode; 4] = [
    Mode {
        id: "default",
        name: "Ask",
        description: "Asks before it changes files, runs commands or uses the network",
    },
    Mode {
        id: "acceptEdits",
        name: "Accept edits",
        description: "Changes files without asking; asks before anything else",
    },
    Mode {
        id: "plan",
        name: "Plan",
        description: "Reads and plans; changes nothing",
    },
    Mode {
        id: "bypass",
        name: "Bypass",
        description: "Asks nothing",
    },
];

/// A model that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    /// As it is set, such as `anthropic:NAME`.
    pub value: String,
    /// As people read it.
    pub name: String,
}

/// What is set in a session now, and what could be.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The id of the mode.
    pub mode: &'a str,
    /// The value of the model.
    pub model: &'a str,
    /// Models to choose from; the current one is added if it is missing.
    pub models: &'a [ModelChoice],
}

/// A command that a person can type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableCommand {
    /// Without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What to write after it, if anything.
    pub hint: Option<String>,
}

impl Settings<'_> {
    /// ACP's `SessionModeState`.
    pub(super) fn mode_state(&self) -> Value {
        json!({"currentModeId": self.mode, "availableModes": MODES})
    }

    /// ACP's list of `SessionConfigOption`.
    pub(super) fn options(&self) -> Value {
        let models = self.models.iter();
        let mut models: Vec<Value> = models
            .map(|model| json!({"value": model.value, "name": model.name}))
            .collect();
        if !self.models.iter().any(|model| model.value == self.model) {
            models.insert(0, json!({"value": self.model, "name": self.model}));
        }
        let modes = MODES.map(
            |mode| json!({"value": mode.id, "name": mode.name, "description": mode.description}),
        );
        json!([
            {
                "type": "select", "id": "model", "name": "Model", "category": "model",
                "currentValue": self.model, "options": models,
            },
            {
                "type": "select", "id": "mode", "name": "Mode", "category": "mode",
                "currentValue": self.mode, "options": modes,
            },
        ])
    }
}

impl AvailableCommand {
    /// ACP's `AvailableCommand`.
    pub(super) fn to_value(&self) -> Value {
        let mut command = json!({"name": self.name, "description": self.description});
        if let Some(hint) = &self.hint {
            command["input"] = json!({"hint": hint});
        }
        command
    }
}
