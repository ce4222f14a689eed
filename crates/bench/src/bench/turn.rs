//! `cargo xtask bench turn`: what a turn takes beyond the model, with a model behind HTTP.
//!
//! Each number stands beside the floor of the same run: the same client machine and the same
//! model server with nothing between ([`floor`]), which is sent the very requests that the program
//! sent. Turns and floor alternate, so that a busy moment meets both.

mod floor;
mod long;
mod model;

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Client, Line, Pipes, Socket, connect};
use super::program::{Running, Server, acp_model, serve_model};
use super::startup::SETTLE;
use super::table::{Row, Samples, Table, mebibytes, time};
use super::{Group, Plan};
use crate::Failure;
use floor::Floor;
use model::{Format, MockModel};

/// What is measured.
pub(super) const GROUPS: &[(&str, Group)] = &[
    ("overhead stdio", overhead_stdio),
    ("overhead websocket", overhead_websocket),
    ("overhead anthropic", overhead_anthropic),
    ("at once", at_once),
    ("long turn", long_turn),
    ("long session", long::measure),
];

/// Chunks of a short answer.
const SHORT: usize = 5;

/// Chunks of a long one.
const LONG: usize = 2_000;

/// Long turns whose median is shown.
const LONG_TURNS: usize = 20;

/// Turns of one session before another takes its place: what grows with a session is measured
/// apart, in [`long`].
const TURNS_PER_SESSION: usize = 10;

/// Sessions that are prompted at once.
const SESSIONS: usize = 16;

fn overhead_stdio(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let model = MockModel::start(Format::Chat, SHORT)?;
    let mut command = acp_model(plan, &folder.path().join("data"), Format::Chat.spec());
    command.envs(settings(&model));
    let (running, stdin, stdout) = Running::start(command)?;
    let client = Client::initialize(Pipes { stdin, stdout })?;
    overhead("stdio", plan, (client, &running, &model), table)
}

fn overhead_websocket(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    over_websocket(Format::Chat, "WebSocket", plan, table)
}

fn overhead_anthropic(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    over_websocket(
        Format::Messages,
        "WebSocket, Anthropic's format",
        plan,
        table,
    )
}

fn over_websocket(
    format: Format,
    name: &str,
    plan: &Plan,
    table: &mut Table,
) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let model = MockModel::start(format, SHORT)?;
    let server = serve(plan, folder.path(), &model)?;
    let client = Client::initialize(connect(&server)?)?;
    overhead(name, plan, (client, &server.running, &model), table)
}

/// Short turns, one after the other: their time over the floor, their CPU, and what is left in
/// memory.
fn overhead<L: Line>(
    name: &str,
    plan: &Plan,
    (mut client, running, model): (Client<L>, &Running, &MockModel),
    table: &mut Table,
) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    thread::sleep(SETTLE);
    let idle = running.resident_bytes()?;
    let mut floor = Floor::connect(model)?;
    let (mut turns, mut bare) = (Vec::new(), Vec::new());
    let (mut session, mut cpu) = (String::new(), Duration::ZERO);
    for round in 0..plan.rounds.next_multiple_of(TURNS_PER_SESSION) {
        if round % TURNS_PER_SESSION == 0 {
            session = client.new_session(folder.path())?;
            client.prompt(&session)?;
        }
        let before = running.cpu_time()?;
        turns.push(timed(|| client.prompt(&session).map(drop))?);
        cpu += running.cpu_time()?.saturating_sub(before);
        let request = model.newest_request();
        bare.push(timed(|| floor.ask(&request).map(drop))?);
    }
    let each = cpu / u32::try_from(turns.len()).unwrap_or(u32::MAX);
    let (turns, bare) = (Samples::new(turns), Samples::new(bare));
    table.push(Row {
        what: &format!("turn of {SHORT} chunks over the floor, {name}"),
        measured: over(&turns, &bare),
        beside: format!("the turn {turns}, the floor {bare}"),
        ratio: turns.ratio(&bare),
        aim: "≤ 2 ms",
    });
    table.push(Row {
        what: &format!("CPU per turn, {name}"),
        measured: time(each),
        beside: String::new(),
        ratio: None,
        aim: "≤ 0.8 ms",
    });
    table.push(Row {
        what: &format!("memory before the first prompt, {name}"),
        measured: mebibytes(idle),
        beside: format!(
            "{} after {} turns",
            mebibytes(running.resident_bytes()?),
            plan.rounds
        ),
        ratio: None,
        aim: "≤ 10 MiB",
    });
    Ok(())
}

