//! Resume tokens: another identity enters with one, also after a crash, and a turn goes on with the
//! files of the client that comes back.

use serde_json::{Value, json};
use testkit::script::{Script, pause, say, tool};
use testkit::{AcpClient, Home, Program, Reply};

use crate::faults::with_clock;
use crate::identity::token;
use crate::rest::Rest;
use crate::support::{binary, echo, serve};

const NO_SESSION: i64 = -32_002;

/// Makes a session; gives its id and the token to come back with.
async fn new_session(client: &mut AcpClient) -> (String, String) {
    let cwd = client.directory().to_owned();
    let made = client.new_session_in(&cwd).await.unwrap();
    (word(&made["sessionId"]), resume_token(&made))
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn resume_token(answer: &Value) -> String {
    let token = word(&answer["_meta"]["fastness"]["resumeToken"]);
    assert_eq!(token.len(), 43, "{answer}");
    token
}

async fn connect(server: &Program, secret: &str, capabilities: Value) -> AcpClient {
    let client = AcpClient::dial_ws(&server.acp_url(), Some(secret))
        .await
        .unwrap();
    let mut client = client.in_directory(server.home().workspace());
    client.initialize_with(capabilities).await;
    client
}

#[tokio::test]
async fn a_resume_token_lets_another_identity_in_and_its_successor_works_after_a_crash() {
    let mut server = serve(echo()).await;
    let secret = token(server.home(), &["friend"]).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let (session, first) = new_session(&mut owner).await;
    owner.prompt(&session, "one").await;

    let mut friend = connect(&server, &secret, json!({})).await;
    let refused = friend
        .resume_session(&session, json!({}))
        .await
        .unwrap_err();
    assert_eq!(refused.code, NO_SESSION);
    let shown = json!({"resumeToken": first});
    let entered = friend
        .resume_session(&session, shown.clone())
        .await
        .unwrap();
    let second = resume_token(&entered);
    assert_ne!(first, second);
    assert_eq!(friend.prompt(&session, "two").await.text, "you said two");
    // It may act, but the session is not its own: it cannot delete it, and it is not listed.
    let list = friend.call("session/list", json!({})).await.unwrap();
    assert_eq!(list["sessions"], json!([]));
    friend
        .call("session/delete", json!({"sessionId": session}))
        .await
        .unwrap();

    server.kill9().await;
    let server = server.restart().await;
    let mut friend = connect(&server, &secret, json!({})).await;
    let shown = json!({"resumeToken": second});
    friend.resume_session(&session, shown).await.unwrap();
    assert_eq!(
        friend.prompt(&session, "three").await.text,
        "you said three"
    );
    let log = server.stderr();
    assert!(!log.contains(&first) && !log.contains(&second));
    let kept = std::fs::read_to_string(
        server
            .home()
            .data_dir()
            .join("sessions")
            .join(&session)
            .join("resume.json"),
    );
    let kept = kept.unwrap();
    assert!(
        !kept.contains(&first) && !kept.contains(&second),
        "only hashes are kept"
    );
}

#[tokio::test]
async fn a_turn_goes_on_with_the_files_of_the_client_that_comes_back() {
    let script = Script::new()
        .call([pause(300), tool("read", json!({"path": "notes.txt"}))])
        .call([say("it says ${result}")]);
    let server = serve(script).await;
    server.home().write("notes.txt", "the server's own text");
    let files = json!({"fs": {"readTextFile": true}});
    let mut first = connect(&server, server.token(), files.clone()).await;
    let (session, resume) = new_session(&mut first).await;
    first.start_prompt(&session, "read").await;
    first
        .updates_until(|update| update.kind == "agent_message_chunk")
        .await;
    drop(first);

    let mut back = connect(&server, server.token(), files).await;
    back.on_request(
        "fs/read_text_file",
        Reply::Result(json!({"content": "not saved yet"})),
    );
    let cursor = json!({"resumeToken": resume, "afterSeq": 0});
    back.resume_session(&session, cursor).await.unwrap();
    let told = back
        .updates_until(|update| update.text().is_some_and(|text| text.contains("it says")))
        .await;
    let last = told
        .last()
        .and_then(|update| update.text())
        .unwrap_or_default();
    assert!(last.contains("not saved yet"), "{last}");
}

#[tokio::test]
async fn a_resume_token_that_was_succeeded_a_minute_ago_or_is_a_day_old_opens_nothing() {
    let place = tempfile::tempdir().unwrap();
    let clock = place.path().join("clock");
    std::fs::write(&clock, "+0").unwrap();
    let home = with_clock(Home::new(binary(), echo()), &clock);
    let server = Program::serve_in(home).await;
    let secret = token(server.home(), &["friend"]).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let (session, first) = new_session(&mut owner).await;
    let mut friend = connect(&server, &secret, json!({})).await;
    let mut shows = async |token: &str| {
        let entered = friend.resume_session(&session, json!({"resumeToken": token}));
        let entered = entered.await.map_err(|refused| refused.code);
        entered.map(|entered| resume_token(&entered))
    };

    let second = shows(&first).await.unwrap();
    let third = shows(&second).await.unwrap();
    // An answer may be lost on the way, so the old one is good for a while.
    shows(&first).await.unwrap();
    std::fs::write(&clock, "+120").unwrap();
    assert_eq!(shows(&first).await, Err(NO_SESSION));
    let fourth = shows(&third).await.unwrap();
    assert_eq!(
        shows(&second).await,
        Err(NO_SESSION),
        "its successor is used"
    );
    std::fs::write(&clock, "+90000").unwrap();
    assert_eq!(shows(&fourth).await, Err(NO_SESSION), "it is a day old");

    // Whose session it is needs none.
    let mut owner = AcpClient::connect_ws(&server).await;
    owner.resume_session(&session, json!({})).await.unwrap();
    assert_eq!(owner.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn whoever_entered_with_a_resume_token_cannot_copy_the_session() {
    let server = serve(echo()).await;
    let secret = token(server.home(), &["friend"]).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let (session, shown) = new_session(&mut owner).await;
    owner.prompt(&session, "one").await;
    let mut friend = connect(&server, &secret, json!({})).await;
    let shown = json!({"resumeToken": shown});
    friend.resume_session(&session, shown).await.unwrap();
    assert_eq!(friend.prompt(&session, "two").await.text, "you said two");

    let path = format!("/sessions/{session}/fork");
    let head = json!({"at": server.home().events(&session).len()});
    let guest = Rest::with(&server, &secret);
    guest.post(&path, &head).await.is_refused(404, "not_found");
    // Not because of what it asked for: its owner gets it.
    Rest::of(&server).post(&path, &head).await.is(201);
}

#[tokio::test]
async fn a_turn_waits_for_a_successor_that_offers_the_same_and_asks_nobody_else() {
    let script = Script::new()
        .call([pause(300), tool("read", json!({"path": "notes.txt"}))])
        .call([say("it says ${result}")]);
    let server = serve(script).await;
    server.home().write("notes.txt", "the server's own text");
    let files = json!({"fs": {"readTextFile": true}});
    let mut first = connect(&server, server.token(), files.clone()).await;
    let (session, resume) = new_session(&mut first).await;
    first.start_prompt(&session, "read").await;
    first
        .updates_until(|update| update.kind == "agent_message_chunk")
        .await;
    drop(first);

    // It comes back as another program would: without its files.
    let mut without = connect(&server, server.token(), json!({})).await;
    let cursor = json!({"resumeToken": resume, "afterSeq": 0});
    let entered = without.resume_session(&session, cursor).await.unwrap();
    let successor = resume_token(&entered);
    without
        .updates_until(|update| update.kind == "tool_call")
        .await;

    // The successor of the successor has them again.
    let mut back = connect(&server, server.token(), files).await;
    back.on_request(
        "fs/read_text_file",
        Reply::Result(json!({"content": "not saved yet"})),
    );
    let cursor = json!({"resumeToken": successor, "afterSeq": 0});
    back.resume_session(&session, cursor).await.unwrap();
    let told = back
        .updates_until(|update| update.text().is_some_and(|text| text.contains("it says")))
        .await;
    let last = told.last().and_then(|update| update.text());
    assert!(last.is_some_and(|text| text.contains("not saved yet")));
    // What was sent to it before this answer, it has read by then.
    without.call("session/list", json!({})).await.unwrap();
    assert!(without.requests().is_empty(), "{:?}", without.requests());
}
