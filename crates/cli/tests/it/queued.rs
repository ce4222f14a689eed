//! Prompts that wait behind a turn, when the server ends before their turn has come.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, AgentRequest, Choice};

use crate::rest::Rest;
use crate::support::{serve_with, stored};

/// The parameters of a prompt with a name, which may wait.
fn named(session: &str, prompt: &str) -> Value {
    let blocks = json!([{"type": "text", "text": prompt}]);
    let meta = json!({"promptId": prompt, "queue": true});
    json!({"sessionId": session, "prompt": blocks, "_meta": {"fastness": meta}})
}

/// Has the turn that waits for `question` end once the server takes nothing new.
async fn end_in_the_drain(client: &mut AcpClient, session: &str, question: &AgentRequest) {
    loop {
        let refused = client.try_prompt(session, "something new").await;
        match refused.unwrap_err() {
            error if error.data["kind"] == "draining" => break,
            error => assert_eq!(error.code, -32010, "{error:?}"),
        }
    }
    let rejected = json!({"outcome": {"outcome": "selected", "optionId": "reject_once"}});
    client.answer(question, Ok(rejected)).await;
}

#[tokio::test]
async fn a_prompt_that_waits_when_the_server_is_stopped_was_interrupted_also_if_the_turn_before_it_ended()
 {
    let script = Script::new()
        .call([tool("write", json!({"path": "a.txt", "content": "x"}))])
        .call([say("not written")]);
    let mut server = serve_with(script, &[("FASTNESS_LIMITS_DRAIN_MS", "60000")]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.on_permission(Choice::Hold);
    let first = client
        .start("session/prompt", named(&session, "first"))
        .await;
    let question = client.next_request().await;
    let waiting = client
        .start("session/prompt", named(&session, "waiting"))
        .await;
    let ending = end_in_the_drain(&mut client, &session, &question);
    let (status, ()) = tokio::join!(server.terminate(), ending);
    assert_eq!(status.code(), Some(0));
    let first = client.wait(&first).await.unwrap();
    assert_eq!(first["stopReason"], "end_turn", "it ended within its time");
    let dropped = client.wait(&waiting).await.unwrap_err();
    assert_eq!(dropped.data["kind"], "interrupted");
    let kinds = stored(server.home(), &session);
    assert!(!kinds.contains(&"turn.interrupted".to_owned()), "{kinds:?}");

    // Whoever asks again is told the same, here and there.
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    for _ in 0..2 {
        let again = client
            .call("session/prompt", named(&session, "waiting"))
            .await;
        assert_eq!(again.unwrap_err().data["kind"], "interrupted");
        let first = client
            .call("session/prompt", named(&session, "first"))
            .await;
        assert_eq!(first.unwrap()["stopReason"], "end_turn");
    }
    let (path, body) = (
        format!("/sessions/{session}/prompts"),
        json!({"prompt": "waiting"}),
    );
    let headers = "prefer: wait=60\r\nidempotency-key: waiting\r\n";
    let rest = Rest::of(&server);
    let ended = rest.call("POST", &path, headers, &body).await.is(200);
    assert_eq!(ended["error"]["kind"], "interrupted", "{ended}");
    assert!(ended["stopReason"].is_null(), "{ended}");
    let kinds = stored(server.home(), &session);
    let started = kinds.iter().filter(|kind| *kind == "turn.started");
    assert_eq!(started.count(), 1);
}