/// Turns per second in many sessions at once, beside as many clients of the bare model.
fn at_once(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let model = MockModel::start(Format::Chat, SHORT)?;
    let server = serve(plan, folder.path(), &model)?;
    let (mut turns, mut bare) = (Duration::ZERO, Duration::ZERO);
    let (rounds, mut cpu) = (plan.rounds.div_ceil(TURNS_PER_SESSION), Duration::ZERO);
    let mut clients = Vec::new();
    let mut floors = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(Client::initialize(connect(&server)?)?);
        floors.push(Floor::connect(&model)?);
    }
    for _ in 0..rounds {
        let mut pairs: Vec<(&mut Client<Socket>, String)> = Vec::new();
        for client in &mut clients {
            let session = client.new_session(folder.path())?;
            client.prompt(&session)?;
            pairs.push((client, session));
        }
        let before = server.running.cpu_time()?;
        turns += all_at_once(&mut pairs, |(client, session)| {
            client.prompt(session).map(drop)
        })?;
        cpu += server.running.cpu_time()?.saturating_sub(before);
        let request = model.newest_request();
        bare += all_at_once(&mut floors, |floor| floor.ask(&request).map(drop))?;
    }
    let count = (rounds * SESSIONS * TURNS_PER_SESSION) as f64;
    let [turns, bare] = [turns, bare].map(|took| count / took.as_secs_f64());
    table.push(Row {
        what: &format!("turns per second, {SESSIONS} sessions at once"),
        measured: format!("{turns:.0}/s"),
        beside: format!("the floor, {SESSIONS} clients: {bare:.0}/s"),
        ratio: Some(turns / bare),
        aim: "≥ 0.8×, or 10× a peer's",
    });
    table.push(Row {
        what: &format!("CPU per turn, {SESSIONS} sessions at once"),
        measured: time(cpu.div_f64(count)),
        beside: String::new(),
        ratio: None,
        aim: "≤ 0.8 ms",
    });
    Ok(())
}

/// Has everybody do the same [`TURNS_PER_SESSION`] times, each on a thread; gives how long it took
/// until the last was done.
fn all_at_once<T: Send>(
    all: &mut [T],
    act: impl Fn(&mut T) -> Result<(), Failure> + Sync,
) -> Result<Duration, Failure> {
    let start = Barrier::new(all.len() + 1);
    thread::scope(|scope| {
        let workers: Vec<_> = all
            .iter_mut()
            .map(|one| {
                let (start, act) = (&start, &act);
                scope.spawn(move || {
                    start.wait();
                    (0..TURNS_PER_SESSION).try_for_each(|_| act(one))
                })
            })
            .collect();
        start.wait();
        let started = Instant::now();
        for worker in workers {
            let done = worker.join();
            done.map_err(|_| "a client panicked".to_owned())??;
        }
        Ok(started.elapsed())
    })
}

/// How fast text flows through.
fn long_turn(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let model = MockModel::start(Format::Chat, LONG)?;
    let server = serve(plan, folder.path(), &model)?;
    let mut client = Client::initialize(connect(&server)?)?;
    let mut floor = Floor::connect(&model)?;
    let (mut turns, mut bare, mut updates) = (Vec::new(), Vec::new(), 0);
    let (mut cpu, count) = (Duration::ZERO, plan.rounds.min(LONG_TURNS));
    for _ in 0..count {
        let session = client.new_session(folder.path())?;
        let before = server.running.cpu_time()?;
        turns.push(timed(|| {
            updates = client.prompt(&session)?.updates;
            Ok(())
        })?);
        cpu += server.running.cpu_time()?.saturating_sub(before);
        let request = model.newest_request();
        bare.push(timed(|| floor.ask(&request).map(drop))?);
    }
    let (turns, bare) = (Samples::new(turns), Samples::new(bare));
    let each = cpu / u32::try_from(count).unwrap_or(u32::MAX);
    table.push(Row {
        what: &format!("turn of {LONG} chunks"),
        measured: format!(
            "{} in {updates} updates, {} of CPU",
            time(turns.p50()),
            time(each)
        ),
        beside: format!("the floor {}", time(bare.p50())),
        ratio: turns.ratio(&bare),
        aim: "",
    });
    Ok(())
}

/// `serve` with `model` as its model.
fn serve(plan: &Plan, folder: &Path, model: &MockModel) -> Result<Server, Failure> {
    let mut command = serve_model(plan, &folder.join("data"), model.format.spec());
    command.envs(settings(model));
    Server::started(command)
}

fn settings(model: &MockModel) -> [(&'static str, String); 2] {
    let [base, key] = model.format.settings();
    [
        (base, format!("http://{}", model.address)),
        (key, "none".to_owned()),
    ]
}

fn timed(act: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let started = Instant::now();
    act()?;
    Ok(started.elapsed())
}

/// What `turns` take beyond `floor`: the medians' difference, and that of the 99th percentiles.
fn over(turns: &Samples, floor: &Samples) -> String {
    let p50 = turns.p50().saturating_sub(floor.p50());
    let p99 = turns.p99().saturating_sub(floor.p99());
    format!("{} (p99 {})", time(p50), time(p99))
}
