//! The operator's file: `$XDG_CONFIG_HOME/fastness/config.toml`.
//!
//! A key is known or it is an error that names the nearest known one. What the environment says
//! wins over what stands here; each setting is read by the module that owns it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use toml::{Table, Value};

use super::Environment;
use crate::render::Failure;

/// The keys that are known here, by table. The keys of `limits` are the limits' own to know.
const KNOWN: &[(&str, &[&str])] = &[
    ("limits", &[]),
    ("models", &["ca_file", "context_window", "model"]),
    ("network", &["allow", "allow_private_networks", "proxy"]),
    ("search", &["key", "provider", "url"]),
];

/// What the file says.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigFile {
    path: PathBuf,
    tables: Table,
}

impl ConfigFile {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// If it is there and cannot be read, or says something that is not known.
    pub(super) fn read(environment: &Environment) -> anyhow::Result<Self> {
        let Some(path) = path(environment) else {
            return Ok(Self::default());
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        Self::parse(path, &text)
    }

    fn parse(path: PathBuf, text: &str) -> anyhow::Result<Self> {
        let tables: Table = text
            .parse()
            .map_err(|error: toml::de::Error| wrong(&path, error.message()))?;
        for (name, value) in &tables {
            let known = KNOWN.iter().find(|(known, _)| known == name);
            let Some((_, keys)) = known else {
                let tables = KNOWN.iter().map(|(known, _)| *known);
                return Err(unknown(&path, &format!("[{name}]"), name, tables).into());
            };
            let Some(table) = value.as_table() else {
                return Err(wrong(&path, &format!("`{name}` is a table: write [{name}]")).into());
            };
            let strange = table.keys().find(|key| !keys.contains(&key.as_str()));
            if let Some(key) = strange.filter(|_| *name != "limits") {
                let place = format!("{name}.{key}");
                return Err(unknown(&path, &place, key, keys.iter().copied()).into());
            }
        }
        Ok(Self { path, tables })
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

fn path(environment: &Environment) -> Option<PathBuf> {
    // The rules of XDG: a relative path there does not count.
    let config = environment.value("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.filter(|config| config.is_absolute()).or_else(|| {
        let home = environment.value("HOME").map(Path::new)?;
        home.is_absolute().then(|| home.join(".config"))
    });
    Some(config?.join("fastness/config.toml"))
}

fn wrong(path: &Path, problem: &str) -> Failure {
    Failure::usage(format!("{}: {problem}", path.display()))
}

fn unknown<'a>(
    path: &Path,
    place: &str,
    key: &str,
    known: impl Iterator<Item = &'a str>,
) -> Failure {
    let failure = wrong(path, &format!("{place} is not a setting"));
    match known.min_by_key(|known| distance(key, known)) {
        Some(nearest) => failure.hint(format!("the nearest one that is known is `{nearest}`")),
        None => failure,
    }
}

/// How many letters must be changed, added or left out to get from one word to the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, b) in other.bytes().enumerate() {
            let change = before + usize::from(a != b);
            before = row[j + 1];
            row[j + 1] = change.min(before + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
