//! Streamable HTTP over HTTP/2: one connection carries the messages and all streams at once.

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
use crate::support::{serve, stored};

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
