//! Over HTTP with server-sent events: row C-2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use domain::tool_server::{NamedBy, Speech};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::server::{Connection, answer, called, listen, result};
use super::{AT_ONCE, all_end_at_once, call, connect, connector, text};
use crate::error::{CallError, ConnectError};

/// How the stream of a server ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Quietly,
    ByReset,
}

/// What a server does about calls.
#[derive(Clone)]
struct Manners {
    /// Whether the POST of a call is answered.
    takes_calls: bool,
    /// Rings with every call.
    arrived: Arc<Semaphore>,
    /// Ends the stream.
    over: Arc<Semaphore>,
    end: End,
    /// How long a call takes.
    takes: Duration,
    /// How often somebody tried to speak to it in the newer way.
    tried: Arc<AtomicUsize>,
    /// The method for which nobody here is good enough.
    turns_away: Option<&'static str>,
}

impl Manners {
    fn new() -> Self {
        Self {
            takes_calls: true,
            arrived: Arc::new(Semaphore::new(0)),
            over: Arc::new(Semaphore::new(0)),
            end: End::Quietly,
            takes: Duration::ZERO,
            tried: Arc::new(AtomicUsize::new(0)),
            turns_away: None,
        }
    }
}

async fn server(manners: Manners) -> String {
    let newest = Newest::default();
    let base = listen(move |connection| serve(connection, manners.clone(), newest.clone()));
    format!("{}/sse", base.await)
}

/// The newest stream, on which it speaks.
type Newest = Arc<std::sync::Mutex<Option<mpsc::Sender<Value>>>>;

async fn serve(mut connection: Connection, manners: Manners, newest: Newest) {
    while let Some(request) = connection.request().await {
        if request.method == "GET" {
            let (messages, said) = mpsc::channel(1_024);
            *newest.lock().unwrap() = Some(messages);
            return stream(connection, manners, said).await;
        }
        let messages = newest.lock().unwrap().clone();
        let (true, Some(messages)) = (request.path.starts_with("/messages"), messages) else {
            manners.tried.fetch_add(1, Ordering::SeqCst);
            connection
                .respond("405 Method Not Allowed", "text/plain", "")
                .await;
            continue;
        };
        let method = request.body["method"].as_str();
        if method.is_some() && method == manners.turns_away {
            let head = "HTTP/1.1 403 Forbidden\r\nwww-authenticate: Bearer \
                        error=\"insufficient_scope\"\r\ncontent-length: 0\r\n\r\n";
            connection.send(head).await;
            continue;
        }
        let (is_call, id) = (called(&request.body).is_some(), request.body["id"].clone());
        if is_call {
            manners.arrived.add_permits(1);
        }
        if is_call && !manners.takes_calls {
            return std::future::pending().await;
        }
        if let Some("echo") = called(&request.body) {
            let (messages, takes) = (messages.clone(), manners.takes);
            tokio::spawn(async move {
                tokio::time::sleep(takes).await;
                let _ = messages.send(result(&id, "here")).await;
            });
        }
        if let Some(answer) = answer(&request.body) {
            // Before it says that it has taken the message.
            messages.send(answer).await.unwrap();
            tokio::task::yield_now().await;
        }
        connection
            .respond("202 Accepted", "text/plain", "Accepted")
            .await;
    }
}

async fn stream(mut connection: Connection, manners: Manners, mut said: mpsc::Receiver<Value>) {
    connection.begin_events().await;
    connection.event("endpoint", "/messages?session=1").await;
    loop {
        tokio::select! {
            message = said.recv() => {
                connection.event("message", &message.unwrap().to_string()).await;
            }
            _ = manners.over.acquire() => break,
        }
    }
    match manners.end {
        End::Quietly => drop(connection),
        End::ByReset => connection.reset(),
    }
}

#[tokio::test]
async fn c_02_all_of_200_calls_end_at_once_when_the_stream_does() {
    for end in [End::Quietly, End::ByReset] {
        // Also while the requests that carry them hang.
        for takes_calls in [true, false] {
            let manners = Manners {
                takes_calls,
                end,
                ..Manners::new()
            };
            let url = server(manners.clone()).await;
            let link = connect(url, Speech::Sse).await.unwrap();
            let errors = all_end_at_once(&link, ("hang", 200), async {
                manners.arrived.acquire_many(200).await.unwrap().forget();
                manners.over.add_permits(1);
            })
            .await;
            for error in errors {
                assert!(matches!(error, CallError::Closed(_)), "{end:?}: {error:?}");
            }
            let begun = Instant::now();
            let late = call(&link, "echo", json!({})).await;
            assert!(matches!(late, Err(CallError::Closed(_))), "{late:?}");
            assert!(begun.elapsed() < AT_ONCE, "it fails fast");
        }
    }
}

#[tokio::test]
async fn c_02_an_answer_after_30_seconds_of_silence_is_taken() {
    let manners = Manners {
        takes: Duration::from_secs(30),
        ..Manners::new()
    };
    let link = connect(server(manners.clone()).await, Speech::Sse)
        .await
        .unwrap();
    let calling = call(&link, "echo", json!({}));
    let waiting = async {
        manners.arrived.acquire().await.unwrap().forget();
        // From here on nothing happens but that time passes.
        tokio::time::pause();
    };
    let (answered, ()) = tokio::join!(calling, waiting);
    assert_eq!(text(answered), "here");
}

