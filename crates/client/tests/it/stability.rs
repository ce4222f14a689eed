//! Requirements B-01 to B-14, the client's half.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use client::{
    Client, ClientError, FrameIn, FrameOut, Heartbeat, PromptEvent, Transport, TransportError,
    Update,
};
use futures_util::{sink, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::server::{SESSION, Server, session, settings, whole};

#[tokio::test(start_paused = true)]
async fn b_01_a_server_that_never_answers_gives_an_error_that_names_method_id_and_seconds() {
    let (mut server, transport) = Server::and_transport();
    let error = Client::connect(transport, settings()).await.unwrap_err();
    let id = server.request("initialize").await["id"].clone();
    let expected = format!(
        "no answer to initialize (request {}) within 30 s",
        id.as_str().unwrap()
    );
    assert_eq!(error.to_string(), expected);

    let (mut server, client) = Server::and_client().await;
    let error = client.new_session(Path::new("/w")).await.unwrap_err();
    let id = server.request("session/new").await["id"].clone();
    assert!(matches!(
        error,
        ClientError::Timeout { method: "session/new", id: named, seconds: 30.0 } if id == named
    ));
}

#[tokio::test(start_paused = true)]
async fn b_01_a_server_that_takes_no_frames_cannot_hold_a_caller() {
    let (server, client) = Server::and_client().await;
    // Far more than the pipe holds; nobody reads the other end.
    let calls = (0..200).map(|_| client.new_session(Path::new("/w")));
    for outcome in futures_util::future::join_all(calls).await {
        let error = outcome.unwrap_err();
        assert!(
            matches!(
                error,
                ClientError::Timeout { .. } | ClientError::TooManyWaiting { .. }
            ),
            "{error}"
        );
    }
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn b_01_a_server_that_falls_silent_is_given_up_and_one_that_pongs_is_not() {
    let (written, mut writes) = mpsc::channel(4);
    let (heard, hears) = mpsc::channel(4);
    let frames_in = stream::unfold(hears, async |mut hears| {
        let frame: FrameIn = hears.recv().await?;
        Some((Ok(frame), hears))
    });
    let frames_out = sink::unfold(written, async |written, frame: FrameOut| {
        // Nobody minds a frame that comes after the end.
        let _ = written.send(frame).await;
        Ok(written)
    });
    let heartbeat = Heartbeat {
        ping: Duration::from_secs(20),
        silence: Duration::from_secs(300),
    };
    let transport = Transport::new(frames_in, frames_out, Some(heartbeat));
    let start = Instant::now();
    let talk = async {
        let client = Client::connect(transport, settings()).await.unwrap();
        let mut stream = client.prompt(session(), "hello").await.unwrap();
        stream.next().await.unwrap().unwrap_err()
    };
    let serve = async {
        let mut pings = 0;
        while let Some(frame) = writes.recv().await {
            match frame {
                FrameOut::Text(text) if text.contains("\"initialize\"") => {
                    let request: Value = serde_json::from_str(&text).unwrap();
                    let reply = json!({"jsonrpc": "2.0", "id": request["id"],
                        "result": {"protocolVersion": 1}});
                    heard.send(FrameIn::Text(reply.to_string())).await.unwrap();
                }
                FrameOut::Text(_) => {}
                // An hour of nothing but pongs, then not even those.
                FrameOut::Ping if pings < 180 => {
                    pings += 1;
                    heard.send(FrameIn::Life).await.unwrap();
                }
                FrameOut::Ping => {}
            }
        }
    };
    let (error, ()) = tokio::join!(talk, serve);
    assert!(whole(&error).ends_with("nothing was heard from the server for 300 s"));
    assert_eq!(start.elapsed().as_secs(), 3_600 + 300);
}

#[tokio::test]
async fn b_02_garbage_is_skipped_and_the_reply_after_it_is_used() {
    let (mut server, client) = Server::and_client().await;
    let (attached, ()) = tokio::join!(client.new_session(Path::new("/w")), async {
        let request = server.request("session/new").await;
        for garbage in ["not json", "", "[]", "null", "{\"a\":", &"[".repeat(10_000)] {
            server.raw(garbage).await;
        }
        server.reply(&request, json!({"sessionId": SESSION})).await;
    });
    assert_eq!(attached.unwrap().session, session());
}

#[tokio::test]
async fn b_03_a_disconnect_ends_every_pending_request_with_a_clear_error() {
    let (mut server, client) = Server::and_client().await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    let (listing, ()) = tokio::join!(client.list_sessions(None, None), async {
        server.request("session/prompt").await;
        server.request("session/list").await;
        server.say("half an ans").await;
        drop(server);
    });
    let error = listing.unwrap_err();
    assert!(whole(&error).starts_with("the connection was lost during session/list (request "));
    assert!(whole(&error).ends_with("the server closed the connection"));

    let first = stream.next().await.unwrap().unwrap();
    assert!(matches!(first, PromptEvent::Update(Update::Text { .. })));
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(whole(&error).contains("lost during session/prompt"));
    assert!(stream.next().await.is_none());

    let late = client.cancel(session()).await.unwrap_err();
    let cause = TransportError::ClosedByServer {
        code: None,
        reason: String::new(),
    };
    assert!(matches!(late, ClientError::Lost { cause: named, .. } if named == cause));
}

#[tokio::test]
async fn b_04_request_ids_are_uuid_v4_strings_and_never_repeat() {
    let (mut server, client) = Server::and_client().await;
    let mut ids = HashSet::new();
    for _ in 0..100 {
        let (outcome, ()) = tokio::join!(client.set_mode(session(), "plan"), async {
            let request = server.request("session/set_mode").await;
            assert!(ids.insert(request["id"].as_str().unwrap().to_owned()));
            server.reply(&request, json!({})).await;
        });
        outcome.unwrap();
    }
    for id in ids {
        let parsed = uuid::Uuid::parse_str(&id).unwrap();
        assert_eq!(parsed.get_version_num(), 4);
        assert_eq!(parsed.hyphenated().to_string(), id);
    }
}

#[tokio::test]
async fn b_10_unknown_notifications_and_shapes_do_not_hang_a_client() {
    let (mut server, client) = Server::and_client().await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    let prompt = server.request("session/prompt").await;
    for odd in [
        json!({"method": "x/y"}),
        json!({"foo": 1}),
        json!({"id": 7, "result": {}}),
        json!({"id": "nobody", "result": {}}),
        json!({"id": prompt["id"]}),
        json!({"method": 5}),
        json!({"method": "session/update"}),
        json!({"method": "session/update", "params": {"sessionId": "other", "update": {}}}),
        json!({"method": "session/update", "params": {"sessionId": SESSION}}),
        json!({"method": "$/cancel_request", "params": {"requestId": "nothing"}}),
    ] {
        server.message(odd).await;
    }
    server
        .update(json!({"sessionUpdate": "weather", "sky": "blue"}))
        .await;
    // A request must get an answer even if we do not serve it.
    server
        .message(json!({"jsonrpc": "2.0", "id": 9, "method": "fs/read_text_file", "params": {}}))
        .await;
    let refused = server.next().await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(9), &json!(-32601))
    );
    server
        .reply(&prompt, json!({"stopReason": "end_turn"}))
        .await;

    let odd = stream.next().await.unwrap().unwrap();
    assert!(matches!(odd, PromptEvent::Update(Update::Other { kind }) if kind == "weather"));
    let end = stream.next().await.unwrap().unwrap();
    assert!(matches!(end, PromptEvent::Ended(end) if end.stop_reason == "end_turn"));
}

