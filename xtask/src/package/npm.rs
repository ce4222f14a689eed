//! The npm packages: a program for one system, and `fastness`, which starts the matching one.
//!
//! npm installs only the program whose `os`, `cpu` and `libc` match, so no script has to run after
//! the installation.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{stage::Stage, tool};
use crate::Failure;

/// The package with the program for this system.
const PROGRAM: &str = "fastness-linux-x64";

const KEYWORDS: &[&str] = &[
    "agent",
    "acp",
    "agent-client-protocol",
    "ai",
    "llm",
    "server",
];

pub(crate) fn make(stage: &Stage, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    Ok(vec![make_wrapper(stage, out)?, make_program(stage, out)?])
}

fn make_wrapper(stage: &Stage, out: &Path) -> Result<PathBuf, Failure> {
    let mut manifest = manifest(stage, "fastness");
    manifest["bin"] = json!({"fastness": "bin/fastness.js"});
    manifest["engines"] = json!({"node": ">=18"});
    manifest["optionalDependencies"] = json!({PROGRAM: stage.version()});
    let folder = stage.workshop("npm-wrapper")?;
    let package = folder.join("package");
    let wrapper = package.join("bin/fastness.js");
    tool::copy(&tool::source("deploy/npm/fastness.js"), &wrapper)?;
    tool::set_mode(&wrapper, 0o755)?;
    tool::copy(
        &tool::source("deploy/npm/README.md"),
        &package.join("README.md"),
    )?;
    pack(stage, &folder, "fastness", &manifest, out)
}

fn make_program(stage: &Stage, out: &Path) -> Result<PathBuf, Failure> {
    let mut manifest = manifest(stage, PROGRAM);
    manifest["os"] = json!(["linux"]);
    manifest["cpu"] = json!(["x64"]);
    manifest["libc"] = json!(["glibc"]);
    let folder = stage.workshop("npm-program")?;
    tool::copy(&stage.program(), &folder.join("package/bin/fastness"))?;
    pack(stage, &folder, PROGRAM, &manifest, out)
}

fn manifest(stage: &Stage, name: &str) -> Value {
    json!({
        "name": name,
        "version": stage.version(),
        "description": stage.description(),
        "license": "Apache-2.0",
        "keywords": KEYWORDS,
    })
}

fn pack(
    stage: &Stage,
    folder: &Path,
    name: &str,
    manifest: &Value,
    out: &Path,
) -> Result<PathBuf, Failure> {
    let package = folder.join("package");
    tool::copy(&tool::source("LICENSE"), &package.join("LICENSE"))?;
    tool::write(
        &package.join("package.json"),
        format!("{manifest:#}\n").as_bytes(),
    )?;
    let packed = out.join(format!("{name}-{}.tgz", stage.version()));
    stage.pack(folder, "package", &packed)?;
    Ok(packed)
}
