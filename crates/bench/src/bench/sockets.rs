//! What many clients that say nothing cost the server.

use std::time::Instant;

use serde_json::json;

use super::Plan;
use super::client::{Client, connect};
use super::program::{Server, open_files_max, write_script};
use super::table::{Row, Table, mebibytes, time};
use crate::Failure;

/// Open files that neither side's sockets may take.
const SPARE_FILES: u64 = 200;

pub(super) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let script = write_script(folder.path(), &json!([{"text": "hello"}]))?;
    let server = Server::start(plan, &folder.path().join("data"), &script)?;
    let room = open_files_max().saturating_sub(SPARE_FILES);
    let count = plan
        .sockets
        .min(usize::try_from(room).unwrap_or(usize::MAX));
    let before = server.running.resident_bytes()?;
    let started = Instant::now();
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        clients.push(Client::initialize(connect(&server)?)?);
    }
    let elapsed = started.elapsed();
    let after = server.running.resident_bytes()?;
    // Only sockets that still answer were worth counting.
    let last = clients.last_mut().ok_or("no socket could be opened")?;
    last.new_session(folder.path())?;
    let each = after.saturating_sub(before) / count.max(1) as u64;
    table.push(Row {
        what: &format!("memory with {count} idle WebSockets, initialized"),
        measured: mebibytes(after),
        beside: format!(
            "{} before; {each} bytes each; opened in {}",
            mebibytes(before),
            time(elapsed)
        ),
        ratio: None,
        aim: "≤ 150 MB",
    });
    Ok(())
}
