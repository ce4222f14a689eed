//! Connections that break in the middle: with a question open, after the answer, without a word, and by a
//! restart of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::CallId;
use domain::limits::{MCP_CALL_SILENCE, MCP_CALL_WAIT};
use domain::tool_server::Speech;
use rmcp::service::ClientLifecycleMode;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tools::asks::{
    Answering, Asks, NotSampled, PersonAnswer, SampleRequest, Sampling, ServerQuestion,
};

use super::server::{Connection, answer, called, listen, result};
use super::{AT_ONCE, call, connect, text};
use crate::call::params;
use crate::callers::OnBehalf;
use crate::error::CallError;
use crate::handler::Handler;
use crate::link::Link;
use crate::transport::program;

/// Somebody who is asked and thinks about it for ever; rings when asked, and when left alone again.
#[derive(Debug, Default)]
pub(super) struct Thinker {
    pub(super) asked: Arc<Notify>,
    pub(super) left: Arc<Notify>,
}

struct Rings(Arc<Notify>);

impl Drop for Rings {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Asks for Thinker {
    fn person(&self, _: ServerQuestion) -> Answering {
        self.asked.notify_one();
        let left = Rings(Arc::clone(&self.left));
        Box::pin(async move {
            let _left = left;
            std::future::pending::<PersonAnswer>().await
        })
    }

    fn model(&self, _: SampleRequest) -> Sampling {
        Box::pin(std::future::ready(Err(NotSampled::Denied)))
    }
}

pub(super) fn question() -> Value {
    let schema = json!({"type": "object", "properties": {}});
    let params = json!({"mode": "form", "message": "Well?", "requestedSchema": schema});
    json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
}

async fn called_with(link: &Link, thinker: &Arc<Thinker>) -> Result<(), CallError> {
    let on_behalf = OnBehalf {
        call: CallId::random(),
        asks: Arc::clone(thinker) as Arc<dyn Asks>,
    };
    let params = params("hang", Map::new());
    // Shorter than the thinking takes.
    let silence_max = Some(Duration::from_millis(200));
    link.call(params, silence_max, Some(on_behalf), |_| {})
        .await
        .map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_dies_with_a_question_open_ends_the_call_and_takes_the_question_back() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let thinker = Arc::new(Thinker::default());
    let asked = Arc::clone(&thinker.asked);
    tokio::spawn(async move {
        let (reader, mut writer) = tokio::io::split(theirs);
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let said = match called(&message) {
                Some(_) => Some(question()),
                None => answer(&message),
            };
            if let Some(said) = said {
                let said = format!("{said}\n");
                writer.write_all(said.as_bytes()).await.unwrap();
            }
            if called(&message).is_some() {
                asked.notified().await;
                // Longer than it may be silent: a person is being asked.
                tokio::time::sleep(Duration::from_millis(400)).await;
                return;
            }
        }
    });
    let (output, input) = tokio::io::split(ours);
    let pipe = program::over(output, input);
    let life = pipe.life.clone();
    let link = Link::begin(
        pipe,
        life,
        Handler::default(),
        ClientLifecycleMode::Initialize,
    );
    let link = link.await.unwrap();
    let ended = called_with(&link, &thinker).await;
    assert!(matches!(ended, Err(CallError::Closed(_))), "{ended:?}");
    let left = tokio::time::timeout(AT_ONCE, thinker.left.notified()).await;
    assert!(left.is_ok(), "the person is still asked");
}

/// Somebody who is asked and declines in the end.
#[derive(Debug)]
struct Hesitant(Duration);

impl Asks for Hesitant {
    fn person(&self, _: ServerQuestion) -> Answering {
        let thinking = tokio::time::sleep(self.0);
        Box::pin(async move {
            thinking.await;
            PersonAnswer::Declined
        })
    }

    fn model(&self, _: SampleRequest) -> Sampling {
        Box::pin(std::future::ready(Err(NotSampled::Denied)))
    }
}

#[tokio::test(start_paused = true)]
async fn however_long_a_person_thinks_the_call_has_as_much_time_left_as_before() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let (reader, mut writer) = tokio::io::split(theirs);
        let mut lines = BufReader::new(reader).lines();
        let mut asked = Value::Null;
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let said = match called(&message) {
                Some(_) => {
                    asked = message["id"].clone();
                    Some(question())
                }
                None if message["id"] == "q" => {
                    // It works on, for less than it may be silent.
                    tokio::time::sleep(MCP_CALL_SILENCE / 2).await;
                    Some(result(&asked, "well then"))
                }
                None => answer(&message),
            };
            if let Some(said) = said {
                let said = format!("{said}\n");
                writer.write_all(said.as_bytes()).await.unwrap();
            }
        }
    });
    let (output, input) = tokio::io::split(ours);
    let pipe = program::over(output, input);
    let life = pipe.life.clone();
    let lifecycle = ClientLifecycleMode::Initialize;
    let link = Link::begin(pipe, life, Handler::default(), lifecycle).await;
    // Longer than a call may be silent, and longer than it may take in all.
    let asks = Arc::new(Hesitant(MCP_CALL_WAIT * 2));
    let on_behalf = OnBehalf {
        call: CallId::random(),
        asks,
    };
    let params = params("hang", Map::new());
    let link = link.unwrap();
    let answered = link.call(params, None, Some(on_behalf), |_| {}).await;
    assert_eq!(text(answered), "well then");
}

