//! The same misbehaviour over pipes, Streamable HTTP and server-sent events: whatever a server says or fails to
//! say about a call, the call ends once, in time, and the next one is as good as the connection.

use std::sync::Arc;
use std::time::Duration;

use domain::CallId;
use domain::tool_server::Speech;
use rmcp::service::ClientLifecycleMode;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tools::asks::Asks;

use super::broken::{Thinker, question};
use super::server::{Connection, answer, called, listen, result};
use super::{AT_ONCE, call, connect, text};
use crate::call::params;
use crate::callers::OnBehalf;
use crate::error::CallError;
use crate::handler::Handler;
use crate::link::Link;
use crate::transport::program;

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Pipes,
    Http,
    Sse,
}

const WAYS: [Way; 3] = [Way::Pipes, Way::Http, Way::Sse];

/// What a server does about a call, where it answers.
enum Said {
    Message(Value),
    /// Part of a message.
    Piece(String),
    /// The end of the stream.
    End,
    /// The end of the stream and its connection, at once.
    Reset,
}

/// Where a server speaks about one call.
struct Voice(mpsc::Sender<Said>);

impl Voice {
    async fn say(&self, message: Value) {
        // The client may have gone.
        let _ = self.0.send(Said::Message(message)).await;
    }

    async fn piece(&self, text: &str) {
        let _ = self.0.send(Said::Piece(text.to_owned())).await;
    }

    async fn end(&self, end: Said) {
        let _ = self.0.send(end).await;
    }
}

/// A connection to a server that is right but for calls, which `on_call` sees to.
async fn reached<C, F>(way: Way, on_call: C) -> Link
where
    C: Fn(Value, Voice) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    match way {
        Way::Pipes => over_pipes(on_call).await,
        Way::Http => {
            let base = listen(move |connection| over_http(connection, on_call.clone()));
            let url = format!("{}/mcp", base.await);
            connect(url, Speech::Streamable).await.unwrap()
        }
        Way::Sse => {
            let (messages, said) = mpsc::channel::<Said>(64);
            let said = Arc::new(std::sync::Mutex::new(Some(said)));
            let base = listen(move |connection| {
                let (said, messages) = (Arc::clone(&said), messages.clone());
                over_sse(connection, on_call.clone(), (said, messages))
            });
            let url = format!("{}/sse", base.await);
            connect(url, Speech::Sse).await.unwrap()
        }
    }
}

async fn over_pipes<C, F>(on_call: C) -> Link
where
    C: Fn(Value, Voice) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, mut writer) = tokio::io::split(theirs);
    let (messages, mut said) = mpsc::channel::<Said>(64);
    tokio::spawn(async move {
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            if called(&message).is_some() {
                tokio::spawn(on_call(message, Voice(messages.clone())));
            } else if let Some(answer) = answer(&message) {
                let _ = messages.send(Said::Message(answer)).await;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(said) = said.recv().await {
            let text = match said {
                Said::Message(message) => format!("{message}\n"),
                Said::Piece(piece) => piece,
                // A pipe knows but one end.
                Said::End | Said::Reset => break,
            };
            if writer.write_all(text.as_bytes()).await.is_err() {
                break;
            }
        }
        let _ = writer.shutdown().await;
    });
    let (output, input) = tokio::io::split(ours);
    let pipe = program::over(output, input);
    let life = pipe.life.clone();
    let lifecycle = ClientLifecycleMode::Initialize;
    let link = Link::begin(pipe, life, Handler::default(), lifecycle).await;
    link.unwrap()
}

async fn over_http<C, F>(mut connection: Connection, on_call: C)
where
    C: Fn(Value, Voice) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    while let Some(request) = connection.request().await {
        if called(&request.body).is_some() {
            let (messages, said) = mpsc::channel(64);
            tokio::spawn(on_call(request.body, Voice(messages)));
            connection.begin_events().await;
            return events(connection, said).await;
        }
        let (status, body) = match (request.method.as_str(), answer(&request.body)) {
            ("POST", Some(answer)) => ("200 OK", answer.to_string()),
            ("POST", None) => ("202 Accepted", String::new()),
            _ => ("405 Method Not Allowed", String::new()),
        };
        connection.respond(status, "application/json", &body).await;
    }
}

type Stream = (
    Arc<std::sync::Mutex<Option<mpsc::Receiver<Said>>>>,
    mpsc::Sender<Said>,
);

async fn over_sse<C, F>(mut connection: Connection, on_call: C, (said, messages): Stream)
where
    C: Fn(Value, Voice) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    while let Some(request) = connection.request().await {
        let taken = match request.method.as_str() {
            "GET" => said.lock().unwrap().take(),
            _ => None,
        };
        if let Some(said) = taken {
            connection.begin_events().await;
            connection.event("endpoint", "/messages?session=1").await;
            return events(connection, said).await;
        }
        if called(&request.body).is_some() {
            tokio::spawn(on_call(request.body, Voice(messages.clone())));
        } else if let Some(answer) = answer(&request.body) {
            // Before it says that it has taken the message.
            let _ = messages.send(Said::Message(answer)).await;
        }
        connection.respond("202 Accepted", "text/plain", "").await;
    }
}

async fn events(mut connection: Connection, mut said: mpsc::Receiver<Said>) {
    while let Some(said) = said.recv().await {
        match said {
            Said::Message(message) => connection.event("message", &message.to_string()).await,
            Said::Piece(piece) => connection.send(&piece).await,
            Said::End => return,
            Said::Reset => return connection.reset(),
        }
    }
}

