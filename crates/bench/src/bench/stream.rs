//! `cargo xtask bench stream`: how fast turns and their text flow, to one client and to many.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, Socket, connect};
use super::latency::{Disk, bare_frames};
use super::program::{Server, open_files_max, serve, write_script};
use super::table::{Row, Samples, Table, mebibytes, time};
use super::{Group, Plan, because};
use crate::Failure;

mod clock;
mod observers;
mod replay;

/// What is measured.
pub(super) const GROUPS: &[(&str, Group)] = &[
    ("turns per second", turns_per_second),
    ("chunk to frame", clock::measure),
    ("long turn", long_turn),
    ("observers", observers::measure),
    ("replay", replay::measure),
    ("attached sessions", attached_sessions),
];

/// Chunks of the long turn.
const LONG_CHUNKS: usize = 20_000;

/// How long the turns of one row are counted.
const COUNTED: Duration = Duration::from_secs(4);

/// Turns per second, each on disk before it is answered.
fn turns_per_second(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    for sessions in [1, 16, 64, 256] {
        let folder = plan.scratch()?;
        let script = write_script(folder.path(), &json!([{"text": "hello"}]))?;
        let mut command = serve(plan, &folder.path().join("data"), &script);
        // One client alone asks more often than a client may.
        command.env("FASTNESS_LIMITS_REQUESTS_PER_SECOND", "1000000");
        let server = Server::started(command)?;
        let turns = turns_in(&server, sessions, folder.path())?;
        drop(server);
        let syncs = syncs_in(sessions, folder.path())?;
        table.push(Row {
            what: &format!("turns per second, {sessions} sessions at once"),
            measured: format!("{turns:.0}/s"),
            beside: format!("write + fdatasync, {sessions} files: {syncs:.0}/s"),
            ratio: Some(turns / syncs),
            aim: "",
        });
    }
    Ok(())
}

/// Prompts in `sessions` sessions at once; gives turns per second.
fn turns_in(server: &Server, sessions: usize, cwd: &Path) -> Result<f64, Failure> {
    // Few threads with several sessions each: the client must not be what is measured.
    let threads = sessions.min(4);
    let start = Arc::new(Barrier::new(threads));
    let mut workers = Vec::new();
    for worker in 0..threads {
        let share = sessions / threads + usize::from(worker < sessions % threads);
        let mut clients = Vec::new();
        for _ in 0..share {
            let mut client = Client::initialize(connect(server)?)?;
            let session = client.new_session(cwd)?;
            client.prompt(&session)?;
            clients.push((client, session));
        }
        let start = Arc::clone(&start);
        workers.push(thread::spawn(move || {
            for (client, session) in &mut clients {
                client.begin_prompt(session)?;
            }
            start.wait();
            let (started, mut turns) = (Instant::now(), 0_usize);
            while started.elapsed() < COUNTED {
                // The next prompt follows the answer at once: every session has a turn at all times.
                for (client, session) in &mut clients {
                    client.finish()?;
                    client.begin_prompt(session)?;
                    turns += 1;
                }
            }
            let per_second = turns as f64 / started.elapsed().as_secs_f64();
            for (client, _) in &mut clients {
                client.finish()?;
            }
            Ok::<f64, Failure>(per_second)
        }));
    }
    sum(workers)
}

/// Writes and syncs in `files` files at once; gives syncs per second.
fn syncs_in(files: usize, folder: &Path) -> Result<f64, Failure> {
    let start = Arc::new(Barrier::new(files));
    let mut workers = Vec::new();
    for number in 0..files {
        let place = folder.join(format!("bare-{number}"));
        std::fs::create_dir_all(&place).map_err(because("cannot make a folder"))?;
        let (mut disk, start) = (Disk::open(&place)?, Arc::clone(&start));
        workers.push(thread::spawn(move || {
            start.wait();
            let (started, mut syncs) = (Instant::now(), 0_usize);
            while started.elapsed() < COUNTED {
                disk.sync()?;
                syncs += 1;
            }
            Ok::<f64, Failure>(syncs as f64 / started.elapsed().as_secs_f64())
        }));
    }
    sum(workers)
}

fn sum(workers: Vec<thread::JoinHandle<Result<f64, Failure>>>) -> Result<f64, Failure> {
    let mut total = 0.0;
    for worker in workers {
        total += worker
            .join()
            .map_err(|_| "a worker panicked".to_owned())??;
    }
    Ok(total)
}

/// One turn of very many chunks beside a bare WebSocket that sends as many frames.
fn long_turn(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let steps = json!([{"text": "word ", "repeat": LONG_CHUNKS, "everyMs": 0}]);
    let script = write_script(folder.path(), &steps)?;
    let server = Server::start(plan, &folder.path().join("data"), &script)?;
    let mut client = Client::initialize(connect(&server)?)?;
    let session = client.new_session(folder.path())?;
    let (mut turns, mut updates) = (Vec::new(), 0);
    for _ in 0..5 {
        let started = Instant::now();
        updates = client.prompt(&session)?.updates;
        turns.push(started.elapsed());
    }
    let (turns, bare) = (
        Samples::new(turns),
        Samples::new(bare_frames(LONG_CHUNKS, 5)?),
    );
    table.push(Row {
        what: &format!("turn of {LONG_CHUNKS} chunks"),
        measured: format!("{} in {updates} updates", time(turns.p50())),
        beside: format!("as many bare frames {}", time(bare.p50())),
        ratio: turns.ratio(&bare),
        aim: "≤ 2×",
    });
    Ok(())
}

/// Ten thousand sessions that clients are attached to and do nothing with.
fn attached_sessions(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let folder = plan.scratch()?;
    let script = write_script(folder.path(), &json!([{"text": "hello"}]))?;
    let server = Server::start(plan, &folder.path().join("data"), &script)?;
    let before = server.running.resident_bytes()?;
    let mut clients: Vec<Client<Socket>> = Vec::new();
    let room = open_files_max().saturating_sub(SPARE_FILES) / FILES_PER_SESSION;
    let count = plan
        .sockets
        .min(usize::try_from(room).unwrap_or(usize::MAX));
    for number in 0..count {
        if number % SESSIONS_PER_CLIENT == 0 {
            clients.push(Client::initialize(connect(&server)?)?);
        }
        let client = clients.last_mut().ok_or("no client")?;
        client.new_session(folder.path())?;
    }
    let after = server.running.resident_bytes()?;
    let each = after.saturating_sub(before) / count.max(1) as u64;
    table.push(Row {
        what: &format!("memory with {count} attached idle sessions"),
        measured: mebibytes(after),
        beside: format!("{} before; {each} bytes each", mebibytes(before)),
        ratio: None,
        aim: "≤ 150 MB",
    });
    Ok(())
}

/// Files that an idle session in memory has open: its journal, which is also its lock.
const FILES_PER_SESSION: u64 = 1;

/// Open files that sessions may not take.
const SPARE_FILES: u64 = 1_000;

/// Sessions that one client of [`attached_sessions`] holds.
const SESSIONS_PER_CLIENT: usize = 50;

/// Bytes of the agent's text in a message, if it is an update with some.
pub(super) fn text_bytes(message: &Value) -> usize {
    let text = message["params"]["update"]["content"]["text"].as_str();
    text.map_or(0, str::len)
}
