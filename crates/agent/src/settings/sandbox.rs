//! `[sandbox]`: what commands are shut in, as far as a file has a say.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tools::sandbox::{SandboxMode, SandboxSettings};

use super::{SettingsError, wrong};

/// What a file says about the sandbox. Paths are absolute, or begin with `~/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SandboxSection {
    /// Whether there is one, and of which kind.
    pub mode: Option<Mode>,
    /// Whether every command may reach the network.
    pub network: Option<bool>,
    /// Whether commands may use Unix sockets.
    pub unix_sockets: Option<bool>,
    /// What commands see beyond what they always do.
    pub read: Vec<String>,
    /// What they may change beyond the session's directories.
    pub write: Vec<String>,
    /// What they do not see, whatever else is said.
    pub hide: Vec<String>,
}

/// Whether commands are shut in, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By what works.
    Auto,
    /// By Landlock alone.
    Landlock,
    /// Not at all.
    Off,
}

impl From<Mode> for SandboxMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Auto => Self::Auto,
            Mode::Landlock => Self::Landlock,
            Mode::Off => Self::Off,
        }
    }
}

impl SandboxSection {
    /// Changes `settings` as the file says, for a person whose home is `home`.
    pub fn apply(&self, settings: &mut SandboxSettings, home: Option<&Path>) {
        if let Some(mode) = self.mode {
            settings.mode = mode.into();
        }
        if let Some(network) = self.network {
            settings.network = network;
        }
        if let Some(unix_sockets) = self.unix_sockets {
            settings.unix_sockets = unix_sockets;
        }
        let paths = |named: &[String]| -> Vec<PathBuf> {
            named
                .iter()
                .filter_map(|path| absolute(path, home))
                .collect()
        };
        settings.read.extend(paths(&self.read));
        settings.write.extend(paths(&self.write));
        settings.hide.extend(paths(&self.hide));
    }

    /// What of it takes effect in the hands of somebody whom nobody trusts: what narrows.
    #[must_use]
    pub fn untrusted(&self) -> Self {
        Self {
            hide: self.hide.clone(),
            ..Self::default()
        }
    }

    pub(super) fn checked(self) -> Result<Self, SettingsError> {
        let mut paths = self.read.iter().chain(&self.write).chain(&self.hide);
        match paths.find(|path| !path.starts_with('/') && !path.starts_with("~/")) {
            Some(path) => Err(wrong(&format!(
                "[sandbox]: `{path}` is not absolute; begin with / or ~/"
            ))),
            None => Ok(self),
        }
    }
}

fn absolute(path: &str, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(rest) => Some(home?.join(rest)),
        None => Some(PathBuf::from(path)),
    }
}
