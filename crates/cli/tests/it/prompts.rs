//! Prompts and turns: cancelling, queueing, repeating, permission, failure.

use serde_json::{Value, json};
use testkit::script::{Script, fail, say, stream, tool};
use testkit::{AcpClient, Choice};

use crate::support::{echo, serve, serve_with, stored};

fn endless() -> Script {
    Script::new().call([stream("x", 10_000, 10)])
}

#[tokio::test]
async fn cancel_ends_the_turn_and_the_next_prompt_runs() {
    let server = serve(
        Script::new()
            .call([stream("x", 10_000, 10)])
            .call([say("next")]),
    )
    .await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    client.cancel(&session).await;
    let answer = client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(answer.stop_reason, "cancelled");
    assert_eq!(client.prompt(&session, "again").await.text, "next");
}

#[tokio::test]
async fn a_cancel_sent_right_behind_its_prompt_is_not_lost() {
    let server = serve(endless()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    for _ in 0..20 {
        let prompt = client.start_prompt(&session, "go").await;
        client.cancel(&session).await;
        assert_eq!(
            client.wait(&prompt).await.unwrap()["stopReason"],
            "cancelled"
        );
    }
}

#[tokio::test]
async fn a_prompt_sent_right_behind_a_cancel_is_not_cancelled_by_it() {
    let server = serve(
        Script::new()
            .call([stream("x", 10_000, 10)])
            .call([say("after")]),
    )
    .await;
    let mut client = AcpClient::connect_ws(&server).await;
    for _ in 0..10 {
        let session = client.new_session().await;
        let first = client.start_prompt(&session, "go").await;
        client
            .updates_until(|update| update.session == session && update.text() == Some("x"))
            .await;
        client.cancel(&session).await;
        let queued = json!({"sessionId": session, "prompt": [{"type": "text", "text": "two"}], "_meta": {"fastness": {"queue": true}}});
        let second = client.start("session/prompt", queued).await;
        assert_eq!(
            client.wait(&first).await.unwrap()["stopReason"],
            "cancelled"
        );
        assert_eq!(
            client.wait(&second).await.unwrap()["stopReason"],
            "end_turn"
        );
    }
}

#[tokio::test]
async fn cancel_request_cancels_its_own_prompt_and_drops_only_a_queued_one() {
    let server = serve(endless()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let queued = |text: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": text}], "_meta": {"fastness": {"queue": true}}});
    let running = client.start("session/prompt", queued("one")).await;
    let waiting = client.start("session/prompt", queued("two")).await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    client
        .notify("$/cancel_request", json!({"requestId": waiting.as_json()}))
        .await;
    assert_eq!(
        client.wait(&waiting).await.unwrap()["stopReason"],
        "cancelled"
    );
    assert!(stored(server.home(), &session).contains(&"prompt.dropped".to_owned()));
    client
        .notify("$/cancel_request", json!({"requestId": "unknown"}))
        .await;
    client
        .notify("$/cancel_request", json!({"requestId": running.as_json()}))
        .await;
    assert_eq!(
        client.wait(&running).await.unwrap()["stopReason"],
        "cancelled"
    );
}

#[tokio::test]
async fn a_second_prompt_is_refused_unless_it_asks_to_wait() {
    let server = serve(
        Script::new()
            .call([stream("x", 30, 10)])
            .call([say("second")]),
    )
    .await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let first = client.start_prompt(&session, "one").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    assert_eq!(
        client.try_prompt(&session, "two").await.unwrap_err().code,
        -32010
    );
    let queued = json!({"sessionId": session, "prompt": [{"type": "text", "text": "two"}], "_meta": {"fastness": {"queue": true}}});
    let second = client.start("session/prompt", queued).await;
    assert_eq!(client.wait(&first).await.unwrap()["stopReason"], "end_turn");
    assert_eq!(
        client
            .finish_prompt(&session, &second)
            .await
            .unwrap()
            .stop_reason,
        "end_turn"
    );
    let texts: Vec<_> = server
        .home()
        .events(&session)
        .iter()
        .filter(|event| event["type"] == "user.message")
        .map(|event| event["text"].clone())
        .collect();
    assert_eq!(texts, ["one", "two"]);
}

#[tokio::test]
async fn a_prompt_repeated_with_the_same_id_runs_once_also_across_a_restart() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "once"}], "_meta": {"fastness": {"promptId": "p-1"}}});
    let first = client.start("session/prompt", params.clone()).await;
    let again = client.start("session/prompt", params.clone()).await;
    assert_eq!(client.wait(&first).await.unwrap()["stopReason"], "end_turn");
    assert_eq!(client.wait(&again).await.unwrap()["stopReason"], "end_turn");
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    assert_eq!(
        client.call("session/prompt", params).await.unwrap()["stopReason"],
        "end_turn"
    );
    let prompts = stored(server.home(), &session)
        .into_iter()
        .filter(|kind| kind == "user.message");
    assert_eq!(prompts.count(), 1);
}

