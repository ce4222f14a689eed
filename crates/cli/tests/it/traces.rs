//! A caller's `traceparent` on its way through the log, by every door there is.

use serde_json::{Value, json};
use testkit::{Program, RawRemote, RawSocket, wait_for};

use crate::support::{echo, serve_with};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const OTHER: &str = "0af7651916cd43dd8448eb211c80319c";
const THIRD: &str = "1af7651916cd43dd8448eb211c80319c";

fn header(trace: &str) -> String {
    format!("traceparent: 00-{trace}-00f067aa0ba902b7-01\r\n")
}

/// The lines with this message in which a session has had its turn, once there are `count`.
async fn turns(server: &Program, count: usize) -> Vec<Value> {
    let of_turns = || {
        let lines = server.log().into_iter();
        lines.filter(|line| line["message"] == "turn ended")
    };
    wait_for("the turns in the log", || of_turns().count() >= count).await;
    of_turns().collect()
}

fn prompt(session: &Value, meta: &Value) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": "hi"}], "_meta": meta})
}

#[tokio::test]
async fn the_trace_of_a_post_is_that_of_its_turn_and_of_no_other() {
    let server = serve_with(echo(), &[("FASTNESS_LOG_FORMAT", "json")]).await;
    let remote = RawRemote::open(&server).await;
    let mut main = remote.stream(&server, "").await;
    let cwd = server.home().workspace();
    let new = json!({"jsonrpc": "2.0", "id": 1, "method": "session/new",
        "params": {"cwd": cwd, "mcpServers": []}});
    remote.post(&server, &header(THIRD), &new).await;
    let made = main.until(|message| message["id"] == 1).await;
    let session = made["result"]["sessionId"].clone();
    let named = format!("acp-session-id: {}\r\n", session.as_str().unwrap());
    let mut own = remote.stream(&server, &named).await;
    let broken = "traceparent: 00-INVALID-MARKER-01\r\n";
    let (traced, other) = (header(TRACE), header(OTHER));
    let meta = json!({"traceparent": format!("00-{THIRD}-00f067aa0ba902b7-01")});
    // What the message itself says counts more than the request that carried it.
    for (number, (headers, meta)) in [
        (traced.as_str(), json!({})),
        (other.as_str(), json!({})),
        ("", json!({})),
        (traced.as_str(), meta),
        (broken, json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let prompt = json!({"jsonrpc": "2.0", "id": format!("prompt {number}"),
            "method": "session/prompt", "params": prompt(&session, &meta)});
        assert_eq!(remote.post(&server, headers, &prompt).await.status, 202);
        own.until(|message| message["id"] == format!("prompt {number}"))
            .await;
    }
    let turns = turns(&server, 5).await;
    let traces: Vec<_> = turns.iter().map(|line| line["trace_id"].as_str()).collect();
    assert_eq!(traces, [Some(TRACE), Some(OTHER), None, Some(THIRD), None]);
    let lines = server.log();
    for message in ["rpc", "http"] {
        let is_it = |line: &&Value| line["message"] == message && line["trace_id"] == OTHER;
        assert_eq!(lines.iter().filter(is_it).count(), 1, "{message}");
    }
    assert!(!server.stderr().contains("INVALID-MARKER"));
}

#[tokio::test]
async fn the_trace_of_an_upgrade_is_that_of_every_turn_which_names_no_other() {
    let server = serve_with(echo(), &[("FASTNESS_LOG_FORMAT", "json")]).await;
    let mut socket = RawSocket::open_with(&server, &header(TRACE)).await;
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
    socket.call("initialize", hello).await;
    let cwd = server.home().workspace();
    let new = json!({"cwd": cwd, "mcpServers": []});
    let session = socket.call("session/new", new).await["result"]["sessionId"].clone();
    let meta = json!({"traceparent": format!("00-{OTHER}-00f067aa0ba902b7-01")});
    for meta in [json!({}), meta, json!({})] {
        let answer = socket.call("session/prompt", prompt(&session, &meta)).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }
    let turns = turns(&server, 3).await;
    let traces: Vec<_> = turns.iter().map(|line| line["trace_id"].as_str()).collect();
    assert_eq!(traces, [Some(TRACE), Some(OTHER), Some(TRACE)]);
}
