//! The editors we know: where each keeps its agents, and what it wants to be told.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::merge::Entry;
use crate::settings::Environment;

/// The name under which an editor shows us.
const NAME: &str = "Fastness";

/// An editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Editor {
    /// Zed.
    Zed,
    /// IntelliJ IDEA, PyCharm and the others, through AI Assistant.
    Jetbrains,
    /// Neovim with CodeCompanion.
    Neovim,
    /// Visual Studio Code with the extension ACP Client.
    Vscode,
}

/// What the editor is to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
}

/// How an editor is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An entry among others in a file of settings.
    Entry(Entry),
    /// A file of our own, which is nobody else's.
    Whole(String),
}

impl Editor {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Zed, Self::Jetbrains, Self::Neovim, Self::Vscode];

    /// As it is typed.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Zed => "zed",
            Self::Jetbrains => "jetbrains",
            Self::Neovim => "neovim",
            Self::Vscode => "vscode",
        }
    }

    /// As its makers write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zed => "Zed",
            Self::Jetbrains => "JetBrains",
            Self::Neovim => "Neovim",
            Self::Vscode => "VS Code",
        }
    }

    /// The file in which agents are named; `None` without a home directory.
    pub(crate) fn file(self, environment: &Environment) -> Option<PathBuf> {
        let config = config_dir(environment);
        match self {
            Self::Zed => Some(config?.join("zed/settings.json")),
            Self::Jetbrains => Some(environment.home()?.join(".jetbrains/acp.json")),
            Self::Neovim => Some(config?.join("nvim/lua/fastness.lua")),
            Self::Vscode => {
                let config = config?;
                let settings = |folder: &&str| config.join(folder).join("User/settings.json");
                let folders = [
                    "Code",
                    "Code - Insiders",
                    "VSCodium",
                    "Code - OSS",
                    "Cursor",
                ];
                let found = folders.iter().map(settings);
                let found = found.into_iter().find(|file| file.exists());
                Some(found.unwrap_or_else(|| config.join("Code/User/settings.json")))
            }
        }
    }

    /// Whether the person seems to use it: its folder is there.
    pub(crate) fn is_installed(self, environment: &Environment) -> bool {
        let Some(file) = self.file(environment) else {
            return false;
        };
        let folder = match self {
            Self::Zed | Self::Jetbrains => file.parent(),
            // `nvim/lua/fastness.lua` and `Code/User/settings.json`.
            Self::Neovim | Self::Vscode => file.parent().and_then(Path::parent),
        };
        folder.is_some_and(Path::is_dir)
    }

    /// What its file is to hold.
    pub(crate) fn form(self, launch: &Launch) -> Form {
        let entry = |table, value| {
            Form::Entry(Entry {
                table,
                name: NAME,
                value,
            })
        };
        let Launch { command, args } = launch;
        match self {
            Self::Zed => entry(
                "agent_servers",
                json!({"type": "custom", "command": command, "args": args, "env": {}}),
            ),
            Self::Jetbrains => entry(
                "agent_servers",
                json!({"command": command, "args": args, "env": {}}),
            ),
            Self::Vscode => entry(
                "acp.agents",
                json!({"command": command, "args": args, "env": {}}),
            ),
            Self::Neovim => Form::Whole(lua(launch)),
        }
    }

    /// What is left for the person to do.
    pub(crate) fn next(self) -> &'static str {
        match self {
            Self::Zed => "open the agent panel and choose Fastness for a new thread",
            Self::Jetbrains => "open AI Chat and choose Fastness in its list of agents",
            Self::Neovim => {
                "in CodeCompanion's setup, say: adapters = { acp = { fastness = require(\"fastness\") } }, \
                 interactions = { chat = { adapter = \"fastness\" } }"
            }
            Self::Vscode => {
                "install the extension ACP Client (formulahendry.acp-client), and connect to Fastness"
            }
        }
    }
}

/// Where editors keep their settings, by the rules of XDG.
fn config_dir(environment: &Environment) -> Option<PathBuf> {
    let named = environment.value("XDG_CONFIG_HOME").map(PathBuf::from);
    named
        .filter(|path| path.is_absolute())
        .or_else(|| Some(environment.home()?.join(".config")))
}

/// An adapter for CodeCompanion, made from one that it brings.
fn lua(launch: &Launch) -> String {
    let words = std::iter::once(&launch.command).chain(&launch.args);
    // Every string that JSON allows is one that Lua understands, but for escapes of Unicode.
    let words = words.map(|word| Value::from(word.as_str()).to_string());
    let words: Vec<String> = words.collect();
    format!(
        "-- Written by `fastness init neovim`; `fastness init neovim --remove` takes it away.\n\
         -- An adapter for CodeCompanion: adapters = {{ acp = {{ fastness = require(\"fastness\") }} }}\n\
         return function()\n  \
           return require(\"codecompanion.adapters\").extend(\"opencode\", {{\n    \
             name = \"fastness\",\n    \
             formatted_name = \"{NAME}\",\n    \
             commands = {{ default = {{ {} }} }},\n  \
           }})\n\
         end\n",
        words.join(", ")
    )
}
