//! The operator's file: `$XDG_CONFIG_HOME/fastness/config.toml`.
//!
//! Which keys there are is known to [`agent::settings`], for a project's file has the same. What the
//! environment says wins over what stands here; each setting is read by the module that owns it.

use std::path::{Path, PathBuf};

use agent::settings::{FileSettings, SettingsError};
use anyhow::Context;
use toml::{Table, Value};

use super::Environment;
use crate::render::Failure;

/// What the file says.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigFile {
    path: PathBuf,
    tables: Table,
    settings: FileSettings,
}

impl ConfigFile {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// If it is there and cannot be read, or says something that is not known.
    pub(super) fn read(environment: &Environment) -> anyhow::Result<Self> {
        let Some(directory) = directory(environment) else {
            return Ok(Self::default());
        };
        let path = directory.join("config.toml");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let parsed = FileSettings::parse(&text);
        let (settings, tables) = parsed.map_err(|error| unusable(&path, error))?;
        Ok(Self {
            path,
            tables,
            settings,
        })
    }

    /// The same as if `table` did not stand there.
    pub(super) fn without(mut self, table: &str) -> Self {
        self.tables.remove(table);
        self
    }

    /// Where it is, if it is there.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it sets for sessions.
    pub(super) fn settings(&self) -> &FileSettings {
        &self.settings
    }

    /// The value of `key` in `table`.
    pub(super) fn value(&self, table: &str, key: &str) -> Option<&Value> {
        self.tables.get(table)?.get(key)
    }

    /// Text at `key` in `table`.
    ///
    /// # Errors
    /// If something else stands there.
    pub(super) fn text(&self, table: &str, key: &str) -> anyhow::Result<Option<&str>> {
        let Some(value) = self.value(table, key) else {
            return Ok(None);
        };
        let text = value.as_str();
        let text = text.ok_or_else(|| self.wrong(&format!("{table}.{key} is a text in quotes")));
        Ok(Some(text?))
    }

    /// All limits that are set, as text; what is no number and no text is empty.
    pub(super) fn limits(&self) -> impl Iterator<Item = (&String, String)> {
        let table = self.tables.get("limits").and_then(Value::as_table);
        table.into_iter().flatten().map(|(key, value)| {
            let number = value.as_integer().map(|number| number.to_string());
            let text = number.or_else(|| value.as_str().map(str::to_owned));
            (key, text.unwrap_or_default())
        })
    }

    /// A failure about something in the file.
    pub(super) fn wrong(&self, problem: &str) -> Failure {
        wrong(&self.path, problem)
    }
}

/// The directory of the operator's own files, if there is a home for it.
pub(super) fn directory(environment: &Environment) -> Option<PathBuf> {
    // The rules of XDG: a relative path there does not count.
    let config = environment.value("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.filter(|config| config.is_absolute());
    let config = config.or_else(|| Some(environment.home()?.join(".config")));
    Some(config?.join("fastness"))
}

fn unusable(path: &Path, error: SettingsError) -> Failure {
    match error {
        SettingsError::Unknown { place, nearest } => {
            let failure = wrong(path, &format!("{place} is not a setting"));
            failure.hint(format!("the nearest one that is known is `{nearest}`"))
        }
        SettingsError::Wrong(problem) => wrong(path, &problem),
    }
}

fn wrong(path: &Path, problem: &str) -> Failure {
    Failure::usage(format!("{}: {problem}", path.display()))
}
