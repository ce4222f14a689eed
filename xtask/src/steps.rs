//! What a change must pass, step by step, each by the command that a person would type.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::tidy::{self, Findings, Graph};
use crate::tree::Tree;
use crate::{Failure, test};

/// Tidy over our own tree and over what we build on.
pub(crate) fn tidy() -> Result<(), Failure> {
    let mut findings = tidy::check(&Tree::read(&root())?);
    findings.extend(supply()?);
    if findings.is_empty() {
        println!("tidy: nothing to do");
        return Ok(());
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    Err(format!("tidy: {} to put right", findings.len()))
}

/// Everything but the tests. All steps run, so that one round shows all there is to do.
pub(crate) fn lint() -> Result<(), Failure> {
    let steps: [(&str, Step); 5] = [
        ("fmt", || cargo("fmt --all --check")),
        ("tidy", tidy),
        ("clippy", || {
            cargo("clippy --workspace --all-targets --quiet -- -D warnings")
        }),
        ("doc", doc),
        ("deny", deny_if_installed),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        eprintln!("== {name}");
        if let Err(failure) = step() {
            eprintln!("{name}: {failure}");
            failed.push(name);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("not clean: {}", failed.join(", ")))
}

/// Lint, then `cargo xtask test`, whose own summary is the last line when all is well.
pub(crate) fn ci() -> Result<(), Failure> {
    let lint = lint();
    if test::test(&[])? {
        return lint;
    }
    Err("tests failed".to_owned())
}

/// cargo-deny over `deny.toml`, without advisories: those need a database from the network.
pub(crate) fn deny() -> Result<(), Failure> {
    cargo("deny --workspace check bans licenses sources")
        .map_err(|failure| format!("{failure} (is it there? `cargo install --locked cargo-deny`)"))
}

/// What [`tidy::check_graph`] finds in the crates that this platform's build is made of.
pub(crate) fn supply() -> Result<Findings, Failure> {
    let arguments = format!("tree --workspace --locked {}", Graph::FORMAT);
    let root = root();
    let graph = Graph::parse(&cargo_output(&arguments)?, &root.to_string_lossy());
    let deny = std::fs::read_to_string(root.join("deny.toml"))
        .map_err(|error| format!("cannot read deny.toml: {error}"))?;
    Ok(tidy::check_graph(&graph, &deny))
}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// Runs cargo in the workspace, its output going where ours goes.
pub(crate) fn cargo(arguments: &str) -> Result<(), Failure> {
    run(command(arguments), arguments)
}

/// Runs cargo in the workspace and hands back what it printed.
pub(crate) fn cargo_output(arguments: &str) -> Result<String, Failure> {
    let output = command(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("`cargo {arguments}` failed"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

type Step = fn() -> Result<(), Failure>;

fn doc() -> Result<(), Failure> {
    const DOC: &str = "doc --workspace --no-deps --document-private-items --quiet";
    let mut command = command(DOC);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(command, DOC)
}

fn deny_if_installed() -> Result<(), Failure> {
    let version = command("deny --version").stderr(Stdio::null()).output();
    if version.is_ok_and(|output| output.status.success()) {
        return deny();
    }
    eprintln!("cargo-deny is not installed; tidy has checked licences, sources and versions");
    Ok(())
}

pub(crate) fn run(mut command: Command, arguments: &str) -> Result<(), Failure> {
    let status = command
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`cargo {arguments}` failed"))
}

pub(crate) fn command(arguments: &str) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(arguments.split(' ')).current_dir(root());
    command
}
