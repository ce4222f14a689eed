//! Streamable HTTP over HTTP/2: one connection carries the messages and all streams at once.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{Request, Response};
use serde_json::{Value, json};
use testkit::raw::connect;
use testkit::script::{Script, stream};
use testkit::{Program, wait_for};
use tokio::time::timeout;

use crate::http2::connect_over;
use crate::support::{serve, serve_with, stored};

/// One HTTP/2 connection to a server, and the client's id there once it has one.
struct Client<'a> {
    server: &'a Program,
    http: SendRequest<Bytes>,
    id: Option<String>,
}

impl Client<'_> {
    async fn ask(
        &mut self,
        method: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Response<RecvStream> {
        let url = format!("{}/acp", self.server.url());
        let bearer = format!("Bearer {}", self.server.token());
        let mut request = Request::builder().method(method).uri(url);
        request = request.header("authorization", bearer);
        if let Some(id) = &self.id {
            request = request.header("acp-connection-id", id);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let (answer, mut sending) = self.http.send_request(request, body.is_none()).unwrap();
        if let Some(body) = body {
            sending.send_data(body.into(), true).unwrap();
        }
        let answer = timeout(testkit::program::DEADLINE, answer).await;
        answer.unwrap().unwrap()
    }

    async fn post(&mut self, message: &Value) -> Response<RecvStream> {
        let json = [("content-type", "application/json")];
        self.ask("POST", &json, Some(message.to_string())).await
    }

    async fn stream(&mut self, session: Option<&str>) -> Events {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(session.map(|session| ("acp-session-id", session)));
        let answer = self.ask("GET", &headers, None).await;
        assert_eq!(answer.status(), 200);
        Events {
            body: answer.into_body(),
            text: String::new(),
        }
    }
}

/// A stream of events.
struct Events {
    body: RecvStream,
    text: String,
}

impl Events {
    /// The next message, or `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let message = data.map(|data| serde_json::from_str(data).unwrap());
                self.text = rest.to_owned();
                match message {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            let piece = timeout(testkit::program::DEADLINE, self.body.data()).await;
            let piece = piece.unwrap()?.unwrap();
            self.body
                .flow_control()
                .release_capacity(piece.len())
                .unwrap();
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    async fn until(&mut self, id: u64) -> (Value, String) {
        let mut said = String::new();
        loop {
            let message = self.next().await.unwrap();
            if message["id"] == id {
                return (message, said);
            }
            let text = message["params"]["update"]["content"]["text"].as_str();
            said.push_str(text.unwrap_or_default());
        }
    }
}

fn message(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[tokio::test]
async fn one_http_2_connection_carries_messages_and_streams_at_once() {
    let server = serve(Script::new().call([stream("x", 200, 2)])).await;
    let http = connect_over(connect(&server).await).await;
    let mut client = Client {
        server: &server,
        http,
        id: None,
    };
    let hello = message(0, "initialize", &json!({"protocolVersion": 1}));
    let opened = client.post(&hello).await;
    assert_eq!(opened.status(), 200);
    let id = opened.headers().get("acp-connection-id").unwrap();
    client.id = Some(id.to_str().unwrap().to_owned());
    let mut main = client.stream(None).await;
    let mut running = Vec::new();
    for number in 1..=5 {
        let cwd = server.home().workspace();
        let new = json!({"cwd": cwd, "mcpServers": []});
        assert_eq!(
            client
                .post(&message(number, "session/new", &new))
                .await
                .status(),
            202
        );
        let (made, _) = main.until(number).await;
        let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
        let own = client.stream(Some(&session)).await;
        running.push((session, own));
    }
    for (number, (session, _)) in (9..).zip(&running) {
        let blocks = json!([{"type": "text", "text": "go"}]);
        let prompt = json!({"sessionId": session, "prompt": blocks});
        let posted = client
            .post(&message(number, "session/prompt", &prompt))
            .await;
        assert_eq!(posted.status(), 202);
    }
    // A reader that goes away takes only its own stream with it.
    let (left, own) = running.pop().unwrap();
    drop(own);
    let mut reading = Vec::new();
    for (number, (_, mut own)) in (9..).zip(running) {
        // All at once: what is not read takes room on the connection that they share.
        reading.push(tokio::spawn(async move { own.until(number).await }));
    }
    for reader in reading {
        let (answer, said) = reader.await.unwrap();
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        assert!(said.ends_with(&"x".repeat(200)), "{said}");
    }
    wait_for("the turn that nobody reads ends too", || {
        stored(server.home(), &left)
            .last()
            .is_some_and(|kind| kind == "result")
    })
    .await;
    let ended = client.ask("DELETE", &[], None).await;
    assert_eq!(ended.status(), 202);
    assert_eq!(main.next().await, None, "its streams end with it");
}

/// A message that is far larger than the windows of HTTP/2, in chunks.
const CHUNK_BYTES: usize = 4_000;
const CHUNKS: u32 = 500;

/// How long a client may take nothing.
const STALL_MS: u64 = 2_000;

/// A client on a connection of its own with a session; gives its stream of that session.
async fn with_session(server: &Program) -> (Client<'_>, String, Events) {
    let http = connect_over(connect(server).await).await;
    let mut client = Client {
        server,
        http,
        id: None,
    };
    let hello = message(0, "initialize", &json!({"protocolVersion": 1}));
    let opened = client.post(&hello).await;
    let id = opened.headers().get("acp-connection-id").unwrap();
    client.id = Some(id.to_str().unwrap().to_owned());
    let mut main = client.stream(None).await;
    let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
    client.post(&message(1, "session/new", &new)).await;
    let (made, _) = main.until(1).await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let own = client.stream(Some(&session)).await;
    let blocks = json!([{"type": "text", "text": "go"}]);
    let prompt = json!({"sessionId": session, "prompt": blocks});
    client.post(&message(2, "session/prompt", &prompt)).await;
    (client, session, own)
}

#[tokio::test]
async fn a_reader_over_http_2_that_makes_no_room_is_dropped_and_one_that_makes_little_is_not() {
    let script = Script::new().call([stream(&"~".repeat(CHUNK_BYTES), CHUNKS, 0)]);
    let stall = STALL_MS.to_string();
    let settings = [
        ("FASTNESS_LIMITS_STALL_MS", stall.as_str()),
        ("FASTNESS_GREETING", "false"),
        ("FASTNESS_LOG", "debug"),
    ];
    let server = serve_with(script, &settings).await;
    let is_dropped = || server.stderr().contains("an answer was not taken");
    let whole = CHUNKS as usize * CHUNK_BYTES;

    // Slower than any stall time would let a whole window pass, and never still.
    let (_client, _, mut slow) = with_session(&server).await;
    let (began, mut unreleased) = (Instant::now(), 0);
    while began.elapsed() < 2 * Duration::from_millis(STALL_MS) {
        if unreleased < 4_096 {
            let piece = timeout(testkit::program::DEADLINE, slow.body.data()).await;
            let piece = piece.unwrap().unwrap().unwrap();
            slow.text.push_str(std::str::from_utf8(&piece).unwrap());
            unreleased += piece.len();
        }
        let released = unreleased.min(4_096);
        slow.body.flow_control().release_capacity(released).unwrap();
        unreleased -= released;
        // Not to wait for anything: this is how slowly it reads.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    slow.body
        .flow_control()
        .release_capacity(unreleased)
        .unwrap();
    let (answer, said) = slow.until(2).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(said.len(), whole, "nothing missing, nothing twice");
    assert!(!is_dropped(), "it was cut off");

    let (mut client, session, mut stuck) = with_session(&server).await;
    wait_for("the reader that makes no room is dropped", is_dropped).await;
    while let Some(Ok(piece)) = stuck.body.data().await {
        let flow = stuck.body.flow_control();
        flow.release_capacity(piece.len()).unwrap();
        stuck.text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    // What had come whole counts; the stream goes on after it.
    let (got, _) = stuck.text.rsplit_once("\n\n").unwrap();
    let mut lines = got.lines().rev();
    let last = lines.find_map(|line| line.strip_prefix("id: ")).unwrap();
    let headers = [
        ("accept", "text/event-stream"),
        ("acp-session-id", &session),
        ("last-event-id", last),
    ];
    let answer = client.ask("GET", &headers, None).await;
    assert_eq!(answer.status(), 200, "nobody else reads it");
    let mut again = Events {
        body: answer.into_body(),
        text: String::new(),
    };
    let (answer, rest) = again.until(2).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let got = got.matches('~').count();
    assert_eq!(got + rest.len(), whole, "nothing missing, nothing twice");
    assert!(got > 0 && !rest.is_empty());
}
