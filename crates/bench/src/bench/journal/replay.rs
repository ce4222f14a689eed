//! How fast a session is read, beside a parser on the same bytes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use domain::clock::Timestamp;
use domain::{EventSeq, SessionId};
use journal::{Entry, FileStore};
use serde_json::Value;

use super::{failed, long_event, new_session};
use crate::Failure;
use crate::bench::table::{Row, Table, time};
use crate::bench::{Plan, because};

/// Events of the session that is read, about 1 KB each.
const EVENTS: u64 = 100_000;

/// Times each way is taken.
const PASSES: usize = 3;

/// Events appended at once while a session is generated.
const BATCH: u64 = 512;

/// Reading 100 MB: without a lock, and with recovery as a start does it.
pub(in crate::bench) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let store = FileStore::open(folder.path()).map_err(failed)?;
    let (id, path) = generate(&store, folder.path(), EVENTS)?;
    let bytes = path
        .metadata()
        .map_err(because("cannot look at the log"))?
        .len();
    let (mut read, mut opened, mut parsed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PASSES {
        read.push(timed(|| read_all(&store, id))?);
        opened.push(timed(|| open(&store, id))?);
        parsed.push(timed(|| parse_all(&path))?);
    }
    let best = |times: Vec<Duration>| times.into_iter().min().unwrap_or_default();
    let (read, opened, parsed) = (best(read), best(opened), best(parsed));
    let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    let beside = format!("serde_json to values: {:.0} MB/s", rate(parsed));
    for (what, took) in [("read", read), ("open, with recovery", opened)] {
        let megabytes = bytes as f64 / 1e6;
        table.push(Row {
            what: &format!("{what}: {EVENTS} events, {megabytes:.0} MB"),
            measured: format!("{:.0} MB/s, {}", rate(took), time(took)),
            beside: beside.clone(),
            ratio: Some(rate(took) / rate(parsed)),
            aim: if what == "read" { "≥ 0.5×" } else { "< 1 s" },
        });
    }
    Ok(())
}

/// Makes a session of `count` events; gives its name and its log.
pub(super) fn generate(
    store: &FileStore,
    folder: &Path,
    count: u64,
) -> Result<(SessionId, PathBuf), Failure> {
    let mut writer = new_session(store)?;
    let mut number = writer.head().0;
    while number < count {
        let events = (number..count.min(number + BATCH)).map(|n| Entry::Event(long_event(n)));
        writer
            .append(events.collect(), Timestamp::now())
            .map_err(failed)?;
        number = writer.head().0;
    }
    writer.save_meta().map_err(failed)?;
    let id = writer.session();
    let session = folder.join("sessions").join(id.to_string());
    Ok((id, session.join("events.jsonl")))
}

/// Reads every event without a lock.
pub(super) fn read_all(store: &FileStore, id: SessionId) -> Result<(), Failure> {
    let mut count = 0_u64;
    let mut reader = store.reader(id).map_err(failed)?;
    reader
        .for_each(EventSeq(0), &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        })
        .map_err(failed)?;
    match count {
        0 => Err("nothing was read".to_owned()),
        _ => Ok(()),
    }
}

/// Opens the session to write, which reads every event.
pub(super) fn open(store: &FileStore, id: SessionId) -> Result<(), Failure> {
    let mut count = 0_u64;
    store
        .open_session(id, Timestamp::now(), &mut |_| count += 1)
        .map_err(failed)?;
    match count {
        0 => Err("nothing was read".to_owned()),
        _ => Ok(()),
    }
}

/// Parses every line, and does nothing with it.
fn parse_all(path: &Path) -> Result<(), Failure> {
    let file = File::open(path).map_err(because("cannot open the log"))?;
    let mut lines = BufReader::with_capacity(64 * 1024, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = lines.read_until(b'\n', &mut line);
        if count.map_err(because("cannot read the log"))? == 0 {
            return Ok(());
        }
        let value: Value = serde_json::from_slice(&line).map_err(because("a line is not JSON"))?;
        std::hint::black_box(&value);
    }
}

fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}
