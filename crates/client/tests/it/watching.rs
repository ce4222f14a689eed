//! What a watch over a session sees: everything, in order, beyond the end of a turn.

use client::{Update, Watch, WatchEvent};
use serde_json::json;

use crate::server::{SESSION, Server, session};

/// The next thing, in a few words.
async fn next(watch: &mut Watch) -> String {
    match watch.next().await {
        Some(WatchEvent::Update {
            update: Update::Text { text, .. },
            ..
        }) => format!("text {text}"),
        Some(WatchEvent::Update { raw, .. }) => format!("other {}", raw["sessionUpdate"]),
        Some(WatchEvent::Ask(ask)) => format!("ask {}", ask.raw["title"]),
        Some(WatchEvent::Ended { end: Ok(end), .. }) => format!("ended {}", end.stop_reason),
        Some(WatchEvent::Ended {
            end: Err(error), ..
        }) => format!("failed {error}"),
        None => "nothing more".to_owned(),
    }
}

#[tokio::test]
async fn what_follows_the_answer_to_session_new_is_not_missed() {
    let (mut server, client) = Server::and_client().await;
    let entering = client.new_session_watched("/w".as_ref());
    let told = async {
        let new = server.request("session/new").await;
        let options = json!([{"id": "model", "currentValue": "m"}]);
        let answer = json!({"sessionId": SESSION, "configOptions": options});
        server.reply(&new, answer).await;
        server
            .update(json!({"sessionUpdate": "available_commands_update"}))
            .await;
    };
    let (entered, ()) = tokio::join!(entering, told);
    let (attached, mut watch) = entered.unwrap();
    assert_eq!(attached.options[0]["currentValue"], "m");
    assert_eq!(
        next(&mut watch).await,
        "other \"available_commands_update\""
    );
}

#[tokio::test]
async fn the_end_of_a_prompt_comes_after_its_updates_and_more_may_follow() {
    let (mut server, client) = Server::and_client().await;
    let mut watch = client.watch(session()).await.unwrap();
    let named = client.prompt_watched(session(), "hello").await.unwrap();
    let prompt = server.request("session/prompt").await;
    let meta = &prompt["params"]["_meta"]["fastness"];
    assert_eq!(
        (&meta["promptId"], &meta["queue"]),
        (&json!(named), &json!(true))
    );
    server.say("one").await;
    server
        .reply(&prompt, json!({"stopReason": "end_turn"}))
        .await;
    server.say("from another turn").await;
    assert_eq!(next(&mut watch).await, "text one");
    assert_eq!(next(&mut watch).await, "ended end_turn");
    assert_eq!(next(&mut watch).await, "text from another turn");
    drop(server);
    assert_eq!(next(&mut watch).await, "nothing more");
}

#[tokio::test]
async fn a_question_to_a_watch_that_was_dropped_is_left_to_others() {
    let (mut server, client) = Server::and_client().await;
    let watch = client.watch(session()).await.unwrap();
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let ask = |id: &str| {
        let call = json!({"toolCallId": "c", "title": "rm"});
        let params = json!({"sessionId": SESSION, "toolCall": call, "options": options});
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
    };
    let mut watch = watch;
    server.message(ask("q1")).await;
    let Some(WatchEvent::Ask(asked)) = watch.next().await else {
        panic!("no question came");
    };
    asked.answer("y");
    assert_eq!(server.next().await["result"]["outcome"]["optionId"], "y");
    server.message(ask("q2")).await;
    // Leaving with a question open, and a later question: neither is answered.
    drop((watch.next().await, watch));
    server.message(ask("q3")).await;
    // The client has read the question once it has read what came after it.
    let answering = async {
        let request = server.request("session/list").await;
        server.reply(&request, json!({"sessions": []})).await;
    };
    let (listed, ()) = tokio::join!(client.list_sessions(None, None), answering);
    assert!(listed.is_ok());
    let mut watch = client.watch(session()).await.unwrap();
    server.message(ask("q4")).await;
    let Some(WatchEvent::Ask(asked)) = watch.next().await else {
        panic!("no question came");
    };
    asked.answer("y");
    assert_eq!(server.next().await["id"], "q4");
}