#[tokio::test]
async fn d_01_prompts_that_ran_or_waited_when_the_server_died_answer_interrupted() {
    let mut server = serve(endless()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let prompt = |id: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": id}], "_meta": {"fastness": {"promptId": id, "queue": true}}});
    for id in ["running", "queued"] {
        client.start("session/prompt", prompt(id)).await;
    }
    let is_queued = || stored(server.home(), &session).contains(&"prompt.queued".to_owned());
    testkit::wait_for("the second to wait", is_queued).await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    server.kill9().await;
    drop(client);
    let home = server.into_home();
    home.set_script(echo());
    let server = testkit::Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    for id in ["running", "queued"] {
        let error = client.call("session/prompt", prompt(id)).await.unwrap_err();
        assert_eq!(error.code, -32603, "{id}: {error}");
        assert_eq!(error.data["kind"], "interrupted", "{id}: {error}");
    }
    // Neither has run since, and the session goes on.
    let kinds = stored(server.home(), &session);
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!((count("turn.started"), count("prompt.dropped")), (1, 1));
    let answer = client.prompt(&session, "hello").await;
    assert_eq!(answer.text, "you said hello");
}

#[tokio::test]
async fn reading_needs_no_permission_and_stays_beneath_the_directory() {
    let script = Script::new()
        .call([
            tool("read", json!({"path": "a.txt"})),
            tool("read", json!({"path": "../../etc/passwd"})),
        ])
        .call([say("${result}")]);
    let server = serve(script).await;
    server.home().write("a.txt", "inside");
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let answer = client.prompt(&session, "read").await;
    let mut outcomes: Vec<_> = answer
        .updates
        .iter()
        .filter(|update| update.kind == "tool_call_update")
        .map(|update| {
            (
                update.update["status"].as_str().unwrap(),
                update.update["content"][0]["content"]["text"]
                    .as_str()
                    .unwrap_or_default(),
            )
        })
        .collect();
    // They run at the same time, so either may end first.
    outcomes.sort_unstable();
    assert_eq!(outcomes[0], ("completed", "1\tinside"));
    assert_eq!(outcomes[1].0, "failed");
    assert!(client.requests().is_empty());
}

#[tokio::test]
async fn a_rejected_call_does_not_run_and_every_other_end_of_the_question_denies_too() {
    let wants = |name: &str| vec![tool("write", json!({"path": name, "content": "x"}))];
    let script = Script::new()
        .call(wants("reject"))
        .call([say("no")])
        .call(wants("cancelled"))
        .call([say("no")])
        .call(wants("unknown"))
        .call([say("no")])
        .call(wants("allow"))
        .call([say("yes")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    for (choice, file, runs) in [
        (Choice::Reject, "reject", false),
        (Choice::Cancelled, "cancelled", false),
        (Choice::Option("made_up".to_owned()), "unknown", false),
        (Choice::Allow, "allow", true),
    ] {
        client.on_permission(choice);
        client.prompt(&session, "write").await;
        assert_eq!(server.home().read(file).is_some(), runs, "{file}");
    }
    let statuses: Vec<Value> = server
        .home()
        .events(&session)
        .iter()
        .filter(|event| event["type"] == "tool.result")
        .map(|event| event["status"].clone())
        .collect();
    assert_eq!(statuses, ["denied", "denied", "denied", "completed"]);
}

#[tokio::test]
async fn an_open_question_is_asked_again_on_attach_and_cancel_withdraws_it() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a", "content": "x"}))])
        .call([say("ok")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.on_permission(Choice::Hold);
    client.start_prompt(&session, "write").await;
    client.next_request().await;
    client.leave().await;
    let mut again = AcpClient::connect_ws(&server).await;
    again.on_permission(Choice::Hold);
    let loaded = again
        .call(
            "session/load",
            json!({"sessionId": session, "cwd": server.home().workspace(), "mcpServers": []}),
        )
        .await
        .unwrap();
    assert_eq!(loaded["_meta"]["fastness"]["turn"]["state"], "waiting");
    let asked = again.next_request().await;
    again.cancel(&session).await;
    let withdrawn = again.next_notification("$/cancel_request").await;
    assert_eq!(withdrawn["requestId"], asked.id);
    assert_eq!(server.home().read("a"), None);
}

#[tokio::test]
async fn a_failing_model_ends_the_turn_with_a_kind_and_the_session_takes_the_next_prompt() {
    let script = Script::new()
        .call([say("half"), fail(529, "overloaded")])
        .call([say("fine")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let error = client.try_prompt(&session, "go").await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert_eq!(
        (&error.data["kind"], &error.data["retryable"]),
        (&json!("model_error"), &json!(true))
    );
    let told = client.take_updates(&session);
    assert_eq!(
        testkit::client::text_of(&told, "agent_message_chunk"),
        "half",
        "what came stays"
    );
    assert_eq!(client.prompt(&session, "again").await.text, "fine");
}

#[tokio::test]
async fn a_model_that_falls_silent_ends_at_its_deadline() {
    let script = Script::new()
        .call([say("so"), testkit::script::pause(600_000)])
        .call([say("fine")]);
    let server = serve_with(
        script,
        &[("FASTNESS_LIMITS_MODEL_BETWEEN_CHUNKS_MS", "100")],
    )
    .await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let error = client.try_prompt(&session, "go").await.unwrap_err();
    assert_eq!(error.data["kind"], "model_timeout");
    assert_eq!(
        client.take_updates(&session).last().unwrap().text(),
        Some("so")
    );
    assert_eq!(client.prompt(&session, "again").await.text, "fine");
}

#[tokio::test]
async fn a_turn_ends_when_its_steps_are_used_up() {
    let script = Script::new().call([tool("read", json!({"path": "a"}))]);
    let server = serve_with(script, &[("FASTNESS_LIMITS_STEPS_MAX", "3")]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    assert_eq!(
        client.prompt(&session, "loop").await.stop_reason,
        "max_turn_requests"
    );
    let uses = stored(server.home(), &session)
        .into_iter()
        .filter(|kind| kind == "tool.use")
        .count();
    assert_eq!(uses, 3);
}

#[tokio::test]
async fn a_client_that_asks_for_turns_hears_how_they_end() {
    let server = serve(echo()).await;
    let mut client = AcpClient::dial_ws(&server.acp_url(), Some(server.token()))
        .await
        .unwrap()
        .in_directory(server.home().workspace());
    client
        .initialize_with(json!({"_meta": {"fastness": {"turns": true}}}))
        .await;
    let session = client.new_session().await;
    client.prompt(&session, "hi").await;
    let started = client.next_notification("_fastness/turn").await;
    let ended = client.next_notification("_fastness/turn").await;
    assert_eq!(
        (&started["turn"], &started["state"]),
        (&json!(1), &json!("running"))
    );
    assert_eq!(
        (&ended["state"], &ended["stopReason"]),
        (&json!("idle"), &json!("end_turn"))
    );
    assert!(ended["seq"].as_u64() > started["seq"].as_u64());
}

#[tokio::test]
async fn a_client_that_asks_for_the_queue_sees_prompts_wait_and_go() {
    let mut server = serve(endless()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let prompt = |id: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": id}], "_meta": {"fastness": {"promptId": id, "queue": true}}});
    for id in ["running", "second"] {
        client.start("session/prompt", prompt(id)).await;
    }
    let is_queued = || stored(server.home(), &session).contains(&"prompt.queued".to_owned());
    testkit::wait_for("the second to wait", is_queued).await;

    let mut watcher = watch_queue(&server).await;
    let entrance = json!({"sessionId": session, "cwd": watcher.directory(), "mcpServers": []});
    let entered = watcher.call("session/resume", entrance.clone()).await;
    let queue = &entered.unwrap()["_meta"]["fastness"]["queue"];
    assert_eq!(queue[0]["text"], "second");
    assert_eq!(queue[0]["promptId"], "second");
    let second = queue[0]["seq"].clone();

    let long = "long ".repeat(10_000);
    let third = json!({"sessionId": session, "prompt": [{"type": "text", "text": long}], "_meta": {"fastness": {"queue": true}}});
    client.start("session/prompt", third).await;
    let told = watcher.next_notification("_fastness/queue").await;
    assert_eq!(
        (&told["state"], &told["prompt"]["cut"]),
        (&json!("queued"), &json!(true))
    );
    assert_eq!(told["prompt"]["seq"], told["seq"]);
    // A message is streamed all the while: the cursor says how much of it came.
    assert!(told["offset"].as_u64() > Some(0), "{told}");
    assert!(long.starts_with(told["prompt"]["text"].as_str().unwrap()));
    let third = told["seq"].clone();

    server.kill9().await;
    let home = server.into_home();
    let server = testkit::Program::serve_in(home).await;
    let mut watcher = watch_queue(&server).await;
    let mut after = entrance;
    after["_meta"] = json!({"fastness": {"afterSeq": told["seq"]}});
    let entered = watcher.call("session/resume", after).await.unwrap();
    assert_eq!(entered["_meta"]["fastness"]["queue"], json!(null));
    for queued in [second, third] {
        let dropped = watcher.next_notification("_fastness/queue").await;
        assert_eq!(
            (&dropped["state"], &dropped["queued"]),
            (&json!("dropped"), &queued)
        );
        assert_eq!(dropped["interrupted"], true);
    }
}

async fn watch_queue(server: &testkit::Program) -> AcpClient {
    let dialed = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut watcher = dialed.unwrap().in_directory(server.home().workspace());
    let capabilities = json!({"_meta": {"fastness": {"queue": true}}});
    watcher.initialize_with(capabilities).await;
    watcher
}
