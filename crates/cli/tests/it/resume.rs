//! Coming back by cursor: to a message that is still being said, to a server that was killed, to a
//! journal that lost its end.

use std::fs;

use serde_json::{Value, json};
use testkit::client::text_of;
use testkit::script::{Script, pause, say, stream, tool};
use testkit::{AcpClient, Choice, Program, Update};

use crate::support::{after, serve, stored};

/// Letters of one to four bytes, so that a cut inside one would show.
const WORDS: &str = "aż世🦀 ";

/// What was said so far, without the greeting.
fn said(updates: &[Update]) -> String {
    text_of(updates, "agent_message_chunk")
}

/// The cursor after the newest of `updates`.
fn newest(updates: &[Update]) -> Value {
    let mut told = updates.iter().rev();
    let last = told.find(|update| !update.cursor.is_null());
    after(&last.unwrap().cursor)
}

/// A client that is told of turns.
async fn told_of_turns(server: &Program) -> AcpClient {
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut client = dialed.unwrap().in_directory(server.home().workspace());
    let capabilities = json!({"_meta": {"fastness": {"turns": true}}});
    client.initialize_with(capabilities).await;
    client
}

/// The parameters of a prompt with a name.
fn named(session: &str, prompt: &str) -> Value {
    let blocks = json!([{"type": "text", "text": prompt}]);
    json!({"sessionId": session, "prompt": blocks, "_meta": {"fastness": {"promptId": prompt}}})
}

#[tokio::test]
async fn a_message_that_is_cut_off_again_and_again_arrives_once() {
    const CHUNKS: usize = 300;
    let whole = WORDS.repeat(CHUNKS);
    let chunks = u32::try_from(CHUNKS).unwrap();
    let server = serve(Script::new().call([stream(WORDS, chunks, 4)])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    let mut seen = client
        .updates_until(|update| update.cursor["offset"].as_u64() > Some(0))
        .await;
    let mut resumes = 0;
    while said(&seen).len() < whole.len() {
        drop(client);
        client = AcpClient::connect_ws(&server).await;
        client
            .resume_session(&session, newest(&seen))
            .await
            .unwrap();
        resumes += 1;
        let enough = said(&seen).len() + whole.len() / 12;
        while said(&seen).len() < enough.min(whole.len()) {
            seen.push(client.next_update().await);
        }
    }
    assert_eq!(said(&seen), whole);
    assert!(resumes > 5, "{resumes}");
}

#[tokio::test]
async fn over_http_a_client_comes_back_to_a_killed_server_by_its_cursor() {
    let mut server = serve(Script::new().call([stream(WORDS, 10_000, 5)])).await;
    let mut client = AcpClient::connect_http(&server).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    let mut seen = client
        .updates_until(|update| update.cursor["offset"].as_u64() >= Some(100))
        .await;
    // Once more over the same connection, inside the message, before the server dies.
    client.cut_streams();
    client.take_up_streams().await;
    let more = said(&seen).len() + 100;
    while said(&seen).len() < more {
        seen.push(client.next_update().await);
    }
    server.kill9().await;
    drop(client);

    server.home().set_script(Script::says("fresh"));
    let server = server.restart().await;
    let mut client = AcpClient::connect_http(&server).await;
    let resumed = client.resume_session(&session, newest(&seen)).await;
    let resumed = resumed.unwrap();
    assert_eq!(resumed["_meta"]["fastness"].get("resyncFrom"), None);
    let rest = client.prompt(&session, "next").await;
    let told = said(&seen) + &rest.text;
    let told = told.strip_suffix("fresh").unwrap();
    let events = server.home().events(&session);
    let mut messages = events.iter().filter(|e| e["type"] == "assistant.message");
    assert_eq!(messages.next().unwrap()["text"], told);
}

/// Cuts a session's journal in the middle of its last event of type `kind`.
pub(crate) fn tear(server: &Program, session: &str, kind: &str) {
    let log = server.home().data_dir().join("sessions").join(session);
    let log = log.join("events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let at = text.rfind(&format!("\"type\":\"{kind}\"")).unwrap();
    fs::write(&log, &text[..at]).unwrap();
}

#[tokio::test]
async fn a_cursor_into_what_recovery_had_to_cut_is_told_where_to_start_over() {
    let script = Script::new()
        .call([say("first")])
        .call([say("second, which will be lost")]);
    let mut server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let mut seen = client.prompt(&session, "one").await.updates;
    seen.extend(client.prompt(&session, "two").await.updates);
    let inside = newest(&seen);
    let before = seen
        .iter()
        .position(|update| said(std::slice::from_ref(update)) == "first");
    let before = after(&seen[before.unwrap()].cursor);

    server.kill9().await;
    tear(&server, &session, "assistant.message");
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    let resumed = client.resume_session(&session, inside.clone()).await;
    let from = resumed.unwrap()["_meta"]["fastness"]["resyncFrom"].clone();
    let events = server.home().events(&session);
    let recovered = events.iter().find(|e| e["type"] == "session.recovered");
    assert_eq!(from, recovered.unwrap()["from"]);
    assert!(from.as_u64() <= inside["afterSeq"].as_u64(), "{from}");

    // What is kept from before, and what comes from there on, is what anybody finds there now.
    seen.retain(|update| update.seq() < from.as_u64());
    let answer = client.prompt(&session, "three").await;
    seen.extend(answer.updates);
    let mut other = AcpClient::connect_ws(&server).await;
    let found = other.load_session(&session).await.unwrap();
    assert_eq!(said(&seen), said(&found));
    assert!(said(&seen).starts_with("first") && !said(&seen).contains("lost"));

    // A cursor that lies before the cut is as good as ever.
    let mut third = AcpClient::connect_ws(&server).await;
    let resumed = third.resume_session(&session, before).await.unwrap();
    assert_eq!(resumed["_meta"]["fastness"].get("resyncFrom"), None);
}

