//! Over single HTTP requests: a client's own files, cancels and long histories, while nobody reads.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::raw::EventStream;
use testkit::script::{Script, pause, say, stream, tool};
use testkit::{AcpClient, Choice, Program, RawRemote, RawSocket, Reply, wait_for};

use crate::identity::token;
use crate::metrics::Numbers;
use crate::remote_clients::revoke;
use crate::support::{next_but_looks, serve, serve_with, stored};

/// A client over HTTP that offers its files.
async fn editor(server: &Program) -> AcpClient {
    let mut client = AcpClient::dial_http(server, server.token());
    let files = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    client.initialize_with(files).await;
    client
}

/// A model that reads `a.txt` and repeats what it was told.
fn reader() -> Script {
    Script::new()
        .call([tool("read", json!({"path": "a.txt"}))])
        .call([say("${result}")])
}

async fn kinds_include(server: &Program, session: &str, wanted: &str) {
    wait_for(wanted, || {
        let kinds = stored(server.home(), session);
        kinds.iter().any(|kind| kind == wanted)
    })
    .await;
}

#[tokio::test]
async fn b_06_a_client_over_http_is_asked_on_the_sessions_stream_and_its_post_is_used() {
    let script = Script::new()
        .call([
            tool("read", json!({"path": "a.txt"})),
            tool("write", json!({"path": "b.txt", "content": "new"})),
        ])
        .call([say("${result}")]);
    let server = serve(script).await;
    server.home().write("a.txt", "saved");
    let mut client = editor(&server).await;
    client.on_permission(Choice::Allow);
    client.on_request("fs/read_text_file", Reply::Hold);
    client.on_request("fs/write_text_file", Reply::Result(json!({})));
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let asked = next_but_looks(&mut client, &["b.txt"]).await;
    assert_eq!(asked.params["sessionId"], session);
    // Other requests are answered while the turn waits for this client.
    client.call("session/list", json!({})).await.unwrap();
    client.on_request("fs/read_text_file", Reply::Result(json!({"content": ""})));
    let unsaved = json!({"content": "unsaved"});
    let answer = json!({"jsonrpc": "2.0", "id": asked.id, "result": unsaved}).to_string();
    assert_eq!(client.post(&answer).await.status, 202);
    let done = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(done.stop_reason, "end_turn");
    let events = server.home().events(&session);
    let result = events.iter().find(|event| event["type"] == "tool.result");
    let read = result.unwrap()["text"].to_string();
    assert!(read.contains("unsaved"), "{read}");
    assert_eq!(server.home().read("b.txt"), None, "it is the client's");
}

#[tokio::test]
async fn a_stream_cut_while_the_client_is_asked_loses_neither_question_nor_answer() {
    let server = serve(reader()).await;
    server.home().write("a.txt", "on the server");
    let mut client = editor(&server).await;
    client.on_request("fs/read_text_file", Reply::Hold);

    // Cut after the question came: the answer is posted while nobody reads.
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let asked = client.next_request().await;
    client.cut_streams();
    client.answer(&asked, Ok(json!({"content": "mine"}))).await;
    kinds_include(&server, &session, "result").await;
    client.take_up_streams().await;
    let done = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(done.text, "1\tmine");

    // Cut before it came: it is there when the stream is taken up.
    let session = client.new_session().await;
    client.cut_streams();
    let running = client.start_prompt(&session, "go").await;
    kinds_include(&server, &session, "tool.use").await;
    client.take_up_streams().await;
    let asked = client.next_request().await;
    client.answer(&asked, Ok(json!({"content": "mine"}))).await;
    let done = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(done.text, "1\tmine");
    let reads = client.requests().iter();
    let reads = reads.filter(|request| request.method == "fs/read_text_file");
    assert_eq!(reads.count(), 2, "each was asked once");
}

#[tokio::test]
async fn a_04_a_connection_that_is_ended_fails_its_pending_request_at_once() {
    let server = serve_with(reader(), &[("FASTNESS_LIMITS_CLIENT_BACK_MS", "200")]).await;
    let mut client = editor(&server).await;
    client.on_request("fs/read_text_file", Reply::Hold);
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client.next_request().await;
    client.leave().await;
    wait_for("the log of it", || {
        server.stderr().contains("aborted 1 pending requests")
    })
    .await;
    kinds_include(&server, &session, "result").await;
    let events = server.home().events(&session);
    let result = events.iter().find(|event| event["type"] == "tool.result");
    assert!(
        result.unwrap()["text"].to_string().contains("client gone"),
        "{result:?}"
    );
}

