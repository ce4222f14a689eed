//! Faults of the machine and of the network, told through the real binary.
//!
//! What needs numbers runs here with small ones and in `cargo xtask soak edge` with large ones.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use testkit::script::{Script, pause, say, stream, tool};
use testkit::{AcpClient, Home, Program, RawSocket, edge, wait_for};
use tokio::sync::mpsc;

use crate::support::{binary, echo, serve, serve_with, stored, two_clients};

/// Events of a session are numbered without a gap, and their times are numbers.
fn numbered(home: &Home, session: &str) {
    let events = home.events(session);
    for (place, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], json!(place + 1), "{event}");
        assert!(event["ts"].is_number(), "{event}");
    }
}

/// The library that lies to one process about the time.
fn faketime() -> String {
    let folders = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let mut places = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let library = places.find(|place| place.exists());
    match library {
        Some(library) => library.display().to_string(),
        None => panic!("{}", testkit::system::missing("faketime")),
    }
}

/// A home whose programs believe the wall clock that the file `clock` names, as `+3600`.
pub(crate) fn with_clock(home: Home, clock: &Path) -> Home {
    home.env("LD_PRELOAD", faketime())
        .env("FAKETIME_TIMESTAMP_FILE", clock.display())
        .env("FAKETIME_NO_CACHE", 1)
        .env("FAKETIME_DONT_FAKE_MONOTONIC", 1)
        .env("DONT_FAKE_MONOTONIC", 1)
}

#[tokio::test]
async fn f_18_a_wall_clock_that_jumps_disturbs_nothing() {
    let place = tempfile::tempdir().unwrap();
    let clock = place.path().join("clock");
    std::fs::write(&clock, "+0").unwrap();
    let home = Home::new(binary(), Script::new().call([stream("x", 20, 10)]));
    let home = with_clock(home, &clock);
    let server = Program::serve_in(home).await;
    let (mut client, mut silent) = two_clients(&server).await;
    let session = client.new_session().await;
    let own = silent.new_session().await;
    let first = client.prompt(&session, "before").await;
    assert_eq!(first.text.len(), 20);
    for jump in ["-1d", "+3650d", "+0", "-3650d", "+1"] {
        // In the middle of a turn, and between turns.
        let running = client.start_prompt(&session, jump).await;
        client
            .updates_until(|update| update.text() == Some("x"))
            .await;
        std::fs::write(&clock, jump).unwrap();
        let answer = client.wait(&running).await.unwrap();
        assert_eq!(answer["stopReason"], "end_turn", "{jump}");
        client.take_updates(&session);
        assert_eq!(
            client.prompt(&session, "after").await.text.len(),
            20,
            "{jump}"
        );
    }
    let times: Vec<f64> = server
        .home()
        .events(&session)
        .iter()
        .filter_map(|event| event["ts"].as_f64())
        .collect();
    let years = (times.iter().fold(0.0, |a: f64, b| a.max(*b)) - times[0]) / 31_536_000.0;
    assert!(years > 9.0, "the clock did jump: {years} years");
    numbered(server.home(), &session);
    // Nobody was timed out: the one who said nothing all the time is still there.
    assert_eq!(silent.prompt(&own, "still here").await.text.len(), 20);
    let listed = client.call("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

#[tokio::test]
async fn f_21_connecting_and_leaving_leaks_no_descriptor() {
    let server = Program::serve_in(edge::home(Path::new(binary()))).await;
    edge::churn(&server, 300).await.unwrap();
}

#[tokio::test]
async fn f_23_within_a_memory_limit_the_documented_limits_hold() {
    const AS_BYTES: &str = "--as=1500000000";
    let script = Script::new().call([stream(&"x".repeat(10_000), 300, 0)]);
    let home = Home::new(binary(), script).under(&["prlimit", AS_BYTES]);
    let server = Program::serve_in(home).await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut socket = RawSocket::initialized(&server).await;
        let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
        let made = socket.call("session/new", new).await;
        let prompt = json!({"jsonrpc": "2.0", "id": 9, "method": "session/prompt",
            "params": {"sessionId": made["result"]["sessionId"], "prompt": [{"type": "text", "text": "go"}]}});
        // Three megabytes for each of them, and none of them reads.
        socket.text(&prompt.to_string()).await;
        readers.push((
            socket,
            made["result"]["sessionId"].as_str().unwrap().to_owned(),
        ));
    }
    // Messages as long as they may be, several at once.
    let big =
        json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"x": "y".repeat(15_000_000)}});
    let (big, mut senders) = (big.to_string(), Vec::new());
    for _ in 0..4 {
        senders.push(RawSocket::initialized(&server).await);
    }
    for sender in &mut senders {
        sender.text(&big).await;
        assert_eq!(sender.message().await["error"]["code"], -32601);
    }
    for (_, session) in &readers {
        let ended = || {
            stored(server.home(), session)
                .last()
                .is_some_and(|kind| kind == "result")
        };
        wait_for("every turn ends, read or not", ended).await;
    }
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "hi").await.text.len(), 3_000_000);
}