#[tokio::test]
async fn a_bare_address_is_tried_both_ways_once_and_what_is_said_is_not_tried() {
    let manners = Manners::new();
    let url = server(manners.clone()).await;
    let tried = || manners.tried.swap(0, Ordering::SeqCst);
    let bare = connector(url.clone(), Speech::Unknown, NamedBy::Operator);
    for is_first in [true, false] {
        let (link, _) = bare.connect().await.unwrap();
        assert_eq!(text(call(&link, "echo", json!({})).await), "here");
        assert_eq!(tried() > 0, is_first, "it is known the second time");
    }
    connect(url.clone(), Speech::Sse).await.unwrap();
    assert_eq!(tried(), 0, "it is said to be of the older way");
    let newer = connect(url, Speech::Streamable).await;
    assert!(newer.is_err() && tried() > 0, "it is said not to be");
}

#[tokio::test]
async fn what_was_found_out_is_forgotten_when_it_is_not_true_any_more() {
    let (manners, newest) = (Manners::new(), Newest::default());
    let is_newer = Arc::new(AtomicBool::new(false));
    let changed = Arc::clone(&is_newer);
    let base = listen(move |connection| {
        let (manners, newest) = (manners.clone(), newest.clone());
        let is_newer = changed.load(Ordering::SeqCst);
        async move {
            match is_newer {
                true => serve_newer(connection).await,
                false => serve(connection, manners, newest).await,
            }
        }
    });
    let url = format!("{}/sse", base.await);
    let bare = connector(url, Speech::Unknown, NamedBy::Operator);
    bare.connect().await.unwrap();
    is_newer.store(true, Ordering::SeqCst);
    let stale = bare.connect().await.err();
    assert!(matches!(stale, Some(ConnectError::Failed(_))), "{stale:?}");
    let (link, _) = bare.connect().await.unwrap();
    assert_eq!(text(call(&link, "echo", json!({})).await), "here");
}

/// The same server, over Streamable HTTP.
async fn serve_newer(mut connection: Connection) {
    while let Some(request) = connection.request().await {
        let said = match called(&request.body) {
            Some(_) => Some(result(&request.body["id"], "here")),
            None => answer(&request.body),
        };
        let (status, said) = match (request.method.as_str(), said) {
            ("POST", Some(said)) => ("200 OK", said.to_string()),
            ("POST", None) => ("202 Accepted", String::new()),
            _ => ("405 Method Not Allowed", String::new()),
        };
        connection.respond(status, "application/json", &said).await;
    }
}

#[tokio::test]
async fn a_message_that_is_turned_away_wants_a_login_and_nothing_was_done_about_it() {
    let guarded = async |method| {
        let turns_away = Some(method);
        let url = server(Manners {
            turns_away,
            ..Manners::new()
        });
        connect(url.await, Speech::Sse).await
    };
    let refused = guarded("initialize").await.err();
    assert!(
        matches!(refused, Some(ConnectError::LoginNeeded(_))),
        "{refused:?}"
    );
    let link = guarded("tools/call").await.unwrap();
    let error = call(&link, "echo", json!({})).await.unwrap_err();
    let is_said =
        matches!(&error, CallError::LoginNeeded(why) if why.contains("insufficient_scope"));
    assert!(is_said && !error.may_have_run(), "{error:?}");
    assert!(!link.life().is_over(), "others may be let in");
}

#[tokio::test]
async fn a_server_that_takes_a_greeting_and_says_nothing_does_not_begin_in_time() {
    for speech in [Speech::Streamable, Speech::Sse, Speech::Unknown] {
        let greeted = Arc::new(Semaphore::new(0));
        let greeting = Arc::clone(&greeted);
        let base = listen(move |mut connection| {
            let greeting = Arc::clone(&greeting);
            async move {
                connection.request().await;
                greeting.add_permits(1);
                std::future::pending().await
            }
        });
        let url = format!("{}/mcp", base.await);
        let waiting = async {
            greeted.acquire().await.unwrap().forget();
            // From here on nothing happens but that time passes.
            tokio::time::pause();
        };
        let (slow, ()) = tokio::join!(connect(url, speech), waiting);
        tokio::time::resume();
        let error = slow.err();
        let is_slow = matches!(
            error,
            Some(ConnectError::TooSlow(_) | ConnectError::Failed(_))
        );
        assert!(is_slow, "{speech:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_stream_that_sends_messages_elsewhere_is_refused() {
    let url = listen(|mut connection| async move {
        connection.request().await;
        connection.begin_events().await;
        connection
            .event("endpoint", "http://127.0.0.2:9/messages")
            .await;
        std::future::pending().await
    });
    let refused = connect(format!("{}/sse", url.await), Speech::Sse)
        .await
        .err();
    let Some(ConnectError::Refused(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("another server"), "{why}");
}
