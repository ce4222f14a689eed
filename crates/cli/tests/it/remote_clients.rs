//! Clients over single HTTP requests beside others: isolation, idleness, floods, revocation, and
//! readers that vanish or stall.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::raw::EventStream;
use testkit::script::{Script, say, stream};
use testkit::{AcpClient, Program, RawRemote, wait_for};

use crate::identity::token;
use crate::support::{echo, serve, serve_with, stored};

fn message(id: &str, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn prompt(session: &str, text: &str) -> Value {
    let blocks = json!([{"type": "text", "text": text}]);
    message(
        "prompt",
        "session/prompt",
        json!({"sessionId": session, "prompt": blocks}),
    )
}

/// A session made by hand, and its own stream.
async fn new_session(
    server: &Program,
    remote: &RawRemote,
    main: &mut EventStream,
) -> (String, EventStream) {
    let cwd = server.home().workspace();
    let new = message("new", "session/new", json!({"cwd": cwd, "mcpServers": []}));
    assert_eq!(remote.post(server, "", &new).await.status, 202);
    let made = main.until(|message| message["id"] == "new").await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let own = remote.stream(server, &of(&session)).await;
    (session, own)
}

fn of(session: &str) -> String {
    format!("acp-session-id: {session}\r\n")
}

fn says(message: &Value, text: &str) -> bool {
    let said = message["params"]["update"]["content"]["text"].as_str();
    said.is_some_and(|said| said.contains(text))
}

async fn turn_ends(server: &Program, session: &str) -> Value {
    let ended = || {
        let kinds = stored(server.home(), session);
        kinds.last().is_some_and(|kind| kind == "result")
    };
    wait_for("the turn goes on to its end", ended).await;
    server.home().events(session).last().unwrap()["stopReason"].clone()
}

/// Asks until the connection is not there any more; that takes a moment after its streams ended.
async fn is_gone(server: &Program, remote: &RawRemote) {
    let deadline = Instant::now() + testkit::program::DEADLINE;
    let list = message("late", "session/list", json!({}));
    while remote.post(server, "", &list).await.status != 404 {
        assert!(Instant::now() < deadline, "the connection is still there");
    }
    for (method, headers) in [("GET", "accept: text/event-stream\r\n"), ("DELETE", "")] {
        let answer = remote.ask(server, method, headers).await;
        assert_eq!(answer.status, 404, "{method}: {answer}");
    }
}

/// What `other` is told when it acts on `named`, without what differs in every answer.
async fn refusals(other: &mut AcpClient, named: &str) -> Vec<String> {
    let mut refusals = Vec::new();
    for (method, mut params) in [
        (
            "session/prompt",
            json!({"prompt": [{"type": "text", "text": "hi"}]}),
        ),
        ("session/close", json!({})),
        ("session/set_mode", json!({"modeId": "plan"})),
    ] {
        params["sessionId"] = json!(named);
        let mut error = other.call(method, params).await.unwrap_err();
        assert_eq!(error.code, -32002, "{method}");
        assert!(error.data["requestId"].take().is_string(), "{method}");
        refusals.push(format!("{} {} {}", error.code, error.message, error.data));
    }
    refusals
}

#[tokio::test]
async fn a_01_neither_http_nor_a_websocket_reaches_into_the_others_sessions() {
    let server = serve(echo()).await;
    let unknown = "0".repeat(32);
    for (owner_is_http, other_is_http) in [(true, true), (true, false), (false, true)] {
        let connect = async |is_http: bool| match is_http {
            true => AcpClient::connect_http(&server).await,
            false => AcpClient::connect_ws(&server).await,
        };
        let mut owner = connect(owner_is_http).await;
        let mut other = connect(other_is_http).await;
        let session = owner.new_session().await;
        let (of_mine, of_nobodys) = (
            refusals(&mut other, &session).await,
            refusals(&mut other, &unknown).await,
        );
        assert_eq!(of_mine, of_nobodys, "not yours and not there look alike");
        other.cancel(&session).await;
        let forged = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
        let forged = json!({"jsonrpc": "2.0", "id": "made-up", "result": forged});
        other.raw(&forged.to_string()).await;
        let answer = owner.prompt(&session, "still mine").await;
        assert_eq!(answer.text, "you said still mine");
        let kinds = stored(server.home(), &session);
        let prompts = kinds.iter().filter(|kind| *kind == "user.message");
        assert_eq!(prompts.count(), 1);
        other.call("session/list", json!({})).await.unwrap();
        assert!(other.take_updates(&session).is_empty());
    }
}

#[tokio::test]
async fn a_01_a_stream_opened_for_a_session_one_is_not_attached_to_stays_empty() {
    let server = serve(echo()).await;
    let mut owner = AcpClient::connect_http(&server).await;
    let session = owner.new_session().await;
    let other = RawRemote::open(&server).await;
    let mut peeping = other.stream(&server, &of(&session)).await;
    assert_eq!(peeping.answer.status, 200);
    owner.prompt(&session, "mine").await;
    // Whatever waited for it would be sent before the end.
    assert_eq!(other.ask(&server, "DELETE", "").await.status, 202);
    assert_eq!(peeping.next().await, None);
    assert_eq!(owner.prompt(&session, "mine").await.text, "you said mine");
}

#[tokio::test]
async fn a_01_another_principal_finds_nothing_of_yours_over_http_either() {
    let server = serve(echo()).await;
    let stranger = token(server.home(), &["stranger"]).await;
    let mut owner = AcpClient::connect_http(&server).await;
    let session = owner.new_session().await;
    owner.prompt(&session, "mine").await;
    let remote = RawRemote::open_as(&server, &stranger).await;
    let mut main = remote.stream(&server, "").await;
    let mut own = remote.stream(&server, &of(&session)).await;
    let cwd = server.home().workspace();
    for method in ["session/load", "session/resume"] {
        let mut told = Vec::new();
        for named in [session.as_str(), &"0".repeat(32)] {
            let attach = json!({"sessionId": named, "cwd": cwd, "mcpServers": []});
            let attach = message("attach", method, attach);
            let posted = remote.post(&server, "", &attach).await;
            assert_eq!((posted.status, posted.body.as_str()), (202, ""), "{method}");
            let mut refused = main.next().await.unwrap();
            assert_eq!(refused["error"]["code"], -32002, "{method}: {refused}");
            assert!(refused["error"]["data"]["requestId"].take().is_string());
            told.push(refused.to_string());
        }
        assert_eq!(told[0], told[1], "{method}: not yours and not there");
    }
    let list = message("list", "session/list", json!({}));
    remote.post(&server, "", &list).await;
    assert_eq!(main.next().await.unwrap()["result"]["sessions"], json!([]));
    owner.prompt(&session, "still mine").await;
    assert_eq!(remote.ask(&server, "DELETE", "").await.status, 202);
    assert_eq!(own.next().await, None, "nothing of it came here");
}

#[tokio::test]
async fn a_13_over_http_the_first_prompt_greets_and_the_second_does_not() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_http(&server).await;
    let session = client.new_session().await;
    let first = client.prompt(&session, "one").await;
    let mut happened = first.updates.iter().filter(|update| !update.is_state());
    assert!(happened.next().unwrap().is_greeting(), "it comes first");
    let is_greeting = testkit::Update::is_greeting;
    assert_eq!(first.updates.iter().filter(|u| is_greeting(u)).count(), 1);
    // Not even if the client comes back in between.
    client.cut_streams();
    client.take_up_streams().await;
    let second = client.prompt(&session, "two").await;
    assert!(!second.updates.iter().any(is_greeting));
    assert_eq!(second.text, "you said two");
}