#[tokio::test]
async fn f_26_a_connection_may_break_after_any_byte() {
    let server = Program::serve_in(edge::home(Path::new(binary()))).await;
    // A prime, so that other bytes of the same fields are met in both directions.
    edge::resets(&server, 97).await.unwrap();
}

#[tokio::test]
async fn f_28_connections_over_the_limit_are_told_so_and_the_others_stay() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_CONNECTIONS_MAX", "40")]).await;
    let mut user = AcpClient::connect_ws(&server).await;
    let session = user.new_session().await;
    let mut sockets = Vec::new();
    for _ in 1..40 {
        sockets.push(RawSocket::initialized(&server).await);
    }
    let refused = futures(20, || async {
        let dialled = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
        dialled.err().and_then(|error| error.status)
    });
    for status in refused.await {
        assert_eq!(status, Some(503));
    }
    assert_eq!(user.prompt(&session, "hi").await.text, "you said hi");
    for socket in &mut sockets {
        let listed = socket.call("session/list", json!({})).await;
        assert!(listed["result"].is_object(), "{listed}");
    }
    drop(sockets);
    wait_for("their places are free", || {
        server.stderr().matches("disconnected").count() >= 39
    })
    .await;
    AcpClient::connect_ws(&server).await;
}

/// Runs the same thing some times at once.
async fn futures<T, F: Future<Output = T>>(count: usize, each: impl Fn() -> F) -> Vec<T> {
    let mut running: Vec<_> = (0..count).map(|_| Box::pin(each())).collect();
    let mut done = Vec::new();
    for future in &mut running {
        done.push(future.await);
    }
    done
}

#[tokio::test]
async fn f_29_after_a_restart_all_clients_come_back_at_once() {
    edge::storm(Path::new(binary()), 300, Duration::from_secs(10))
        .await
        .unwrap();
}

#[tokio::test]
async fn f_43_a_panic_in_a_turn_fails_that_turn_only() {
    let script = Script::new().call([say("before "), json!({"panic": "turn"})]);
    let server = serve(script).await;
    let (mut client, mut neighbour) = two_clients(&server).await;
    let (broken, other) = (client.new_session().await, neighbour.new_session().await);
    for session in [&broken, &broken] {
        let error = client.try_prompt(session, "go").await.unwrap_err();
        assert_eq!(error.code, -32603, "{error}");
        assert!(
            !error.to_string().contains("panic"),
            "causes are not for clients: {error}"
        );
    }
    // The neighbour's session runs the same script, and fails no more and no less.
    assert_eq!(
        neighbour.try_prompt(&other, "go").await.unwrap_err().code,
        -32603
    );
    let replayed = neighbour.load_session(&broken).await.unwrap();
    let text = testkit::client::text_of(&replayed, "agent_message_chunk");
    assert_eq!(text, "before before ", "what was said before stays");
    numbered(server.home(), &broken);
    assert!(server.stderr().contains("panicked"), "it did panic");
    // The server lives, and with another model so does the session.
    server.home().set_script(echo());
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&broken).await.unwrap();
    assert_eq!(client.prompt(&broken, "again").await.text, "you said again");
}

