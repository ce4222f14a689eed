//! One session that a thousand clients watch, beside bare sockets that get the same frames.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_tungstenite::tungstenite::{Message, accept};

use super::super::client::{Client, Socket, connect, connect_bare};
use super::super::program::{Server, write_script};
use super::super::table::{Row, Table, time};
use super::super::{Plan, because};
use crate::Failure;

/// Those who watch one session.
const OBSERVERS: usize = 1_000;

/// Chunks that they watch, and what each says.
const WATCHED_CHUNKS: usize = 200;
const WORD: &str = "word ";

/// Threads of the bare server: as many as ours has, on the machine of the aims.
const BARE_THREADS: usize = 2;

/// A turn as those who watch it saw it.
struct Watched {
    /// With nobody watching, for its own client, and to the last of those who watch.
    alone: Duration,
    prompted: Duration,
    all: Duration,
    updates: usize,
    /// What one of them was sent.
    frames: Vec<String>,
}

pub(super) fn measure(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let count = OBSERVERS.min(plan.sockets);
    let watched = watch(plan, count)?;
    let bare = bare(&watched.frames, count)?;
    let sent = watched.frames.len() * count;
    table.push(Row {
        what: &format!("turn of {WATCHED_CHUNKS} chunks that {count} clients watch"),
        measured: format!("{} to the last of them", time(watched.all)),
        beside: format!(
            "the same frames over bare sockets {}; its own client {}; {} with nobody watching",
            time(bare),
            time(watched.prompted),
            time(watched.alone)
        ),
        ratio: Some(watched.all.as_secs_f64() / bare.as_secs_f64()),
        aim: "",
    });
    let rate = |frames: usize, took: Duration| frames as f64 / took.as_secs_f64();
    let (ours, theirs) = (rate(watched.updates, watched.all), rate(sent, bare));
    table.push(Row {
        what: "updates per second to all who watch",
        measured: format!("{ours:.0}/s in {} frames", watched.updates),
        beside: format!("over bare sockets {theirs:.0}/s in {sent} frames"),
        ratio: Some(ours / theirs),
        aim: "",
    });
    Ok(())
}

fn watch(plan: &Plan, count: usize) -> Result<Watched, Failure> {
    let folder = plan.scratch()?;
    let steps = json!([{"text": WORD, "repeat": WATCHED_CHUNKS, "everyMs": 0}]);
    let script = write_script(folder.path(), &steps)?;
    let server = Server::start(plan, &folder.path().join("data"), &script)?;
    let mut client = Client::initialize(connect(&server)?)?;
    let session = client.new_session(folder.path())?;
    let started = Instant::now();
    client.prompt(&session)?;
    let alone = started.elapsed();
    let mut watchers = Vec::with_capacity(count);
    for _ in 0..count {
        let mut watcher = Client::initialize(connect(&server)?)?;
        watcher.load(&session, folder.path())?;
        watchers.push(watcher);
    }
    let started = Instant::now();
    client.prompt(&session)?;
    let prompted = started.elapsed();
    let (mut updates, mut frames) = (0, Vec::new());
    for watcher in &mut watchers {
        frames = watcher.read_text(WORD.len() * WATCHED_CHUNKS)?;
        updates += frames.len();
    }
    Ok(Watched {
        alone,
        prompted,
        all: started.elapsed(),
        updates,
        frames,
    })
}

/// How long `frames` take to `count` sockets of a WebSocket library, read and parsed as ours were.
fn bare(frames: &[String], count: usize) -> Result<Duration, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(because("cannot listen"))?;
    let address = listener.local_addr().map_err(because("cannot listen"))?;
    let address = address.to_string();
    let mut readers = Vec::with_capacity(count);
    let upgrading = thread::spawn(move || {
        let mut sockets = Vec::with_capacity(count);
        for _ in 0..count {
            let (stream, _) = listener.accept().map_err(because("cannot accept"))?;
            let quick = stream.set_nodelay(true);
            quick.map_err(because("cannot set up the socket"))?;
            sockets.push(accept(stream).map_err(because("cannot upgrade"))?);
        }
        Ok::<Vec<Socket>, Failure>(sockets)
    });
    for _ in 0..count {
        readers.push(Client::silent(connect_bare(&address)?));
    }
    let upgraded = upgrading.join();
    let mut sockets = upgraded.map_err(|_| "the bare server panicked".to_owned())??;
    let started = Instant::now();
    thread::scope(|scope| {
        let share = sockets.len().div_ceil(BARE_THREADS).max(1);
        let senders = sockets.chunks_mut(share).map(|share| {
            let sending = move || send_all(share, frames);
            scope.spawn(sending)
        });
        let senders: Vec<_> = senders.collect();
        for reader in &mut readers {
            reader.read_text(WORD.len() * WATCHED_CHUNKS)?;
        }
        let took = started.elapsed();
        for sender in senders {
            sender
                .join()
                .map_err(|_| "a bare sender panicked".to_owned())??;
        }
        Ok(took)
    })
}

/// Sends each frame to all, then the next, as they come from a model.
fn send_all(sockets: &mut [Socket], frames: &[String]) -> Result<(), Failure> {
    for frame in frames {
        for socket in &mut *sockets {
            let sent = socket.send(Message::text(frame.as_str()));
            sent.map_err(because("cannot send a frame"))?;
        }
    }
    Ok(())
}
