//! A project's `fastness.toml`: untrusted, and in effect as far as it needs no trust or has it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use domain::event::HookPoint;
use domain::limits::SETTINGS_FILE_BYTES_MAX;
use sha2::{Digest as _, Sha256};
use toml::{Table, Value};
use tools::roots::Roots;
use tools::stamps::Stamps;

use super::Approvals;
use super::servers::server_line;
use crate::settings::{FileSettings, Hook, PermissionSettings, SettingsError, Trust, trust};

/// The name of a project's settings.
pub const FILE_NAME: &str = "fastness.toml";

/// A project's file, as it was read.
#[derive(Clone, Debug)]
pub struct ProjectFile {
    /// Where it is, without links.
    pub path: String,
    /// What it holds: 64 hexadecimal digits. Empty if it could not be read.
    pub sha256: String,
    /// Whether a person has approved exactly this.
    pub is_approved: bool,
    settings: Result<FileSettings, SettingsError>,
    table: Table,
}

impl ProjectFile {
    /// The nearest file in `levels`, which go from the repository's root to the session's
    /// directory. Blocks.
    #[must_use]
    pub fn find(levels: &[PathBuf], roots: &Roots, stamps: &mut Stamps) -> Option<Self> {
        for level in levels.iter().rev() {
            let path = level.join(FILE_NAME);
            stamps.note(path.clone());
            // One that cannot be read is still the nearest: the one above it is not meant.
            if path.symlink_metadata().is_ok() {
                return Some(Self::read(&path, roots));
            }
        }
        None
    }

    fn read(path: &Path, roots: &Roots) -> Self {
        let shown = path.to_string_lossy().into_owned();
        let (sha256, parsed) = match bytes(path, roots) {
            Ok(bytes) => {
                let text = std::str::from_utf8(&bytes);
                let text = text.map_err(|_| wrong("it is not UTF-8"));
                (digest(&bytes), text.and_then(FileSettings::parse))
            }
            Err(error) => (String::new(), Err(error)),
        };
        let (settings, table) = match parsed {
            Ok((settings, table)) => (Ok(settings), table),
            Err(error) => (Err(error), Table::new()),
        };
        Self {
            path: shown,
            sha256,
            is_approved: false,
            settings,
            table,
        }
    }

    /// What the file at `path` holds now, as [`ProjectFile::sha256`]. Blocks.
    #[must_use]
    pub fn digest_of(path: &Path) -> Option<String> {
        let roots = Roots::new(path.parent()?.to_owned(), Vec::new(), Vec::new());
        bytes(path, &roots).ok().map(|bytes| digest(&bytes))
    }

    /// The same, approved if the person has.
    #[must_use]
    pub fn judged_by(self, approvals: Option<&Approvals>) -> Self {
        let is_approved = !self.sha256.is_empty()
            && approvals.is_some_and(|approvals| approvals.cover(&self.path, &self.sha256));
        Self {
            is_approved,
            ..self
        }
    }

    /// What is wrong with it.
    #[must_use]
    pub fn error(&self) -> Option<&SettingsError> {
        self.settings.as_ref().err()
    }

    /// What takes effect of it now.
    #[must_use]
    pub fn in_effect(&self) -> FileSettings {
        let Ok(settings) = &self.settings else {
            return FileSettings::default();
        };
        if self.is_approved {
            return settings.clone();
        }
        FileSettings {
            context: settings.context.clone(),
            permissions: PermissionSettings {
                allow: Vec::new(),
                ..settings.permissions.clone()
            },
            sandbox: settings.sandbox.untrusted(),
            ..FileSettings::default()
        }
    }

    /// What it would do once approved, a line each.
    #[must_use]
    pub fn wants(&self) -> Vec<String> {
        let Ok(settings) = &self.settings else {
            return Vec::new();
        };
        let mut wants: Vec<String> = settings.hooks.iter().map(hook_line).collect();
        for (table, value) in &self.table {
            let plain = value
                .as_table()
                .filter(|_| table != "agents" && table != "mcp");
            for (key, value) in plain.into_iter().flatten() {
                if trust(table, key) == Trust::Approval {
                    wants.push(setting_line(table, key, value));
                }
            }
        }
        let agents = settings.agents.keys();
        wants.extend(agents.map(|name| line(&format!("define the agent {name}"))));
        wants.extend(settings.servers.iter().map(server_line));
        wants
    }

    /// What it does without approval, a line each.
    #[must_use]
    pub fn does(&self) -> Vec<String> {
        let tables = self.table.iter();
        let fields = tables.filter_map(|(table, value)| Some((table, value.as_table()?)));
        let fields = fields
            .flat_map(|(table, fields)| fields.iter().map(move |(key, value)| (table, key, value)));
        let free = fields.filter(|(table, key, _)| trust(table, key) == Trust::Free);
        free.map(|(table, key, value)| setting_line(table, key, value))
            .collect()
    }

    /// The tables in it that no project can set.
    #[must_use]
    pub fn never(&self) -> Vec<&str> {
        let tables = self.table.keys().map(String::as_str);
        tables
            .filter(|table| trust(table, "") == Trust::Operator)
            .collect()
    }
}

fn setting_line(table: &str, key: &str, value: &Value) -> String {
    let value = serde_json::to_string(value).unwrap_or_default();
    // Who approves it sends more than questions there.
    let with = match (table, key) {
        ("models", "anthropic_base_url" | "openai_base_url") => " (and send your key there)",
        _ => "",
    };
    line(&format!("set {table}.{key} to {value}{with}"))
}

fn hook_line(hook: &Hook) -> String {
    let point = hook.point.name();
    let about = match hook.point {
        HookPoint::PreToolUse | HookPoint::PostToolUse => {
            format!(" ({})", hook.matcher)
        }
        HookPoint::SessionStart
        | HookPoint::UserPromptSubmit
        | HookPoint::BeforeModelCall
        | HookPoint::AfterModelCall
        | HookPoint::SessionCompacting
        | HookPoint::Stop
        | HookPoint::SessionEnd => String::new(),
    };
    line(&format!("run at {point}{about}: {}", hook.command))
}

/// In one line that a terminal shows as it is, with nothing left out.
pub(super) fn line(text: &str) -> String {
    let shown = text.chars().map(|letter| match letter {
        '\n' => '↵',
        '\t' => ' ',
        other if other.is_control() || turns_text(other) => '\u{fffd}',
        other => other,
    });
    shown.collect()
}

/// Letters that show what follows in another order than it is read in, or not at all.
fn turns_text(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

pub(super) fn bytes(path: &Path, roots: &Roots) -> Result<Vec<u8>, SettingsError> {
    let name = path
        .to_str()
        .ok_or_else(|| wrong("its name is not UTF-8"))?;
    let file = roots.open_file(name);
    let file = file.map_err(|error| wrong(&error.to_string()))?;
    let mut bytes = Vec::new();
    let read = file
        .take(SETTINGS_FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes);
    read.map_err(|error| wrong(&error.to_string()))?;
    if bytes.len() > SETTINGS_FILE_BYTES_MAX {
        return Err(wrong(&format!(
            "it is longer than {SETTINGS_FILE_BYTES_MAX} bytes"
        )));
    }
    Ok(bytes)
}

fn wrong(problem: &str) -> SettingsError {
    SettingsError::Wrong(problem.to_owned())
}

pub(super) fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}
