//! What one pays before the first prompt: size, time to ready, memory at rest.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Client, Pipes};
use super::program::{Running, Server, acp, first_line, serve, write_script};
use super::table::{Row, Samples, Table, mebibytes};
use super::{BARE, Plan, because};
use crate::Failure;

/// Starts whose median is shown: as many as the issue of noise asks for on a shared machine.
const STARTS: usize = 20;

/// Time in which a program that has just become ready puts its house in order.
pub(super) const SETTLE: Duration = Duration::from_secs(1);

pub(super) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let data = folder.path().join("data");
    let script = write_script(folder.path(), &json!([{"text": "hello"}]))?;
    binary_size(plan, table)?;
    start_to_ready(plan, &data, &script, table)?;

    let server = Server::start(plan, &data, &script)?;
    std::thread::sleep(SETTLE);
    table.push(memory("idle memory, `serve`", &server.running)?);
    drop(server);
    let (running, stdin, stdout) = Running::start(acp(plan, &data, &script))?;
    let client = Client::initialize(Pipes { stdin, stdout })?;
    std::thread::sleep(SETTLE);
    table.push(memory("idle memory, `acp`, initialized", &running)?);
    drop(client);
    Ok(())
}

fn binary_size(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let metadata = std::fs::metadata(&plan.program);
    let bytes = metadata.map_err(because("the program is not there"))?.len();
    table.push(Row {
        what: "binary",
        measured: mebibytes(bytes),
        beside: String::new(),
        ratio: None,
        aim: "≤ 25 MB",
    });
    Ok(())
}

fn start_to_ready(
    plan: &Plan,
    data: &Path,
    script: &Path,
    table: &mut Table,
) -> Result<(), Failure> {
    let this = std::env::current_exe().map_err(because("cannot find this program"))?;
    let (mut ready, mut bare, mut nothing) = (Vec::new(), Vec::new(), Vec::new());
    // Interleaved, so that a busy moment hits all three alike.
    for _ in 0..STARTS {
        ready.push(until_ready(serve(plan, data, script))?);
        let mut listener = Command::new(&this);
        listener.arg(BARE);
        bare.push(until_ready(listener)?);
        let started = Instant::now();
        let status = Command::new("true").status();
        status.map_err(because("cannot start `true`"))?;
        nothing.push(started.elapsed());
    }
    let [ready, bare, nothing] = [ready, bare, nothing].map(Samples::new);
    for (beside, name) in [(&bare, "bare listener"), (&nothing, "`true`")] {
        table.push(Row {
            what: "`serve`, start to ready line",
            measured: ready.to_string(),
            beside: format!("{name} {beside}"),
            ratio: ready.ratio(beside),
            aim: "≤ 10 ms",
        });
    }
    Ok(())
}

fn until_ready(command: Command) -> Result<Duration, Failure> {
    let started = Instant::now();
    let (running, _stdin, mut stdout) = Running::start(command)?;
    first_line(&mut stdout)?;
    let elapsed = started.elapsed();
    drop(running);
    Ok(elapsed)
}

fn memory<'a>(what: &'a str, running: &Running) -> Result<Row<'a>, Failure> {
    Ok(Row {
        what,
        measured: mebibytes(running.resident_bytes()?),
        beside: String::new(),
        ratio: None,
        aim: "≤ 10 MiB",
    })
}
