//! REST: a session followed as server-sent events, left and taken up again.

use serde_json::{Value, json};
use testkit::raw::EventStream;
use testkit::script::{Script, say, stream, tool};
use testkit::{AcpClient, Program, wait_for};
use wire::sse::SseEvent;

use crate::identity::token;
use crate::rest::Rest;
use crate::resume::tear;
use crate::support::{echo, serve, serve_with};

async fn follow(server: &Program, session: &str, after: &str, headers: &str) -> EventStream {
    let path = format!("/api/v1/sessions/{session}/stream{after}");
    EventStream::open(server, (server.token(), &path), headers).await
}

fn data(event: &SseEvent) -> Value {
    serde_json::from_str(&event.data).unwrap()
}

fn is(event: &SseEvent, name: &str) -> bool {
    event.event.as_deref() == Some(name)
}

fn is_idle(event: &SseEvent) -> bool {
    is(event, "turn") && data(event)["state"] == "idle"
}

/// What the assistant says in an update.
fn text_of(event: &SseEvent) -> Option<String> {
    let update = data(event)["update"].take();
    let said = is(event, "update") && update["sessionUpdate"] == "agent_message_chunk";
    let text = update["content"]["text"].as_str().map(str::to_owned);
    let greeting = data(event)["update"]["_meta"]["fastness"]["greeting"] == true
        || data(event)["_meta"]["fastness"]["greeting"] == true;
    text.filter(|_| said && !greeting)
}

/// Reads until the turn is over; gives all events.
async fn to_the_end(events: &mut EventStream) -> Vec<SseEvent> {
    let mut seen = Vec::new();
    loop {
        let event = events.next_event().await.unwrap();
        let is_over = is_idle(&event);
        seen.push(event);
        if is_over {
            return seen;
        }
    }
}

async fn prompt(rest: &Rest<'_>, session: &str, text: &str) {
    let path = format!("/sessions/{session}/prompts");
    rest.post(&path, &json!({"prompt": text})).await.is(202);
}

fn quiet() -> [(&'static str, &'static str); 1] {
    [("FASTNESS_GREETING", "false")]
}

