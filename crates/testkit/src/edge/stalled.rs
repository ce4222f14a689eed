//! F22: a client that stops reading while its session writes a great deal.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::flood::{Flood, Told};
use super::rush::{p99, waits};
use super::{Outcome, quiet};
use crate::client::AcpClient;
use crate::home::Home;
use crate::program::Program;
use crate::raw::RawSocket;

/// Runs of one message: close to the most that a message may have.
const RUNS: usize = 960;

/// One chunk of the flood.
const CHUNK_BYTES: usize = 1024;

/// The fastest that a session takes text.
const TEXT_BYTES_PER_SECOND_MAX: u64 = 8 * 1024 * 1024;

/// Messages of the flood that nobody stalls in: enough for a p99.
const COMPARED_MESSAGES: usize = 4;

/// What a watcher is timed by: so much of the flood.
const PIECE_BYTES: usize = 256 * 1024;

/// What the server may grow by.
const GROWTH_MAX: u64 = 64 * 1024 * 1024;

/// How much slower the slowest hundredth may be because somebody stalls.
const RATIO_MAX: f64 = 2.0;

/// What others saw while a session wrote.
struct Seen {
    /// A neighbour's waits for its answers.
    neighbour: Duration,
    /// A watcher's waits for each piece.
    watcher: Duration,
    /// The most that the server grew by.
    grown: u64,
    took: Duration,
    /// The messages that the watcher was told.
    messages: Vec<usize>,
}

/// A session writes `messages` of 60 MiB to a client that reads none of it and is there until the
/// end, while another watches the same session and a neighbour asks. Then the server loses its
/// patience, and the client comes back for everything.
///
/// # Errors
/// If the server grows, the others wait, the client is not told why it is dropped, or it does not
/// get everything.
pub async fn stalled(binary: &Path, messages: usize) -> Outcome {
    let flood = Flood::new(messages, RUNS, CHUNK_BYTES);
    let least = Duration::from_secs(flood.bytes() as u64 / TEXT_BYTES_PER_SECOND_MAX);
    let stall = least * 3 / 2 + Duration::from_secs(20);
    let server = Program::serve_in(home(binary, &flood, stall)).await;
    let mut neighbour = RawSocket::initialized(&server).await;
    let mut client = AcpClient::connect_ws(&server).await.without_oracle();
    // There from the beginning, so that the neighbour asks for the same all the time.
    let (compared, session) = (client.new_session().await, client.new_session().await);
    waits(&mut neighbour, 1_000).await;
    let alone = p99(waits(&mut neighbour, 3_000).await);

    let mut passing = AcpClient::connect_ws(&server).await.without_oracle();
    let without = flood.bytes() * COMPARED_MESSAGES.min(messages) / messages;
    let without = watch(
        &server,
        (&compared, &mut neighbour),
        (&flood, without),
        async || {
            passing
                .load_session(&compared)
                .await
                .map_err(|error| error.to_string())?;
            passing.start_prompt(&compared, "go").await;
            // It leaves; the turn goes on.
            drop(passing);
            Ok(())
        },
    );
    let without = without.await?;
    // From here on it reads nothing.
    let whole = (&flood, usize::MAX);
    let with = watch(&server, (&session, &mut neighbour), whole, async || {
        client.start_prompt(&session, "go").await;
        Ok(())
    });
    let with = with.await?;
    if is_given_up(&server, &client) {
        return Err("F22 the client was dropped before the flood was over".to_owned());
    }
    let code = dropped(&server, &mut client, stall).await?;
    let (resumed, messages) = come_back(&server, &mut client, (&session, &flood)).await?;
    quiet(&server)?;
    if messages != with.messages {
        return Err(format!(
            "F22 {:?} were told, then {messages:?}",
            with.messages
        ));
    }
    judge(alone, [&without, &with], (code, resumed))
}

/// Whether the server has lost its patience with a client that reads nothing; it may still read
/// what is on the way, and why.
#[must_use]
pub fn is_given_up(server: &Program, client: &AcpClient) -> bool {
    let id = client.connection_id().unwrap_or_default();
    let log = server.stderr();
    let mut stalled = log.lines().filter(|line| line.contains("stalled"));
    stalled.any(|line| line.contains(id))
}

/// What was found, in one line; an error if it is not as it should be.
fn judge(
    alone: Duration,
    [without, with]: [&Seen; 2],
    (code, resumed): (Option<u16>, Duration),
) -> Outcome {
    let ratio = |this: Duration, that: Duration| this.as_secs_f64() / that.as_secs_f64().max(1e-6);
    let beside = ratio(with.neighbour, alone);
    let asking = ratio(with.neighbour, without.neighbour);
    let watching = ratio(with.watcher, without.watcher);
    let found = format!(
        "F22 {} MiB written in {:.1} s to a client that read nothing and stayed: {:.1} MiB more memory at most; \
         p99 of a neighbour {} µs alone, {} µs beside the flood ({beside:.1} times), {} µs without the one that \
         stalls ({asking:.1} times); p99 of a watcher for 256 KiB {} µs, {} µs without ({watching:.1} times); \
         closed with {code:?}, and all of it byte for byte after coming back, in {:.1} s",
        with.messages.len() * RUNS / 16,
        with.took.as_secs_f64(),
        with.grown as f64 / (1024.0 * 1024.0),
        alone.as_micros(),
        with.neighbour.as_micros(),
        without.neighbour.as_micros(),
        with.watcher.as_micros(),
        without.watcher.as_micros(),
        resumed.as_secs_f64(),
    );
    let slowed = [beside, asking, watching]
        .iter()
        .any(|ratio| *ratio > RATIO_MAX);
    match with.grown > GROWTH_MAX || slowed || code != Some(1008) {
        true => Err(found),
        false => Ok(found),
    }
}

