//! Peers that are gone without saying so, and peers that only look like it.

use std::time::Duration;

use serde_json::json;
use testkit::raw::{Frame, Heard, opcode};
use testkit::script::{Script, pause, say, stream, tool};
use testkit::{AcpClient, Choice, Program, RawSocket, wait_for};
use tokio::time::Instant;

use crate::support::{echo, serve_with, stored};

const PING_MS: u64 = 300;

/// Pings and pongs a hundred times as quick as by default.
const QUICK: &[(&str, &str)] = &[
    ("FASTNESS_LIMITS_PING_MS", "300"),
    ("FASTNESS_LIMITS_PONG_MS", "300"),
];

/// Makes a session and starts a turn in it.
async fn prompt(server: &Program, socket: &mut RawSocket) -> String {
    let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
    let made = socket.call("session/new", new).await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = json!({"jsonrpc": "2.0", "id": 9, "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}});
    socket.text(&prompt.to_string()).await;
    session
}

async fn turn_ends(server: &Program, session: &str) {
    wait_for("the turn goes on to its end", || {
        stored(server.home(), session)
            .last()
            .is_some_and(|kind| kind == "result")
    })
    .await;
    let events = server.home().events(session);
    assert_eq!(events.last().unwrap()["stopReason"], "end_turn");
}

#[tokio::test]
async fn b_18_f_24_a_peer_that_stops_ponging_is_dropped_and_its_session_kept() {
    // The model is silent for longer than it takes to find the peer dead, then goes on.
    let script = Script::new().call([say("before "), pause(1_500), say("after")]);
    let server = serve_with(script, QUICK).await;
    let mut socket = RawSocket::initialized(&server).await;
    let session = prompt(&server, &mut socket).await;
    while !socket.message().await.to_string().contains("before") {}
    let silent_since = Instant::now();
    // A RawSocket answers no ping.
    assert_eq!(socket.close_code().await, Some(1008));
    let found_after = silent_since.elapsed();
    assert!(
        found_after < Duration::from_millis(3 * PING_MS),
        "interval and timeout, and a little: {found_after:?}"
    );
    // The owner comes back at once, while the turn still runs, and misses nothing.
    let mut owner = AcpClient::connect_ws(&server).await;
    let mut seen = owner.load_session(&session).await.unwrap();
    seen.extend(
        owner
            .updates_until(|update| update.text() == Some("after"))
            .await,
    );
    let text = testkit::client::text_of(&seen, "agent_message_chunk");
    assert_eq!(text, "before after");
    turn_ends(&server, &session).await;
}

#[tokio::test]
async fn b_18_a_silent_peer_that_pongs_is_kept() {
    let server = serve_with(echo(), QUICK).await;
    let mut socket = RawSocket::initialized(&server).await;
    // An attachment, so that the idle rule does not apply.
    let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
    socket.call("session/new", new).await;
    for _ in 0..6 {
        match socket.hear().await {
            Heard::Frame { opcode, payload } => {
                assert_eq!(opcode, opcode::PING);
                socket.send(&Frame::last(opcode::PONG, payload)).await;
            }
            // The commands of the new session.
            Heard::Text(text) if text.contains("available_commands_update") => {}
            other @ (Heard::Text(_) | Heard::Close(_) | Heard::End) => panic!("{other:?}"),
        }
    }
    let answer = socket.call("session/list", json!({})).await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn b_18_any_sign_of_life_counts_not_only_a_pong() {
    let server = serve_with(echo(), QUICK).await;
    let mut socket = RawSocket::initialized(&server).await;
    let started = Instant::now();
    let mut answers = 0;
    while started.elapsed() < Duration::from_millis(4 * PING_MS) {
        socket
            .text(r#"{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}"#)
            .await;
        match socket.hear().await {
            Heard::Text(_) => answers += 1,
            Heard::Frame { .. } => {}
            ending @ (Heard::Close(_) | Heard::End) => panic!("{ending:?} after {answers} answers"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(answers > 10, "{answers}");
}

#[tokio::test]
async fn b_18_a_peer_that_is_being_sent_a_long_answer_is_not_taken_for_dead() {
    let script = Script::new().call([stream("x", 150, 10)]);
    let server = serve_with(script, QUICK).await;
    let mut socket = RawSocket::initialized(&server).await;
    prompt(&server, &mut socket).await;
    // It reads and never pongs: that what is sent arrives is life as well.
    let answer = loop {
        let message = socket.message().await;
        if message["id"] == 9 {
            break message;
        }
    };
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

#[tokio::test]
async fn f_19_after_a_suspend_connections_resume_or_are_closed_and_no_tool_runs_twice() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a", "content": "x"}))])
        .call([stream("y", 60, 10)]);
    let server = serve_with(script, QUICK).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let asked = client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("y"))
        .await;
    server.suspend();
    // Longer than ping and pong together: a clock that had counted this would drop everyone.
    tokio::time::sleep(Duration::from_millis(5 * PING_MS)).await;
    server.wake();
    let is_kept = match client.wait_or_end(&asked).await {
        Some(answer) => {
            assert_eq!(answer.unwrap()["stopReason"], "end_turn");
            true
        }
        None => false,
    };
    turn_ends(&server, &session).await;
    let mut again = AcpClient::connect_ws(&server).await;
    let replayed = again.load_session(&session).await.unwrap();
    let text = testkit::client::text_of(&replayed, "agent_message_chunk");
    assert_eq!(text, "y".repeat(60), "kept: {is_kept}");
    let kinds = stored(server.home(), &session);
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!(
        (count("tool.use"), count("tool.result")),
        (1, 1),
        "{kinds:?}"
    );
}

#[tokio::test]
async fn f_24_a_client_that_is_stopped_is_found_and_its_owner_goes_on_at_once() {
    let script = Script::new().call([stream("x", 100, 10)]);
    let server = serve_with(script, QUICK).await;
    let idle = server.open_files();
    let mut vanished = RawSocket::initialized(&server).await;
    let session = prompt(&server, &mut vanished).await;
    while !vanished.message().await.to_string().contains("\"x\"") {}
    // From here on it neither reads nor writes, as a machine whose cable was pulled.
    let mut owner = AcpClient::connect_ws(&server).await;
    let replayed = owner.load_session(&session).await.unwrap();
    let asked = owner.start("session/list", json!({})).await;
    owner.wait(&asked).await.unwrap();
    turn_ends(&server, &session).await;
    drop(owner);
    // Its own socket is still open at this end: nothing but the missing pongs tells.
    wait_for("the vanished one is given up", || {
        server.stderr().matches("disconnected").count() == 2
    })
    .await;
    wait_for("its files are free", || server.open_files() <= idle + 2).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let text = testkit::client::text_of(
        &owner.load_session(&session).await.unwrap(),
        "agent_message_chunk",
    );
    assert_eq!(text, "x".repeat(100));
    assert!(!replayed.is_empty());
    drop(vanished);
}