/// What a server does with its stream.
enum Said {
    Message(Value),
    /// Ends it; whoever comes next goes on with the rest.
    Break,
}

type Rest = Arc<std::sync::Mutex<Option<(mpsc::Receiver<Said>, usize)>>>;

/// A server over numbered events that is right but for calls, which `on_call` sees to: it gets the
/// connection of the POST, and where to say something on the stream.
async fn sse_server<C, F>(on_call: C) -> String
where
    C: Fn(Connection, Value, mpsc::Sender<Said>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Option<Connection>> + Send + 'static,
{
    let (messages, said) = mpsc::channel::<Said>(64);
    let rest: Rest = Arc::new(std::sync::Mutex::new(Some((said, 0))));
    let base = listen(move |mut connection| {
        let (messages, rest, on_call) = (messages.clone(), Arc::clone(&rest), on_call.clone());
        async move {
            while let Some(request) = connection.request().await {
                if request.method == "GET" {
                    return stream(connection, rest).await;
                }
                if called(&request.body).is_some() || request.body["method"] == "ping" {
                    match on_call(connection, request.body, messages.clone()).await {
                        Some(back) => connection = back,
                        None => return,
                    }
                    continue;
                }
                if let Some(answer) = answer(&request.body) {
                    messages.send(Said::Message(answer)).await.unwrap();
                }
                connection.respond("202 Accepted", "text/plain", "").await;
            }
        }
    });
    format!("{}/sse", base.await)
}

async fn stream(mut connection: Connection, rest: Rest) {
    let taken = rest.lock().unwrap().take();
    let Some((mut said, mut number)) = taken else {
        return;
    };
    connection.begin_events().await;
    connection.event("endpoint", "/messages?session=1").await;
    while let Some(Said::Message(message)) = said.recv().await {
        number += 1;
        connection
            .send(&format!("id: {number}\ndata: {message}\n\n"))
            .await;
    }
    *rest.lock().unwrap() = Some((said, number));
}

#[tokio::test]
async fn c_02_a_post_that_fails_after_its_answer_fails_nothing() {
    let (is_read, has_failed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (reading, failing) = (Arc::clone(&is_read), Arc::clone(&has_failed));
    let url = sse_server(move |mut connection, body, messages| {
        let (reading, failing) = (Arc::clone(&reading), Arc::clone(&failing));
        async move {
            let said = result(&body["id"], "here");
            messages.send(Said::Message(said)).await.unwrap();
            reading.notified().await;
            connection.respond("500 Oh No", "text/plain", "").await;
            failing.notify_one();
            None
        }
    });
    let link = connect(url.await, Speech::Sse).await.unwrap();
    for _ in 0..3 {
        assert_eq!(text(call(&link, "echo", json!({})).await), "here");
        is_read.notify_one();
        has_failed.notified().await;
    }
    assert!(!link.life().is_over());
}

#[tokio::test]
async fn c_02_a_numbered_stream_that_breaks_is_taken_up_where_it_was() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let url = sse_server(move |mut connection, body, messages| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            connection.respond("202 Accepted", "text/plain", "").await;
            messages.send(Said::Break).await.unwrap();
            let said = result(&body["id"], "here");
            messages.send(Said::Message(said)).await.unwrap();
            Some(connection)
        }
    });
    let link = connect(url.await, Speech::Sse).await.unwrap();
    for _ in 0..3 {
        assert_eq!(text(call(&link, "echo", json!({})).await), "here");
    }
    assert_eq!(count.load(Ordering::SeqCst), 3, "each call was sent once");
}

#[tokio::test]
async fn c_02_a_connection_whose_other_end_is_gone_without_a_word_is_given_up() {
    let url = sse_server(|connection, _, _| async move {
        // Neither an answer nor an end.
        let _held = connection;
        std::future::pending().await
    });
    let link = connect(url.await, Speech::Sse).await.unwrap();
    let begun = Instant::now();
    let silence_max = Some(Duration::from_millis(200));
    let called = link.call(params("hang", Map::new()), silence_max, None, |_| {});
    let silent = called.await.unwrap_err();
    assert!(matches!(silent, CallError::Silent(_)), "{silent}");
    assert!(begun.elapsed() < AT_ONCE, "it ends at its deadline");
    // From here on nothing happens but that time passes.
    tokio::time::pause();
    link.life().ended().await;
    assert!(link.life().why().contains("does not answer any more"));
}

#[tokio::test]
async fn c_02_a_stream_that_dies_with_a_question_open_ends_the_call_at_once() {
    let thinker = Arc::new(Thinker::default());
    let asked = Arc::clone(&thinker.asked);
    let url = sse_server(move |mut connection, _, messages| {
        let asked = Arc::clone(&asked);
        async move {
            connection.respond("202 Accepted", "text/plain", "").await;
            messages.send(Said::Message(question())).await.unwrap();
            asked.notified().await;
            // Whoever takes the stream up again finds that it breaks again, with nothing new.
            for _ in 0..8 {
                messages.send(Said::Break).await.unwrap();
            }
            Some(connection)
        }
    });
    let link = connect(url.await, Speech::Sse).await.unwrap();
    let begun = Instant::now();
    let ended = called_with(&link, &thinker).await;
    assert!(matches!(ended, Err(CallError::Closed(_))), "{ended:?}");
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    let left = tokio::time::timeout(AT_ONCE, thinker.left.notified()).await;
    assert!(left.is_ok(), "the person is still asked");
}
