//! Several clients at one session: who is left to answer a question, to hold the session, and to be
//! told what came before.

use serde_json::{Value, json};
use testkit::script::{Script, say, stream, tool};
use testkit::{AcpClient, AgentRequest, Choice, Program, RequestId, RpcError, wait_for};

use crate::identity::token;
use crate::support::{serve, stored, two_clients};

fn writes() -> Script {
    Script::new()
        .call([tool("write", json!({"path": "a", "content": "x"}))])
        .call([say("so be it")])
}

/// A client that may look and not act.
async fn observer(server: &Program) -> AcpClient {
    let secret = token(server.home(), &["watcher", "--scope", "observe"]).await;
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(&secret)).await;
    let mut client = dialed.unwrap().in_directory(server.home().workspace());
    client.initialize().await;
    client
}

/// Two clients that are asked whether a file may be written.
struct Asked {
    server: Program,
    session: String,
    running: RequestId,
    clients: [AcpClient; 2],
    questions: [AgentRequest; 2],
}

impl Asked {
    async fn both() -> Self {
        let server = serve(writes()).await;
        let (mut first, mut second) = two_clients(&server).await;
        first.on_permission(Choice::Hold);
        second.on_permission(Choice::Hold);
        let session = first.new_session().await;
        second.load_session(&session).await.unwrap();
        let running = first.start_prompt(&session, "write").await;
        let questions = [first.next_request().await, second.next_request().await];
        Self {
            server,
            session,
            running,
            clients: [first, second],
            questions,
        }
    }

    /// The client `at` cannot ask anybody; returns when the session knows.
    async fn unable(&mut self, at: usize) {
        let error = RpcError::new(-32603, "this client cannot ask anybody");
        self.clients[at]
            .answer(&self.questions[at], Err(error))
            .await;
        // It stands behind the answer, in the same line.
        let mode = json!({"sessionId": self.session, "modeId": "default"});
        self.clients[at]
            .call("session/set_mode", mode)
            .await
            .unwrap();
    }

    /// How the turn went on, and how the question was answered.
    async fn end(mut self) -> (Option<String>, Vec<Value>) {
        let ended = self.clients[0]
            .finish_prompt(&self.session, &self.running)
            .await;
        assert_eq!(ended.unwrap().text, "so be it");
        let events = self.server.home().events(&self.session);
        let answers = events.iter().filter(|e| e["type"] == "permission.answered");
        let outcomes = answers.map(|answer| answer["outcome"].clone()).collect();
        (self.server.home().read("a"), outcomes)
    }
}

#[tokio::test]
async fn a_client_that_cannot_ask_anybody_leaves_the_question_to_the_other() {
    let mut asked = Asked::both().await;
    asked.unable(0).await;
    let stored = stored(asked.server.home(), &asked.session);
    assert!(!stored.contains(&"permission.answered".to_owned()));
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    let [_, question] = asked.questions.clone();
    asked.clients[1].answer(&question, Ok(allow)).await;
    let (written, outcomes) = asked.end().await;
    assert_eq!(written.as_deref(), Some("x"));
    assert_eq!(outcomes, ["allowed"]);
}

#[tokio::test]
async fn when_no_client_can_ask_anybody_the_question_is_denied() {
    let mut asked = Asked::both().await;
    asked.unable(1).await;
    asked.unable(0).await;
    let (written, outcomes) = asked.end().await;
    assert_eq!((written, outcomes), (None, vec![json!("denied")]));
}

#[tokio::test]
async fn one_who_may_only_look_does_not_keep_a_question_open_that_nobody_else_can_answer() {
    let mut asked = Asked::both().await;
    let mut watcher = observer(&asked.server).await;
    watcher.load_session(&asked.session).await.unwrap();
    asked.unable(0).await;
    asked.unable(1).await;
    let (written, outcomes) = asked.end().await;
    assert_eq!((written, outcomes), (None, vec![json!("denied")]));
}

#[tokio::test]
async fn closing_a_session_that_only_an_observer_is_left_in_ends_it() {
    let server = serve(Script::new().call([stream("x", 10_000, 10)])).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let session = owner.new_session().await;
    let mut watcher = observer(&server).await;
    watcher.load_session(&session).await.unwrap();
    let running = owner.start_prompt(&session, "go").await;
    watcher
        .updates_until(|update| update.text() == Some("x"))
        .await;
    let close = json!({"sessionId": session});
    owner.call("session/close", close).await.unwrap();
    let ended = owner.wait(&running).await.unwrap();
    assert_eq!(ended["stopReason"], "cancelled");
    wait_for("the session to be closed", || {
        stored(server.home(), &session).last().map(String::as_str) == Some("session.closed")
    })
    .await;
    // Who looked is there no more either, and may come again.
    let refused = owner.try_prompt(&session, "again").await.unwrap_err();
    assert_eq!(refused.code, -32002);
    assert!(!watcher.load_session(&session).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_load_during_a_turn_answers_after_the_replay_and_the_rest_follows_without_a_gap() {
    let server = serve(Script::new().call([say("first "), stream("x", 10_000, 2)])).await;
    let (mut first, mut other) = two_clients(&server).await;
    let session = first.new_session().await;
    first.start_prompt(&session, "go").await;
    first
        .updates_until(|update| update.cursor["offset"].as_u64() > Some(40))
        .await;
    let replayed = other.load_session(&session).await.unwrap();
    let text = |told: &[testkit::Update]| testkit::client::text_of(told, "agent_message_chunk");
    let before = text(&replayed);
    assert!(before.starts_with("first xxx"), "{before}");
    assert!(before.len() > 40, "all of what was said by then: {before}");
    let kinds = replayed.iter().map(|update| update.kind.as_str());
    assert!(kinds.clone().any(|kind| kind == "user_message_chunk"));

    // What follows goes on at the very next byte.
    let mut bytes = before.len() as u64;
    while bytes < before.len() as u64 + 100 {
        let update = other.next_update().await;
        if update.kind == "agent_message_chunk" {
            bytes += update.text().map_or(0, str::len) as u64;
            assert_eq!(update.cursor["offset"].as_u64(), Some(bytes), "{update:?}");
        }
    }
    first.cancel(&session).await;
}
