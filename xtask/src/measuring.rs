//! `cargo xtask bench` and `cargo xtask soak`: builds the crate `bench` with the release profile and
//! starts it, so that the measuring side is not what is measured.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::Failure;
use crate::steps::{cargo, cargo_output};

/// What is measured without the program.
const NEED_NO_PROGRAM: [&str; 4] = ["--bin", "journal", "netguard", "mcp"];

/// Measures what `arguments` name.
pub(crate) fn bench(arguments: &[String]) -> Result<(), Failure> {
    let needs_none = |argument: &String| NEED_NO_PROGRAM.contains(&argument.as_str());
    start("bench", arguments, !arguments.iter().any(needs_none))
}

/// Soaks what the first argument names.
pub(crate) fn soak(arguments: &[String]) -> Result<(), Failure> {
    let kind = arguments.first().map(String::as_str);
    let needs_program = matches!(kind, Some("kill" | "edge" | "bridge" | "chat"));
    let has_one = arguments.iter().any(|argument| argument == "--bin");
    start("soak", arguments, needs_program && !has_one)
}

fn start(command: &str, arguments: &[String], needs_program: bool) -> Result<(), Failure> {
    // One at a time: built together, each would get the features that the other asks for.
    if needs_program {
        cargo("build --release -p fastness")?;
    }
    cargo("build --release -p fastness-bench")?;
    let status = Command::new(target()?.join("release/fastness-bench"))
        .arg(command)
        .args(arguments)
        .status()
        .map_err(|error| format!("cannot start fastness-bench: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err("it did not finish".to_owned())
}

fn target() -> Result<PathBuf, Failure> {
    let metadata = cargo_output("metadata --format-version 1 --no-deps")?;
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|error| format!("cargo metadata did not print JSON: {error}"))?;
    let target = metadata["target_directory"].as_str();
    target
        .map(PathBuf::from)
        .ok_or_else(|| "cargo does not say where it builds".to_owned())
}