#[tokio::test(start_paused = true)]
async fn b_13_closing_twice_is_harmless() {
    let (mut server, client) = Server::and_client().await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    server.request("session/prompt").await;
    tokio::join!(client.close(), client.close());
    client.close().await;
    assert!(server.is_left().await);
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(whole(&error).ends_with("the connection was closed"));
    assert!(client.new_session(Path::new("/w")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn b_13_closing_ends_even_if_the_server_takes_nothing() {
    let (server, client) = Server::and_client().await;
    for _ in 0..20 {
        client.cancel(session()).await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(5), client.close())
        .await
        .unwrap();
    drop(server);
}

#[tokio::test]
async fn b_14_a_refusal_names_the_request_and_keeps_code_message_and_data() {
    let (mut server, client) = Server::and_client().await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    let request = server.request("session/prompt").await;
    let data = json!({"kind": "model_timeout", "retryable": true});
    let refusal = json!({"code": -32603, "message": "the model was silent", "data": data});
    server.refuse(&request, refusal).await;
    let error = stream.next().await.unwrap().unwrap_err();
    let id = request["id"].as_str().unwrap();
    assert_eq!(
        error.to_string(),
        format!("the model was silent (session/prompt, error -32603, request {id})")
    );
    assert_eq!(error.code(), Some(-32603));
    assert!(matches!(error, ClientError::Refused { data: kept, .. } if *kept == data));
}
