//! A session of a hundred thousand events: loaded, and resumed from the middle, beside parsing its file.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::client::{Client, connect};
use super::super::journal::{CWD, write_session};
use super::super::program::{Server, write_script};
use super::super::table::{Row, Table, time};
use super::super::{Plan, because};
use crate::Failure;

/// Events of the session.
const EVENTS: u64 = 100_000;

pub(super) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let events = plan.large_events.min(EVENTS);
    let data = folder.path().join("data");
    let session = write_session(&data, events)?;
    let script = write_script(folder.path(), &json!([{"text": "hello"}]))?;
    let server = Server::start(plan, &data, &script)?;
    let mut client = Client::initialize(connect(&server)?)?;
    let (started, mut last) = (Instant::now(), 0);
    let updates = client.load_seeing(&session, Path::new(CWD), |message| {
        last = seq_of(message).max(last);
    })?;
    let loaded = started.elapsed();
    drop(server);
    let parsed = parse(&data, &session, 0)?;
    table.push(Row {
        what: &format!("`session/load` of {events} events"),
        measured: format!("{} in {updates} updates", time(loaded)),
        beside: format!("serde_json parsing the file {}", time(parsed)),
        ratio: Some(loaded.as_secs_f64() / parsed.as_secs_f64()),
        aim: "",
    });

    // Another process, so that this one opens the session as well.
    let server = Server::start(plan, &data, &script)?;
    let (resumed, updates) = resume(&server, &session, (events / 2, last))?;
    let parsed = parse(&data, &session, events / 2)?;
    table.push(Row {
        what: &format!("`session/resume` after event {} of them", events / 2),
        measured: format!("{} in {updates} updates", time(resumed)),
        beside: format!("serde_json parsing that half {}", time(parsed)),
        ratio: Some(resumed.as_secs_f64() / parsed.as_secs_f64()),
        aim: "",
    });
    Ok(())
}

/// Comes back after one event; gives how long it took to the update of another, and how many came.
fn resume(
    server: &Server,
    session: &str,
    (after, last): (u64, u64),
) -> Result<(Duration, usize), Failure> {
    let mut client = Client::initialize(connect(server)?)?;
    let started = Instant::now();
    let meta = json!({"fastness": {"afterSeq": after, "epoch": 0}});
    let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": [], "_meta": meta});
    client.request("session/resume", &params)?;
    let updates = client.read_until(|message| seq_of(message) >= last)?;
    Ok((started.elapsed(), updates))
}

/// How long it takes to make values of the events after one.
fn parse(data: &Path, session: &str, after: u64) -> Result<Duration, Failure> {
    let started = Instant::now();
    let path = data.join("sessions").join(session).join("events.jsonl");
    let text = std::fs::read_to_string(path).map_err(because("cannot read the journal"))?;
    for line in text.lines().skip(usize::try_from(after).unwrap_or(0)) {
        let parsed: Value = serde_json::from_str(line).map_err(because("not JSON"))?;
        drop(parsed);
    }
    Ok(started.elapsed())
}

/// The event that a message tells of; 0 if it is of none.
fn seq_of(message: &Value) -> u64 {
    let seq = &message["params"]["_meta"]["fastness"]["seq"];
    seq.as_u64().unwrap_or(0)
}
