//! Model calls that end in the middle of something: by the length limit, by a refusal, by a broken
//! connection, by a cancel. And a model that is changed while a turn runs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::model::{ModelReply, RecordingModel, Say, Speech, text};
use testkit::{AcpClient, Choice, Home, Program};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{binary, stored, two_clients};

/// An answer in Anthropic's words, event by event, and what follows it.
type Answer = (Vec<Value>, Then);

#[derive(Clone, Copy)]
enum Then {
    /// The connection ends.
    Ends,
    /// Nothing more comes until the client leaves.
    Hangs,
}

/// A server whose model is asked once for each of `answers`, and no more.
async fn serve(answers: Vec<Answer>) -> Program {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let answers = Arc::clone(&answers);
            tokio::spawn(async move { answer(socket, &answers).await });
        }
    });
    let home = Home::new(binary(), json!([]))
        .model(Speech::Anthropic.model())
        .env("ANTHROPIC_BASE_URL", url)
        .env("ANTHROPIC_API_KEY", "none");
    Program::serve_in(home).await
}

/// Reads one request and answers it; the end of the connection is the end of the answer.
async fn answer(socket: TcpStream, answers: &Mutex<VecDeque<Answer>>) -> Option<()> {
    let mut socket = BufReader::new(socket);
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        socket
            .read_line(&mut line)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    socket.read_exact(&mut vec![0; length]).await.ok()?;
    let (events, then) = answers.lock().unwrap().pop_front()?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let body: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let answer = format!("{head}{body}");
    socket.write_all(answer.as_bytes()).await.ok()?;
    if let Then::Hangs = then {
        let _ = socket.read(&mut [0; 16]).await;
    }
    Some(())
}

fn begin(input_tokens: u64) -> Value {
    let usage = json!({"input_tokens": input_tokens, "output_tokens": 1});
    json!({"type": "message_start", "message": {"usage": usage}})
}

fn said(words: &str) -> Value {
    json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "text", "text": words}})
}

/// A call of `write` of which no input has come yet.
fn wants_to_write() -> Value {
    json!({"type": "content_block_start", "index": 1,
        "content_block": {"type": "tool_use", "id": "t", "name": "write", "input": {}}})
}

fn input(json: &str) -> Value {
    json!({"type": "content_block_delta", "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": json}})
}

fn stop(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 9}})
}

#[tokio::test]
async fn d_03_a_call_that_was_cut_off_or_refused_is_not_made_and_the_turn_says_why_it_ended() {
    let whole = r#"{"path":"a.txt","content":"x"}"#;
    let stories = [
        (vec![wants_to_write(), stop("max_tokens")], "max_tokens"),
        (
            vec![wants_to_write(), input("{\"pa"), stop("max_tokens")],
            "max_tokens",
        ),
        (
            vec![said("No."), wants_to_write(), input(whole), stop("refusal")],
            "refusal",
        ),
    ];
    for (events, reason) in stories {
        let events = [vec![begin(10)], events].concat();
        let server = serve(vec![(events, Then::Ends)]).await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.on_permission(Choice::Allow);
        let session = client.new_session().await;
        assert_eq!(client.prompt(&session, "write").await.stop_reason, reason);
        let kinds = stored(server.home(), &session);
        assert!(!kinds.contains(&"tool.use".to_owned()), "{kinds:?}");
    }
}

#[tokio::test]
async fn what_a_cancelled_or_broken_call_has_used_is_stored_and_counted() {
    let half = |tokens| vec![begin(tokens), said("Once")];
    let whole = vec![begin(50), said("Once upon."), stop("end_turn")];
    let server = serve(vec![
        (half(20), Then::Hangs),
        (half(30), Then::Ends),
        (whole, Then::Ends),
    ])
    .await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "a story").await;
    client
        .updates_until(|update| update.text() == Some("Once"))
        .await;
    client.cancel(&session).await;
    let cancelled = client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(cancelled.stop_reason, "cancelled");
    let broken = client.try_prompt(&session, "again").await.unwrap_err();
    assert_eq!(broken.data["kind"], "model_error");
    client.take_updates(&session);
    assert_eq!(client.prompt(&session, "again").await.text, "Once upon.");

    let events = server.home().events(&session);
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let used = |usage: &Value| [&usage["inputTokens"], &usage["outputTokens"]].map(Value::as_u64);
    let calls: Vec<_> = of("usage").map(used).collect();
    let turns: Vec<_> = of("result").map(|event| used(&event["usage"])).collect();
    let expected = [(20, 1), (30, 1), (50, 9)].map(|(read, wrote)| [Some(read), Some(wrote)]);
    assert_eq!(calls, expected);
    assert_eq!(turns, expected);
    assert!(of("usage").all(|event| event["costNanoUsd"].is_u64()));
}

#[tokio::test]
async fn d_09_a_model_that_is_changed_while_a_turn_runs_answers_from_the_next_turn_on() {
    let writes = Say::Tool("write", r#"{"path":"a.txt","content":"x"}"#);
    let replies = [vec![writes], vec![text("I am chat.")]].map(ModelReply::Says);
    let chat = RecordingModel::speaking(Speech::OpenAiChat, replies.into()).await;
    let says = ModelReply::Says(vec![text("I am claude.")]);
    let claude = RecordingModel::speaking(Speech::Anthropic, vec![says]).await;
    let server = Program::serve_in(claude.beside(chat.home(binary()))).await;
    let (mut client, mut other) = two_clients(&server).await;
    client.on_permission(Choice::Hold);
    other.on_permission(Choice::Hold);
    let session = client.new_session().await;
    other.load_session(&session).await.unwrap();
    let prompt = client.start_prompt(&session, "first").await;
    let asked = client.next_request().await;
    other.take_updates(&session);

    // Once while the turn waits for a person, between two of its model calls.
    let chosen = Speech::Anthropic.model();
    let change = json!({"sessionId": session, "configId": "model", "value": chosen});
    let told = client.call("session/set_config_option", change).await;
    assert_eq!(model_in(&told.unwrap()), chosen);
    let updates = other
        .updates_until(|update| update.kind == "config_option_update")
        .await;
    assert_eq!(model_in(&updates.last().unwrap().update), chosen);

    let allowed = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    client.answer(&asked, Ok(allowed)).await;
    let first = client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(first.text, "I am chat.");
    assert_eq!((chat.requests().len(), claude.requests().len()), (2, 0));
    assert_eq!(client.prompt(&session, "second").await.text, "I am claude.");
    assert_eq!((chat.requests().len(), claude.requests().len()), (2, 1));
    let told = claude.requests().remove(0)["messages"].to_string();
    assert!(told.contains("I am chat."), "{told}");
}

/// The model that an answer or an update says the session has.
fn model_in(told: &Value) -> String {
    let options = told["configOptions"].as_array().unwrap();
    let model = options.iter().find(|option| option["id"] == "model");
    let value = model.and_then(|model| model["currentValue"].as_str());
    value.unwrap_or_default().to_owned()
}
