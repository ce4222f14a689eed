//! Seeing inside: the numbers move with what happens, and readiness says why not.

use std::collections::HashMap;

use serde_json::{Value, json};
use testkit::program::DEADLINE;
use testkit::script::{Script, fail, say, stream, tool};
use testkit::{AcpClient, Choice, Program, raw};
use tokio::io::AsyncWriteExt;
use tokio::time::{Duration, Instant};

use crate::identity::token;
use crate::support::{echo, serve, serve_with};

/// Every series by its name and labels.
pub(crate) struct Numbers(HashMap<String, f64>);

impl Numbers {
    /// The numbers of `server` now.
    pub(crate) async fn of(server: &Program) -> Self {
        let request = raw::authorized(server, "GET", "/metrics", "");
        let answer = raw::request(server, request).await;
        assert_eq!(answer.status, 200, "{answer}");
        let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
        let series = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        });
        Self(series.collect())
    }

    /// A number by the end of its name, without the prefix that all of ours have; 0 if it is not
    /// there.
    pub(crate) fn get(&self, name: &str) -> f64 {
        let ours = self.0.get(&format!("fastness_{name}"));
        ours.or_else(|| self.0.get(name)).copied().unwrap_or(0.0)
    }
}

/// Waits until the numbers are as they should be.
pub(crate) async fn until(server: &Program, what: &str, is_so: impl Fn(&Numbers) -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so(&Numbers::of(server).await) {
        assert!(Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn writes() -> Script {
    let write = tool("write", json!({"path": "a", "content": "x"}));
    Script::new().call([write]).call([say("done")])
}

#[tokio::test]
async fn a_21_clients_sessions_turns_tools_and_models_are_counted() {
    let server = serve(writes()).await;
    let before = Numbers::of(&server).await;
    assert_eq!(before.get("connections{transport=\"websocket\"}"), 0.0);
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Hold);
    let session = client.new_session().await;
    let idle = Numbers::of(&server).await;
    assert_eq!(idle.get("connections{transport=\"websocket\"}"), 1.0);
    assert_eq!(idle.get("connections_total{transport=\"websocket\"}"), 1.0);
    assert_eq!(idle.get("attachments"), 1.0);
    assert_eq!(idle.get("sessions{state=\"idle\"}"), 1.0);
    assert_eq!(idle.get("attaches_total{way=\"new\"}"), 1.0);
    let prompt = client.start_prompt(&session, "write").await;
    let question = client.next_request().await;
    until(&server, "the wait for a person", |numbers| {
        numbers.get("sessions{state=\"waiting\"}") == 1.0
            && numbers.get("client_requests_pending") == 1.0
    })
    .await;
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    client.answer(&question, Ok(allow)).await;
    client.finish_prompt(&session, &prompt).await.unwrap();
    until(&server, "rest after the turn", |numbers| {
        numbers.get("sessions{state=\"idle\"}") == 1.0
    })
    .await;
    let after = Numbers::of(&server).await;
    for (name, count) in [
        ("turns_total{outcome=\"end_turn\"}", 1.0),
        ("turn_duration_seconds_count", 1.0),
        ("tool_runs_total{tool=\"write\",outcome=\"completed\"}", 1.0),
        ("tool_run_duration_seconds_count{tool=\"write\"}", 1.0),
        ("model_calls_total{outcome=\"completed\"}", 2.0),
        ("model_first_byte_seconds_count", 2.0),
        ("model_call_duration_seconds_count", 2.0),
        (
            "rpc_requests_total{method=\"session/prompt\",outcome=\"ok\"}",
            1.0,
        ),
        ("client_requests_pending", 0.0),
        ("queued_bytes", 0.0),
        ("journal_sync_failures_total", 0.0),
    ] {
        assert_eq!(after.get(name), count, "{name}");
    }
    let (syncs, sum) = (
        "journal_sync_duration_seconds_count",
        "turn_duration_seconds_sum",
    );
    assert!(after.get(syncs) > before.get(syncs));
    assert!(after.get(sum) > 0.0);
    assert_eq!(
        after.get("turn_duration_seconds_bucket{le=\"+Inf\"}"),
        after.get("turn_duration_seconds_count")
    );
    drop(client);
    until(&server, "the client's leaving", |numbers| {
        numbers.get("connections{transport=\"websocket\"}") == 0.0
            && numbers.get("attachments") == 0.0
    })
    .await;
}

/// What is counted when everything below has gone wrong once, and cancels twice.
const TROUBLES: &[(&str, f64)] = &[
    ("tool_runs_total{tool=\"write\",outcome=\"denied\"}", 1.0),
    ("turns_total{outcome=\"end_turn\"}", 1.0),
    ("turns_total{outcome=\"model_error\"}", 1.0),
    ("turns_total{outcome=\"cancelled\"}", 1.0),
    ("model_calls_total{outcome=\"failed\"}", 1.0),
    ("model_calls_total{outcome=\"cancelled\"}", 1.0),
    ("ignored_total{what=\"cancel\"}", 2.0),
    ("ignored_total{what=\"response\"}", 1.0),
    ("refusals_total{reason=\"busy\"}", 1.0),
    ("refusals_total{reason=\"forbidden_scope\"}", 1.0),
    ("refusals_total{reason=\"invalid_json\"}", 1.0),
    ("refusals_total{reason=\"not_found\"}", 2.0),
    ("refusals_total{reason=\"method_not_allowed\"}", 1.0),
    ("refusals_total{reason=\"unauthorized\"}", 1.0),
    ("refusals_total{reason=\"forbidden_host\"}", 1.0),
    ("refusals_total{reason=\"forbidden_origin\"}", 1.0),
    (
        "rpc_requests_total{method=\"other\",outcome=\"error\"}",
        1.0,
    ),
    ("attaches_total{way=\"load\"}", 1.0),
    ("http_requests_total{route=\"other\",status=\"4xx\"}", 1.0),
];

#[tokio::test]
async fn a_21_what_goes_wrong_is_counted_by_its_reason() {
    let denied = tool("write", json!({"path": "a", "content": "x"}));
    let script = Script::new()
        .call([denied])
        .call([say("so be it")])
        .call([fail(400, "no")])
        .call([stream("x", 10_000, 10)]);
    let server = serve(script).await;
    let watch = token(server.home(), &["watcher", "--scope", "observe"]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Reject);
    let session = client.new_session().await;
    client.prompt(&session, "write").await;
    client.try_prompt(&session, "fail").await.unwrap_err();
    let prompt = client.start_prompt(&session, "stream").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    assert_eq!(
        client.try_prompt(&session, "two").await.unwrap_err().code,
        -32010
    );
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(&watch)).await;
    let mut watcher = dialed.unwrap().in_directory(server.home().workspace());
    watcher.initialize().await;
    watcher.load_session(&session).await.unwrap();
    watcher.cancel(&session).await;
    watcher
        .call(
            "session/set_mode",
            json!({"sessionId": session, "modeId": "plan"}),
        )
        .await
        .unwrap_err();
    client.cancel(&session).await;
    client.finish_prompt(&session, &prompt).await.unwrap();
    client.cancel(&"0".repeat(32)).await;
    client
        .raw(r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#)
        .await;
    client.raw("{not-json").await;
    client.next_stray().await;
    client.load_session(&"0".repeat(32)).await.unwrap_err();
    client.call("no/such", json!({})).await.unwrap_err();
    strangers(&server).await;
    let numbers = Numbers::of(&server).await;
    for (name, count) in TROUBLES {
        assert_eq!(numbers.get(name), *count, "{name}");
    }
}

/// Requests that are turned away, each for another reason.
async fn strangers(server: &Program) {
    let host = raw::address(server);
    for (request, status) in [
        (
            format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\n\r\n"),
            401,
        ),
        (
            "GET /metrics HTTP/1.1\r\nhost: evil.example\r\n\r\n".to_owned(),
            403,
        ),
        (
            raw::authorized(server, "GET", "/metrics", "origin: null\r\n"),
            403,
        ),
        (raw::authorized(server, "GET", "/nowhere", ""), 404),
    ] {
        let answer = raw::request(server, request).await;
        assert_eq!(answer.status, status, "{answer}");
    }
}

#[tokio::test]
async fn a_21_the_process_itself_is_measured_and_the_text_is_prometheus() {
    let server = serve(echo()).await;
    let request = raw::authorized(&server, "GET", "/metrics", "");
    let answer = raw::request(&server, request).await;
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let numbers = Numbers::of(&server).await;
    assert!(numbers.get("process_resident_memory_bytes") > 1e6);
    assert!(numbers.get("process_open_fds") > 5.0);
    assert!(numbers.get("process_max_fds") >= numbers.get("process_open_fds"));
    assert!((0.0..60.0).contains(&numbers.get("uptime_seconds")));
    assert!(numbers.get("process_start_time_seconds") > 1.7e9);
}

async fn ready(server: &Program) -> (u16, Value) {
    let host = raw::address(server);
    let request = format!("GET /ready HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let answer = raw::request(server, request).await;
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

#[tokio::test]
async fn a_22_ready_says_why_not_when_the_store_cannot_take_more() {
    let server = serve(echo()).await;
    assert_eq!(ready(&server).await.0, 200);
    let full = [("FASTNESS_LIMITS_DISK_FREE_MIN", "18446744073709551615")];
    let full = serve_with(echo(), &full).await;
    let (status, body) = ready(&full).await;
    assert_eq!((status, &body["error"]), (503, &json!("storage_full")));
    std::fs::remove_dir_all(server.home().data_dir()).unwrap();
    let deadline = Instant::now() + DEADLINE;
    loop {
        let (status, body) = ready(&server).await;
        if status == 503 {
            assert_eq!(body["error"], "storage_failed");
            break;
        }
        assert!(
            Instant::now() < deadline,
            "a store that is gone counts as ready"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let health = raw::request(&server, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(health.status, 200, "the process itself is well");
}

#[tokio::test]
async fn a_22_ready_says_that_the_server_drains() {
    let mut server = serve(Script::new().call([stream("x", 200, 10)])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    let host = raw::address(&server).to_owned();
    let asked = format!("GET /ready HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let mut stream = raw::connect(&server).await;
    stream.write_all(asked.as_bytes()).await.unwrap();
    assert_eq!(raw::read_answer(&mut stream).await.unwrap().status, 200);
    let pid = server.pid().unwrap();
    let term = tokio::process::Command::new(testkit::system::program("kill"))
        .arg(pid.to_string())
        .status();
    assert!(term.await.unwrap().success());
    // The turn goes on for two seconds, and whoever is connected can ask meanwhile.
    testkit::wait_for("the server's last word", || {
        server.stderr().contains("stopping")
    })
    .await;
    stream.write_all(asked.as_bytes()).await.unwrap();
    let answer = raw::read_answer(&mut stream).await.unwrap();
    assert_eq!(answer.status, 503, "{answer}");
    assert!(answer.body.contains("\"draining\""), "{answer}");
    assert!(server.exit().await.success());
}

#[tokio::test]
async fn b_17_one_failing_clean_up_step_skips_neither_the_rest_nor_the_others() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_GRACE_MS", "100")]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let (broken, whole) = (client.new_session().await, client.new_session().await);
    client.prompt(&broken, "one").await;
    client.prompt(&whole, "two").await;
    // Saving the session's summary cannot work: a directory is in its place.
    let meta = |session: &str| {
        let sessions = server.home().data_dir().join("sessions");
        sessions.join(session).join("meta.json")
    };
    let _ = std::fs::remove_file(meta(&broken));
    std::fs::create_dir_all(meta(&broken).join("in the way")).unwrap();
    client.leave().await;
    until(&server, "both sessions' leaving", |numbers| {
        numbers.get("sessions{state=\"idle\"}") == 0.0
            && numbers.get("cleanup_failures_total") == 1.0
    })
    .await;
    assert!(meta(&whole).is_file(), "the other's was saved");
    let mut client = AcpClient::connect_ws(&server).await;
    for session in [&broken, &whole] {
        client.load_session(session).await.unwrap();
        assert_eq!(client.prompt(session, "again").await.text, "you said again");
    }
}