#[tokio::test]
async fn a_18_an_idle_connection_over_http_ends_with_its_streams_and_one_in_use_stays() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_IDLE_MS", "700")]).await;
    let mut user = AcpClient::connect_http(&server).await;
    let session = user.new_session().await;
    let idle = RawRemote::open(&server).await;
    let mut main = idle.stream(&server, "").await;
    let mut waiting = idle.stream(&server, &of(&"0".repeat(32))).await;
    assert_eq!(main.next().await, None, "no session is used through it");
    assert_eq!(waiting.next().await, None);
    is_gone(&server, &idle).await;
    let answer = user.prompt(&session, "still here").await;
    assert_eq!(answer.text, "you said still here");
}

#[tokio::test]
async fn b_11_over_http_the_idle_clock_stops_while_somebody_reads() {
    let script = Script::new().call([stream("x", 100, 10)]);
    let server = serve_with(script, &[("FASTNESS_LIMITS_IDLE_MS", "500")]).await;
    let mut client = AcpClient::connect_http(&server).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text.len(), 100);
}

#[tokio::test]
async fn a_19_a_flood_of_posts_is_refused_with_the_time_to_wait_and_neighbours_are_served() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_REQUESTS_PER_SECOND", "5")]).await;
    let mut flooder = AcpClient::connect_http(&server).await;
    let mut neighbour = AcpClient::connect_http(&server).await;
    let session = neighbour.new_session().await;
    let started = Instant::now();
    let mut requests = Vec::new();
    for _ in 0..40 {
        requests.push(flooder.start("session/list", json!({})).await);
    }
    let allowed = 10 + 5 * (started.elapsed().as_secs() + 1);
    let (mut served, mut refused) = (0, 0);
    for request in &requests {
        match flooder.wait(request).await {
            Ok(_) => served += 1,
            Err(error) => {
                assert_eq!(error.code, -32011);
                assert!(error.data["retryAfterMs"].as_u64() > Some(0));
                refused += 1;
            }
        }
    }
    assert!(served <= allowed, "{served} of 40 were served");
    assert_eq!(served + refused, 40, "each got one answer");
    assert_eq!(neighbour.prompt(&session, "hi").await.text, "you said hi");
}

