//! Turns as a client sees them: what overlaps, plans, budgets, undoing.

use serde_json::{Value, json};
use testkit::script::{Script, pause, say, stream, tool};
use testkit::{AcpClient, Choice, Home, Program, Reply, Update};

use crate::support::{binary, next_but_looks, serve, serve_with};

/// A client whose files are used, and whose user answers each request by hand.
async fn editor(server: &Program) -> AcpClient {
    let dialled = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut client = dialled.unwrap().in_directory(server.home().workspace());
    let files = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    client.initialize_with(files).await;
    client.on_permission(Choice::Allow);
    client.on_request("fs/read_text_file", Reply::Hold);
    client.on_request("fs/write_text_file", Reply::Hold);
    client
}

fn read(path: &str) -> Value {
    tool("read", json!({"path": path}))
}

fn write(path: &str) -> Value {
    tool("write", json!({"path": path, "content": "x"}))
}

#[tokio::test]
async fn d_03_reads_of_one_answer_overlap_and_writes_come_one_by_one() {
    let script = Script::new()
        .call([read("a"), read("b"), write("c"), write("d")])
        .call([say("seen: ${result}")]);
    let server = serve(script).await;
    let mut client = editor(&server).await;
    let session = client.new_session().await;
    let prompt = client.start_prompt(&session, "go").await;
    // Both are asked for before either is answered.
    let written = ["/c", "/d"];
    let reads = [
        next_but_looks(&mut client, &written).await,
        next_but_looks(&mut client, &written).await,
    ];
    for read in reads {
        assert_eq!(read.method, "fs/read_text_file");
        client.answer(&read, Ok(json!({"content": "text"}))).await;
    }
    for path in ["c", "d"] {
        let write = next_but_looks(&mut client, &written).await;
        assert!(write.params["path"].as_str().unwrap().ends_with(path));
        // Something else that the server answers meanwhile: no further call has come by then.
        client.call("session/list", json!({})).await.unwrap();
        let asked = client.requests().iter();
        let writes = asked.filter(|asked| asked.method == "fs/write_text_file");
        assert_eq!(writes.count(), 1 + usize::from(path == "d"));
        client.answer(&write, Ok(json!({}))).await;
    }
    let answer = client.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(answer.stop_reason, "end_turn");
}

#[tokio::test]
async fn d_05_a_plan_is_shown_and_shown_again_to_whoever_comes_later() {
    let plan = |status: &str| {
        let items = json!([{"content": "look", "status": status}, {"content": "act", "status": "pending", "priority": "high"}]);
        tool("todo", json!({"items": items}))
    };
    let script = Script::new()
        .call([plan("in_progress")])
        .call([plan("completed")])
        .call([say("done")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    let entries = json!([
        {"content": "look", "priority": "medium", "status": "completed"},
        {"content": "act", "priority": "high", "status": "pending"},
    ]);
    let plans = |updates: &[Update]| -> Vec<Value> {
        let plans = updates.iter().filter(|update| update.kind == "plan");
        plans.map(|plan| plan.update["entries"].clone()).collect()
    };
    assert_eq!(plans(&answer.updates)[1], entries);
    let mut other = AcpClient::connect_ws(&server).await;
    let replayed = other.load_session(&session).await.unwrap();
    assert_eq!(plans(&replayed), plans(&answer.updates));
}

#[tokio::test]
async fn d_03_a_turn_out_of_steps_says_so_and_the_next_prompt_has_new_ones() {
    let script = Script::new().call([read("a.txt")]);
    let server = serve_with(script, &[("FASTNESS_LIMITS_STEPS_MAX", "3")]).await;
    server.home().write("a.txt", "text");
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    for _ in 0..2 {
        let answer = client.prompt(&session, "go").await;
        assert_eq!(answer.stop_reason, "max_turn_requests");
        let calls = answer
            .updates
            .iter()
            .filter(|update| update.kind == "tool_call");
        assert_eq!(calls.count(), 3);
    }
}

#[tokio::test]
async fn d_03_a_turn_out_of_time_asks_the_model_no_more_and_the_next_prompt_has_new_time() {
    let script = Script::new()
        .call([pause(3_200), read("a.txt")])
        .call([say("in time")]);
    // Far more than a turn needs to begin, and less than the model's pause.
    let server = serve_with(script, &[("FASTNESS_LIMITS_TURN_MS", "3000")]).await;
    server.home().write("a.txt", "text");
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(answer.stop_reason, "max_turn_requests");
    let is_done = |update: &Update| update.update["status"] == "completed";
    assert!(answer.updates.iter().any(is_done), "{:?}", answer.updates);
    assert_eq!(client.prompt(&session, "again").await.text, "in time");
}

#[tokio::test]
async fn d_11_undoing_through_acp_hides_what_was_undone_and_is_refused_under_a_turn() {
    let script = Script::new()
        .call([say("${prompt}")])
        .call([say("${prompt}")])
        .call([stream("x", 10_000, 10)])
        .call([say("${prompt}")]);
    let server = Program::serve_in(Home::new(binary(), script)).await;
    let dialled = AcpClient::dial_ws(&server.acp_url(), Some(server.token())).await;
    let mut client = dialled.unwrap().in_directory(server.home().workspace());
    let turns = json!({"_meta": {"fastness": {"turns": true}}});
    client.initialize_with(turns).await;
    let session = client.new_session().await;
    client.prompt(&session, "keep").await;
    let end = server.home().events(&session).len();
    client.prompt(&session, "undo").await;
    let rewind = json!({"sessionId": session, "to": end});

    let running = client.start_prompt(&session, "run").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    let busy = client
        .call("_fastness/session/rewind", rewind.clone())
        .await;
    assert_eq!(busy.unwrap_err().code, -32010);
    client.cancel(&session).await;
    client.wait(&running).await.unwrap();

    let rewound = client
        .call("_fastness/session/rewind", rewind.clone())
        .await;
    assert_eq!(rewound.unwrap()["to"], end);
    let told = client.next_notification("_fastness/rewound").await;
    assert_eq!(
        (&told["to"], &told["sessionId"]),
        (&json!(end), &json!(session))
    );
    let nothing = client.call("_fastness/session/rewind", rewind).await;
    assert_eq!(nothing.unwrap_err().code, -32602);

    client.take_updates(&session);
    assert_eq!(client.prompt(&session, "more").await.text, "more");
    let mut other = AcpClient::connect_ws(&server).await;
    let replayed = other.load_session(&session).await.unwrap();
    let said = testkit::client::text_of(&replayed, "user_message_chunk");
    assert_eq!(said, "keepmore");
}
