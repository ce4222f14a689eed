//! F22: a client that stops reading while its session writes a great deal.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::Outcome;
use super::rush::{p99, waits};
use crate::client::AcpClient;
use crate::home::Home;
use crate::program::Program;
use crate::raw::RawSocket;
use crate::script::{Script, say, stream, tool};

/// One chunk of the flood.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks of one message: close to the most that a message may have.
const CHUNKS: u32 = 960;

/// How long the whole flood may take: an honest disk is ten times faster.
const TIME_MAX: Duration = Duration::from_secs(600);

/// How long the server waits for a client that does not read.
const STALL: Duration = Duration::from_secs(5);

/// What the server may grow by.
const GROWTH_MAX: u64 = 64 * 1024 * 1024;

/// A session writes `messages` of 60 MiB to a client that reads none of it, while a neighbour asks.
///
/// # Errors
/// If the server grows, the neighbour waits, or the client that stopped is not dropped.
pub async fn stalled(binary: &Path, messages: usize) -> Outcome {
    let server = Program::serve_in(home(binary, messages)).await;
    let mut neighbour = RawSocket::initialized(&server).await;
    let mut client = AcpClient::connect_ws(&server).await.without_oracle();
    // There from the beginning, so that the neighbour asks for the same all the time.
    let session = client.new_session().await;
    waits(&mut neighbour, 1_000).await;
    let alone = p99(waits(&mut neighbour, 3_000).await);
    let before = server.resident_bytes();
    client.start_prompt(&session, "go").await;
    // From here on it reads nothing.
    let (mut all, mut grown, mut written) = (Vec::new(), 0, false);
    let started = tokio::time::Instant::now();
    while !written {
        all.extend(waits(&mut neighbour, 200).await);
        grown = server.resident_bytes().saturating_sub(before).max(grown);
        written = server
            .home()
            .events(&session)
            .iter()
            .any(|event| event["type"] == "result");
        if started.elapsed() > TIME_MAX {
            return Err("F22 the flood did not end".to_owned());
        }
    }
    let took = started.elapsed().as_secs_f64();
    let beside = p99(all);
    let ratio = beside.as_secs_f64() / alone.as_secs_f64().max(1e-6);
    // A fast disk is done sooner than the server loses its patience, and reading would restore it.
    while started.elapsed() < STALL * 2 {
        waits(&mut neighbour, 200).await;
    }
    let code = client.closed().await;
    let found = format!(
        "F22 {} MiB written in {took:.1} s to a client that read nothing: {:.1} MiB more memory, closed with {code:?}; \
         p99 of a neighbour {} µs alone, {} µs beside it ({ratio:.1} times)",
        messages * CHUNKS as usize * CHUNK_BYTES / (1024 * 1024),
        grown as f64 / (1024.0 * 1024.0),
        alone.as_micros(),
        beside.as_micros(),
    );
    // The close frame is behind what was not read, so it may be lost to the reset.
    let dropped = matches!(code, Some(1008) | None);
    if grown > GROWTH_MAX || ratio > 2.0 || !dropped {
        return Err(found);
    }
    Ok(found)
}

/// A model that writes message after message, reading a file in between.
fn home(binary: &Path, messages: usize) -> Home {
    let chunk = "0123456789abcdef".repeat(CHUNK_BYTES / 16);
    let read = tool("read", json!({"path": "notes.txt"}));
    let flood = stream(&chunk, CHUNKS, 0);
    let script = (0..messages).fold(Script::new(), |script, _| {
        script.call([flood.clone(), read.clone()])
    });
    let home = Home::new(binary, script.call([say("done")]))
        .env("FASTNESS_LOG", "warn")
        .env("FASTNESS_LIMITS_STALL_MS", STALL.as_millis());
    home.write("notes.txt", "text");
    home
}
