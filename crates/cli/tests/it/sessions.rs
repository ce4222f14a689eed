//! The life of sessions: new, load, resume, list, close, delete, modes and options.

use serde_json::{Value, json};
use testkit::script::{Script, say, stream, tool};
use testkit::{AcpClient, Choice};

use crate::support::{after, echo, serve, serve_with, stored, two_clients};

#[tokio::test]
async fn load_replays_everything_once_and_then_answers() {
    let script = Script::new()
        .call([
            testkit::script::think("hm"),
            say("one "),
            say("two"),
            tool("read", json!({"path": "a.txt"})),
        ])
        .call([say("read it")]);
    let server = serve(script).await;
    server.home().write("a.txt", "content");
    let (mut client, mut other) = two_clients(&server).await;
    let session = client.new_session().await;
    let live = client.prompt(&session, "go").await;
    assert_eq!(live.text, "one tworead it");
    let replayed = other.load_session(&session).await.unwrap();
    let shape: Vec<_> = replayed
        .iter()
        .map(|update| (update.kind.as_str(), update.text().unwrap_or_default()))
        .collect();
    assert_eq!(
        shape[1..],
        [
            ("session_info_update", ""),
            ("user_message_chunk", "go"),
            ("agent_thought_chunk", "hm"),
            ("agent_message_chunk", "one two"),
            ("tool_call", ""),
            ("tool_call_update", ""),
            ("agent_message_chunk", "read it"),
        ]
    );
    let seqs: Vec<_> = replayed.iter().filter_map(testkit::Update::seq).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
}

#[tokio::test]
async fn resume_answers_first_and_delivers_exactly_what_comes_after_the_cursor() {
    let script = Script::new().call([stream("0123456789", 30, 5)]);
    let server = serve(script).await;
    let (mut client, mut other) = two_clients(&server).await;
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    let seen = client
        .updates_until(|update| update.cursor["offset"].as_u64() >= Some(50))
        .await;
    let cursor = after(&seen.last().unwrap().cursor);
    other.resume_session(&session, cursor).await.unwrap();
    client.finish_prompt(&session, &prompt).await.unwrap();
    let before = testkit::client::text_of(&seen, "agent_message_chunk");
    let mut rest = String::new();
    while before.len() + rest.len() < 300 {
        rest.push_str(other.next_update().await.text().unwrap_or_default());
    }
    assert_eq!(before + &rest, "0123456789".repeat(30));

    let mut third = AcpClient::connect_ws(&server).await;
    third.resume_session(&session, json!({})).await.unwrap();
    assert!(
        third.take_updates(&session).is_empty(),
        "without a cursor nothing is replayed"
    );
}

#[tokio::test]
async fn a_cursor_past_the_head_is_told_to_start_over() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "one").await;
    let resumed = client
        .resume_session(&session, json!({"afterSeq": 9_999, "epoch": 0}))
        .await
        .unwrap();
    assert_eq!(resumed["_meta"]["fastness"]["resyncFrom"], 1);
    let replayed = client
        .updates_until(|update| update.text() == Some("you said one"))
        .await;
    assert_eq!(
        testkit::client::text_of(&replayed, "user_message_chunk"),
        "one"
    );
}

#[tokio::test]
async fn list_shows_sessions_with_title_and_directory() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let first = client.new_session().await;
    client.prompt(&first, "name me\nplease").await;
    let second = client.new_session().await;
    let listed = client.call("session/list", json!({})).await.unwrap();
    let shown: Vec<_> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["sessionId"].as_str().unwrap().to_owned(),
                entry["title"].as_str().map(str::to_owned),
            )
        })
        .collect();
    assert_eq!(shown.len(), 2);
    assert!(
        shown.contains(&(first.clone(), Some("name me".to_owned()))),
        "{shown:?}"
    );
    assert!(shown.contains(&(second, None)), "{shown:?}");
    let elsewhere = client
        .call("session/list", json!({"cwd": "/nowhere"}))
        .await
        .unwrap();
    assert_eq!(elsewhere["sessions"], json!([]));

    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    let listed = client
        .call("session/list", json!({"cwd": server.home().workspace()}))
        .await
        .unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn close_by_the_last_client_cancels_closes_and_unloads() {
    let script = Script::new().call([stream("x", 10_000, 10)]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    client
        .call("session/close", json!({"sessionId": session}))
        .await
        .unwrap();
    assert_eq!(
        client.wait(&prompt).await.unwrap()["stopReason"],
        "cancelled"
    );
    assert_eq!(
        stored(server.home(), &session).last().unwrap(),
        "session.closed"
    );
    let refused = client.try_prompt(&session, "more").await.unwrap_err();
    assert_eq!(refused.code, -32002);
    client.load_session(&session).await.unwrap();
}

#[tokio::test]
async fn a_client_that_entered_twice_is_still_the_last_one() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.load_session(&session).await.unwrap();
    client
        .call("session/close", json!({"sessionId": session}))
        .await
        .unwrap();
    assert_eq!(
        stored(server.home(), &session).last().unwrap(),
        "session.closed"
    );
}

