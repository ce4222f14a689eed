//! Streamable HTTP: streams that come and go, what travels on which, and what is refused.

use serde_json::{Value, json};
use testkit::raw::{self, HttpAnswer};
use testkit::script::{Script, say, stream, tool};
use testkit::{AcpClient, Choice, Program, Update, wait_for};

use crate::support::{echo, serve, serve_with};

const NO_SESSION: i64 = -32_002;
const JSON: &str = "content-type: application/json\r\n";
const SSE: &str = "accept: text/event-stream\r\n";

/// Sends one request to `/acp`; the headers each end their line.
async fn ask(server: &Program, method: &str, headers: &str, body: &str) -> HttpAnswer {
    let length = format!("{headers}content-length: {}\r\n", body.len());
    let head = raw::authorized(server, method, "/acp", &length);
    raw::request(server, format!("{head}{body}")).await
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn initialize() -> String {
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    request(1, "initialize", &params)
}

/// Everything that matters of an update: what it says and where the client stands after it.
fn told(updates: &[Update]) -> Vec<(Value, Value)> {
    let updates = updates.iter();
    let of_session = updates.filter(|update| !update.cursor.is_null());
    of_session
        .map(|u| (u.update.clone(), u.cursor.clone()))
        .collect()
}

fn text(updates: &[Update]) -> String {
    testkit::client::text_of(updates, "agent_message_chunk")
}

#[tokio::test]
async fn a_first_message_opens_a_connection_and_delete_ends_it() {
    let server = serve(echo()).await;
    let opened = ask(&server, "POST", JSON, &initialize()).await;
    assert_eq!(opened.status, 200, "{opened}");
    let id = opened.header("acp-connection-id").unwrap().to_owned();
    let answer: Value = serde_json::from_str(&opened.body).unwrap();
    assert_eq!(answer["result"]["protocolVersion"], 1, "{opened}");

    let named = format!("acp-connection-id: {id}\r\n");
    let with = |more: &str| format!("{named}{more}");
    let again = ask(&server, "POST", &with(JSON), &initialize()).await;
    assert_eq!(again.status, 400, "{again}");
    let list = request(2, "session/list", &json!({}));
    assert_eq!(ask(&server, "POST", &with(JSON), &list).await.status, 202);
    assert_eq!(ask(&server, "DELETE", &named, "").await.status, 202);
    assert_eq!(ask(&server, "DELETE", &named, "").await.status, 404);
    assert_eq!(ask(&server, "POST", &with(JSON), &list).await.status, 404);
    assert_eq!(ask(&server, "GET", &with(SSE), "").await.status, 404);
}

#[tokio::test]
async fn requests_that_lead_nowhere_are_told_so() {
    let server = serve(echo()).await;
    let list = request(2, "session/list", &json!({}));
    let cases = [
        ("POST", JSON, list.as_str(), 400),
        ("POST", JSON, "{not json", 400),
        ("POST", JSON, "[]", 501),
        ("POST", JSON, "[1,2", 400),
        ("POST", "content-type: text/plain\r\n", list.as_str(), 415),
        ("POST", "", list.as_str(), 415),
        ("GET", "", "", 406),
        ("GET", "accept: application/json\r\n", "", 406),
        ("GET", SSE, "", 400),
        ("DELETE", "", "", 400),
        ("PUT", JSON, "{}", 405),
        ("PATCH", JSON, "{}", 405),
    ];
    for (method, headers, body, status) in cases {
        let answer = ask(&server, method, headers, body).await;
        assert_eq!(answer.status, status, "{method} {headers} {body}: {answer}");
    }
    let broken = ask(&server, "POST", JSON, "{not json").await;
    let error: Value = serde_json::from_str(&broken.body).unwrap();
    assert_eq!(error["error"]["code"], -32_700, "{broken}");
    assert_eq!(error["id"], Value::Null);
}

#[tokio::test]
async fn a_session_in_the_header_is_the_session_of_the_message() {
    let server = serve(echo()).await;
    // Some of its answers are to requests that it did not send itself.
    let mut client = AcpClient::connect_http(&server).await.without_oracle();
    let session = client.new_session().await;
    let id = client.http_connection();
    let headers = format!("{JSON}acp-connection-id: {id}\r\nacp-session-id: {session}\r\n");
    let mode = request(70, "session/set_mode", &json!({"modeId": "plan"}));
    assert_eq!(ask(&server, "POST", &headers, &mode).await.status, 202);
    let changed = client
        .updates_until(|update| update.kind == "current_mode_update")
        .await;
    assert_eq!(changed.last().unwrap().session, session);
    let other = json!({"modeId": "plan", "sessionId": "0".repeat(32)});
    let other = request(71, "session/set_mode", &other);
    assert_eq!(ask(&server, "POST", &headers, &other).await.status, 400);
}

#[tokio::test]
async fn unknown_sessions_are_not_found_on_the_connections_own_stream() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_http(&server)
        .await
        .opening_streams_late();
    for unknown in ["0".repeat(32), "nonsense".to_owned()] {
        let refused = client.load_session(&unknown).await.unwrap_err();
        assert_eq!(refused.code, NO_SESSION);
    }
    // A stream for such a session may be opened; it just stays empty.
    let mut client = AcpClient::connect_http(&server).await;
    let refused = client.load_session(&"0".repeat(32)).await.unwrap_err();
    assert_eq!(refused.code, NO_SESSION);
}

