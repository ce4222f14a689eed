//! Many at once: a reconnect storm after a restart, and a flood beside a neighbour.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::{Outcome, ask, home, quiet};
use crate::client::AcpClient;
use crate::program::Program;
use crate::raw::{Frame, RawSocket, address, connect, opcode};

/// A request that is always answered.
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}"#;

/// Sessions that the clients of a storm share.
const SESSIONS: usize = 50;

/// How often a client of a storm tries, and how much longer it waits each time, as clients do.
const TRIES_MAX: u32 = 5;
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// Clients that flood.
const FLOODERS: usize = 2;

/// Requests that a flooding client sends at once, and how often: 10,000 a second.
const BURST: usize = 100;
const BURST_EVERY: Duration = Duration::from_millis(10);

/// F29: all clients lose the server at once, and all come back at once and resume.
///
/// # Errors
/// If one is not served, or it takes longer than `within`.
pub async fn storm(binary: &std::path::Path, clients: usize, within: Duration) -> Outcome {
    let server = Program::serve_in(home(binary)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS.min(clients) {
        let session = client.new_session().await;
        let answer = client.prompt(&session, "read").await;
        let last = answer.updates.last().map(|update| update.cursor.clone());
        sessions.push((session, last.unwrap_or_default()));
    }
    drop(client);
    let server = server.restart().await;
    let started = Instant::now();
    let coming = (0..clients).map(|number| {
        let (session, cursor) = &sessions[number % sessions.len()];
        let after = json!({"afterSeq": cursor["seq"], "offset": cursor["offset"], "epoch": cursor["epoch"]});
        let resume = json!({"sessionId": session, "cwd": server.home().workspace(),
            "mcpServers": [], "_meta": {"fastness": after}});
        come(&server, resume)
    });
    let sockets = join_all(coming).await;
    let took = started.elapsed();
    let repeated: u32 = sockets.iter().map(|(_, tries)| tries - 1).sum();
    quiet(&server)?;
    if took > within {
        return Err(format!("{clients} clients were served only after {took:?}"));
    }
    Ok(format!(
        "F29 {clients} clients came back to {} sessions in {} ms, {repeated} tries were repeated",
        sessions.len(),
        took.as_millis()
    ))
}

/// Comes back, trying as often as clients do; gives the socket and how many tries it took.
async fn come(server: &Program, resume: Value) -> (RawSocket, u32) {
    for tries in 1..=TRIES_MAX {
        if let Some(socket) = try_to_come(server, resume.clone()).await {
            return (socket, tries);
        }
        tokio::time::sleep(TRY_AGAIN * tries).await;
    }
    panic!("no connection; the server said:\n{}", server.stderr());
}

/// Connects, introduces itself, resumes. Nothing that it has seen before may come again.
async fn try_to_come(server: &Program, resume: Value) -> Option<RawSocket> {
    let stream = connect(server).await;
    let opened = RawSocket::try_open(stream, address(server), server.token(), "").await;
    let mut socket = opened.ok()?;
    ask(&mut socket, "initialize", json!({"protocolVersion": 1})).await?;
    let answer = ask(&mut socket, "session/resume", resume).await?;
    assert!(answer["result"].is_object(), "{answer}");
    // Refused at once, behind whatever the session would send.
    socket
        .text(r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#)
        .await;
    loop {
        let message = socket.message().await;
        let cursor = &message["params"]["_meta"]["fastness"]["seq"];
        assert!(cursor.is_null(), "replayed without need: {message}");
        if message["id"] == 1 {
            return Some(socket);
        }
    }
}

/// A-19: how long a neighbour waits for its answers, alone and beside clients that send ten times
/// what they may.
///
/// # Errors
/// If its slowest hundredth takes more than twice as long.
pub async fn neighbours(server: &Program, requests: usize) -> Outcome {
    let mut neighbour = RawSocket::initialized(server).await;
    // The first answers of a server are slower than all others.
    waits(&mut neighbour, requests / 10).await;
    let alone = p99(waits(&mut neighbour, requests).await);
    let (stop, stopped) = watch::channel(false);
    let floods = join_all((0..FLOODERS).map(|_| flood(server, stopped.clone())));
    let measuring = async {
        let waits = waits(&mut neighbour, requests).await;
        // They may have given up already.
        let _ = stop.send(true);
        waits
    };
    let (beside, sent) = tokio::join!(measuring, floods);
    let beside = p99(beside);
    let ratio = beside.as_secs_f64() / alone.as_secs_f64().max(1e-6);
    let found = format!(
        "A-19 p99 of {requests} requests: {} µs alone, {} µs beside a flood of {} ({ratio:.1} times)",
        alone.as_micros(),
        beside.as_micros(),
        sent.iter().sum::<usize>()
    );
    if ratio > 2.0 { Err(found) } else { Ok(found) }
}

/// Sends ten times what a client may, comes back whenever it is thrown out, and reads everything
/// it is told. Gives how many requests it sent.
async fn flood(server: &Program, stopped: watch::Receiver<bool>) -> usize {
    let burst = Frame::last(opcode::TEXT, LIST).to_bytes().repeat(BURST);
    let mut sent = 0;
    while !*stopped.borrow() {
        let stream = RawSocket::initialized(server).await.into_stream();
        let (mut reader, mut writer) = stream.into_split();
        let reading = async {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(1..) = reader.read(&mut bytes).await {}
        };
        let writing = async {
            let mut ticks = tokio::time::interval(BURST_EVERY);
            while !*stopped.borrow() && writer.write_all(&burst).await.is_ok() {
                sent += BURST;
                ticks.tick().await;
            }
        };
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
    }
    sent
}

pub(super) async fn waits(socket: &mut RawSocket, requests: usize) -> Vec<Duration> {
    let mut waits = Vec::with_capacity(requests);
    for _ in 0..requests {
        let started = Instant::now();
        socket.call("session/list", json!({})).await;
        waits.push(started.elapsed());
        // As a person's client does; nobody else is kept from the server by it.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    waits
}

pub(super) fn p99(mut waits: Vec<Duration>) -> Duration {
    waits.sort_unstable();
    waits
        .get(waits.len() * 99 / 100)
        .copied()
        .unwrap_or_default()
}