#[tokio::test]
async fn close_while_others_are_attached_only_detaches_the_caller() {
    let script = Script::new().call([stream("x", 60, 10)]);
    let server = serve(script).await;
    let (mut first, mut second) = two_clients(&server).await;
    let session = first.new_session().await;
    second.load_session(&session).await.unwrap();
    let prompt = first.start_prompt(&session, "go").await;
    second
        .updates_until(|update| update.text() == Some("x"))
        .await;
    second
        .call("session/close", json!({"sessionId": session}))
        .await
        .unwrap();
    let answer = first.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(
        (answer.stop_reason.as_str(), answer.text.len()),
        ("end_turn", 60)
    );
    assert!(!stored(server.home(), &session).contains(&"session.closed".to_owned()));
}

#[tokio::test]
async fn delete_ends_the_turn_and_the_id_is_gone_for_good() {
    let script = Script::new().call([stream("x", 10_000, 10)]);
    let server = serve(script).await;
    let (mut client, mut other) = two_clients(&server).await;
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    // Deleting takes the owner, not an attachment.
    assert_eq!(
        other
            .call("session/delete", json!({"sessionId": session}))
            .await
            .unwrap(),
        json!({})
    );
    assert_eq!(
        client.wait(&prompt).await.unwrap()["stopReason"],
        "cancelled"
    );
    assert_eq!(other.load_session(&session).await.unwrap_err().code, -32002);
    assert_eq!(
        other
            .call("session/delete", json!({"sessionId": session}))
            .await
            .unwrap(),
        json!({})
    );
    assert_eq!(
        client.call("session/list", json!({})).await.unwrap()["sessions"],
        json!([])
    );
}

#[tokio::test]
async fn delete_of_something_that_is_no_id_is_refused() {
    let server = serve(Script::new().call([say("hi")])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    for wrong in ["nonsense", "", "../../etc", "0", "\u{0}"] {
        let delete = client
            .call("session/delete", json!({"sessionId": wrong}))
            .await;
        assert_eq!(delete.unwrap_err().code, -32602, "{wrong:?}");
    }
    // A session that never existed counts as deleted.
    let unknown = json!({"sessionId": "0123456789abcdef0123456789abcdef"});
    let deleted = client.call("session/delete", unknown).await.unwrap();
    assert_eq!(deleted, json!({}));
}

#[tokio::test]
async fn the_mode_and_the_options_can_be_changed_and_are_remembered() {
    let server = serve(
        Script::new()
            .call([tool("write", json!({"path": "a", "content": "x"}))])
            .call([say("ok")]),
    )
    .await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client
        .call(
            "session/set_mode",
            json!({"sessionId": session, "modeId": "plan"}),
        )
        .await
        .unwrap();
    let told = client.updates_until(|update| !update.is_state()).await;
    assert_eq!(told.last().unwrap().kind, "current_mode_update");
    client.on_permission(Choice::Allow);
    client.prompt(&session, "write").await;
    assert!(client.requests().is_empty(), "plan mode does not even ask");
    assert_eq!(server.home().read("a"), None);

    let set = json!({"sessionId": session, "configId": "mode", "value": "acceptEdits"});
    let options = client.call("session/set_config_option", set).await.unwrap();
    let mode = options["configOptions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|option| option["id"] == "mode")
        .unwrap();
    assert_eq!(mode["currentValue"], "acceptEdits");
    for wrong in [
        json!({"configId": "mode", "value": "yolo"}),
        json!({"configId": "colour", "value": "red"}),
        json!({"configId": "model", "value": "other"}),
    ] {
        let mut params = wrong.clone();
        params["sessionId"] = json!(session);
        assert_eq!(
            client
                .call("session/set_config_option", params)
                .await
                .unwrap_err()
                .code,
            -32602,
            "{wrong}"
        );
    }
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    let loaded: Value = client
        .call(
            "session/load",
            json!({"sessionId": session, "cwd": server.home().workspace(), "mcpServers": []}),
        )
        .await
        .unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "acceptEdits");
}

#[tokio::test]
async fn a_session_has_one_directory_which_is_absolute_and_not_the_data_directory() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let wrong = json!({"sessionId": session, "cwd": "/elsewhere", "mcpServers": []});
    assert_eq!(
        client.call("session/load", wrong).await.unwrap_err().code,
        -32602
    );
    for cwd in ["relative", "", "/a/../b"] {
        let refused = client
            .call("session/new", json!({"cwd": cwd, "mcpServers": []}))
            .await;
        assert_eq!(refused.unwrap_err().code, -32602, "{cwd}");
    }
    let private = server.home().data_dir().join("sessions");
    assert_eq!(
        client.new_session_in(&private).await.unwrap_err().code,
        -32602
    );
}