pub(crate) async fn revoke(server: &Program, name: &str) {
    let mut revoke = server.home().clean(server.home().binary());
    revoke.args(["token", "revoke", name, "--data-dir"]);
    let done = revoke.arg(server.home().data_dir()).status().await;
    assert!(done.unwrap().success());
}

/// What is promised is a second; the rest is for a machine that has other things to do.
const SOON: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_23_revoking_a_token_ends_its_streams_and_connections_and_the_turn_goes_on() {
    let server = serve(Script::new().call([stream("x", 150, 10)])).await;
    let friend = token(server.home(), &["friend"]).await;
    let remote = RawRemote::open_as(&server, &friend).await;
    let unread = RawRemote::open_as(&server, &friend).await;
    let mut main = remote.stream(&server, "").await;
    let (session, mut own) = new_session(&server, &remote, &mut main).await;
    let posted = remote.post(&server, "", &prompt(&session, "go")).await;
    assert_eq!(posted.status, 202);
    own.until(|message| says(message, "x")).await;
    revoke(&server, "friend").await;
    let revoked = Instant::now();
    assert_eq!(main.next().await, None);
    while own.next().await.is_some() {}
    assert!(revoked.elapsed() < SOON, "{:?}", revoked.elapsed());
    let list = message("late", "session/list", json!({}));
    for remote in [&remote, &unread] {
        assert_eq!(remote.post(&server, "", &list).await.status, 401);
        let get = remote
            .ask(&server, "GET", "accept: text/event-stream\r\n")
            .await;
        assert_eq!(get.status, 401);
        assert_eq!(remote.ask(&server, "DELETE", "").await.status, 401);
    }
    let gone = || server.stderr().matches("disconnected").count() == 2;
    wait_for("both connections are gone, also the one nobody read", gone).await;
    assert_eq!(turn_ends(&server, &session).await, "end_turn");
}

