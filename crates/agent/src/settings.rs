//! What can be set in a file, by the operator in `config.toml` or by a project in `fastness.toml`:
//! the same keys, read the same way.
//!
//! [`schema`] knows the keys and what each needs in the hands of a project; this module knows what
//! they mean. Settings that are the server's alone (limits, searching) are read by `cli`.

mod hook;
mod lsp;
mod mcp;
mod sandbox;
mod schema;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::ToolServer;
use domain::limits::{DESCRIPTION_CHARS_MAX, HOOKS_MAX, RULES_MAX};
use llm::Addresses;
use serde::Deserialize;
use toml::Table;
use tools::agents::{Agent, tool_name};
use tools::lsp::Commands;

use crate::permissions::Rule;

pub use hook::{Hook, Matcher, OnFailure};
pub use mcp::{Kind as ServerKind, ServerSection};
pub use sandbox::{Mode as SandboxFileMode, SandboxSection};
pub use schema::{Trust, trust};

/// What a file sets, beyond what is the server's alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileSettings {
    /// Commands that run when something happens, in this order.
    pub hooks: Vec<Hook>,
    /// Agents for sub-tasks, by name.
    pub agents: BTreeMap<String, AgentSettings>,
    /// What the model is told.
    pub context: ContextSettings,
    /// What tools may do.
    pub permissions: PermissionSettings,
    /// Which models, and where they are.
    pub models: ModelsSettings,
    /// What commands are shut in.
    pub sandbox: SandboxSection,
    /// Servers of tools.
    pub servers: Vec<ToolServer>,
    /// Language servers of the operator's own.
    pub lsp: Commands,
}

/// An agent for sub-tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AgentSettings {
    /// When to use it.
    pub description: String,
    /// What it is told first.
    pub prompt: String,
    /// Its model, if not the session's.
    pub model: Option<String>,
    /// Its tools, if not all.
    pub tools: Option<Vec<String>>,
    /// Model calls that one task may take, if fewer than a turn.
    pub steps_max: Option<u32>,
    /// Tokens that one task may use, if fewer than a turn.
    pub tokens_max: Option<u64>,
    /// How long one task may ask its model for more, in milliseconds.
    pub time_ms: Option<u64>,
}

impl AgentSettings {
    /// The agent called `name` that is set so; what of it has no effect goes to `problems`.
    #[must_use]
    pub fn agent(&self, name: &str, problems: &mut Vec<String>) -> Agent {
        let mut known = Vec::new();
        for tool in self.tools.iter().flatten() {
            match tool_name(tool) {
                Some(tool) => known.push(tool.to_owned()),
                None => problems.push(format!("agents.{name}: there is no tool {tool}")),
            }
        }
        let description = self.description.split_whitespace();
        let description = description.collect::<Vec<_>>().join(" ");
        Agent {
            name: name.to_owned(),
            description: description.chars().take(DESCRIPTION_CHARS_MAX).collect(),
            prompt: self.prompt.trim().into(),
            model: self.model.clone(),
            tools: self.tools.as_ref().map(|_| known.into()),
            steps_max: self.steps_max,
            tokens_max: self.tokens_max,
            time_max: self.time_ms.map(Duration::from_millis),
        }
    }
}

/// What the model is told of a project.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ContextSettings {
    /// How to write and work, in a few words.
    pub style: Option<String>,
    /// Whether `AGENTS.md` and `CLAUDE.md` are read.
    pub instructions: bool,
    /// Whether skills are offered.
    pub skills: bool,
    /// Whether commands are offered.
    pub commands: bool,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self {
            style: None,
            instructions: true,
            skills: true,
            commands: true,
        }
    }
}

/// Rules about tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PermissionSettings {
    /// What runs unasked.
    pub allow: Vec<Rule>,
    /// What is asked about, whatever else is set.
    pub ask: Vec<Rule>,
    /// What never runs.
    pub deny: Vec<Rule>,
}

/// Which models, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ModelsSettings {
    /// The model unless another is named, such as `anthropic:NAME`. It may be written as `model`, too.
    #[serde(alias = "model")]
    pub default: Option<String>,
    /// Where Anthropic's interface is.
    pub anthropic_base_url: Option<String>,
    /// Where OpenAI's interface is.
    pub openai_base_url: Option<String>,
    /// Where Ollama is.
    pub ollama_host: Option<String>,
}

impl ModelsSettings {
    /// Where models are, as far as it says.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses {
            anthropic: self.anthropic_base_url.clone(),
            openai: self.openai_base_url.clone(),
            ollama: self.ollama_host.clone(),
        }
    }
}

/// What is wrong with a file, for whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// There is no such key.
    #[error("{place} is not a setting; the nearest one that is known is `{nearest}`")]
    Unknown {
        /// Where it stands.
        place: String,
        /// The known key that looks most like it.
        nearest: &'static str,
    },
    /// The text is not TOML, or a value is not of the right kind.
    #[error("{0}")]
    Wrong(String),
}

impl FileSettings {
    /// Reads the text of a file, and checks every key in it.
    ///
    /// # Errors
    /// If it is not TOML, or says something that is not known.
    pub fn parse(text: &str) -> Result<(Self, Table), SettingsError> {
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| wrong(error.message()))?;
        schema::check(&table)?;
        Ok((Self::read(&table)?, table))
    }

    fn read(table: &Table) -> Result<Self, SettingsError> {
        let hooks = table.get("hooks").and_then(toml::Value::as_array);
        let hooks: Vec<Hook> = hooks
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(index, value)| {
                Hook::read(value.clone())
                    .map_err(|problem| wrong(&format!("hook {}: {problem}", index + 1)))
            })
            .collect::<Result<_, _>>()?;
        if hooks.len() > HOOKS_MAX {
            return Err(wrong(&format!("there are more than {HOOKS_MAX} hooks")));
        }
        let permissions: PermissionSettings = part(table, "permissions")?;
        let PermissionSettings { allow, ask, deny } = &permissions;
        if [allow, ask, deny]
            .iter()
            .any(|rules| rules.len() > RULES_MAX)
        {
            return Err(wrong(&format!(
                "there are more than {RULES_MAX} rules in a list"
            )));
        }
        Ok(Self {
            hooks,
            agents: part(table, "agents")?,
            context: part(table, "context")?,
            permissions,
            models: part(table, "models")?,
            sandbox: part::<SandboxSection>(table, "sandbox")?.checked()?,
            servers: mcp::servers(&part(table, "mcp")?)?,
            lsp: lsp::commands(table)?,
        })
    }
}

/// One table of the file, as what it means.
fn part<T: Default + for<'de> Deserialize<'de>>(
    table: &Table,
    name: &str,
) -> Result<T, SettingsError> {
    let Some(value) = table.get(name) else {
        return Ok(T::default());
    };
    let read: Result<T, toml::de::Error> = value.clone().try_into();
    read.map_err(|error| wrong(&format!("[{name}]: {}", error.message())))
}

fn wrong(problem: &str) -> SettingsError {
    SettingsError::Wrong(problem.trim().replace('\n', " "))
}

#[cfg(test)]
mod tests;
