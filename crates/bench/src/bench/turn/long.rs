//! A session of a thousand turns: whether its last turns take as long as its first.

use std::time::Duration;

use super::floor::Floor;
use super::model::{Format, MockModel};
use super::{SHORT, over, serve, timed};
use crate::Failure;
use crate::bench::Plan;
use crate::bench::client::{Client, connect};
use crate::bench::program::Running;
use crate::bench::table::{Row, Samples, Table, mebibytes, time};

/// Turns of the session.
const TURNS: usize = 1_000;

/// Turns at its beginning and at its end that are compared.
const PART: usize = 100;

/// What a part of the session took.
struct Part {
    turns: Samples,
    floor: Samples,
    cpu_each: Duration,
    /// What the program read of files, per turn.
    read_each: u64,
    resident: u64,
    request_bytes: usize,
}

pub(super) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let model = MockModel::start(Format::Chat, SHORT)?;
    let server = serve(plan, folder.path(), &model)?;
    let mut client = Client::initialize(connect(&server)?)?;
    let session = client.new_session(folder.path())?;
    client.prompt(&session)?;
    let mut floor = Floor::connect(&model)?;
    let mut parts = Vec::new();
    for _ in 0..TURNS / PART {
        let mut turn = || client.prompt(&session).map(drop);
        parts.push(Part::of(&server.running, &model, &mut floor, &mut turn)?);
    }
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return Err("there were no turns".to_owned());
    };
    let ratio = |last: f64, first: f64| (first > 0.0).then(|| last / first);
    table.push(Row {
        what: &format!("turn over the floor, last {PART} of {TURNS} in a session"),
        measured: over(&last.turns, &last.floor),
        beside: format!("the first {PART}: {}", over(&first.turns, &first.floor)),
        ratio: ratio(beyond(last), beyond(first)),
        aim: "flat",
    });
    table.push(Row {
        what: &format!("CPU per turn, last {PART} of {TURNS}"),
        measured: time(last.cpu_each),
        beside: format!("the first {PART}: {}", time(first.cpu_each)),
        ratio: ratio(last.cpu_each.as_secs_f64(), first.cpu_each.as_secs_f64()),
        aim: "flat",
    });
    table.push(Row {
        what: &format!("read from files per turn, last {PART} of {TURNS}"),
        measured: format!("{} bytes", last.read_each),
        beside: format!("the first {PART}: {} bytes", first.read_each),
        ratio: None,
        aim: "flat",
    });
    table.push(Row {
        what: &format!("memory after {TURNS} turns in a session"),
        measured: mebibytes(last.resident),
        beside: format!(
            "{} after {PART}; a request has {} KB instead of {}",
            mebibytes(first.resident),
            last.request_bytes / 1_000,
            first.request_bytes / 1_000,
        ),
        ratio: None,
        aim: "flat",
    });
    Ok(())
}

impl Part {
    fn of(
        running: &Running,
        model: &MockModel,
        floor: &mut Floor,
        turn: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let (mut turns, mut bare) = (Vec::new(), Vec::new());
        let (cpu, read) = (running.cpu_time()?, running.read_bytes()?);
        let mut request = Vec::new();
        for _ in 0..PART {
            turns.push(timed(&mut *turn)?);
            request = model.newest_request();
            bare.push(timed(|| floor.ask(&request).map(drop))?);
        }
        Ok(Self {
            turns: Samples::new(turns),
            floor: Samples::new(bare),
            cpu_each: running.cpu_time()?.saturating_sub(cpu) / PART as u32,
            read_each: running.read_bytes()?.saturating_sub(read) / PART as u64,
            resident: running.resident_bytes()?,
            request_bytes: request.len(),
        })
    }
}

/// Seconds of a turn's median beyond the floor's.
fn beyond(part: &Part) -> f64 {
    let beyond = part.turns.p50().saturating_sub(part.floor.p50());
    beyond.as_secs_f64()
}
