//! A client that stops reading costs its own cursor and nothing else.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::script::{Script, stream};
use testkit::{AcpClient, Update, wait_for};

use crate::support::{after, serve_with};

/// One chunk, and how many make a message that no socket buffer holds.
const CHUNK: &str = "0123456789abcdef";
const CHUNK_BYTES: usize = 16 * 1024;
const CHUNKS: u32 = 2_000;

/// What the server may grow by, whatever waits for a client: 32 MB were written.
const GROWTH_MAX: u64 = 20 * 1024 * 1024;

fn flood() -> Script {
    let chunk = CHUNK.repeat(CHUNK_BYTES / CHUNK.len());
    Script::new().call([stream(&chunk, CHUNKS, 0)])
}

/// Reads the session's text until there are `whole` bytes; gives how many there were.
async fn read_text(client: &mut AcpClient, whole: usize) -> usize {
    let mut bytes = 0;
    while bytes < whole {
        bytes += said(&client.next_update().await);
    }
    bytes
}

/// How much of the model's text an update has.
fn said(update: &Update) -> usize {
    let text = update
        .text()
        .filter(|_| update.kind == "agent_message_chunk");
    text.map_or(0, str::len)
}

#[tokio::test]
async fn b_12_a_client_that_stops_reading_is_dropped_and_resumes_without_loss() {
    let settings = [
        ("FASTNESS_LIMITS_STALL_MS", "1500"),
        ("FASTNESS_GREETING", "false"),
    ];
    let server = serve_with(flood(), &settings).await;
    let mut stalled = AcpClient::connect_ws(&server).await.without_oracle();
    let session = stalled.new_session().await;
    let mut watcher = AcpClient::connect_ws(&server).await.without_oracle();
    watcher.load_session(&session).await.unwrap();
    let before = server.resident_bytes();

    // From here on it reads nothing; the session and everybody else go on.
    stalled.start_prompt(&session, "go").await;
    let whole = CHUNKS as usize * CHUNK_BYTES;
    assert_eq!(read_text(&mut watcher, whole).await, whole);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
    let mut neighbour = AcpClient::connect_ws(&server).await.without_oracle();
    neighbour.new_session().await;

    wait_for("the stalled client to be dropped", || {
        server.stderr().matches("disconnected").count() > 0
    })
    .await;
    // The close frame may be lost behind what it did not read.
    let code = stalled.closed().await;
    assert!(matches!(code, Some(1008) | None), "{code:?}");
    let updates = stalled.take_updates(&session);
    let got: usize = updates.iter().map(said).sum();
    assert!(got < whole, "it had stopped reading");
    let cursor = updates
        .last()
        .map_or(json!({"afterSeq": 0}), |last| after(&last.cursor));

    let mut back = AcpClient::connect_ws(&server).await.without_oracle();
    back.resume_session(&session, cursor).await.unwrap();
    let rest = read_text(&mut back, whole - got).await;
    assert_eq!(got + rest, whole, "nothing missing, nothing twice");
}

#[tokio::test]
async fn a_cancel_by_a_client_that_does_not_read_gets_in() {
    let chunk = CHUNK.repeat(CHUNK_BYTES / CHUNK.len());
    let endless = Script::new().call([stream(&chunk, 3_500, 3)]);
    let server = serve_with(endless, &[("FASTNESS_GREETING", "false")]).await;
    let mut stalled = AcpClient::connect_ws(&server).await.without_oracle();
    let session = stalled.new_session().await;
    let capabilities = json!({"_meta": {"fastness": {"turns": true}}});
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut watcher = dialed
        .unwrap()
        .in_directory(server.home().workspace())
        .without_oracle();
    watcher.initialize_with(capabilities).await;
    watcher.load_session(&session).await.unwrap();

    stalled.start_prompt(&session, "go").await;
    // More than the sockets between take, so that the client is really behind.
    read_text(&mut watcher, 12 * 1024 * 1024).await;
    stalled.cancel(&session).await;
    loop {
        let told = watcher.next_notification("_fastness/turn").await;
        if told["state"] == "idle" {
            assert_eq!(told["stopReason"], "cancelled");
            break;
        }
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_merged_chunks_and_is_never_cut_off() {
    const STALL: Duration = Duration::from_millis(600);
    const REST: Duration = Duration::from_millis(4);
    let stall = STALL.as_millis().to_string();
    let settings = [
        ("FASTNESS_LIMITS_STALL_MS", stall.as_str()),
        ("FASTNESS_GREETING", "false"),
    ];
    let server = serve_with(flood(), &settings).await;
    let mut slow = AcpClient::connect_ws(&server).await.without_oracle();
    let session = slow.new_session().await;
    let prompt = slow.start_prompt(&session, "go").await;
    let whole = CHUNKS as usize * CHUNK_BYTES;
    let (began, mut bytes, mut updates) = (Instant::now(), 0, 0);
    while bytes < whole {
        let got = said(&slow.next_update().await);
        bytes += got;
        updates += usize::from(got > 0);
        // Not to wait for anything: this is how slowly it reads.
        tokio::time::sleep(REST).await;
    }
    let answer = slow.wait(&prompt).await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(bytes, whole, "nothing missing, nothing twice");
    assert!(updates < CHUNKS as usize / 2, "{updates} updates");
    let took = began.elapsed();
    assert!(took > 2 * STALL, "it was not slow: {took:?}");
    assert!(!server.stderr().contains("disconnected"), "it was cut off");
}
