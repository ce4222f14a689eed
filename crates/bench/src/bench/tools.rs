//! `cargo xtask bench tools`: what a tool costs beyond the work itself.
//!
//! [`search`] and [`files`] stand beside `rg` and bare system calls. The sandbox: a command that does nothing, bare, under its supervisor, and shut in, in turns, so
//! that a busy moment meets all.

mod files;
mod search;

use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tools::roots::Roots;
use tools::sandbox::{
    Bounds, Cage, Grants, Ordered, Sandbox, SandboxMode, SandboxSettings, supervise, supervisor,
};

use super::table::{Row, Samples, Table};
use super::{Group, Plan, because};
use crate::Failure;

/// What is measured, by the name that `--only` looks at.
pub(super) const GROUPS: &[(&str, Group)] = &[
    ("sandbox", sandbox),
    ("search", search::measure),
    ("files", files::measure),
];

/// What one command may take; none of it is reached.
const BOUNDS: Bounds = Bounds {
    processes: 2_048,
    memory_bytes: 8 << 30,
    total_memory_bytes: 8 << 30,
    file_bytes: 16 << 30,
};

fn sandbox(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(because("cannot start the runtime"))?;
    let folder = plan.scratch()?;
    let roots = Roots::new(folder.path().to_owned(), Vec::new(), Vec::new());
    let environment: Arc<[(String, String)]> = std::env::vars()
        .filter(|(name, _)| name == "PATH" || name == "HOME")
        .collect();
    let make = |mode| {
        let settings = SandboxSettings {
            mode,
            ..SandboxSettings::default()
        };
        Sandbox::new(
            Arc::clone(&environment),
            plan.program.clone(),
            BOUNDS,
            settings,
            None,
        )
    };
    let (both, landlock) = (make(SandboxMode::Auto), make(SandboxMode::Landlock));
    let mut samples: [Vec<Duration>; 4] = Default::default();
    for _ in 0..plan.rounds {
        samples[0].push(bare()?);
        samples[1].push(runtime.block_on(one(plan, &environment, &roots, None))?);
        samples[2].push(runtime.block_on(one(plan, &environment, &roots, Some(&landlock)))?);
        samples[3].push(runtime.block_on(one(plan, &environment, &roots, Some(&both)))?);
    }
    let [bare, supervised, landlock, both] = samples.map(Samples::new);
    for (what, samples, aim) in [
        ("a command under its supervisor", &supervised, "–"),
        ("the same, shut in by Landlock", &landlock, "≤ 15 ms more"),
        ("the same, shut in by bubblewrap", &both, "≤ 15 ms more"),
    ] {
        table.push(Row {
            what,
            measured: samples.to_string(),
            beside: format!("bare {bare}"),
            ratio: samples.ratio(&bare),
            aim,
        });
    }
    Ok(())
}

fn bare() -> Result<Duration, Failure> {
    let started = Instant::now();
    let status = Command::new("bash").args(["-c", "exit 0"]).status();
    status.map_err(because("cannot start bash"))?;
    Ok(started.elapsed())
}

/// One command, with all that is done for it: finding out what it may see, too.
async fn one(
    plan: &Plan,
    environment: &[(String, String)],
    roots: &Roots,
    sandbox: Option<&Sandbox>,
) -> Result<Duration, Failure> {
    if let Some(sandbox) = sandbox {
        // Once for a process.
        sandbox.found().await;
    }
    let cwd = std::fs::File::open(&plan.folder).map_err(because("cannot open the folder"))?;
    let started = Instant::now();
    let cage: Option<Cage> = match sandbox {
        Some(sandbox) => sandbox
            .cage(roots, Grants::default())
            .await
            .map_err(because("cannot make a sandbox"))?,
        None => None,
    };
    if sandbox.is_some() != cage.is_some() {
        return Err("there is no sandbox here".to_owned());
    }
    let ordered = Ordered {
        command: "exit 0",
        cwd: cwd.as_fd(),
        environment,
        program: &plan.program,
        supervisor: &[supervisor::ARGUMENT.to_owned()],
        time_max: Duration::from_secs(10),
        cage: cage.as_ref(),
    };
    let ended = supervise(ordered, &mut |_: &[u8]| {}).await;
    ended.map_err(because("the command could not be started"))?;
    Ok(started.elapsed())
}