#[tokio::test]
async fn a_call_is_answered_once_after_wrong_ids_and_before_a_second_answer() {
    for way in WAYS {
        let link = reached(way, |asked, voice| async move {
            let said = asked["params"]["arguments"]["say"].to_string();
            voice.say(result(&json!(987_654), "for nobody")).await;
            voice.say(result(&asked["id"], &said)).await;
            voice.say(result(&asked["id"], "again")).await;
        })
        .await;
        for number in 0..3 {
            let said = call(&link, "echo", json!({"say": number})).await;
            assert_eq!(text(said), number.to_string(), "{way:?}");
        }
        assert!(!link.life().is_over(), "{way:?}");
    }
}

#[tokio::test]
async fn an_error_without_an_id_ends_the_only_call_at_once() {
    for way in WAYS {
        let link = reached(way, |_, voice| async move {
            let error = json!({"code": -32600, "message": "I cannot read this"});
            let error = json!({"jsonrpc": "2.0", "id": null, "error": error});
            voice.say(error).await;
            std::future::pending().await
        })
        .await;
        let begun = Instant::now();
        let error = call(&link, "echo", json!({})).await.unwrap_err();
        let (code, message) = (-32600, "I cannot read this".to_owned());
        assert_eq!(error, CallError::Server { code, message }, "{way:?}");
        assert!(begun.elapsed() < AT_ONCE, "{way:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_message_of_100_mb_ends_its_call_and_not_our_memory() {
    for way in WAYS {
        let link = reached(way, move |_, voice| async move {
            if way != Way::Pipes {
                voice.piece("data: ").await;
            }
            let piece = "x".repeat(1 << 20);
            for _ in 0..100 {
                voice.piece(&piece).await;
            }
            std::future::pending().await
        })
        .await;
        let before = resident_bytes();
        let error = call(&link, "echo", json!({})).await.unwrap_err();
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 90 << 20, "{way:?}: {grown} bytes more");
        // Over HTTP it is the answer to one call; elsewhere it is all that comes.
        assert_eq!(link.life().is_over(), way != Way::Http, "{way:?}: {error}");
    }
}

/// How much memory this process has.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = pages.split(' ').nth(1).unwrap();
    pages.parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn an_answer_is_found_behind_a_flood() {
    for way in WAYS {
        let link = reached(way, |asked, voice| async move {
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "x".repeat(100)}});
            let token = &asked["params"]["_meta"]["progressToken"];
            let params = json!({"progressToken": token, "progress": 1});
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": params});
            for _ in 0..5_000 {
                voice.say(log.clone()).await;
                voice.say(progress.clone()).await;
            }
            voice.say(result(&asked["id"], "here")).await;
        })
        .await;
        assert_eq!(
            text(call(&link, "echo", json!({})).await),
            "here",
            "{way:?}"
        );
    }
}

#[tokio::test]
async fn c_02_an_answer_after_30_seconds_of_silence_is_taken_whatever_the_way() {
    for way in WAYS {
        let arrived = Arc::new(Notify::new());
        let arriving = Arc::clone(&arrived);
        let link = reached(way, move |asked, voice| {
            let arriving = Arc::clone(&arriving);
            async move {
                arriving.notify_one();
                tokio::time::sleep(Duration::from_secs(30)).await;
                voice.say(result(&asked["id"], "here")).await;
            }
        })
        .await;
        let waiting = async {
            arrived.notified().await;
            // From here on nothing happens but that time passes.
            tokio::time::pause();
        };
        let (answered, ()) = tokio::join!(call(&link, "echo", json!({})), waiting);
        assert_eq!(text(answered), "here", "{way:?}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_server_that_takes_a_call_and_says_nothing_has_until_the_deadline() {
    for way in WAYS {
        let link = reached(way, |_, voice| async move {
            let _held = voice;
            std::future::pending().await
        })
        .await;
        let begun = Instant::now();
        let silence_max = Some(Duration::from_millis(200));
        let called = link.call(params("hang", Map::new()), silence_max, None, |_| {});
        let silent = called.await.unwrap_err();
        assert!(matches!(silent, CallError::Silent(_)), "{way:?}: {silent}");
        assert!(begun.elapsed() < AT_ONCE, "{way:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_stream_that_ends_or_is_reset_in_mid_call_ends_the_call_at_once() {
    for way in WAYS {
        for is_reset in [false, true] {
            let link = reached(way, move |_, voice| async move {
                voice
                    .end(if is_reset { Said::Reset } else { Said::End })
                    .await;
            })
            .await;
            let begun = Instant::now();
            let ended = call(&link, "echo", json!({})).await;
            assert!(ended.is_err(), "{way:?}, {is_reset}: {ended:?}");
            assert!(begun.elapsed() < AT_ONCE, "{way:?}: {:?}", begun.elapsed());
        }
    }
}

#[tokio::test]
async fn a_reader_that_dies_with_a_question_open_ends_the_call_whatever_the_way() {
    for way in WAYS {
        let thinker = Arc::new(Thinker::default());
        let asked = Arc::clone(&thinker.asked);
        let link = reached(way, move |_, voice| {
            let asked = Arc::clone(&asked);
            async move {
                voice.say(question()).await;
                asked.notified().await;
                voice.end(Said::End).await;
            }
        })
        .await;
        let asks = Arc::clone(&thinker) as Arc<dyn Asks>;
        let call = CallId::random();
        let on_behalf = Some(OnBehalf { call, asks });
        let begun = Instant::now();
        let ended = link.call(params("hang", Map::new()), None, on_behalf, |_| {});
        let ended = ended.await;
        assert!(ended.is_err(), "{way:?}: {ended:?}");
        assert!(begun.elapsed() < AT_ONCE, "{way:?}: {:?}", begun.elapsed());
        let left = tokio::time::timeout(AT_ONCE, thinker.left.notified()).await;
        assert!(left.is_ok(), "{way:?}: the person is still asked");
    }
}