#[tokio::test]
async fn a_23_a_token_that_expires_ends_its_streams() {
    let server = serve(echo()).await;
    let short = token(server.home(), &["short", "--expires", "1s"]).await;
    let remote = RawRemote::open_as(&server, &short).await;
    let mut main = remote.stream(&server, "").await;
    assert_eq!(main.next().await, None);
    assert_eq!(remote.ask(&server, "DELETE", "").await.status, 401);
}

/// Lines of the log at one of these levels.
fn loud(server: &Program) -> Vec<String> {
    let log = server.stderr();
    let is_loud = |line: &&str| {
        ["WARN", "ERROR", "panicked"]
            .iter()
            .any(|l| line.contains(l))
    };
    log.lines().filter(is_loud).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_12_a_16_streams_reset_in_mid_turn_hurt_nobody_and_the_turns_end_normally() {
    let script = Script::new().call([stream(&"x".repeat(1_000), 150, 2)]);
    let server = serve_with(script, &[("FASTNESS_LOG", "debug")]).await;
    let mut neighbour = AcpClient::connect_http(&server).await;
    let own = neighbour.new_session().await;
    let running = neighbour.start_prompt(&own, "go").await;
    let mut sessions = Vec::new();
    for way in 0..4 {
        let remote = RawRemote::open(&server).await;
        let mut main = remote.stream(&server, "").await;
        let (session, mut own) = new_session(&server, &remote, &mut main).await;
        remote.post(&server, "", &prompt(&session, "go")).await;
        own.until(|message| says(message, "xxx")).await;
        // What is on its way to it now can never be delivered.
        match way {
            0 => own.reset(),
            1 => drop(own),
            2 => main.reset(),
            _ => drop(remote.ask(&server, "DELETE", "").await),
        }
        sessions.push(session);
    }
    let answer = neighbour.finish_prompt(&own, &running).await.unwrap();
    assert_eq!(answer.text.len(), 150_000);
    for session in sessions {
        assert_eq!(turn_ends(&server, &session).await, "end_turn");
    }
    assert_eq!(loud(&server), [""; 0], "clients come and go");
}

#[tokio::test]
async fn b_18_a_reader_of_a_stream_that_stalls_is_dropped_and_can_come_back() {
    let text = "~".repeat(100_000);
    let script = Script::new()
        .call([say("short")])
        .call([stream(&text, 80, 0)]);
    let settings = [
        ("FASTNESS_LIMITS_STALL_MS", "500"),
        ("FASTNESS_LOG", "debug"),
    ];
    let server = serve_with(script, &settings).await;
    let remote = RawRemote::open(&server).await;
    let mut main = remote.stream(&server, "").await;
    let (session, mut own) = new_session(&server, &remote, &mut main).await;
    remote.post(&server, "", &prompt(&session, "one")).await;
    let mut last = None;
    while let Some(event) = own.next_event().await {
        last = event.id;
        if event.data.contains("stopReason") {
            break;
        }
    }
    drop(own);
    let after = format!("{}last-event-id: {}\r\n", of(&session), last.unwrap());
    let mut stalled = remote.narrow_stream(&server, &after).await;
    remote.post(&server, "", &prompt(&session, "two")).await;
    let mut read = 0;
    let last = loop {
        let event = stalled.next_event().await.unwrap();
        read += event.data.matches('~').count();
        if read > 0 {
            break event.id.unwrap();
        }
    };
    assert_eq!(turn_ends(&server, &session).await, "end_turn");
    wait_for("the stalled reader is dropped", || {
        server.stderr().contains("end=Stalled")
    })
    .await;
    let again = format!("{}last-event-id: {last}\r\n", of(&session));
    let mut own = remote.stream(&server, &again).await;
    assert_eq!(own.answer.status, 200);
    let answer = own
        .until(|message| {
            let said = message["params"]["update"]["content"]["text"].as_str();
            read += said.map_or(0, |said| said.matches('~').count());
            message["id"] == "prompt"
        })
        .await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(read, 80 * text.len(), "all of it, once");
}
