//! The log: what stands in it at which level, and what never does.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program, raw, wait_for};

use crate::support::{binary, echo, serve_with};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const OTHER_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The log so far, as objects.
fn lines(server: &Program) -> Vec<Value> {
    let text = server.stderr();
    let objects = text.lines().filter(|line| line.starts_with('{'));
    // The newest line may still be on its way.
    objects
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Waits for a line that has all of `fields`, and gives it.
async fn line(server: &Program, fields: Value) -> Value {
    let wanted = fields.as_object().unwrap();
    let is_it = |line: &Value| wanted.iter().all(|(key, value)| line[key] == *value);
    wait_for(&format!("a line with {fields}"), || {
        lines(server).iter().any(is_it)
    })
    .await;
    lines(server).into_iter().find(is_it).unwrap()
}

async fn json_server(script: Script) -> Program {
    serve_with(script, &[("FASTNESS_LOG_FORMAT", "json")]).await
}

#[tokio::test]
async fn each_request_leaves_one_line_that_says_who_what_and_how_it_went() {
    let server = json_server(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "hello").await;
    let upgrade = line(&server, json!({"message": "http", "route": "/acp"})).await;
    assert_eq!(
        (
            &upgrade["principal"],
            &upgrade["method"],
            &upgrade["status"]
        ),
        (&json!("local"), &json!("GET"), &json!(101))
    );
    let connection = client.connection_id().unwrap();
    assert_eq!(upgrade["connection"], connection);
    let prompt = line(
        &server,
        json!({"message": "rpc", "method": "session/prompt"}),
    )
    .await;
    assert_eq!(prompt["level"], "INFO");
    assert_eq!(prompt["connection"], connection);
    assert_eq!(prompt["principal"], "local");
    assert_eq!(prompt["session"], session);
    assert_eq!(prompt["outcome"], "ok");
    assert!(prompt["took_ms"].as_f64().is_some_and(|took| took > 0.0));
    let refused = client
        .call(
            "session/load",
            json!({"sessionId": "0".repeat(32), "cwd": "/", "mcpServers": []}),
        )
        .await;
    let name = refused.unwrap_err().data["requestId"].take();
    let told = line(&server, json!({"message": "rpc", "method": "session/load"})).await;
    assert_eq!(
        (&told["outcome"], &told["request"]),
        (&json!("not_found"), &name)
    );
    let answer = raw::request(&server, raw::authorized(&server, "GET", "/nowhere", "")).await;
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let told = line(&server, json!({"message": "http", "status": 404})).await;
    assert_eq!(
        (&told["route"], &told["request"]),
        (&json!("other"), &body["requestId"])
    );
    line(
        &server,
        json!({"message": "turn ended", "session": session, "outcome": "end_turn"}),
    )
    .await;
    let rpc = lines(&server)
        .iter()
        .filter(|line| line["message"] == "rpc")
        .count();
    assert_eq!(rpc, 4, "initialize, new, prompt and load, each once");
}

#[tokio::test]
async fn a_prompt_whose_client_leaves_gets_its_line_too() {
    let server = json_server(Script::new().call([testkit::script::stream("x", 50, 10)])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    drop(client);
    let told = line(&server, json!({"message": "rpc", "outcome": "unanswered"})).await;
    assert_eq!(told["method"], "session/prompt");
    line(
        &server,
        json!({"message": "turn ended", "session": session}),
    )
    .await;
}

#[tokio::test]
async fn a_callers_trace_is_carried_through_the_log() {
    let server = json_server(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let prompt = json!({
        "sessionId": session,
        "prompt": [{"type": "text", "text": "hi"}],
        "_meta": {"traceparent": format!("00-{TRACE}-00f067aa0ba902b7-01")},
    });
    client.call("session/prompt", prompt).await.unwrap();
    let told = line(&server, json!({"message": "rpc", "trace_id": TRACE})).await;
    assert_eq!(told["method"], "session/prompt");
    line(&server, json!({"message": "turn ended", "trace_id": TRACE})).await;
    let body = r#"{"text":"hello"}"#;
    let headers = format!(
        "traceparent: 00-{OTHER_TRACE}-00f067aa0ba902b7-00\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    let request = raw::authorized(&server, "POST", "/tui/append-prompt", &headers) + body;
    assert_eq!(raw::request(&server, request).await.status, 200);
    let told = line(&server, json!({"message": "http", "trace_id": OTHER_TRACE})).await;
    assert_eq!(told["route"], "/tui/append-prompt");
    let turn = line(
        &server,
        json!({"message": "turn ended", "trace_id": OTHER_TRACE}),
    )
    .await;
    assert_eq!(turn["session"], told["session"]);
    // What is no trace is not carried anywhere.
    let headers = "traceparent: 00-INVALID-MARKER-01\r\n";
    raw::request(
        &server,
        raw::authorized(&server, "GET", "/metrics", headers),
    )
    .await;
    line(&server, json!({"message": "http", "route": "/metrics"})).await;
    assert!(!server.stderr().contains("INVALID-MARKER"));
}

/// A model that repeats the prompt, writes a file, and fails once.
fn talkative() -> Script {
    let write = tool("write", json!({"path": "a", "content": "FILE-MARKER"}));
    Script::new()
        .call([say("REPLY-MARKER ${prompt}"), write])
        .call([say("done")])
}

/// Says secrets in every way a client can.
async fn tell_secrets(server: &Program) {
    let mut client = AcpClient::connect_ws(server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.prompt(&session, "PROMPT-MARKER").await;
    client.call("METHOD-MARKER", json!({})).await.unwrap_err();
    client
        .raw(r#"{"jsonrpc":"2.0","id":"ID-MARKER","result":"RESULT-MARKER"}"#)
        .await;
    client.raw("{FRAME-MARKER").await;
    client.next_stray().await;
    client.leave().await;
    let request = raw::authorized(server, "GET", "/metrics?q=QUERY-MARKER", "");
    raw::request(server, request).await;
    let request = raw::authorized(server, "GET", "/PATH-MARKER", "x-own: HEADER-MARKER\r\n");
    raw::request(server, request).await;
    let wrong = "WRONG-TOKEN-MARKER";
    let request = raw::authorized(server, "GET", "/metrics", "").replace(server.token(), wrong);
    raw::request(server, request).await;
    let body = r#"{"secret":"BODY-MARKER"}"#;
    let headers = format!(
        "content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    let request = raw::authorized(server, "POST", "/echo", &headers) + body;
    raw::request(server, request).await;
    wait_for("the last request's line", || {
        server.stderr().contains("/echo")
    })
    .await;
    wait_for("the client's leaving", || {
        server.stderr().contains("disconnected")
    })
    .await;
}

#[tokio::test]
async fn b_19_the_log_at_info_names_connects_and_holds_nothing_that_was_said() {
    let server = serve_with(talkative(), &[("FASTNESS_LOG", "info")]).await;
    tell_secrets(&server).await;
    let log = server.stderr();
    assert!(
        log.lines()
            .any(|line| line.contains("INFO") && line.contains(" connected")),
        "{log}"
    );
    assert!(
        !log.contains("DEBUG") && !log.contains("response ignored"),
        "{log}"
    );
    assert!(!log.contains("MARKER"), "{log}");
    assert!(!log.contains(server.token()), "{log}");
}

#[tokio::test]
async fn b_19_no_token_stands_in_the_log_at_any_level() {
    let server = serve_with(talkative(), &[("FASTNESS_LOG", "trace")]).await;
    tell_secrets(&server).await;
    let log = server.stderr();
    assert!(
        log.contains("DEBUG") && log.contains("response ignored"),
        "{log}"
    );
    for secret in [server.token(), "WRONG-TOKEN-MARKER"] {
        assert!(!log.contains(secret), "{log}");
    }
    // Nor does anything else of it, even at this level: what is looked for is in the journal.
    for said in [
        "PROMPT-MARKER",
        "REPLY-MARKER",
        "FILE-MARKER",
        "BODY-MARKER",
        "QUERY-MARKER",
    ] {
        assert!(!log.contains(said), "{said}: {log}");
    }
}

#[tokio::test]
async fn an_unknown_form_of_the_log_is_wrong_usage() {
    let home = Home::new(binary(), echo()).env("FASTNESS_LOG_FORMAT", "xml");
    let output = home.command("doctor").output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("FASTNESS_LOG_FORMAT") && told.contains("json"),
        "{told}"
    );
}
