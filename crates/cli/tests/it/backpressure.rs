//! A client that stops reading costs its own cursor and nothing else.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::edge::{Flood, Told, is_given_up};
use testkit::script::{Script, stream};
use testkit::{AcpClient, Program, Update, wait_for};

use crate::support::{after, serve_with};

/// One chunk, and how many make a message that no socket buffer holds.
const CHUNK: &str = "0123456789abcdef";
const CHUNK_BYTES: usize = 16 * 1024;
const CHUNKS: u32 = 2_000;

/// What the server may grow by, whatever waits for a client: 32 MB were written.
const GROWTH_MAX: u64 = 20 * 1024 * 1024;

/// What may wait for one client, as it is set by default.
const OUTBOX_BYTES_MAX: &str = "1048576";

/// More than sockets hold, in four seconds: a third of the stall time of the stories about it.
fn flood_of_32_mib() -> Flood {
    Flood::new(2, 256, 4 * 1024)
}

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

/// Reads on in a flood until the client has all of it.
async fn read_all(client: &mut AcpClient, told: &mut Told<'_>) {
    while !told.is_complete() {
        let update = client.next_update().await;
        told.take(&update.update, &update.cursor).unwrap();
    }
}

/// A client that prompts for a flood and reads nothing of it, though it is there until the end.
struct Stalled {
    server: Program,
    client: AcpClient,
    session: String,
    /// The most that the server grew by until somebody else had read all of it.
    grown: u64,
}

impl Stalled {
    async fn beside_a_watcher(flood: &Flood, outbox_bytes_max: &str) -> Self {
        let settings = [
            ("FASTNESS_LIMITS_STALL_MS", "12000"),
            ("FASTNESS_LIMITS_OUTBOX_BYTES_MAX", outbox_bytes_max),
            ("FASTNESS_GREETING", "false"),
        ];
        let server = serve_with(flood.script(), &settings).await;
        server.home().write("notes.txt", "text");
        let mut client = AcpClient::connect_ws(&server).await.without_oracle();
        let session = client.new_session().await;
        let mut watcher = AcpClient::connect_ws(&server).await.without_oracle();
        watcher.load_session(&session).await.unwrap();
        let before = server.resident_bytes();
        server.forget_peak();

        // From here on it reads nothing; the session and everybody else go on.
        client.start_prompt(&session, "go").await;
        read_all(&mut watcher, &mut Told::nothing_of(flood)).await;
        let grown = server.resident_bytes_peak().saturating_sub(before);
        assert!(!is_given_up(&server, &client), "dropped too early");
        Self {
            server,
            client,
            session,
            grown,
        }
    }
}

#[tokio::test]
async fn b_12_f_22_a_client_that_stops_reading_costs_no_memory_is_closed_with_1008_and_resumes_without_loss()
 {
    let flood = flood_of_32_mib();
    let stalled = Stalled::beside_a_watcher(&flood, OUTBOX_BYTES_MAX).await;
    let Stalled {
        server,
        mut client,
        session,
        grown,
    } = stalled;
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
    let mut neighbour = AcpClient::connect_ws(&server).await.without_oracle();
    neighbour.new_session().await;

    // It reads again just when the server has lost its patience, and is told.
    wait_for("the server to lose its patience", || {
        is_given_up(&server, &client)
    })
    .await;
    assert_eq!(client.closed().await, Some(1008));
    let mut told = Told::nothing_of(&flood);
    for update in client.take_updates(&session) {
        told.take(&update.update, &update.cursor).unwrap();
    }
    assert!(told.bytes() < flood.bytes(), "it had stopped reading");

    let mut back = AcpClient::connect_ws(&server).await.without_oracle();
    let resumed = back.resume_session(&session, after(&told.cursor)).await;
    let resync = &resumed.unwrap()["_meta"]["fastness"]["resyncFrom"];
    assert!(resync.is_null(), "{resync}");
    read_all(&mut back, &mut told).await;
    assert_eq!(told.messages(), [0, 1]);
    assert_eq!(told.bytes(), flood.bytes());
}

#[tokio::test]
async fn b_12_a_queue_without_a_bound_would_be_noticed() {
    let unbounded = (1 << 30).to_string();
    let stalled = Stalled::beside_a_watcher(&flood_of_32_mib(), &unbounded).await;
    let grown = stalled.grown;
    assert!(grown > GROWTH_MAX, "only {grown} bytes more");
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
