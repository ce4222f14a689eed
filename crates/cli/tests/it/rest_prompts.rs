//! REST: prompts that wait or do not, sent again without running again, cancelled, and permitted.

use serde_json::{Value, json};
use testkit::AcpClient;
use testkit::script::{Script, fail, say, stream, tool};

use crate::identity::token;
use crate::rest::{Rest, Said};
use crate::support::{echo, serve, serve_with, stored};

const WAIT: &str = "prefer: wait=60\r\n";

async fn prompt(rest: &Rest<'_>, session: &str, headers: &str, text: &str) -> Said {
    let path = format!("/sessions/{session}/prompts");
    let body = json!({"prompt": text});
    rest.call("POST", &path, headers, &body).await
}

/// Waits until the session's newest turn is as `state` says.
async fn until(rest: &Rest<'_>, session: &str, state: &str) -> Value {
    let path = format!("/sessions/{session}");
    for _ in 0..600 {
        let session = rest.get(&path).await.is(200);
        if session["turn"]["state"] == state {
            return session;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the turn is never {state}");
}

#[tokio::test]
async fn a_prompt_is_answered_at_once_or_when_its_turn_has_ended() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let taken = prompt(&rest, &id, "", "one").await.is(202);
    assert_eq!(taken["turn"]["id"], 1);
    until(&rest, &id, "idle").await;
    let ended = prompt(&rest, &id, WAIT, "two").await.is(200);
    assert_eq!(ended["sessionId"], id.as_str());
    assert_eq!(ended["text"], "you said two");
    assert_eq!(ended["stopReason"], "end_turn");
    assert!(ended["usage"].is_object(), "{ended}");
    // Blocks as ACP has them.
    let path = format!("/sessions/{id}/prompts");
    let blocks = json!([{"type": "text", "text": "th"}, {"type": "text", "text": "ree"}]);
    let body = json!({"prompt": blocks});
    let ended = rest.call("POST", &path, WAIT, &body).await.is(200);
    assert_eq!(ended["text"], "you said three");
    for wrong in [
        json!(""),
        json!([]),
        json!(1),
        json!([{"type": "none"}]),
        json!(["x"]),
    ] {
        let said = rest.post(&path, &json!({"prompt": wrong})).await;
        said.is_refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn while_a_turn_runs_another_prompt_is_busy_and_cancel_ends_it() {
    let script = Script::new().call([stream("tick ", 60_000, 10)]);
    let server = serve(script).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let soon = "prefer: respond-async, wait=1\r\n";
    let taken = prompt(&rest, &id, soon, "go").await.is(202);
    assert_eq!(taken["turn"], json!({"id": 1, "state": "running"}));
    prompt(&rest, &id, "", "more").await.is_refused(409, "busy");
    let key = "idempotency-key: k\r\n";
    prompt(&rest, &id, key, "more")
        .await
        .is_refused(409, "busy");
    let cancel = format!("/sessions/{id}/cancel");
    rest.send("POST", &cancel, "", "").await.is(202);
    until(&rest, &id, "idle").await;
    let events = server.home().events(&id);
    assert_eq!(events.last().unwrap()["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_prompt_sent_again_runs_once_also_across_a_restart() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let key = "idempotency-key: nightly-17\r\n";
    let (waiting, later) = (
        format!("{WAIT}{key}"),
        format!("{WAIT}idempotency-key: 18\r\n"),
    );
    let first = prompt(&rest, &id, &waiting, "count").await.is(200);
    prompt(&rest, &id, &later, "more").await.is(200);
    assert_eq!(prompt(&rest, &id, &waiting, "count").await.is(200), first);
    let taken = prompt(&rest, &id, key, "count").await.is(202);
    assert_eq!(taken["turn"], json!({"id": 1, "state": "idle"}));
    let mut server = server;
    server.kill9().await;
    let server = server.restart().await;
    let rest = Rest::of(&server);
    assert_eq!(prompt(&rest, &id, &waiting, "count").await.is(200), first);
    let prompts = stored(server.home(), &id);
    let prompts = prompts.iter().filter(|kind| *kind == "user.message");
    assert_eq!(prompts.count(), 2);
    let long = format!("idempotency-key: {}\r\n", "x".repeat(65));
    for wrong in [
        long.as_str(),
        "idempotency-key: \r\n",
        &format!("{key}{key}"),
    ] {
        let said = prompt(&rest, &id, wrong, "x").await;
        said.is_refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_prompt_that_the_server_died_over_says_so_when_it_is_sent_again() {
    let script = Script::new().call([stream("tick ", 60_000, 10)]);
    let mut server = serve(script).await;
    let key = "idempotency-key: k\r\n";
    let id = {
        let rest = Rest::of(&server);
        let id = rest.session().await;
        prompt(&rest, &id, key, "go").await.is(202);
        let running = prompt(&rest, &id, key, "go").await.is(202);
        assert_eq!(running["turn"], json!({"id": 1, "state": "running"}));
        id
    };
    server.kill9().await;
    let server = server.restart().await;
    let rest = Rest::of(&server);
    let ended = prompt(&rest, &id, &format!("{WAIT}{key}"), "go")
        .await
        .is(200);
    assert_eq!(ended["error"]["kind"], "interrupted", "{ended}");
    assert!(ended["stopReason"].is_null());
}

#[tokio::test]
async fn a_turn_that_fails_is_told_with_its_reason() {
    let server = serve(Script::new().call([fail(400, "no such thing")])).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let ended = prompt(&rest, &id, WAIT, "go").await.is(200);
    assert_eq!(ended["error"]["kind"], "model_error", "{ended}");
}

#[tokio::test]
async fn what_waits_for_a_person_is_listed_and_answered_once() {
    let write = |name: &str| tool("write", json!({"path": name, "content": "x"}));
    let script = Script::new()
        .call([write("yes.txt")])
        .call([write("no.txt")])
        .call([say("done")]);
    let server = serve(script).await;
    let rest = Rest::of(&server);
    let stranger = token(server.home(), &["stranger"]).await;
    let stranger = Rest::with(&server, &stranger);
    let id = rest.session().await;
    prompt(&rest, &id, "", "go").await.is(202);
    for option in ["allow_once", "reject_once"] {
        until(&rest, &id, "waiting").await;
        let open = rest.get("/permissions").await.is(200);
        let asked = &open["permissions"][0];
        assert_eq!(asked["sessionId"], id.as_str());
        assert_eq!(asked["kind"], "permission");
        let options = asked["options"].as_array().unwrap();
        assert!(options.iter().any(|offered| offered["optionId"] == option));
        let path = format!("/permissions/{}", asked["id"].as_str().unwrap());
        let chosen = json!({"optionId": option});
        let hidden = stranger.get("/permissions").await.is(200);
        assert_eq!(hidden["permissions"], json!([]));
        let refused = stranger.post(&path, &chosen).await;
        refused.is_refused(404, "not_found");
        for wrong in [
            json!({"optionId": "other"}),
            json!({}),
            json!({"text": "yes"}),
        ] {
            let said = rest.post(&path, &wrong).await;
            said.is_refused(400, "invalid_request");
        }
        rest.post(&path, &chosen).await.is(204);
        // The next question may be there already; this one is answered.
        rest.post(&path, &chosen).await.is_refused(404, "not_found");
    }
    until(&rest, &id, "idle").await;
    assert_eq!(server.home().read("yes.txt").as_deref(), Some("x"));
    assert_eq!(server.home().read("no.txt"), None);
    let open = rest.get("/permissions").await.is(200);
    assert_eq!(open["permissions"], json!([]));
}

#[tokio::test]
async fn a_question_of_the_agents_is_answered_in_ones_own_words() {
    let script = Script::new()
        .call([tool("ask_user", json!({"question": "What is it called?"}))])
        .call([say("told: ${result}")]);
    let server = serve(script).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    prompt(&rest, &id, "", "go").await.is(202);
    until(&rest, &id, "waiting").await;
    let open = rest.get("/permissions").await.is(200);
    let asked = &open["permissions"][0];
    assert_eq!(
        (&asked["kind"], &asked["title"]),
        (&json!("question"), &json!("What is it called?"))
    );
    let path = format!("/permissions/{}", asked["id"].as_str().unwrap());
    let observer = token(server.home(), &["looker", "--scope", "observe"]).await;
    let observer = Rest::with(&server, &observer);
    let said = observer.post(&path, &json!({"text": "x"})).await;
    said.is_refused(403, "forbidden_scope");
    let both = json!({"text": "Rosebud", "optionId": "reject_once"});
    let said = rest.post(&path, &both).await;
    said.is_refused(400, "invalid_request");
    rest.post(&path, &json!({"text": "Rosebud"})).await.is(204);
    until(&rest, &id, "idle").await;
    let events = server.home().events(&id);
    let said = events
        .iter()
        .find(|event| event["type"] == "assistant.message");
    assert_eq!(said.unwrap()["text"], "told: Rosebud");
}

#[tokio::test]
async fn an_acp_client_sees_what_was_prompted_by_rest() {
    let server = serve_with(echo(), &[("FASTNESS_GREETING", "false")]).await;
    let rest = Rest::of(&server);
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let ended = prompt(&rest, &session, WAIT, "hello").await.is(200);
    assert_eq!(ended["text"], "you said hello");
    let mut said = String::new();
    while said != "you said hello" {
        let params = client.next_notification("session/update").await;
        let update = &params["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            said += update["content"]["text"].as_str().unwrap();
        }
    }
}

#[tokio::test]
async fn reused_idempotency_key_with_another_prompt_is_422() {
    let server = serve(echo()).await;
    let rest = Rest::of(&server);
    let id = rest.session().await;
    let key = format!("idempotency-key: nightly\r\n{WAIT}");
    let first = prompt(&rest, &id, &key, "one").await.is(200);
    assert_eq!(prompt(&rest, &id, &key, "one").await.is(200), first);
    let reused = prompt(&rest, &id, &key, "two").await;
    reused.is_refused(422, "idempotency_key_reused");
    // The journal knows it, so a restart forgets nothing.
    let server = server.restart().await;
    let rest = Rest::of(&server);
    let reused = prompt(&rest, &id, &key, "two").await;
    reused.is_refused(422, "idempotency_key_reused");
    assert_eq!(prompt(&rest, &id, &key, "one").await.is(200), first);
    // Another session is another place.
    let other = rest.session().await;
    let said = prompt(&rest, &other, &key, "two").await.is(200);
    assert_eq!(said["text"], "you said two");
    let turns = stored(server.home(), &id);
    assert_eq!(
        turns.iter().filter(|kind| *kind == "turn.started").count(),
        1
    );
}