#[tokio::test]
async fn an_unused_session_leaves_memory_after_its_grace_and_loads_again() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_GRACE_MS", "50")]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "one").await;
    client.leave().await;
    let meta = server
        .home()
        .data_dir()
        .join("sessions")
        .join(&session)
        .join("meta.json");
    testkit::wait_for("meta.json is saved when the session leaves memory", || {
        meta.exists()
    })
    .await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    assert_eq!(client.prompt(&session, "two").await.text, "you said two");
}

#[tokio::test]
async fn older_flat_names_and_snake_case_are_understood() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let made = client
        .call("new_session", json!({"cwd": server.home().workspace()}))
        .await
        .unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let done = client
        .call("prompt", json!({"session_id": session, "prompt": "plain"}))
        .await
        .unwrap();
    assert_eq!(done["stopReason"], "end_turn");
    let told = client.take_updates(&session);
    assert_eq!(
        testkit::client::text_of(&told, "agent_message_chunk"),
        "you said plain"
    );
}

#[tokio::test]
async fn a_long_prompt_is_replayed_in_frames_that_every_client_takes() {
    let server = serve(Script::says("ok")).await;
    let (mut client, mut other) = two_clients(&server).await;
    let session = client.new_session().await;
    let long = "long é ".repeat(200_000);
    client.prompt(&session, &long).await;
    let replayed = other.load_session(&session).await.unwrap();
    assert!(other.received().iter().all(|frame| frame.len() < 200_000));
    let pieces: Vec<_> = replayed
        .iter()
        .filter(|update| update.kind == "user_message_chunk")
        .collect();
    let (last, others) = pieces.split_last().unwrap();
    assert!(
        others.iter().all(|update| update.cursor["more"] == true)
            && last.cursor.get("more").is_none()
    );
    assert_eq!(
        testkit::client::text_of(&replayed, "user_message_chunk"),
        long
    );
}

#[tokio::test]
async fn session_in_a_missing_directory_is_refused_and_named() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let missing = server.home().workspace().join("no-such-folder");
    let new = json!({"cwd": missing, "mcpServers": []});
    let refused = client.call("session/new", new).await.unwrap_err();
    let said = format!("{refused:?}");
    assert!(said.contains("no-such-folder does not exist"), "{said}");
    server.home().write("file", "x");
    let file = server.home().workspace().join("file");
    let new = json!({"cwd": file, "mcpServers": []});
    let refused = client.call("session/new", new).await.unwrap_err();
    let said = format!("{refused:?}");
    assert!(said.contains("is not a directory"), "{said}");
    for (command, flag) in [("ask", "--cwd"), ("serve", "--cwd")] {
        let mut program = server.home().command(command);
        if command == "ask" {
            program.arg("hi");
        }
        let output = program.arg(flag).arg(&missing).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("no-such-folder"), "{said}");
    }
}
