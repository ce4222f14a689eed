//! Over Streamable HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use domain::tool_server::{NamedBy, Speech};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;

use super::server::{Connection, Request, answer, called, listen, result};
use super::{AT_ONCE, all_end_at_once, call, connect, connector, text};
use crate::call::params;
use crate::error::{CallError, ConnectError};

/// A server that is right but for calls, which `on_call` sees to.
async fn server<C, F>(on_call: C) -> String
where
    C: Fn(Connection, Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Option<Connection>> + Send + 'static,
{
    let base = listen(move |mut connection| {
        let on_call = on_call.clone();
        async move {
            while let Some(request) = connection.request().await {
                let (status, body) = match (request.method.as_str(), &request.body) {
                    ("POST", body) if called(body).is_some() => {
                        match on_call(connection, request).await {
                            Some(back) => connection = back,
                            None => return,
                        }
                        continue;
                    }
                    ("POST", body) => match answer(body) {
                        Some(answer) => ("200 OK", answer.to_string()),
                        None => ("202 Accepted", String::new()),
                    },
                    _ => ("405 Method Not Allowed", String::new()),
                };
                connection.respond(status, "application/json", &body).await;
            }
        }
    });
    format!("{}/mcp", base.await)
}

async fn say(connection: &mut Connection, status: &str, body: &Value) {
    let body = body.to_string();
    connection.respond(status, "application/json", &body).await;
}

#[tokio::test]
async fn a_call_is_answered_as_json_and_as_events_on_kept_connections() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let url = server(move |mut connection, request| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let said = result(&request.body["id"], &number.to_string());
            if number.is_multiple_of(2) {
                say(&mut connection, "200 OK", &said).await;
                return Some(connection);
            }
            connection.begin_events().await;
            connection.event("message", &said.to_string()).await;
            None
        }
    });
    let link = connect(url.await, Speech::Unknown).await.unwrap();
    for number in 0..6 {
        let said = call(&link, "echo", json!({})).await;
        assert_eq!(text(said), number.to_string());
    }
    assert_eq!(count.load(Ordering::SeqCst), 6, "each call was sent once");
}

#[tokio::test]
async fn errors_without_an_id_streams_without_an_answer_and_resets_end_their_call() {
    let stories: [(&str, &str); 7] = [
        ("wrong-id", "one to something else"),
        ("idless-400", "has forgotten the session"),
        ("idless-500", "500"),
        ("idless-200", "nobody knows what you want"),
        ("eof", "no answer came"),
        ("reset", "connection"),
        ("html", "text/html"),
    ];
    for (story, expected) in stories {
        let url = server(move |mut connection, _| async move {
            let error = json!({"code": -32000, "message": "nobody knows what you want"});
            let error = json!({"jsonrpc": "2.0", "id": null, "error": error});
            match story {
                "idless-400" => say(&mut connection, "400 Bad Request", &error).await,
                "idless-500" => say(&mut connection, "500 Oh No", &error).await,
                "idless-200" => say(&mut connection, "200 OK", &error).await,
                "wrong-id" => {
                    let other = result(&json!(987_654), "for nobody");
                    say(&mut connection, "200 OK", &other).await;
                }
                "eof" => connection.begin_events().await,
                "reset" => connection.reset(),
                _ => connection.respond("200 OK", "text/html", "<p>").await,
            }
            None
        });
        let link = connect(url.await, Speech::Streamable).await.unwrap();
        let begun = Instant::now();
        let error = call(&link, "echo", json!({})).await.unwrap_err();
        assert!(begun.elapsed() < AT_ONCE, "{story}: {:?}", begun.elapsed());
        assert!(error.to_string().contains(expected), "{story}: {error}");
        let is_lost = story == "idless-400";
        assert_eq!(link.life().is_over(), is_lost, "{story}: {error}");
    }
}

#[tokio::test]
async fn two_hundred_calls_end_at_once_when_the_server_is_gone() {
    let (arrived, gone) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (coming, going) = (Arc::clone(&arrived), Arc::clone(&gone));
    let url = server(move |mut connection, _| {
        let (coming, going) = (Arc::clone(&coming), Arc::clone(&going));
        async move {
            connection.begin_events().await;
            coming.add_permits(1);
            going.acquire().await.unwrap().forget();
            connection.reset();
            None
        }
    });
    let link = connect(url.await, Speech::Streamable).await.unwrap();
    let errors = all_end_at_once(&link, ("hang", 200), async {
        arrived.acquire_many(200).await.unwrap().forget();
        gone.add_permits(200);
    })
    .await;
    assert_eq!(errors.len(), 200);
}

