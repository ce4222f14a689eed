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
    const UNIX_SOCKETS: &str = "FASTNESS_SANDBOX_UNIX_SOCKETS";
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
    for (name, setting) in [
        (NETWORK, &mut settings.network),
        (UNIX_SOCKETS, &mut settings.unix_sockets),
    ] {
        match environment.value(name) {
            None => {}
            Some("true" | "1") => *setting = true,
            Some("false" | "0") => *setting = false,
            Some(other) => {
                let sentence = format!("{name} takes true or false, not `{other}`");
                return Err(Failure::usage(sentence).into());
            }
        }
    }
    Ok(settings)
}
