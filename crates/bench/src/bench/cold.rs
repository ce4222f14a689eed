//! From a clean clone to the first answer: what a newcomer waits for.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::program::Running;
use super::table::{Row, Table, time};
use super::{Plan, because, root};
use crate::Failure;

/// Clones the last commit, builds it as README's first command does, and waits for its first word.
/// The registry is warm: what a network is like is not ours to measure.
pub(super) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let clone = folder.path().join("clone");
    let started = Instant::now();
    let cloned = Command::new("git")
        .args(["clone", "--quiet"])
        .arg(root())
        .arg(&clone)
        .status();
    if !cloned.map_err(because("cannot start git"))?.success() {
        return Err("the clone failed".to_owned());
    }
    let mut command = Command::new("cargo");
    command
        .args(["run", "--quiet", "--", "ask", "what can you do?"])
        .current_dir(&clone)
        .env("CARGO_TARGET_DIR", folder.path().join("target"))
        .env("XDG_STATE_HOME", folder.path().join("state"))
        .stderr(Stdio::inherit());
    let (running, stdin, mut stdout) = Running::start(command)?;
    drop(stdin);
    let mut first = [0; 1];
    let answered = stdout.read_exact(&mut first);
    answered.map_err(because("there was no answer"))?;
    let elapsed = started.elapsed();
    drop(running);
    table.push(Row {
        what: "clean clone to first answer, warm registry",
        measured: time(elapsed),
        beside: String::new(),
        ratio: None,
        aim: "≤ 3 min",
    });
    Ok(())
}