#[tokio::test]
async fn a_client_that_opens_the_session_stream_late_gets_history_with_the_answer() {
    let server = serve(echo()).await;
    let mut first = AcpClient::connect_http(&server).await;
    let session = first.new_session().await;
    first.prompt(&session, "one").await;
    let empty = first.new_session().await;
    first.leave().await;

    let mut late = AcpClient::connect_http(&server)
        .await
        .opening_streams_late();
    let history = late.load_session(&session).await.unwrap();
    assert!(text(&history).ends_with("you said one"), "{history:?}");
    assert_eq!(late.prompt(&session, "two").await.text, "you said two");
    // Nothing of this one's history names it; its state does.
    late.load_session(&empty).await.unwrap();
    assert_eq!(late.prompt(&empty, "three").await.text, "you said three");
}

#[tokio::test]
async fn a_stream_taken_up_after_the_last_event_misses_nothing_and_repeats_nothing() {
    let script = Script::new()
        .call([
            stream("tick ", 400, 1),
            tool("write", json!({"path": "a", "content": "b"})),
        ])
        .call([stream("tock ", 400, 1)]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_http(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let turn = client.start_prompt(&session, "go").await;
    let mut heard = Vec::new();
    for round in 0..12 {
        for _ in 0..5 + round * 7 {
            heard.push(client.next_update().await);
        }
        client.cut_streams();
        client.take_up_streams().await;
    }
    let answer = client.finish_prompt(&session, &turn).await.unwrap();
    assert_eq!(answer.stop_reason, "end_turn");
    heard.extend(answer.updates);

    let said: String = text(&heard);
    let (ticks, tocks) = ("tick ".repeat(400), "tock ".repeat(400));
    assert!(
        said.ends_with(&format!("{ticks}{tocks}")),
        "{} bytes",
        said.len()
    );
    assert_eq!(said.matches("tick").count(), 400);
    assert_eq!(server.home().read("a").as_deref(), Some("b"));
    let kinds = heard
        .iter()
        .filter(|update| update.kind.starts_with("user_"))
        .count();
    assert_eq!(
        kinds, 0,
        "its own prompt is not told to the client that sent it"
    );
    let cursors: Vec<_> = told(&heard)
        .iter()
        .map(|(_, cursor)| place(cursor))
        .collect();
    assert!(
        cursors.is_sorted(),
        "the cursor never goes back: {cursors:?}"
    );
}

fn place(cursor: &Value) -> (u64, u64) {
    (
        cursor["seq"].as_u64().unwrap_or(0),
        cursor["offset"].as_u64().unwrap_or(0),
    )
}

#[tokio::test]
async fn answers_and_questions_sent_while_nobody_read_are_there_when_the_reader_is_back() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a", "content": "b"}))])
        .call([say("written")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_http(&server).await;
    let session = client.new_session().await;
    let turn = client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.kind == "tool_call")
        .await;
    client.cut_streams();
    client.on_permission(Choice::Allow);
    client.take_up_streams().await;
    let answer = client.finish_prompt(&session, &turn).await.unwrap();
    assert_eq!(answer.stop_reason, "end_turn");
    assert_eq!(server.home().read("a").as_deref(), Some("b"));
    // Cut again after everything was read, and taken up: nothing comes twice.
    client.cut_streams();
    client.take_up_streams().await;
    let again = client.prompt(&session, "again").await;
    assert_eq!(again.text, "written");
}

#[tokio::test]
async fn one_reads_a_stream_and_a_second_is_told_so() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_http(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "one").await;
    let headers = format!("{SSE}acp-connection-id: {}\r\n", client.http_connection());
    assert_eq!(ask(&server, "GET", &headers, "").await.status, 409);
    let of_session = format!("{headers}acp-session-id: {session}\r\n");
    assert_eq!(ask(&server, "GET", &of_session, "").await.status, 409);
    for nowhere in ["1.2.3.4.5", "ffff.0.0.0.0", "nonsense"] {
        let from = format!("{of_session}last-event-id: {nowhere}\r\n");
        assert_eq!(
            ask(&server, "GET", &from, "").await.status,
            409,
            "{nowhere}"
        );
    }
    assert_eq!(client.prompt(&session, "two").await.text, "you said two");
}

#[tokio::test]
async fn another_principal_cannot_read_post_to_or_end_a_connection() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_http(&server).await;
    let session = client.new_session().await;
    let stranger = crate::identity::token(server.home(), &["stranger"]).await;
    let id = client.http_connection();
    for (method, body) in [
        ("GET", ""),
        ("POST", "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"),
        ("DELETE", ""),
    ] {
        let host = raw::address(&server);
        let head = format!(
            "{method} /acp HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {stranger}\r\n{SSE}{JSON}\
             acp-connection-id: {id}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(raw::request(&server, head).await.status, 404, "{method}");
    }
    assert_eq!(
        client.prompt(&session, "still here").await.text,
        "you said still here"
    );
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_reaped_and_its_session_can_be_loaded_again() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_IDLE_MS", "2000")]).await;
    let mut client = AcpClient::connect_http(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "one").await;
    let headers = format!("{JSON}acp-connection-id: {}\r\n", client.http_connection());
    client.cut_streams();
    let ping = "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}";
    // Asking counts as use, so it is asked only once, after the server has said so.
    wait_for("the connection to be reaped", || {
        server.stderr().contains("disconnected")
    })
    .await;
    assert_eq!(ask(&server, "POST", &headers, ping).await.status, 404);
    let mut next = AcpClient::connect_http(&server).await;
    let history = next.load_session(&session).await.unwrap();
    assert!(text(&history).ends_with("you said one"));
}
