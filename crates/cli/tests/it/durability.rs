//! What a session has said and done outlives connections, restarts and crashes.

use serde_json::json;
use testkit::script::{Script, say, stream, tool};
use testkit::{AcpClient, Choice, Program};

use crate::support::{after, serve, stored};

#[tokio::test]
async fn d_1_a_conversation_survives_a_restart_and_the_model_sees_earlier_turns() {
    let model = testkit::model::RecordingModel::start().await;
    let home = model.home(crate::support::binary());
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "my name is Ada").await;
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    let replayed = client.load_session(&session).await.unwrap();
    let kinds: Vec<_> = replayed.iter().map(|update| update.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "agent_message_chunk",
            "session_info_update",
            "user_message_chunk",
            "usage_update",
            "agent_message_chunk"
        ]
    );
    client.prompt(&session, "what is my name").await;
    let seen = model.requests();
    let last: Vec<_> = seen.last().unwrap()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] != "system")
        .map(|message| {
            format!(
                "{}: {}",
                message["role"].as_str().unwrap(),
                message["content"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        last,
        [
            "user: my name is Ada",
            "assistant: answer 1",
            "user: what is my name"
        ]
    );
}

#[tokio::test]
async fn a_server_killed_in_mid_turn_keeps_what_it_showed_and_takes_the_next_prompt() {
    let script = Script::new().call([stream("tick ", 10_000, 5)]);
    let mut server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go on for long").await;
    let mut seen = client
        .updates_until(|update| update.cursor["offset"].as_u64() >= Some(100))
        .await;
    server.kill9().await;
    seen.extend(client.drain_updates().await);
    let shown = testkit::client::text_of(&seen, "agent_message_chunk");

    server.home().set_script(Script::says("here again"));
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    let replayed = client.load_session(&session).await.unwrap();
    let kept = testkit::client::text_of(&replayed, "agent_message_chunk");
    assert!(
        kept.starts_with(&shown),
        "shown {} bytes, kept {}",
        shown.len(),
        kept.len()
    );
    assert_eq!(
        testkit::client::text_of(&replayed, "user_message_chunk"),
        "go on for long"
    );
    let kinds = stored(server.home(), &session);
    assert_eq!(kinds.last().map(String::as_str), Some("turn.interrupted"));
    assert_eq!(client.prompt(&session, "and now").await.text, "here again");
}

#[tokio::test]
async fn a_client_that_comes_back_after_a_crash_resumes_without_a_byte_missing_or_twice() {
    let script = Script::new().call([stream("tock ", 10_000, 5)]);
    let mut server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    let seen = client
        .updates_until(|update| update.cursor["offset"].as_u64() >= Some(100))
        .await;
    let cursor = after(&seen.last().unwrap().cursor);
    server.kill9().await;
    server.home().set_script(Script::says("fresh"));
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    let resumed = client.resume_session(&session, cursor).await.unwrap();
    assert!(
        resumed["_meta"]["fastness"].get("resyncFrom").is_none(),
        "{resumed}"
    );
    let rest = client.prompt(&session, "next").await;
    let whole = testkit::client::text_of(&seen, "agent_message_chunk") + &rest.text;
    let told = whole.strip_suffix("fresh").unwrap();
    assert_eq!(told, "tock ".repeat(told.len() / 5));
    let stored_text: String = server
        .home()
        .events(&session)
        .iter()
        .filter(|event| event["type"] == "assistant.message")
        .filter_map(|event| event["text"].as_str().map(str::to_owned))
        .next()
        .unwrap();
    assert_eq!(told, stored_text);
}

#[tokio::test]
async fn a_call_that_waited_for_permission_when_the_server_died_is_closed_as_not_run() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a.txt", "content": "x"}))])
        .call([say("done")]);
    let mut server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.on_permission(Choice::Hold);
    client.start_prompt(&session, "write").await;
    client.next_request().await;
    server.kill9().await;
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    let events = server.home().events(&session);
    let result = events
        .iter()
        .find(|event| event["type"] == "tool.result")
        .unwrap();
    assert_eq!(result["status"], "not_run");
    assert_eq!(server.home().read("a.txt"), None);
}

#[tokio::test]
async fn a_disconnect_detaches_and_the_turn_goes_on() {
    let script = Script::new().call([stream("x", 40, 10)]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    client.leave().await;
    let mut again = AcpClient::connect_ws(&server).await;
    let replayed = again.load_session(&session).await.unwrap();
    let mut text = testkit::client::text_of(&replayed, "agent_message_chunk");
    while text.len() < 40 {
        text.push_str(again.next_update().await.text().unwrap_or_default());
    }
    assert_eq!(text, "x".repeat(40));
}

#[tokio::test]
async fn sigterm_interrupts_what_runs_answers_it_and_exits_with_0() {
    let script = Script::new().call([stream("x", 10_000, 10)]);
    let mut server =
        crate::support::serve_with(script, &[("FASTNESS_LIMITS_DRAIN_MS", "50")]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    let status = server.terminate().await;
    assert_eq!(status.code(), Some(0));
    let error = client.wait(&prompt).await.unwrap_err();
    assert_eq!(
        (error.code, &error.data["kind"]),
        (-32603, &json!("interrupted"))
    );
    assert_eq!(client.closed().await, Some(1001));
    assert_eq!(
        stored(server.home(), &session).last().unwrap(),
        "turn.interrupted"
    );
}

#[tokio::test]
async fn f_05_a_damaged_session_can_be_read_up_to_the_damage_and_not_continued() {
    let mut server = serve(Script::says("fine")).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let (damaged, sound) = (client.new_session().await, client.new_session().await);
    client.prompt(&damaged, "one").await;
    client.prompt(&damaged, "two").await;
    server.terminate().await;
    let log = server
        .home()
        .data_dir()
        .join("sessions")
        .join(&damaged)
        .join("events.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let second = text.find("\"two\"").unwrap();
    let at = text[..second].lines().count();
    std::fs::write(
        &log,
        text.replacen("\"text\":\"two\"", "\"text\":\"toW\"", 1),
    )
    .unwrap();

    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    let params = json!({"sessionId": damaged, "cwd": server.home().workspace(), "mcpServers": []});
    let loaded = client.call("session/load", params).await.unwrap();
    assert_eq!(loaded["_meta"]["fastness"]["damagedAt"], at);
    let replayed = client.take_updates(&damaged);
    assert_eq!(
        testkit::client::text_of(&replayed, "user_message_chunk"),
        "one"
    );
    let refused = client.try_prompt(&damaged, "three").await.unwrap_err();
    assert_eq!(
        (refused.code, &refused.data["kind"]),
        (-32603, &json!("damaged"))
    );
    client.load_session(&sound).await.unwrap();
    assert_eq!(client.prompt(&sound, "hi").await.text, "fine");
    client
        .call("session/delete", json!({"sessionId": damaged}))
        .await
        .unwrap();
    assert_eq!(
        client.load_session(&damaged).await.unwrap_err().code,
        -32002
    );
}
