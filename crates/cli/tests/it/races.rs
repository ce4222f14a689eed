//! Messages that cross each other: every request gets its one answer, whatever comes between.

use serde_json::{Value, json};
use testkit::script::{Script, pause, say, stream};
use testkit::{AcpClient, Home};
use tokio::io::AsyncWriteExt;

use crate::support::{binary, echo, serve, stored, two_clients};

fn prompt(session: &str, text: &str, fastness: &Value) -> Value {
    let blocks = json!([{"type": "text", "text": text}]);
    json!({"sessionId": session, "prompt": blocks, "_meta": {"fastness": fastness}})
}

#[tokio::test]
async fn a_cancel_on_each_side_of_a_prompt_cancels_it() {
    let server = serve(Script::new().call([stream("x", 10_000, 10)])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    for _ in 0..20 {
        client.cancel(&session).await;
        let running = client.start_prompt(&session, "go").await;
        client.cancel(&session).await;
        assert_eq!(
            client.wait(&running).await.unwrap()["stopReason"],
            "cancelled"
        );
    }
}

#[tokio::test]
async fn a_load_that_fails_changes_nothing() {
    let server = serve(Script::new().call([stream("x", 30, 10)])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let wrong = json!({"sessionId": session, "cwd": "/elsewhere", "mcpServers": []});
    assert_eq!(
        client.call("session/load", wrong).await.unwrap_err().code,
        -32602
    );
    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(
        (answer.stop_reason.as_str(), answer.text.len()),
        ("end_turn", 30)
    );
}

#[tokio::test]
async fn attaching_anew_behind_a_prompt_loses_neither_answer_nor_order() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    for way in ["session/load", "session/resume"] {
        for _ in 0..10 {
            let session = client.new_session().await;
            let attach =
                json!({"sessionId": session, "cwd": server.home().workspace(), "mcpServers": []});
            let first = client.start_prompt(&session, "one").await;
            let again = client.start(way, attach.clone()).await;
            let twice = client.start(way, attach).await;
            let second = client
                .start(
                    "session/prompt",
                    prompt(&session, "two", &json!({"queue": true})),
                )
                .await;
            assert_eq!(client.wait(&first).await.unwrap()["stopReason"], "end_turn");
            client.wait(&again).await.unwrap();
            client.wait(&twice).await.unwrap();
            assert_eq!(
                client.wait(&second).await.unwrap()["stopReason"],
                "end_turn"
            );
        }
    }
}

#[tokio::test]
async fn a_cancel_gets_through_while_the_client_attaches_anew() {
    let server = serve(Script::new().call([stream("x", 10_000, 10)])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    let attach = json!({"sessionId": session, "cwd": server.home().workspace(), "mcpServers": []});
    let again = client.start("session/load", attach).await;
    client.cancel(&session).await;
    assert_eq!(
        client.wait(&running).await.unwrap()["stopReason"],
        "cancelled"
    );
    client.wait(&again).await.unwrap();
}

#[tokio::test]
async fn a_load_whose_journal_cannot_be_read_is_answered_with_an_error() {
    let server = serve(Script::new().call([stream(&"long ".repeat(1_000), 80, 0)])).await;
    let (mut client, mut other) = two_clients(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let blobs = server
        .home()
        .data_dir()
        .join("sessions")
        .join(&session)
        .join("blobs");
    let blob = std::fs::read_dir(&blobs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    std::fs::remove_file(blob).unwrap();
    let refused = other.load_session(&session).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.data["kind"].as_str()),
        (-32603, Some("damaged"))
    );
}

#[tokio::test]
async fn prompts_that_cross_a_delete_are_all_answered() {
    let server = serve(echo()).await;
    let (mut owner, mut other) = two_clients(&server).await;
    for _ in 0..10 {
        let session = owner.new_session().await;
        other.load_session(&session).await.unwrap();
        let mut prompts = Vec::new();
        let deleted = owner
            .start("session/delete", json!({"sessionId": session}))
            .await;
        for _ in 0..8 {
            prompts.push(
                other
                    .start(
                        "session/prompt",
                        prompt(&session, "hi", &json!({"queue": true})),
                    )
                    .await,
            );
        }
        assert_eq!(owner.wait(&deleted).await.unwrap(), json!({}));
        for prompt in &prompts {
            // Done, cancelled or not there any more; but answered.
            let _ = other.wait(prompt).await;
        }
    }
}

#[tokio::test]
async fn a_queued_prompt_of_a_client_that_closes_does_not_run() {
    let server = serve(
        Script::new()
            .call([say("one"), pause(3_000)])
            .call([say("never")]),
    )
    .await;
    let (mut first, mut second) = two_clients(&server).await;
    let session = first.new_session().await;
    second.load_session(&session).await.unwrap();
    let running = first.start_prompt(&session, "run").await;
    second
        .updates_until(|update| update.text() == Some("one"))
        .await;
    let waiting = second
        .start(
            "session/prompt",
            prompt(&session, "wait", &json!({"queue": true})),
        )
        .await;
    second
        .call("session/close", json!({"sessionId": session}))
        .await
        .unwrap();
    assert_eq!(
        second.wait(&waiting).await.unwrap()["stopReason"],
        "cancelled"
    );
    assert_eq!(
        first.wait(&running).await.unwrap()["stopReason"],
        "end_turn"
    );
    assert_eq!(
        first.call("session/list", json!({})).await.unwrap()["sessions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let kinds = stored(server.home(), &session);
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "turn.started").count(),
        1,
        "{kinds:?}"
    );
}

#[tokio::test]
async fn a_close_right_behind_a_prompt_ends_its_turn_while_others_stay() {
    let server = serve(Script::new().call([stream("x", 10_000, 10)])).await;
    let (mut first, mut second) = two_clients(&server).await;
    for _ in 0..20 {
        let session = first.new_session().await;
        second.load_session(&session).await.unwrap();
        let running = first.start_prompt(&session, "go").await;
        let params = json!({"sessionId": session});
        let closed = first.start("session/close", params).await;
        let ended = first.wait(&running).await.unwrap();
        assert_eq!(ended["stopReason"], "cancelled");
        first.wait(&closed).await.unwrap();
        let kinds = stored(server.home(), &session);
        assert_eq!(kinds.last().map(String::as_str), Some("result"));
    }
}

#[tokio::test]
async fn a_prompt_repeated_after_a_reconnect_is_answered_after_what_it_led_to() {
    let server = serve(Script::new().call([stream("x", 50, 0)])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let once = prompt(&session, "go", &json!({"promptId": "p"}));
    client.call("session/prompt", once.clone()).await.unwrap();
    client.leave().await;
    let mut again = AcpClient::connect_ws(&server).await;
    let attach = json!({"sessionId": session, "cwd": server.home().workspace(), "mcpServers": [], "_meta": {"fastness": {"afterSeq": 1}}});
    let resumed = again.start("session/resume", attach).await;
    let repeated = again.start("session/prompt", once).await;
    again.wait(&resumed).await.unwrap();
    let answer = again.finish_prompt(&session, &repeated).await.unwrap();
    assert_eq!(
        answer.text,
        "x".repeat(50),
        "everything of the turn came before its answer"
    );
}

#[tokio::test]
async fn what_was_asked_before_the_end_of_input_is_answered() {
    let home = Home::new(binary(), echo());
    let mut agent = home.command("acp").spawn().unwrap();
    let mut stdin = agent.stdin.take().unwrap();
    let asked = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": home.workspace(), "mcpServers": []}}),
    ];
    let lines: String = asked.iter().map(|message| format!("{message}\n")).collect();
    stdin.write_all(lines.as_bytes()).await.unwrap();
    drop(stdin);
    let output = agent.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    let answered: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
        // What is told of the session besides answers nothing.
        .filter(|id| !id.is_null())
        .collect();
    assert_eq!(answered, [1, 2]);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_does_not_hurt_a_session() {
    let home = Home::new(binary(), echo()).arg("--log").arg("debug");
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = home.command("ask");
    command
        .arg("hi")
        .stdin(std::process::Stdio::null())
        .stderr(full);
    let output = command.output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "you said hi\n");
}
