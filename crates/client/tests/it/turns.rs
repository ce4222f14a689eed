//! What a caller sees of a turn: order, questions, backpressure.

use client::{Ask, ClientError, PromptEvent, PromptStream, ToolCall, Update};
use domain::event::PermissionOptionKind;
use domain::{Cursor, EventSeq};
use serde_json::{Value, json};

use crate::server::{SESSION, Server, session};

#[tokio::test]
async fn a_turn_arrives_in_order_and_the_end_comes_last() {
    let (mut server, client) = Server::and_client().await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    let prompt = server.request("session/prompt").await;
    assert_eq!(
        prompt["params"]["prompt"],
        json!([{"type": "text", "text": "hello"}])
    );
    let told = async {
        let greeting = json!({"sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "hi"}, "_meta": {"fastness": {"greeting": true}}});
        server.update(greeting).await;
        server
            .update(json!({"sessionUpdate": "agent_thought_chunk",
                "content": {"type": "text", "text": "hm"}}))
            .await;
        server
            .update(
                json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "name": "read",
                "title": "read a.txt", "kind": "read", "rawInput": {"path": "a.txt"}}),
            )
            .await;
        server
            .update(
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1",
                "status": "completed"}),
            )
            .await;
        server.say("done").await;
        let usage = json!({"fastness": {"usage": {"inputTokens": 3}}});
        server
            .reply(&prompt, json!({"stopReason": "end_turn", "_meta": usage}))
            .await;
    };
    let ((), seen) = tokio::join!(told, all_of(&mut stream));
    assert_eq!(
        seen,
        [
            "greeting hi",
            "thought hm",
            "call c1 read Some(\"read a.txt\")",
            "update c1 completed",
            "text done",
            "ended end_turn {\"inputTokens\":3}",
        ]
    );
}

#[tokio::test]
async fn a_long_turn_waits_for_its_reader_while_cancel_still_gets_through() {
    let (mut server, client) = Server::and_client().await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    let prompt = server.request("session/prompt").await;
    let chunks = 2_000;
    let told = async {
        // Nobody reads the updates before the cancel was seen, so not all of them fit.
        for n in 0..300 {
            server.say(&n.to_string()).await;
            if n == 258 {
                client.cancel(session()).await.unwrap();
                server.request("session/cancel").await;
                break;
            }
        }
        for n in 259..chunks {
            server.say(&n.to_string()).await;
        }
        server
            .reply(&prompt, json!({"stopReason": "cancelled"}))
            .await;
    };
    let reading = async {
        let mut next = 0;
        while let Some(event) = stream.next().await {
            match event.unwrap() {
                PromptEvent::Update(Update::Text { text, .. }) => {
                    assert_eq!(text, next.to_string());
                    next += 1;
                }
                PromptEvent::Ended(end) => assert_eq!(end.stop_reason, "cancelled"),
                PromptEvent::Update(_) | PromptEvent::Ask(_) => panic!("not said"),
            }
        }
        next
    };
    // `told` runs first and stops only when the pipe is full.
    let ((), read) = tokio::join!(biased; told, reading);
    assert_eq!(read, chunks);
}

#[tokio::test]
async fn a_dropped_question_is_not_answered() {
    let (mut server, client) = Server::and_client().await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    server.request("session/prompt").await;

    server.message(question(1)).await;
    let ask = next_ask(&mut stream).await;
    assert_eq!(ask.call.name.as_deref(), Some("write"));
    let option = ask
        .option(PermissionOptionKind::AllowOnce)
        .unwrap()
        .option_id
        .clone();
    ask.answer(&option);
    let answer = server.next().await;
    let outcome = json!({"outcome": "selected", "optionId": "yes"});
    assert_eq!(
        (&answer["id"], &answer["result"]["outcome"]),
        (&json!(1), &outcome)
    );

    server.message(question(2)).await;
    drop(next_ask(&mut stream).await);
    server.message(question(3)).await;
    next_ask(&mut stream).await.cancel();
    let answer = server.next().await;
    let outcome = json!({"outcome": "cancelled"});
    assert_eq!(
        (&answer["id"], &answer["result"]["outcome"]),
        (&json!(3), &outcome)
    );
}

#[tokio::test]
async fn a_withdrawn_question_says_so() {
    let (mut server, client) = Server::and_client().await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    server.request("session/prompt").await;
    server.message(question(2)).await;
    let mut ask = next_ask(&mut stream).await;
    let params = json!({"requestId": 2});
    server
        .message(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params}))
        .await;
    ask.withdrawn().await;
}

#[tokio::test]
async fn a_second_prompt_is_refused_here_while_the_first_is_answered() {
    let (mut server, client) = Server::and_client().await;
    let mut first = client.prompt(session(), "one").await.unwrap();
    let prompt = server.request("session/prompt").await;
    let mut second = client.prompt(session(), "two").await.unwrap();
    let error = second.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::StillAnswering { .. }));
    server
        .reply(&prompt, json!({"stopReason": "end_turn"}))
        .await;
    assert_eq!(all_of(&mut first).await, ["ended end_turn null"]);
    client.prompt(session(), "three").await.unwrap();
    server.request("session/prompt").await;
}

#[tokio::test]
async fn the_newest_cursor_is_kept_and_one_inside_a_group_is_not() {
    let (mut server, client) = Server::and_client().await;
    let mut stream = client.prompt(session(), "hello").await.unwrap();
    let prompt = server.request("session/prompt").await;
    for meta in [
        json!({"seq": 4, "epoch": 1, "offset": 2}),
        json!({"seq": 5, "epoch": 1, "more": true}),
        Value::Null,
    ] {
        let params = json!({"sessionId": SESSION, "_meta": {"fastness": meta},
            "update": {"sessionUpdate": "plan"}});
        server
            .message(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
            .await;
    }
    server
        .reply(&prompt, json!({"stopReason": "end_turn"}))
        .await;
    all_of(&mut stream).await;
    let expected = Cursor {
        epoch: 1,
        seq: EventSeq(4),
        offset: 2,
    };
    assert_eq!(stream.cursor(), Some(expected));
}

fn question(id: u64) -> Value {
    let call = json!({"toolCallId": "c1", "name": "write", "title": "write a.txt"});
    let options = json!([
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": SESSION, "toolCall": call, "options": options});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
}

async fn next_ask(stream: &mut PromptStream) -> Ask {
    match stream.next().await {
        Some(Ok(PromptEvent::Ask(ask))) => ask,
        other => panic!("not a question: {other:?}"),
    }
}

/// The rest of the turn, a line for each event.
async fn all_of(stream: &mut PromptStream) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        seen.push(match event.unwrap() {
            PromptEvent::Update(update) => line(update),
            PromptEvent::Ask(ask) => format!("ask {}", ask.call.id),
            PromptEvent::Ended(end) => format!("ended {} {}", end.stop_reason, end.usage),
        });
    }
    seen
}

fn line(update: Update) -> String {
    match update {
        Update::Text { text, greeting, .. } if greeting => format!("greeting {text}"),
        Update::Text { text, .. } => format!("text {text}"),
        Update::Thought { text } => format!("thought {text}"),
        Update::ToolCall(ToolCall {
            id, name, title, ..
        }) => {
            format!("call {id} {} {title:?}", name.unwrap_or_default())
        }
        Update::ToolUpdate(ToolCall { id, status, .. }) => {
            format!("update {id} {}", status.unwrap_or_default())
        }
        Update::Turn(turn) => format!("turn {:?} {:?}", turn.turn, turn.state),
        Update::Notice { text } => format!("notice {text}"),
        Update::Other { kind } => format!("other {kind}"),
    }
}