#[tokio::test]
async fn prompts_repeated_after_kill_9_are_answered_as_they_ended_and_run_once() {
    let script = Script::new()
        .call([say("done")])
        .call([stream("x", 10_000, 10)])
        .call([say("new")]);
    let mut server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let done = client.call("session/prompt", named(&session, "done")).await;
    assert_eq!(done.unwrap()["stopReason"], "end_turn");
    client.start("session/prompt", named(&session, "cut")).await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    server.kill9().await;

    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    for _ in 0..2 {
        let done = client.call("session/prompt", named(&session, "done")).await;
        assert_eq!(done.unwrap()["stopReason"], "end_turn");
        let cut = client.call("session/prompt", named(&session, "cut")).await;
        assert_eq!(cut.unwrap_err().data["kind"], "interrupted");
    }
    let kinds = stored(server.home(), &session);
    let count = |kind: &str| kinds.iter().filter(|stored| *stored == kind).count();
    assert_eq!((count("user.message"), count("turn.started")), (2, 2));
}

#[tokio::test]
async fn turns_are_told_in_order_with_the_updates_and_missed_ones_come_with_the_resume() {
    let script = Script::new().call([say("one")]).call([say("two")]);
    let server = serve(script).await;
    let mut client = told_of_turns(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let frames = client.received().into_iter().map(parse);
    let frames: Vec<Value> = frames.collect();
    let told = story(&frames);
    assert_eq!(
        told,
        ["Fastness", "running", "one", "idle", "answer"],
        "{frames:#?}"
    );
    let seen = frames.iter().filter_map(seq_of).max().unwrap();
    client.leave().await;

    let mut other = AcpClient::connect_ws(&server).await;
    other.load_session(&session).await.unwrap();
    other.prompt(&session, "go on").await;
    let mut back = told_of_turns(&server).await;
    back.resume_session(&session, json!({"afterSeq": seen, "epoch": 0}))
        .await
        .unwrap();
    let started = back.next_notification("_fastness/turn").await;
    let ended = back.next_notification("_fastness/turn").await;
    assert_eq!(
        (&started["turn"], &started["state"]),
        (&json!(2), &json!("running"))
    );
    assert_eq!(
        (&ended["turn"], &ended["state"]),
        (&json!(2), &json!("idle"))
    );
    let frames = back.received().into_iter().map(parse);
    let frames: Vec<Value> = frames.collect();
    let seqs: Vec<u64> = frames.iter().filter_map(seq_of).collect();
    assert!(seqs.is_sorted() && seqs[0] > seen, "{seqs:?}");
}

fn parse(frame: &str) -> Value {
    serde_json::from_str(frame).unwrap()
}

/// The event that a frame tells of.
fn seq_of(frame: &Value) -> Option<u64> {
    let params = &frame["params"];
    let update = params["_meta"]["fastness"]["seq"].as_u64();
    update.or_else(|| params["seq"].as_u64())
}

/// What the frames tell of a turn, each in a word.
fn story(frames: &[Value]) -> Vec<String> {
    let word = |frame: &Value| {
        let params = &frame["params"];
        let told = match frame["method"].as_str() {
            Some("_fastness/turn") => &params["state"],
            Some(_) => &params["update"]["content"]["text"],
            None if frame["result"]["stopReason"].is_string() => return Some("answer".to_owned()),
            None => return None,
        };
        let first = told.as_str()?.split(' ').next();
        first.map(ToOwned::to_owned)
    };
    frames.iter().filter_map(word).collect()
}

#[tokio::test]
async fn the_first_answer_decides_and_everyone_else_is_told_that_theirs_is_not_needed() {
    let script = Script::new()
        .call([
            tool("write", json!({"path": "a", "content": "x"})),
            pause(0),
        ])
        .call([say("so be it")]);
    let server = serve(script).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = AcpClient::connect_ws(&server).await;
        client.on_permission(Choice::Hold);
        clients.push(client);
    }
    let session = clients[0].new_session().await;
    for client in &mut clients[1..3] {
        client.load_session(&session).await.unwrap();
    }
    let running = clients[0].start_prompt(&session, "write").await;
    let mut asked = Vec::new();
    for client in &mut clients[..3] {
        asked.push(client.next_request().await);
    }
    // Who comes late is asked too.
    let resumed = clients[3]
        .resume_session(&session, json!({}))
        .await
        .unwrap();
    assert_eq!(resumed["_meta"]["fastness"]["turn"]["state"], "waiting");
    asked.push(clients[3].next_request().await);

    let reject = json!({"outcome": {"outcome": "selected", "optionId": "reject_once"}});
    clients[2].answer(&asked[2], Ok(reject)).await;
    for at in [0, 1, 3] {
        let withdrawn = clients[at].next_notification("$/cancel_request").await;
        assert_eq!(withdrawn["requestId"], asked[at].id);
    }
    // Too late, and no harm.
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    clients[1].answer(&asked[1], Ok(allow)).await;
    let ended = clients[0].finish_prompt(&session, &running).await.unwrap();
    assert_eq!(ended.text, "so be it");
    assert_eq!(server.home().read("a"), None);
    let events = server.home().events(&session);
    let answers = events.iter().filter(|e| e["type"] == "permission.answered");
    let outcomes: Vec<_> = answers.map(|answer| &answer["outcome"]).collect();
    assert_eq!(outcomes, ["denied"]);
}