/// Has `begin` start the flood in a session; watches up to so many bytes of it while the neighbour
/// asks, and closes the session if that is not all.
async fn watch(
    server: &Program,
    (session, neighbour): (&str, &mut RawSocket),
    (flood, up_to): (&Flood, usize),
    begin: impl AsyncFnOnce() -> Result<(), String>,
) -> Result<Seen, String> {
    let mut watcher = RawSocket::initialized(server).await;
    let load = json!({"sessionId": session, "cwd": server.home().workspace(), "mcpServers": []});
    watcher.call("session/load", load).await;
    let before = server.resident_bytes();
    server.forget_peak();
    let started = Instant::now();
    begin().await?;
    // Apart, so that the neighbour's clock does not run while a watcher's messages are parsed.
    let reading = tokio::spawn(read(watcher, flood.clone(), up_to));
    let mut asked = Vec::new();
    while !reading.is_finished() {
        asked.extend(waits(neighbour, 50).await);
    }
    let read = reading.await.map_err(|error| format!("F22 {error}"))?;
    let (mut watcher, pieces, messages) = read?;
    let seen = Seen {
        neighbour: p99(asked),
        watcher: p99(pieces),
        grown: server.resident_bytes_peak().saturating_sub(before),
        took: started.elapsed(),
        messages,
    };
    if up_to < flood.bytes() {
        watcher
            .call("session/close", json!({"sessionId": session}))
            .await;
    }
    Ok(seen)
}

/// Reads the flood up to so many bytes, or all of it and what is said afterwards; gives how long
/// each piece took, and which messages came.
async fn read(
    mut watcher: RawSocket,
    flood: Flood,
    up_to: usize,
) -> Result<(RawSocket, Vec<Duration>, Vec<usize>), String> {
    let mut told = Told::nothing_of(&flood);
    let (mut pieces, mut since) = (Vec::new(), Instant::now());
    while !told.is_complete() && told.bytes() < up_to {
        let before = told.bytes();
        take(&mut told, &watcher.message().await)?;
        if told.bytes() / PIECE_BYTES > before / PIECE_BYTES {
            pieces.push(since.elapsed());
            since = Instant::now();
        }
    }
    let messages = told.messages().to_vec();
    Ok((watcher, pieces, messages))
}

fn take(told: &mut Told<'_>, message: &Value) -> Result<(), String> {
    let params = &message["params"];
    match message["method"] == "session/update" {
        true => told.take(&params["update"], &params["_meta"]["fastness"]),
        false => Ok(()),
    }
}

/// Waits until the server has lost its patience, then reads what is there; gives the close code.
async fn dropped(
    server: &Program,
    client: &mut AcpClient,
    stall: Duration,
) -> Result<Option<u16>, String> {
    let deadline = Instant::now() + stall * 2;
    while !is_given_up(server, client) {
        if Instant::now() > deadline {
            return Err("F22 a client that reads nothing was not dropped".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(client.closed().await)
}

/// Comes back after what the client had read, for all the rest; gives how long that took, and the
/// messages that it has now.
async fn come_back(
    server: &Program,
    client: &mut AcpClient,
    (session, flood): (&str, &Flood),
) -> Result<(Duration, Vec<usize>), String> {
    let mut told = Told::nothing_of(flood);
    for update in client.take_updates(session) {
        told.take(&update.update, &update.cursor)?;
    }
    let mut back = RawSocket::initialized(server).await;
    let started = Instant::now();
    let cursor = json!({"afterSeq": told.cursor["seq"], "epoch": told.cursor["epoch"],
        "offset": told.cursor["offset"].as_u64().unwrap_or(0)});
    let resume = json!({"sessionId": session, "cwd": server.home().workspace(),
        "mcpServers": [], "_meta": {"fastness": cursor}});
    let answer = back.call("session/resume", resume).await;
    if !answer["result"]["_meta"]["fastness"]["resyncFrom"].is_null()
        || !answer["result"].is_object()
    {
        return Err(format!("F22 not let back in as it left: {answer}"));
    }
    while !told.is_complete() {
        take(&mut told, &back.message().await)?;
    }
    Ok((started.elapsed(), told.messages().to_vec()))
}

fn home(binary: &Path, flood: &Flood, stall: Duration) -> Home {
    let home = Home::new(binary, flood.script())
        // Who is given up on stands in the log, which is kept only for a while.
        .env("FASTNESS_LOG", "info")
        .env("FASTNESS_GREETING", "false")
        .env("FASTNESS_LIMITS_STALL_MS", stall.as_millis());
    home.write("notes.txt", "text");
    home
}
