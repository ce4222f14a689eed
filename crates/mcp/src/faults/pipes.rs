//! Over pipes, as with a program.

use std::time::Duration;

use domain::limits::{MCP_CALL_SILENCE, MCP_CALL_WAIT, MCP_MESSAGE_BYTES_MAX};
use rmcp::service::ClientLifecycleMode;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::server::{answer, called, result};
use super::{all_end_at_once, call, text};
use crate::call::params;
use crate::error::CallError;
use crate::handler::Handler;
use crate::link::Link;
use crate::transport::program;

/// The server's end of two pipes.
struct Server {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Server {
    async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    async fn say(&mut self, message: &Value) {
        self.raw(&format!("{message}\n")).await;
    }

    async fn raw(&mut self, text: &str) {
        // The client may have gone.
        let _ = self.writer.write_all(text.as_bytes()).await;
    }

    /// Answers everything until a tool is called, and gives that call.
    async fn until_called(&mut self) -> Option<Value> {
        loop {
            let message = self.next().await?;
            if called(&message).is_some() {
                return Some(message);
            }
            if let Some(answer) = answer(&message) {
                self.say(&answer).await;
            }
        }
    }
}

async fn connect<S, F>(serve: S) -> Link
where
    S: FnOnce(Server) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    connect_with(ClientLifecycleMode::Initialize, serve).await
}

async fn connect_with<S, F>(lifecycle: ClientLifecycleMode, serve: S) -> Link
where
    S: FnOnce(Server) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    let lines = BufReader::new(reader).lines();
    tokio::spawn(serve(Server { lines, writer }));
    let (output, input) = tokio::io::split(ours);
    let pipe = program::over(output, input);
    let life = pipe.life.clone();
    Link::begin(pipe, life, Handler::default(), lifecycle)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_call_is_answered_after_noise_wrong_ids_and_a_second_answer() {
    let link = connect(|mut server| async move {
        while let Some(asked) = server.until_called().await {
            let said = asked["params"]["arguments"]["say"].to_string();
            server.raw("npm warn this is no message\n\n").await;
            server.say(&result(&json!(987_654), "for nobody")).await;
            server.say(&result(&asked["id"], &said)).await;
            server.say(&result(&asked["id"], "again")).await;
        }
    })
    .await;
    for number in 0..3 {
        let said = call(&link, "echo", json!({"say": number})).await;
        assert_eq!(text(said), number.to_string());
    }
}

#[tokio::test]
async fn two_hundred_calls_end_at_once_when_the_program_does() {
    let (breaks, mut broken) = mpsc::channel::<()>(1);
    let (all, mut arrived) = mpsc::channel::<()>(1);
    let link = connect(|mut server| async move {
        for _ in 0..200 {
            server.until_called().await;
        }
        all.send(()).await.unwrap();
        broken.recv().await;
    })
    .await;
    let errors = all_end_at_once(&link, ("hang", 200), async {
        arrived.recv().await;
        breaks.send(()).await.unwrap();
    })
    .await;
    for error in errors {
        assert_eq!(error, CallError::Closed("it closed its output".to_owned()));
        assert!(error.may_have_run());
    }
    let late = call(&link, "echo", json!({})).await;
    assert!(matches!(late, Err(CallError::Closed(_))), "{late:?}");
}

#[tokio::test]
async fn a_message_without_end_ends_the_connection_and_not_our_memory() {
    let link = connect(|mut server| async move {
        server.until_called().await;
        let piece = "x".repeat(1 << 20);
        for _ in 0..100 {
            server.raw(&piece).await;
        }
    })
    .await;
    let ended = call(&link, "hang", json!({})).await.unwrap_err();
    let expected = format!("it sent a message longer than {MCP_MESSAGE_BYTES_MAX} bytes");
    assert_eq!(ended, CallError::Closed(expected));
}

#[tokio::test]
async fn a_flood_of_notifications_does_not_hide_the_answer() {
    let link = connect(|mut server| async move {
        while let Some(asked) = server.until_called().await {
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "x".repeat(100)}});
            for _ in 0..20_000 {
                server.say(&log).await;
            }
            server.say(&result(&asked["id"], "here")).await;
        }
    })
    .await;
    assert_eq!(text(call(&link, "echo", json!({})).await), "here");
}

#[tokio::test]
async fn an_error_without_an_id_answers_the_only_call_there_is() {
    let link = connect(|mut server| async move {
        while server.until_called().await.is_some() {
            let error = json!({"code": -32600, "message": "I cannot read this"});
            let error = json!({"jsonrpc": "2.0", "id": null, "error": error});
            server.say(&error).await;
        }
    })
    .await;
    let error = call(&link, "echo", json!({})).await.unwrap_err();
    let (code, message) = (-32600, "I cannot read this".to_owned());
    assert_eq!(error, CallError::Server { code, message });
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_call_progress_keeps_it_and_nothing_keeps_it_for_ever() {
    let (calls, mut seen) = mpsc::channel::<Value>(16);
    let link = connect(|mut server| async move {
        let Some(asked) = server.until_called().await else {
            return;
        };
        // Thirty seconds of silence are nothing.
        tokio::time::sleep(Duration::from_secs(30)).await;
        server.say(&result(&asked["id"], "late")).await;
        server.until_called().await;
        let cancelled = server.next().await.unwrap();
        calls.send(cancelled).await.unwrap();
        let asked = server.until_called().await.unwrap();
        let token = &asked["params"]["_meta"]["progressToken"];
        for far in 0.. {
            tokio::time::sleep(MCP_CALL_SILENCE / 2).await;
            let params = json!({"progressToken": token, "progress": far});
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": params});
            server.say(&progress).await;
        }
    })
    .await;
    assert_eq!(text(call(&link, "echo", json!({})).await), "late");
    let silent = call(&link, "hang", json!({})).await.unwrap_err();
    assert_eq!(silent, CallError::Silent(MCP_CALL_SILENCE));
    let cancelled = seen.recv().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    let far = std::sync::Mutex::new(0);
    let endless = link.call(params("hang", Map::new()), None, None, |_| {
        *far.lock().unwrap() += 1
    });
    let endless = endless.await.unwrap_err();
    assert_eq!(endless, CallError::TooLong(MCP_CALL_WAIT));
    assert!(*far.lock().unwrap() > 20, "it heard how far it was");
}

#[tokio::test]
async fn a_call_that_is_dropped_is_taken_back() {
    let (calls, mut seen) = mpsc::channel::<Value>(16);
    let link = connect(|mut server| async move {
        let asked = server.until_called().await.unwrap();
        calls.send(asked).await.unwrap();
        calls.send(server.next().await.unwrap()).await.unwrap();
    })
    .await;
    let asked = {
        let mut pending = Box::pin(call(&link, "hang", json!({})));
        tokio::select! {
            _ = &mut pending => panic!("nobody answered"),
            asked = seen.recv() => asked.unwrap(),
        }
    };
    let cancelled = seen.recv().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_to_begin_may_answer_the_first_question_late() {
    let link = connect_with(crate::connect::both_eras(), |mut server| async move {
        let probe = server.next().await.unwrap();
        assert_eq!(probe["method"], "server/discover");
        let greeting = server.next().await.unwrap();
        assert_eq!(greeting["method"], "initialize", "it was given up");
        server.say(&answer(&probe).unwrap()).await;
        server.say(&answer(&greeting).unwrap()).await;
        while let Some(asked) = server.until_called().await {
            server.say(&result(&asked["id"], "ok")).await;
        }
    })
    .await;
    assert_eq!(text(call(&link, "echo", json!({})).await), "ok");
}
