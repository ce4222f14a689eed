//! Builds the program: as tests do, or as it is published.
//!
//! A published program is linked by zig against the symbols of an old glibc, lists its crates (see
//! [`super::sbom`]), and knows nothing about where it was built: the same source gives the same bytes
//! in every directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::stage::BASELINE;
use super::{Profile, tool};
use crate::Failure;
use crate::steps::{cargo, root};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What cargo-auditable wants to know of the build, in the form of its pinned version.
const AUDITABLE_ARGUMENTS: &str = r#"{"offline":false,"locked":true,"frozen":false,"config":[]}"#;

pub(crate) fn build(profile: Profile) -> Result<PathBuf, Failure> {
    match profile {
        Profile::Dev => {
            cargo("build --locked --package fastness")?;
            Ok(target_dir().join("debug/fastness"))
        }
        Profile::Release => build_release(),
    }
}

fn build_release() -> Result<PathBuf, Failure> {
    let script = tool::source("scripts/packaging.sh");
    let tools = tool::output(tool::command(
        script.to_string_lossy().as_ref(),
        ["install", "release"],
    ))?;
    let tools = String::from_utf8_lossy(&tools);
    let tools = PathBuf::from(tools.trim_end().lines().last().unwrap_or_default());
    let target = release_target_dir();
    let mut build = Command::new(cargo_program());
    build.args(["zigbuild", "--release", "--locked", "--package", "fastness"]);
    build.arg("--target").arg(format!("{TARGET}.{BASELINE}"));
    // As `cargo auditable` does it, but without the directory it lies in: cargo hashes this name into
    // the symbols of our own crates.
    build.env("RUSTC_WORKSPACE_WRAPPER", "cargo-auditable");
    build.env("CARGO_AUDITABLE_ORIG_ARGS", AUDITABLE_ARGUMENTS);
    build.current_dir(root()).env("CARGO_TARGET_DIR", &target);
    build.env(
        "CARGO_ENCODED_RUSTFLAGS",
        flags("--remap-path-prefix=", "\u{1f}")?,
    );
    // The C code of jemalloc and ring.
    build.env("CFLAGS", flags("-ffile-prefix-map=", " ")?);
    build.env("PATH", path_with(&tools)?);
    build.env("CARGO_ZIGBUILD_ZIG_PATH", tools.join("site/ziglang/zig"));
    let status = build
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err("the release build failed".to_owned());
    }
    Ok(target.join(TARGET).join("release/fastness"))
}

/// Directories of this machine that may not stand in a published program.
pub(crate) fn machine_paths() -> Result<Vec<String>, Failure> {
    let renamed = renamed_paths()?.into_iter();
    Ok(renamed.map(|(path, _)| path).collect())
}

/// Directories of this machine and what they are called in the program; the last that fits counts.
fn renamed_paths() -> Result<Vec<(String, String)>, Failure> {
    let cargo_home = cargo_home()?;
    let mut paths = vec![(cargo_home.clone(), "/cargo".to_owned())];
    // Crates lie in a directory that is named after the registry.
    let sources = cargo_home.join("registry/src");
    let registries = std::fs::read_dir(&sources).into_iter().flatten().flatten();
    paths.extend(registries.map(|registry| (registry.path(), "/crates".to_owned())));
    paths.push((root(), "/fastness".to_owned()));
    paths.push((release_target_dir(), "/target".to_owned()));
    let text = |(path, name): (PathBuf, String)| (path.display().to_string(), name);
    Ok(paths.into_iter().map(text).collect())
}

fn flags(flag: &str, between: &str) -> Result<String, Failure> {
    let paths = renamed_paths()?.into_iter();
    let flags: Vec<String> = paths
        .map(|(path, name)| format!("{flag}{path}={name}"))
        .collect();
    Ok(flags.join(between))
}

fn path_with(tools: &Path) -> Result<std::ffi::OsString, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = [tools.join("site/bin"), tools.join("bin")].into_iter();
    std::env::join_paths(first.chain(std::env::split_paths(&path)))
        .map_err(|error| format!("PATH cannot be extended: {error}"))
}

fn cargo_home() -> Result<PathBuf, Failure> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    set.or_else(home)
        .ok_or_else(|| "neither CARGO_HOME nor HOME is set".to_owned())
}

fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

fn target_dir() -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR");
    set.map_or_else(|| root().join("target"), |set| root().join(set))
}

/// Apart from the builds of every day, because its flags are different.
fn release_target_dir() -> PathBuf {
    target_dir().join("packaging/build")
}
