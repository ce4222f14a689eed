//! Principals: named tokens, what each may see and do, and how one is taken back.

use serde_json::json;
use testkit::script::{Script, say, stream, tool};
use testkit::{AcpClient, Choice, Home, Program};

use crate::support::{echo, serve, serve_with};

/// Makes a named token with the program itself; gives its secret.
pub(crate) async fn token(home: &Home, arguments: &[&str]) -> String {
    let mut command = home.clean(home.binary());
    command
        .arg("token")
        .args(["create"])
        .args(arguments)
        .arg("--data-dir")
        .arg(home.data_dir());
    let output = command.output().await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn connect(server: &Program, token: &str) -> AcpClient {
    let client = AcpClient::dial_ws(&server.acp_url(), Some(token))
        .await
        .unwrap();
    let mut client = client.in_directory(server.home().workspace());
    client.initialize().await;
    client
}

#[tokio::test]
async fn a_01_another_principal_finds_nothing_of_yours() {
    let server = serve(echo()).await;
    let stranger = token(server.home(), &["stranger"]).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let mut other = connect(&server, &stranger).await;
    let session = owner.new_session().await;
    owner.prompt(&session, "secret").await;
    for method in ["session/load", "session/resume"] {
        let mut refusals = Vec::new();
        for id in [session.clone(), "0".repeat(32), "nonsense".to_owned()] {
            let params =
                json!({"sessionId": id, "cwd": server.home().workspace(), "mcpServers": []});
            let mut error = other.call(method, params).await.unwrap_err();
            error.data["requestId"].take();
            refusals.push(error.to_string());
        }
        assert!(refusals[0].starts_with("-32002"), "{refusals:?}");
        assert!(
            refusals.iter().all(|refusal| *refusal == refusals[0]),
            "{refusals:?}"
        );
    }
    assert_eq!(
        other.call("session/list", json!({})).await.unwrap()["sessions"],
        json!([])
    );
    assert_eq!(
        other
            .call("session/delete", json!({"sessionId": session}))
            .await
            .unwrap(),
        json!({})
    );
    assert_eq!(
        owner.prompt(&session, "still here").await.text,
        "you said still here"
    );
    let own = other.new_session().await;
    assert_eq!(other.prompt(&own, "mine").await.text, "you said mine");
    assert_eq!(owner.load_session(&own).await.unwrap_err().code, -32002);
}

/// A server, its owner with a session, and an observer attached to it.
async fn watched(script: Script) -> (Program, AcpClient, AcpClient, String) {
    let server = serve(script).await;
    let watch = token(server.home(), &["watcher", "--scope", "observe"]).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let mut watcher = connect(&server, &watch).await;
    let session = owner.new_session().await;
    watcher.load_session(&session).await.unwrap();
    (server, owner, watcher, session)
}

#[tokio::test]
async fn an_observer_cannot_act() {
    let (server, mut owner, mut watcher, session) = watched(echo()).await;
    let blocks = json!([{"type": "text", "text": "hi"}]);
    for (method, params) in [
        (
            "session/new",
            json!({"cwd": server.home().workspace(), "mcpServers": []}),
        ),
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": blocks}),
        ),
        (
            "session/set_mode",
            json!({"sessionId": session, "modeId": "plan"}),
        ),
        (
            "session/set_config_option",
            json!({"sessionId": session, "configId": "mode", "value": "plan"}),
        ),
        ("session/delete", json!({"sessionId": session})),
    ] {
        let refused = watcher.call(method, params).await.unwrap_err();
        assert_eq!(refused.code, -32013, "{method}");
    }
    // Closing only detaches it; the owner goes on.
    watcher
        .call("session/close", json!({"sessionId": session}))
        .await
        .unwrap();
    assert_eq!(owner.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn an_observer_sees_everything_is_asked_nothing_and_cancels_nothing() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a", "content": "x"}))])
        .call([say("done")]);
    let (server, mut owner, mut watcher, session) = watched(script).await;
    owner.on_permission(Choice::Hold);
    let prompt = owner.start_prompt(&session, "write").await;
    let question = owner.next_request().await;
    watcher.cancel(&session).await;
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    let forged = json!({"jsonrpc": "2.0", "id": question.id, "result": allow});
    watcher.raw(&forged.to_string()).await;
    watcher
        .updates_until(|update| update.kind == "tool_call")
        .await;
    watcher.call("session/list", json!({})).await.unwrap();
    assert!(watcher.requests().is_empty());
    assert_eq!(server.home().read("a"), None);
    owner.answer(&question, Ok(allow)).await;
    let answer = owner.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(answer.stop_reason, "end_turn");
    watcher
        .updates_until(|update| update.text() == Some("done"))
        .await;
}

#[tokio::test]
async fn a_token_for_one_session_opens_that_one_only() {
    let server = serve(echo()).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let (shared, private) = (owner.new_session().await, owner.new_session().await);
    let guest = token(server.home(), &["guest", "--session", &shared]).await;
    let mut guest = connect(&server, &guest).await;
    guest.load_session(&shared).await.unwrap();
    assert_eq!(guest.prompt(&shared, "hello").await.text, "you said hello");
    assert_eq!(guest.load_session(&private).await.unwrap_err().code, -32002);
    let listed = guest.call("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    let bypass = json!({"sessionId": shared, "modeId": "bypass"});
    assert_eq!(
        guest
            .call("session/set_mode", bypass)
            .await
            .unwrap_err()
            .code,
        -32013
    );
    let made = guest.new_session_in(&server.home().workspace()).await;
    assert_eq!(made.unwrap_err().code, -32013);
    // Nothing was made, and what the token is for still works.
    let listed = owner.call("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(guest.prompt(&shared, "again").await.text, "you said again");
    let free = token(server.home(), &["free"]).await;
    let mut free = connect(&server, &free).await;
    let outside = free.new_session_in(std::path::Path::new("/")).await;
    assert_eq!(
        outside.unwrap_err().code,
        -32602,
        "named tokens work beneath the server's directory"
    );
}

#[tokio::test]
async fn a_23_revoking_a_token_closes_its_sockets_and_the_turn_goes_on() {
    let server = serve(Script::new().call([stream("x", 100, 10)])).await;
    let friend = token(server.home(), &["friend"]).await;
    let mut client = connect(&server, &friend).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    let mut revoke = server.home().clean(server.home().binary());
    revoke
        .args(["token", "revoke", "friend", "--data-dir"])
        .arg(server.home().data_dir());
    assert!(revoke.status().await.unwrap().success());
    assert_eq!(client.closed().await, Some(4401));
    let refused = AcpClient::dial_ws(&server.acp_url(), Some(&friend))
        .await
        .err();
    assert_eq!(refused.and_then(|error| error.status), Some(401));
    owner.new_session().await;
    testkit::wait_for("the turn goes on to its end", || {
        crate::support::stored(server.home(), &session)
            .last()
            .is_some_and(|kind| kind == "result")
    })
    .await;
}

#[tokio::test]
async fn a_23_a_token_that_expires_closes_its_sockets() {
    let server = serve_with(echo(), &[]).await;
    let short = token(server.home(), &["short", "--expires", "1s"]).await;
    let mut client = connect(&server, &short).await;
    assert_eq!(client.closed().await, Some(4401));
    let stored = std::fs::read_to_string(server.home().data_dir().join("tokens.json")).unwrap();
    assert!(!stored.contains(&short), "only hashes are on disk");
}