#[tokio::test]
async fn f_43_a_panic_in_a_session_takes_nobody_else_along() {
    let script = Script::new().call([json!({"panic": "session"})]);
    let server = serve(script).await;
    let (mut client, mut neighbour) = two_clients(&server).await;
    let session = client.new_session().await;
    let error = client.try_prompt(&session, "go").await.unwrap_err();
    assert_eq!(error.code, -32603, "{error}");
    // Others are served, and the session can be loaded again.
    let other = neighbour.new_session().await;
    neighbour
        .call(
            "session/set_mode",
            json!({"sessionId": other, "modeId": "plan"}),
        )
        .await
        .unwrap();
    let replayed = neighbour.load_session(&session).await.unwrap();
    assert_eq!(
        testkit::client::text_of(&replayed, "user_message_chunk"),
        "go"
    );
    numbered(server.home(), &session);
    server.home().set_script(echo());
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    assert_eq!(
        client.prompt(&session, "again").await.text,
        "you said again"
    );
}

/// What one client of a busy server has seen of it until the end.
struct Witness {
    close_code: Option<u16>,
    session: String,
    answered: Vec<String>,
    newest_seq: u64,
}

/// Prompts until the connection ends; says when it is well under way.
async fn keep_busy(mut client: AcpClient, number: usize, busy: mpsc::Sender<()>) -> Witness {
    let session = client.new_session().await;
    let (mut answered, mut newest_seq) = (Vec::new(), 0);
    loop {
        let text = format!("prompt {} of {number}", answered.len());
        let asked = client.start_prompt(&session, &text).await;
        if answered.len() == 2 {
            busy.send(()).await.unwrap();
        }
        let outcome = client.wait_or_end(&asked).await;
        for update in client.take_updates(&session) {
            newest_seq = newest_seq.max(update.seq().unwrap_or(0));
        }
        match outcome {
            Some(Ok(_)) => answered.push(text),
            // Interrupted, or refused because the server is leaving; never "not found".
            Some(Err(error)) => assert_eq!(error.code, -32603, "{error}"),
            None => {
                return Witness {
                    close_code: client.closed().await,
                    session,
                    answered,
                    newest_seq,
                };
            }
        }
    }
}

/// Everything a client was told is in the journal, and every turn in it has an end.
fn stands_in_the_journal(home: &Home, witness: &Witness) {
    numbered(home, &witness.session);
    let events = home.events(&witness.session);
    assert!(
        events.len() as u64 >= witness.newest_seq,
        "something seen is not stored"
    );
    for prompt in &witness.answered {
        let is_stored = events.iter().any(|event| event["text"] == prompt.as_str());
        assert!(is_stored, "{prompt}");
    }
    let kinds = stored(home, &witness.session);
    let count = |wanted: &[&str]| {
        let found = kinds.iter().filter(|kind| wanted.contains(&kind.as_str()));
        found.count()
    };
    let (begun, ended) = (
        count(&["turn.started"]),
        count(&["result", "turn.interrupted"]),
    );
    assert_eq!(begun, ended, "{kinds:?}");
}

#[tokio::test]
async fn f_44_sigterm_under_load_loses_nothing_that_was_acknowledged() {
    let quick = [
        say("quick ${prompt}"),
        tool("read", json!({"path": "notes.txt"})),
    ];
    let mut script = Script::new();
    for _ in 0..30 {
        script = script.call(quick.clone()).call([say("done")]);
    }
    // Whoever gets that far is in a turn that does not end by itself.
    let script = script.call([stream("endless ", 100_000, 10), pause(60_000)]);
    let mut server = serve_with(script, &[("FASTNESS_LIMITS_DRAIN_MS", "400")]).await;
    server.home().write("notes.txt", "text");
    let (busy, mut all_busy) = mpsc::channel(64);
    let mut loads = Vec::new();
    for number in 0..12 {
        let client = AcpClient::connect_ws(&server).await;
        loads.push(tokio::spawn(keep_busy(client, number, busy.clone())));
    }
    for _ in 0..12 {
        all_busy.recv().await.unwrap();
    }
    let started = std::time::Instant::now();
    assert_eq!(server.terminate().await.code(), Some(0));
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    for load in loads {
        let witness = load.await.unwrap();
        assert_eq!(witness.close_code, Some(1001));
        stands_in_the_journal(server.home(), &witness);
    }
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}