#[tokio::test]
async fn a_server_that_forgot_the_session_is_told_nothing_twice() {
    let has_restarted = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicUsize::new(0));
    let (restarted, counted) = (Arc::clone(&has_restarted), Arc::clone(&calls));
    let url = server(move |mut connection, request| {
        counted.fetch_add(1, Ordering::SeqCst);
        let restarted = restarted.load(Ordering::SeqCst);
        async move {
            assert_eq!(request.session.as_deref(), Some("one"));
            match restarted {
                true => connection.respond("404 Not Found", "text/plain", "").await,
                false => {
                    say(
                        &mut connection,
                        "200 OK",
                        &result(&request.body["id"], "ok"),
                    )
                    .await
                }
            }
            Some(connection)
        }
    });
    let link = connect(url.await, Speech::Streamable).await.unwrap();
    assert_eq!(text(call(&link, "echo", json!({})).await), "ok");
    has_restarted.store(true, Ordering::SeqCst);
    let error = call(&link, "echo", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Closed(_)), "{error}");
    assert!(link.life().is_over(), "the keeper makes a new connection");
    assert_eq!(calls.load(Ordering::SeqCst), 2, "no call was sent again");
}

#[tokio::test]
async fn policy_06_a_guest_cannot_name_this_machine_and_nobody_a_metadata_service() {
    let url = server(|connection, _| async move { Some(connection) }).await;
    let guest = connector(url.clone(), Speech::Streamable, NamedBy::Guest);
    let refused = guest.connect().await.err();
    assert!(
        matches!(refused, Some(ConnectError::Refused(_))),
        "{refused:?}"
    );
    for named_by in [NamedBy::Operator, NamedBy::LocalClient] {
        let trusted = connector(url.clone(), Speech::Streamable, named_by);
        assert!(trusted.connect().await.is_ok(), "{named_by:?}");
        for speech in [Speech::Streamable, Speech::Sse, Speech::Unknown] {
            let metadata = "http://169.254.169.254/mcp".to_owned();
            let refused = connector(metadata, speech, named_by).connect().await.err();
            assert!(
                matches!(refused, Some(ConnectError::Refused(_))),
                "{refused:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_answers_whatever_it_is_asked_is_greeted_in_the_older_way() {
    let base = listen(|mut connection| async move {
        while let Some(request) = connection.request().await {
            let said = match request.body["method"].as_str() {
                Some("server/discover") => {
                    let id = &request.body["id"];
                    Some(json!({"jsonrpc": "2.0", "id": id, "result": {}}))
                }
                Some("tools/call") => Some(result(&request.body["id"], "ok")),
                _ => answer(&request.body),
            };
            match said {
                Some(said) => say(&mut connection, "200 OK", &said).await,
                None => say(&mut connection, "202 Accepted", &Value::Null).await,
            }
        }
    });
    let link = connect(format!("{}/mcp", base.await), Speech::Streamable).await;
    let link = link.unwrap();
    assert_eq!(text(call(&link, "echo", json!({})).await), "ok");
}

#[tokio::test]
async fn a_server_can_speak_first_before_it_is_asked_for_anything() {
    for _ in 0..20 {
        let heard = Arc::new(std::sync::Mutex::new(Vec::<String>::new()));
        let noted = Arc::clone(&heard);
        let base = listen(move |mut connection| {
            let noted = Arc::clone(&noted);
            async move {
                while let Some(request) = connection.request().await {
                    if request.method == "GET" {
                        // A request that does not wait for the answer gets here first.
                        for _ in 0..100 {
                            tokio::task::yield_now().await;
                        }
                        noted.lock().unwrap().push("GET".to_owned());
                        connection.begin_events().await;
                        return std::future::pending().await;
                    }
                    let method = request.body["method"].as_str().unwrap_or_default();
                    noted.lock().unwrap().push(method.to_owned());
                    match answer(&request.body) {
                        Some(said) => say(&mut connection, "200 OK", &said).await,
                        None => say(&mut connection, "202 Accepted", &Value::Null).await,
                    }
                }
            }
        });
        let url = format!("{}/mcp", base.await);
        let _link = connect(url, Speech::Streamable).await.unwrap();
        let heard = heard.lock().unwrap().clone();
        let at = |what: &str| heard.iter().position(|said| said == what);
        assert!(
            at("GET").is_some() && at("GET") < at("tools/list"),
            "{heard:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_never_says_whether_it_will_speak_first_is_asked_all_the_same() {
    let base = listen(|mut connection| async move {
        while let Some(request) = connection.request().await {
            let said = match (request.method.as_str(), called(&request.body)) {
                ("GET", _) => return std::future::pending().await,
                (_, Some(_)) => Some(result(&request.body["id"], "ok")),
                (_, None) => answer(&request.body),
            };
            match said {
                Some(said) => say(&mut connection, "200 OK", &said).await,
                None => say(&mut connection, "202 Accepted", &Value::Null).await,
            }
        }
    });
    let link = connect(format!("{}/mcp", base.await), Speech::Streamable).await;
    let link = link.unwrap();
    let begun = Instant::now();
    assert_eq!(text(call(&link, "echo", json!({})).await), "ok");
    assert!(begun.elapsed() < AT_ONCE, "only the first request waits");
}

#[tokio::test]
async fn a_call_that_is_only_taken_is_answered_on_the_servers_own_stream_before_or_after_that() {
    for is_before in [true, false] {
        let (messages, said) = mpsc::channel::<Value>(8);
        let said = Arc::new(std::sync::Mutex::new(Some(said)));
        let (has_answer, is_taken) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (answered, taken) = (Arc::clone(&has_answer), Arc::clone(&is_taken));
        let base = listen(move |mut connection| {
            let (messages, said) = (messages.clone(), Arc::clone(&said));
            let (answered, taken) = (Arc::clone(&answered), Arc::clone(&taken));
            async move {
                while let Some(request) = connection.request().await {
                    let stream = said.lock().unwrap().take_if(|_| request.method == "GET");
                    if let Some(stream) = stream {
                        return speak(connection, stream).await;
                    }
                    if called(&request.body).is_none() {
                        let said = answer(&request.body).unwrap_or_default();
                        say(&mut connection, "200 OK", &said).await;
                        continue;
                    }
                    let here = result(&request.body["id"], "here");
                    if is_before {
                        messages.send(here.clone()).await.unwrap();
                        answered.notified().await;
                    }
                    connection.respond("202 Accepted", "text/plain", "").await;
                    taken.notify_one();
                    if !is_before {
                        answered.notified().await;
                        messages.send(here).await.unwrap();
                    }
                }
            }
        });
        let url = format!("{}/mcp", base.await);
        let link = connect(url, Speech::Streamable).await.unwrap();
        for _ in 0..3 {
            let begun = Instant::now();
            let calling = async {
                let said = call(&link, "echo", json!({})).await;
                assert_eq!(text(said), "here", "{is_before}");
                assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
                if is_before {
                    has_answer.notify_one();
                }
            };
            let going_on = async {
                is_taken.notified().await;
                if !is_before {
                    // Whoever asks for something else meanwhile has heard that the call was taken.
                    link.tools().await.unwrap();
                    has_answer.notify_one();
                }
            };
            tokio::join!(calling, going_on);
        }
    }
}

/// The stream on which a server speaks first.
async fn speak(mut connection: Connection, mut said: mpsc::Receiver<Value>) {
    connection.begin_events().await;
    while let Some(message) = said.recv().await {
        connection.event("message", &message.to_string()).await;
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_its_answer_fails_nothing() {
    let (is_read, has_failed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (reading, failing) = (Arc::clone(&is_read), Arc::clone(&has_failed));
    let url = server(move |mut connection, request| {
        let (reading, failing) = (Arc::clone(&reading), Arc::clone(&failing));
        async move {
            connection.begin_events().await;
            let said = result(&request.body["id"], "here");
            connection.event("message", &said.to_string()).await;
            reading.notified().await;
            connection.reset();
            failing.notify_one();
            None
        }
    });
    let link = connect(url.await, Speech::Streamable).await.unwrap();
    for _ in 0..3 {
        assert_eq!(text(call(&link, "echo", json!({})).await), "here");
        is_read.notify_one();
        has_failed.notified().await;
    }
    assert!(!link.life().is_over());
}

#[tokio::test]
async fn a_server_that_is_gone_without_a_word_is_given_up_after_a_silent_call() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let going = Arc::clone(&is_gone);
    let base = listen(move |mut connection| {
        let going = Arc::clone(&going);
        async move {
            while let Some(request) = connection.request().await {
                if called(&request.body).is_some() {
                    going.store(true, Ordering::SeqCst);
                }
                if going.load(Ordering::SeqCst) {
                    // Neither an answer nor an end.
                    return std::future::pending().await;
                }
                match (request.method.as_str(), answer(&request.body)) {
                    ("POST", Some(said)) => say(&mut connection, "200 OK", &said).await,
                    ("POST", None) => say(&mut connection, "202 Accepted", &Value::Null).await,
                    _ => say(&mut connection, "405 Not Allowed", &Value::Null).await,
                }
            }
        }
    });
    let link = connect(format!("{}/mcp", base.await), Speech::Streamable).await;
    let link = link.unwrap();
    let silence_max = Some(Duration::from_millis(200));
    let called = link.call(params("hang", Map::new()), silence_max, None, |_| {});
    let silent = called.await.unwrap_err();
    assert!(matches!(silent, CallError::Silent(_)), "{silent}");
    // From here on nothing happens but that time passes.
    tokio::time::pause();
    link.life().ended().await;
    assert!(link.life().why().contains("does not answer any more"));
}