#[tokio::test]
async fn a_turn_is_followed_live_and_again_from_any_id() {
    let script = Script::new().call([stream("tick ", 20, 5), say("done")]);
    let server = serve_with(script, &quiet()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let mut live = follow(&server, &id, "", "").await;
    assert_eq!(
        live.answer.header("content-type"),
        Some("text/event-stream")
    );
    assert_eq!(live.answer.header("cache-control"), Some("no-store"));
    let first = live.next_event().await.unwrap();
    assert_eq!(
        data(&first)["update"]["sessionUpdate"],
        "config_option_update"
    );
    let idle = live.next_event().await.unwrap();
    assert!(is_idle(&idle) && idle.id.is_none(), "{idle:?}");
    prompt(&rest, &id, "go").await;
    let seen = to_the_end(&mut live).await;
    let whole = "tick ".repeat(20) + "done";
    let said: String = seen.iter().filter_map(text_of).collect();
    assert_eq!(said, whole);
    assert!(
        seen.iter()
            .all(|event| data(event)["sessionId"] == id.as_str())
    );
    assert_eq!(data(seen.last().unwrap())["stopReason"], "end_turn");

    // From each place the rest comes: nothing is missing and nothing comes twice.
    let mut so_far = String::new();
    for event in &seen {
        so_far.extend(text_of(event));
        let Some(place) = event.id.as_deref().filter(|_| !is_idle(event)) else {
            continue;
        };
        let mut rest_of = follow(&server, &id, &format!("?after={place}"), "").await;
        let rest_of = to_the_end(&mut rest_of).await;
        let rest_said: String = rest_of.iter().filter_map(text_of).collect();
        assert_eq!(format!("{so_far}{rest_said}"), whole, "after {place}");
    }
    let mut all = follow(&server, &id, "?after=0", "").await;
    let all = to_the_end(&mut all).await;
    assert_eq!(all.iter().filter_map(text_of).collect::<String>(), whole);
    // A reader that comes back says where it was; that counts more than its address.
    let place = format!(
        "last-event-id: {}\r\n",
        all[all.len() - 2].id.as_deref().unwrap()
    );
    let mut back = follow(&server, &id, "?after=0", &place).await;
    let back = to_the_end(&mut back).await;
    assert_eq!(back.iter().filter_map(text_of).collect::<String>(), "");
    for wrong in ["?after=x", "?after=", "?after=1.2.3.4", "?before=1"] {
        let path = format!("/sessions/{id}/stream{wrong}");
        rest.get(&path).await.is_refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_reader_that_is_ahead_of_the_journal_is_told_to_start_over() {
    let server = serve_with(echo(), &quiet()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let mut events = follow(&server, &id, "?after=0.999", "").await;
    let resync = events.next_event().await.unwrap();
    assert!(is(&resync, "resync"), "{resync:?}");
    assert_eq!(data(&resync), json!({"from": 1, "epoch": 0}));
    prompt(&rest, &id, "hi").await;
    let seen = to_the_end(&mut events).await;
    let said: String = seen.iter().filter_map(text_of).collect();
    assert_eq!(said, "you said hi");
}

#[tokio::test]
async fn a_reader_of_what_recovery_had_to_cut_is_told_where_to_start_over() {
    let script = Script::new()
        .call([say("first")])
        .call([say("second, which will be lost")]);
    let mut server = serve_with(script, &quiet()).await;
    let (id, seen) = {
        let rest = Rest::of(&server);
        let id = rest.session().await;
        let mut events = follow(&server, &id, "?after=0", "").await;
        prompt(&rest, &id, "one").await;
        let mut seen = to_the_end(&mut events).await;
        prompt(&rest, &id, "two").await;
        seen.extend(to_the_end(&mut events).await);
        (id, seen)
    };
    let place = seen.iter().rev().find_map(|event| event.id.clone());
    let place = place.unwrap();
    server.kill9().await;
    tear(&server, &id, "assistant.message");

    let server = server.restart().await;
    let rest = Rest::of(&server);
    let mut events = follow(&server, &id, &format!("?after={place}"), "").await;
    let resync = events.next_event().await.unwrap();
    assert!(is(&resync, "resync"), "{resync:?}");
    let stored = server.home().events(&id);
    let recovered = stored.iter().find(|e| e["type"] == "session.recovered");
    let from = recovered.unwrap()["from"].as_u64().unwrap();
    assert_eq!(data(&resync), json!({"from": from, "epoch": 1}));

    // What is kept from before, and what comes now, is what anybody finds who begins anew.
    prompt(&rest, &id, "three").await;
    let mut kept: Vec<SseEvent> = seen.into_iter().filter(|e| seq_of(e) < from).collect();
    kept.extend(till_result_of(&mut events, 3).await);
    let mut anew = follow(&server, &id, "?after=0", "").await;
    let anew = till_result_of(&mut anew, 3).await;
    let told = |events: &[SseEvent]| events.iter().filter_map(text_of).collect::<String>();
    assert_eq!(told(&kept), told(&anew));
    assert!(told(&kept).starts_with("first") && !told(&kept).contains("lost"));
    // Its newest place is of the new epoch, so it is told nothing of the kind again.
    let place = kept.iter().rev().find_map(|event| event.id.clone());
    let mut back = follow(&server, &id, &format!("?after={}", place.unwrap()), "").await;
    assert!(!is(&back.next_event().await.unwrap(), "resync"));
}

/// The event that a place is in.
fn seq_of(event: &SseEvent) -> u64 {
    let place = event.id.as_deref().unwrap_or_default();
    let mut parts = place.split('.').filter_map(|part| part.parse().ok());
    parts.nth(1).unwrap_or(0)
}

/// Reads until turn `turn` is over.
async fn till_result_of(events: &mut EventStream, turn: u64) -> Vec<SseEvent> {
    let mut seen = Vec::new();
    loop {
        seen.extend(to_the_end(events).await);
        if seen.last().is_some_and(|last| data(last)["turn"] == turn) {
            return seen;
        }
    }
}

#[tokio::test]
async fn a_reader_is_told_to_drop_what_was_undone_and_one_that_comes_later_never_sees_it() {
    let server = serve_with(echo(), &quiet()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let mut live = follow(&server, &id, "?after=0", "").await;
    prompt(&rest, &id, "keep").await;
    to_the_end(&mut live).await;
    let end = server.home().events(&id).len();
    prompt(&rest, &id, "undo").await;
    to_the_end(&mut live).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&id).await.unwrap();
    let rewind = json!({"sessionId": id, "to": end});
    client
        .call("_fastness/session/rewind", rewind)
        .await
        .unwrap();
    let resync = loop {
        let event = live.next_event().await.unwrap();
        if is(&event, "resync") {
            break event;
        }
    };
    assert_eq!(data(&resync), json!({"from": end + 1, "epoch": 0}));
    // Its place is after the rewind: whoever comes back from there is told nothing anew.
    let place = resync.id.clone().unwrap();
    prompt(&rest, &id, "more").await;
    let live = to_the_end(&mut live).await;
    let mut back = follow(&server, &id, &format!("?after={place}"), "").await;
    let back = to_the_end(&mut back).await;
    for seen in [&live, &back] {
        let said: String = seen.iter().filter_map(text_of).collect();
        assert_eq!(said, "you said more");
    }
}

#[tokio::test]
async fn a_question_shows_as_a_turn_that_waits() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a.txt", "content": "x"}))])
        .call([say("done")]);
    let server = serve_with(script, &quiet()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let mut events = follow(&server, &id, "?after=0", "").await;
    prompt(&rest, &id, "go").await;
    let mut states = Vec::new();
    loop {
        let event = events.next_event().await.unwrap();
        if !is(&event, "turn") {
            continue;
        }
        let state = data(&event)["state"].as_str().unwrap().to_owned();
        states.push(state.clone());
        match state.as_str() {
            "waiting" => {
                let open = rest.get("/permissions").await.is(200);
                let asked = open["permissions"][0]["id"].as_str().unwrap().to_owned();
                let chosen = json!({"optionId": "allow_once"});
                rest.post(&format!("/permissions/{asked}"), &chosen)
                    .await
                    .is(204);
            }
            "idle" => break,
            _ => {}
        }
    }
    assert_eq!(states, ["running", "waiting", "running", "idle"]);
}

#[tokio::test]
async fn a_stream_is_taken_up_after_the_server_was_killed() {
    let script = Script::new().call([stream("tick ", 60_000, 5)]);
    let mut server = serve_with(script, &quiet()).await;
    let (id, said, place) = {
        let rest = Rest::of(&server);
        let id = rest.session().await;
        let mut events = follow(&server, &id, "?after=0", "").await;
        prompt(&rest, &id, "go").await;
        let (mut said, mut place) = (String::new(), String::new());
        while said.len() < 100 {
            let event = events.next_event().await.unwrap();
            said.extend(text_of(&event));
            place = event.id.unwrap_or(place);
        }
        (id, said, place)
    };
    server.kill9().await;
    let server = server.restart().await;
    let mut events = follow(&server, &id, &format!("?after={place}"), "").await;
    let rest_of = to_the_end(&mut events).await;
    let last = data(rest_of.last().unwrap());
    assert_eq!(last["error"]["kind"], "interrupted");
    let rest_said: String = rest_of.iter().filter_map(text_of).collect();
    let stored = server.home().events(&id);
    let whole = stored
        .iter()
        .find(|event| event["type"] == "assistant.message");
    assert_eq!(whole.unwrap()["text"], format!("{said}{rest_said}"));
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_let_go_and_others_are_not_held_up() {
    let script = Script::new().call([stream(&"x".repeat(4_000), 4_000, 0), say("end")]);
    let settings = [
        ("FASTNESS_GREETING", "false"),
        ("FASTNESS_LIMITS_STALL_MS", "1000"),
        ("FASTNESS_LOG", "debug"),
    ];
    let server = serve_with(script, &settings).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let path = format!("/api/v1/sessions/{id}/stream?after=0");
    let mut stuck = EventStream::open_narrow(&server, (server.token(), &path), "").await;
    let mut reader = follow(&server, &id, "?after=0", "").await;
    prompt(&rest, &id, "go").await;
    let seen = to_the_end(&mut reader).await;
    let said: usize = seen.iter().filter_map(text_of).map(|text| text.len()).sum();
    assert_eq!(said, 16_000_003);
    // It ends although nobody reads it: what comes now is what was on the way.
    wait_for("the reader that stopped is let go", || {
        server.stderr().contains("end=Stalled")
    })
    .await;
    let mut got = 0;
    while let Some(event) = stuck.next_event().await {
        got += text_of(&event).map_or(0, |text| text.len());
    }
    assert!(got < said, "{got}");
}

#[tokio::test]
async fn a_stream_ends_with_its_token_its_session_and_the_server() {
    let server = serve(echo()).await;
    let named = token(server.home(), &["guest"]).await;
    let guest = Rest::with(&server, &named);
    let cwd = json!({"cwd": server.home().workspace()});
    let id = guest.post("/sessions", &cwd).await.is(201)["id"].clone();
    let path = format!("/api/v1/sessions/{}/stream", id.as_str().unwrap());
    let mut events = EventStream::open(&server, (&named, &path), "").await;
    let mut command = server.home().clean(server.home().binary());
    command.args(["token", "revoke", "guest", "--data-dir"]);
    let output = command
        .arg(server.home().data_dir())
        .output()
        .await
        .unwrap();
    assert!(output.status.success());
    while events.next_event().await.is_some() {}

    let rest = Rest::of(&server);
    let id = rest.session().await;
    let mut events = follow(&server, &id, "", "").await;
    rest.delete(&format!("/sessions/{id}")).await.is(204);
    while events.next_event().await.is_some() {}
    let id = rest.session().await;
    let mut events = follow(&server, &id, "", "").await;
    let mut server = server;
    assert!(server.terminate().await.success());
    while events.next_event().await.is_some() {}
}
