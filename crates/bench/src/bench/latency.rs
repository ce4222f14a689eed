//! How long a client waits: a new session, a short turn, and a long streamed one, journal on.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, accept};

use super::client::{Client, Line, Pipes, connect, connect_bare};
use super::program::{Running, Server, acp, write_script};
use super::table::{Row, Samples, Table, time};
use super::{Plan, because};
use crate::Failure;

/// Chunks of the long turn.
const STREAM_CHUNKS: usize = 2_000;

/// Long turns whose median is shown.
const STREAM_TURNS: usize = 10;

/// A journal line is about as long.
const RECORD_BYTES: usize = 256;

pub(super) fn over_stdio(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    for long in [false, true] {
        let folder = plan.scratch()?;
        let script = write_script(folder.path(), &answer(long))?;
        let data = folder.path().join("data");
        let (_running, stdin, stdout) = Running::start(acp(plan, &data, &script))?;
        let mut client = Client::initialize(Pipes { stdin, stdout })?;
        if long {
            stream("stdio", &mut client, folder.path(), table)?;
        } else {
            short_turns("stdio", &mut client, plan, folder.path(), table)?;
        }
    }
    Ok(())
}

pub(super) fn over_websocket(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    for long in [false, true] {
        let folder = plan.scratch()?;
        let script = write_script(folder.path(), &answer(long))?;
        let server = Server::start(plan, &folder.path().join("data"), &script)?;
        let mut client = Client::initialize(connect(&server)?)?;
        if long {
            stream("WebSocket", &mut client, folder.path(), table)?;
        } else {
            short_turns("WebSocket", &mut client, plan, folder.path(), table)?;
        }
    }
    Ok(())
}

/// What the model answers: five chunks at once, or [`STREAM_CHUNKS`].
fn answer(long: bool) -> Value {
    if long {
        return json!([{"text": "word ", "repeat": STREAM_CHUNKS, "everyMs": 0}]);
    }
    let words = ["one ", "two ", "three ", "four ", "five"];
    words.iter().map(|word| json!({"text": word})).collect()
}

fn short_turns<L: Line>(
    transport: &str,
    client: &mut Client<L>,
    plan: &Plan,
    folder: &Path,
    table: &mut Table,
) -> Result<(), Failure> {
    let mut disk = Disk::open(folder)?;
    let mut session = String::new();
    let (created, bare_created) = disk.beside(plan.rounds, || {
        session = client.new_session(folder)?;
        Ok(())
    })?;
    let (turns, bare_turns) = disk.beside(plan.rounds, || client.prompt(&session).map(drop))?;
    let rows = [
        ("`session/new`", created, bare_created),
        ("turn of 5 chunks", turns, bare_turns),
    ];
    for (what, samples, disk) in rows {
        table.push(Row {
            what: &format!("{what}, {transport}"),
            measured: samples.to_string(),
            beside: format!("write + fdatasync {disk}"),
            ratio: samples.ratio(&disk),
            aim: "",
        });
    }
    Ok(())
}

fn stream<L: Line>(
    transport: &str,
    client: &mut Client<L>,
    folder: &Path,
    table: &mut Table,
) -> Result<(), Failure> {
    let session = client.new_session(folder)?;
    let mut turns = Vec::new();
    let mut updates = 0;
    for _ in 0..STREAM_TURNS {
        let started = Instant::now();
        let answer = client.prompt(&session)?;
        turns.push(started.elapsed());
        updates = answer.updates;
    }
    let bare = Samples::new(bare_frames(STREAM_CHUNKS, STREAM_TURNS)?);
    let turns = Samples::new(turns);
    table.push(Row {
        what: &format!("turn of {STREAM_CHUNKS} chunks, {transport}"),
        measured: format!("{} in {updates} updates", time(turns.p50())),
        beside: format!("as many bare frames {}", time(bare.p50())),
        ratio: turns.ratio(&bare),
        aim: "",
    });
    Ok(())
}

/// What the disk itself takes to make one record durable, in the folder that is measured.
pub(super) struct Disk {
    file: File,
}

impl Disk {
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        let opened = options
            .create(true)
            .append(true)
            .open(folder.join("bare-records"));
        let file = opened.map_err(because("cannot open a file"))?;
        Ok(Self { file })
    }

    /// Times `act` and a bare sync in turn, so that a busy moment hits both alike.
    fn beside(
        &mut self,
        rounds: usize,
        mut act: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(Samples, Samples), Failure> {
        let (mut acts, mut syncs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let started = Instant::now();
            act()?;
            acts.push(started.elapsed());
            syncs.push(self.sync()?);
        }
        Ok((Samples::new(acts), Samples::new(syncs)))
    }

    pub(super) fn sync(&mut self) -> Result<Duration, Failure> {
        let started = Instant::now();
        let written = self.file.write_all(&[b'x'; RECORD_BYTES]);
        let synced = written.and_then(|()| self.file.sync_data());
        synced.map_err(because("cannot write a record"))?;
        Ok(started.elapsed())
    }
}

/// What the loopback and a bare WebSocket library take for frames of the same size and number.
pub(super) fn bare_frames(chunks: usize, turns: usize) -> Result<Vec<Duration>, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(because("cannot listen"))?;
    let address = listener.local_addr().map_err(because("cannot listen"))?;
    let frame =
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"text": "x".repeat(220)}});
    let frame = frame.to_string();
    let sender = std::thread::spawn(move || {
        let (stream, _) = listener.accept().map_err(because("cannot accept"))?;
        stream
            .set_nodelay(true)
            .map_err(because("cannot set up the socket"))?;
        let mut socket = accept(stream).map_err(because("cannot upgrade"))?;
        for _ in 0..turns {
            socket.read().map_err(because("cannot receive a frame"))?;
            for _ in 0..chunks {
                let sent = socket.send(Message::text(frame.as_str()));
                sent.map_err(because("cannot send a frame"))?;
            }
        }
        Ok::<(), Failure>(())
    });
    let mut socket = connect_bare(&address.to_string())?;
    let mut samples = Vec::new();
    for _ in 0..turns {
        let started = Instant::now();
        Line::send(&mut socket, "go".to_owned())?;
        for _ in 0..chunks {
            let message: Value = serde_json::from_str(&socket.receive()?)
                .map_err(because("a message is not JSON"))?;
            drop(message);
        }
        samples.push(started.elapsed());
    }
    sender
        .join()
        .map_err(|_| "the bare sender panicked".to_owned())??;
    Ok(samples)
}
