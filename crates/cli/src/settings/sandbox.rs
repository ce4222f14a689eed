//! What the operator decided about the sandbox, from the environment and the file.

use tools::sandbox::{SandboxMode, SandboxSettings};

use super::Environment;
use super::file::ConfigFile;
use crate::render::Failure;

/// Puts environment and file together.
///
/// # Errors
/// If a value cannot be used.
pub(super) fn resolve(
    environment: &Environment,
    file: &ConfigFile,
) -> anyhow::Result<SandboxSettings> {
    const MODE: &str = "FASTNESS_SANDBOX_MODE";
    const NETWORK: &str = "FASTNESS_SANDBOX_NETWORK";
    let mut settings = SandboxSettings::default();
    let home = environment.home();
    file.settings().sandbox.apply(&mut settings, home);
    match environment.value(MODE) {
        None => {}
        Some("auto") => settings.mode = SandboxMode::Auto,
        Some("landlock") => settings.mode = SandboxMode::Landlock,
        Some("off") => settings.mode = SandboxMode::Off,
        Some(other) => {
            let sentence = format!("{MODE} takes auto, landlock or off, not `{other}`");
            return Err(Failure::usage(sentence).into());
        }
    }
    match environment.value(NETWORK) {
        None => {}
        Some("true" | "1") => settings.network = true,
        Some("false" | "0") => settings.network = false,
        Some(other) => {
            let sentence = format!("{NETWORK} takes true or false, not `{other}`");
            return Err(Failure::usage(sentence).into());
        }
    }
    Ok(settings)
}
