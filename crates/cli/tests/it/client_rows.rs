//! The client's rows of the requirements through the real program: `fastness ask --server` against
//! servers that are slow, rude or gone.

use std::collections::HashSet;
use std::process::Output;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use testkit::Home;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use crate::support::{binary, echo};

const SESSION: &str = "0123456789abcdef0123456789abcdef";

/// A server that a test plays, for one client.
struct Rude {
    socket: WebSocketStream<TcpStream>,
    requests: Vec<Value>,
}

impl Rude {
    /// The next request of the client; `None` when it has left.
    async fn next(&mut self) -> Option<Value> {
        while let Some(Ok(message)) = self.socket.next().await {
            if let Message::Text(text) = message {
                let request: Value = serde_json::from_str(&text).unwrap();
                self.requests.push(request.clone());
                return Some(request);
            }
        }
        None
    }

    async fn say(&mut self, text: &str) {
        // The client may have had enough, which its output will tell.
        let _ = self.socket.send(Message::text(text)).await;
    }

    async fn reply(&mut self, request: &Value, result: Value) {
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.say(&answer.to_string()).await;
    }

    /// Answers everything up to the prompt, with `between` before each answer; gives the prompt.
    async fn up_to_prompt(&mut self, between: &[&str]) -> Value {
        loop {
            let request = self.next().await.unwrap();
            for text in between {
                self.say(text).await;
            }
            match request["method"].as_str().unwrap() {
                "initialize" => self.reply(&request, json!({"protocolVersion": 1})).await,
                "session/new" => self.reply(&request, json!({"sessionId": SESSION})).await,
                "session/prompt" => return request,
                other => panic!("{other} was not expected"),
            }
        }
    }

    async fn chunk(&mut self, text: &str) {
        let update = json!({"sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text}});
        let params = json!({"sessionId": SESSION, "update": update});
        let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        self.say(&message.to_string()).await;
    }
}

/// Asks a server that behaves as `play` says.
async fn ask<P>(play: impl FnOnce(Rude) -> P, arguments: &[&str]) -> (Output, P::Output)
where
    P: Future,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let home = Home::new(binary(), echo()).env("FASTNESS_LIMITS_CLIENT_REQUEST_MS", 500);
    let asking = home
        .command("ask")
        .args(["hello", "--server", &url])
        .args(arguments)
        .output();
    let asking = tokio::time::timeout(Duration::from_secs(20), asking);
    let playing = async {
        let (stream, _) = listener.accept().await.unwrap();
        let socket = accept_async(stream).await.unwrap();
        let requests = Vec::new();
        play(Rude { socket, requests }).await
    };
    let (output, played) = tokio::join!(asking, playing);
    (output.unwrap().unwrap(), played)
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn b_01_a_server_that_never_answers_gives_an_error_that_names_method_id_and_seconds() {
    let (output, id) = ask(
        |mut server| async move {
            let request = server.next().await.unwrap();
            while server.next().await.is_some() {}
            request["id"].as_str().unwrap().to_owned()
        },
        &[],
    )
    .await;
    let expected = format!("no answer to initialize (request {id}) within 0.5 s");
    let (_, err) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains(&expected), "{err}");
}

#[tokio::test]
async fn b_02_b_10_garbage_and_unknown_messages_are_skipped_and_the_answer_is_used() {
    let odd = [
        "not json",
        "",
        "[]",
        "{\"method\":\"x/y\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"x/y\"}",
        "{\"foo\":1}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"nobody\",\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":1}}",
    ];
    let (output, ()) = ask(
        |mut server| async move {
            let prompt = server.up_to_prompt(&odd).await;
            server.chunk("all is ").await;
            for text in odd {
                server.say(text).await;
            }
            server.chunk("well").await;
            server
                .reply(&prompt, json!({"stopReason": "end_turn"}))
                .await;
            while server.next().await.is_some() {}
        },
        &[],
    )
    .await;
    let (out, err) = said(&output);
    assert_eq!(
        (output.status.code(), out.as_str()),
        (Some(0), "all is well\n"),
        "{err}"
    );
}

#[tokio::test]
async fn b_04_request_ids_are_uuid_v4_on_the_wire() {
    let (output, requests) = ask(
        |mut server| async move {
            let prompt = server.up_to_prompt(&[]).await;
            server
                .reply(&prompt, json!({"stopReason": "end_turn"}))
                .await;
            while server.next().await.is_some() {}
            server.requests
        },
        &[],
    )
    .await;
    // An empty answer is not a success.
    assert_eq!(output.status.code(), Some(1));
    let ids: HashSet<&str> = requests
        .iter()
        .filter_map(|one| one["id"].as_str())
        .collect();
    assert_eq!(ids.len(), 3);
    for id in ids {
        let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parts: Vec<&str> = id.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert!(parts.iter().all(|part| is_hex(part)), "{id}");
        assert!(parts[2].starts_with('4'), "{id}");
        assert!(parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
    }
}

#[tokio::test]
async fn b_13_a_server_that_closes_twice_is_one_that_closed() {
    let (output, ()) = ask(
        |mut server| async move {
            let prompt = server.up_to_prompt(&[]).await;
            server.chunk("bye").await;
            server
                .reply(&prompt, json!({"stopReason": "end_turn"}))
                .await;
            for _ in 0..2 {
                let _ = server.socket.close(None).await;
            }
        },
        &[],
    )
    .await;
    let (out, err) = said(&output);
    assert_eq!(
        (output.status.code(), out.as_str()),
        (Some(0), "bye\n"),
        "{err}"
    );
}

#[tokio::test]
async fn b_14_a_refusal_says_why_in_what_the_user_reads() {
    let refuse = async |mut server: Rude| {
        let prompt = server.up_to_prompt(&[]).await;
        let error = json!({"code": -32603, "message": "the model was silent"});
        let answer = json!({"jsonrpc": "2.0", "id": prompt["id"], "error": error});
        server.say(&answer.to_string()).await;
        while server.next().await.is_some() {}
        prompt["id"].as_str().unwrap().to_owned()
    };
    let (output, _) = ask(refuse, &[]).await;
    let (_, err) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(err, "error: the model was silent\n");
    // The log names the request, so that it can be found in the server's.
    let (output, id) = ask(refuse, &["--log", "debug"]).await;
    let (_, err) = said(&output);
    let mut lines = err.lines();
    let line = lines.find(|line| line.contains("the server refused the prompt"));
    let line = line.unwrap();
    for fact in [id.as_str(), "session/prompt", "-32603"] {
        assert!(line.contains(fact), "{fact}: {line}");
    }
}