fn message(id: &str, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn cancel(session: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
}

/// A session by hand; its stream is not opened.
async fn new_session(
    server: &Program,
    remote: &RawRemote,
    main: &mut EventStream,
    cwd: &Path,
) -> String {
    let new = message("new", "session/new", &json!({"cwd": cwd, "mcpServers": []}));
    assert_eq!(remote.post(server, "", &new).await.status, 202);
    let made = main.until(|message| message["id"] == "new").await;
    made["result"]["sessionId"].as_str().unwrap().to_owned()
}

async fn prompt(server: &Program, remote: &RawRemote, session: &str) {
    let blocks = json!([{"type": "text", "text": "go"}]);
    let params = json!({"sessionId": session, "prompt": blocks});
    let prompt = message("prompt", "session/prompt", &params);
    assert_eq!(remote.post(server, "", &prompt).await.status, 202);
}

async fn is_cancelled(server: &Program, session: &str) {
    kinds_include(server, session, "result").await;
    let events = server.home().events(session);
    assert_eq!(events.last().unwrap()["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_cancel_gets_in_although_nobody_reads_the_sessions_stream() {
    // Far more than may wait for one client.
    let script = Script::new().call([stream(&"x".repeat(50_000), 60, 1), pause(60_000)]);
    let server = serve(script).await;
    let remote = RawRemote::open(&server).await;
    let mut main = remote.stream(&server, "").await;
    let cwd = server.home().workspace();
    let session = new_session(&server, &remote, &mut main, &cwd).await;
    prompt(&server, &remote, &session).await;
    kinds_include(&server, &session, "message.started").await;
    assert_eq!(
        remote.post(&server, "", &cancel(&session)).await.status,
        202
    );
    is_cancelled(&server, &session).await;
    // The answer is there for whoever reads it at last.
    let named = format!("acp-session-id: {session}\r\n");
    let mut own = remote.stream(&server, &named).await;
    let answer = own.until(|message| message["id"] == "prompt").await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
}

/// What the server keeps for one client before it stops listening to it.
const ANSWERS_BYTES_MAX: f64 = 1024.0 * 1024.0;

async fn is_piled_up(server: &Program) -> bool {
    Numbers::of(server).await.get("queued_bytes") >= ANSWERS_BYTES_MAX
}

/// Sessions in a directory with a long name, so that a list of them is long; the last one has a
/// turn running.
async fn wordy_sessions(server: &Program, remote: &RawRemote) -> String {
    let mut deep = server.home().workspace();
    for _ in 0..12 {
        deep.push("d".repeat(200));
    }
    std::fs::create_dir_all(&deep).unwrap();
    let mut session = String::new();
    let mut main = remote.stream(server, "").await;
    for _ in 0..20 {
        session = new_session(server, remote, &mut main, &deep).await;
    }
    prompt(server, remote, &session).await;
    kinds_include(server, &session, "message.started").await;
    session
}

/// Has more answers wait for `remote` than the server keeps; gives a session with a running turn.
async fn pile_up_answers(server: &Program, remote: &RawRemote) -> String {
    let session = wordy_sessions(server, remote).await;
    let list = async |number: u32| {
        let list = message(&format!("list {number}"), "session/list", &json!({}));
        assert_eq!(remote.post(server, "", &list).await.status, 202);
    };
    let mut number = 0;
    while !is_piled_up(server).await {
        number += 1;
        assert!(number < 200, "somebody reads the answers");
        list(number).await;
    }
    // The connection may have been waiting for its next message already.
    for more in 1..=3 {
        list(number + more).await;
    }
    session
}

fn endless() -> Script {
    Script::new().call([say("x"), pause(60_000)])
}

#[tokio::test]
async fn a_cancel_gets_in_although_nobody_reads_the_answers() {
    let settings = [("FASTNESS_LIMITS_HANDSHAKE_MS", "1000")];
    let server = serve_with(endless(), &settings).await;
    let remote = RawRemote::open(&server).await;
    let session = pile_up_answers(&server, &remote).await;
    let posted = remote.post(&server, "", &cancel(&session)).await;
    assert_eq!(posted.status, 202, "{posted}");
    is_cancelled(&server, &session).await;
}

#[tokio::test]
async fn a_23_revoking_a_token_ends_a_connection_whose_answers_nobody_reads() {
    let settings = [("FASTNESS_LIMITS_HANDSHAKE_MS", "1000")];
    let server = serve_with(endless(), &settings).await;
    let friend = token(server.home(), &["friend"]).await;
    let remote = RawRemote::open_as(&server, &friend).await;
    pile_up_answers(&server, &remote).await;
    revoke(&server, "friend").await;
    wait_for("the connection ends", || {
        server.stderr().contains("disconnected")
    })
    .await;
}

#[tokio::test]
async fn a_23_revoking_a_token_ends_a_websocket_whose_answers_nobody_reads() {
    let server = serve(endless()).await;
    let friend = token(server.home(), &["friend"]).await;
    let remote = RawRemote::open_as(&server, &friend).await;
    wordy_sessions(&server, &remote).await;
    assert_eq!(remote.ask(&server, "DELETE", "").await.status, 202);
    let left = || server.stderr().matches("disconnected").count();
    wait_for("the one that made the sessions leaves", || left() == 1).await;
    let mut socket = RawSocket::open_as(&server, &friend, "").await;
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
    socket.call("initialize", hello).await;
    // Some megabytes vanish in the system's buffers first.
    let mut number = 0;
    while !is_piled_up(&server).await {
        for _ in 0..10 {
            number += 1;
            let list = message(&format!("list {number}"), "session/list", &json!({}));
            socket.text(&list.to_string()).await;
        }
        assert!(number < 2_000, "somebody reads the answers");
    }
    revoke(&server, "friend").await;
    wait_for("the connection ends", || left() == 2).await;
}

#[tokio::test]
async fn a_connection_whose_answers_nobody_reads_does_not_hold_the_server_back() {
    let settings = [
        ("FASTNESS_LIMITS_HANDSHAKE_MS", "1000"),
        ("FASTNESS_LIMITS_DRAIN_MS", "500"),
    ];
    let mut server = serve_with(endless(), &settings).await;
    let remote = RawRemote::open(&server).await;
    pile_up_answers(&server, &remote).await;
    let asked = Instant::now();
    assert_eq!(server.terminate().await.code(), Some(0));
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn a_seventeenth_stream_that_waits_for_a_session_gets_429() {
    let server = serve(reader()).await;
    let remote = RawRemote::open(&server).await;
    let of = |number: u32| format!("acp-session-id: {number:032x}\r\n");
    let mut waiting = Vec::new();
    for number in 0..16 {
        let stream = remote.stream(&server, &of(number)).await;
        assert_eq!(stream.answer.status, 200, "{number}");
        waiting.push(stream);
    }
    let refused = remote.stream(&server, &of(16)).await;
    assert_eq!(refused.answer.status, 429, "{}", refused.answer);
    assert!(refused.answer.body.contains("rate_limited"));
    // Sessions that are attached to do not count, and one that goes makes room.
    let mut main = remote.stream(&server, "").await;
    let cwd = server.home().workspace();
    let session = new_session(&server, &remote, &mut main, &cwd).await;
    let named = format!("acp-session-id: {session}\r\n");
    let own = remote.stream(&server, &named).await;
    assert_eq!(own.answer.status, 200, "{}", own.answer);
    waiting.pop();
    let mut again = 429;
    for _ in 0..1_000 {
        again = remote.stream(&server, &of(16)).await.answer.status;
        if again == 200 {
            break;
        }
    }
    assert_eq!(again, 200);
}

#[tokio::test]
async fn whoever_is_told_to_wait_is_told_how_long() {
    let server = serve(reader()).await;
    let remote = RawRemote::open(&server).await;
    let mut waiting = Vec::new();
    let refused = loop {
        let number = waiting.len();
        let named = format!("acp-session-id: {number:032x}\r\n");
        let stream = remote.stream(&server, &named).await;
        if stream.answer.status != 200 {
            break stream.answer;
        }
        waiting.push(stream);
    };
    assert_eq!(refused.status, 429, "{refused}");
    assert!(refused.header("retry-after").is_some(), "{refused}");
}

#[tokio::test]
async fn a_history_larger_than_what_may_wait_is_loaded_over_the_connections_stream() {
    let text = "~".repeat(1_000_000);
    let server = serve(Script::new().call([say(&text)])).await;
    let mut first = AcpClient::connect_ws(&server).await;
    let session = first.new_session().await;
    for _ in 0..3 {
        first.prompt(&session, "more").await;
    }
    first.leave().await;
    let remote = RawRemote::open(&server).await;
    let mut main = remote.stream(&server, "").await;
    let cwd = server.home().workspace();
    let load = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let load = message("load", "session/load", &load);
    assert_eq!(remote.post(&server, "", &load).await.status, 202);
    // Nobody reads for a while, and others are served meanwhile on the same connection.
    let list = message("list", "session/list", &json!({}));
    assert_eq!(remote.post(&server, "", &list).await.status, 202);
    let mut bytes = 0;
    let loaded = main
        .until(|message| {
            let said = message["params"]["update"]["content"]["text"].as_str();
            bytes += said.map_or(0, |said| said.matches('~').count());
            message["id"] == "load"
        })
        .await;
    assert!(loaded["result"].is_object(), "{loaded}");
    assert_eq!(bytes, 3 * text.len());
    prompt(&server, &remote, &session).await;
    let named = format!("acp-session-id: {session}\r\n");
    let mut own = remote.stream(&server, &named).await;
    let answer = own.until(|message| message["id"] == "prompt").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}
