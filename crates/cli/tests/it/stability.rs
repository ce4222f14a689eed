//! One client's trouble is its own: what is lost with it, and what goes on without it.

use serde_json::{Value, json};
use testkit::model::RecordingModel;
use testkit::raw::{Frame, opcode};
use testkit::script::{Script, pause, say, stream, think, tool};
use testkit::{AcpClient, Choice, Home, Program, RawSocket, wait_for};

use crate::identity::token;
use crate::support::{binary, echo, serve, serve_with, stored, two_clients};

/// A prompt as it goes over the wire, with the id 9.
fn prompt(session: &str, text: &str) -> String {
    let blocks = json!([{"type": "text", "text": text}]);
    let params = json!({"sessionId": session, "prompt": blocks});
    json!({"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params}).to_string()
}

async fn new_session(server: &Program, socket: &mut RawSocket) -> String {
    let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
    let made = socket.call("session/new", new).await;
    made["result"]["sessionId"].as_str().unwrap().to_owned()
}

async fn turn_ends_normally(server: &Program, session: &str) {
    let ended = || {
        stored(server.home(), session)
            .last()
            .is_some_and(|kind| kind == "result")
    };
    wait_for("the turn goes on to its end", ended).await;
    let events = server.home().events(session);
    assert_eq!(events.last().unwrap()["stopReason"], "end_turn");
}

/// Lines of the log at one of these levels.
fn logged(server: &Program, levels: &[&str]) -> Vec<String> {
    let log = server.stderr();
    let is_at = |line: &&str| levels.iter().any(|level| line.contains(level));
    log.lines().filter(is_at).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_12_a_reset_during_a_response_hurts_nobody_else_and_is_no_warning() {
    let script = Script::new().call([stream(&"x".repeat(1_000), 300, 2)]);
    let server = serve_with(script, &[("FASTNESS_LOG", "debug")]).await;
    let mut neighbour = AcpClient::connect_ws(&server).await;
    let own = neighbour.new_session().await;
    let running = neighbour.start_prompt(&own, "go").await;
    for _ in 0..5 {
        let mut socket = RawSocket::initialized(&server).await;
        let session = new_session(&server, &mut socket).await;
        socket.text(&prompt(&session, "go")).await;
        while !socket.message().await.to_string().contains("xxx") {}
        // What is on its way to it now can never be delivered.
        socket.reset();
    }
    let answer = neighbour.finish_prompt(&own, &running).await.unwrap();
    assert_eq!(answer.text.len(), 300_000);
    let left = || logged(&server, &["disconnected"]).len() >= 5;
    wait_for("all five are noticed", left).await;
    let loud = logged(&server, &["WARN", "ERROR", "panicked"]);
    assert!(loud.is_empty(), "clients come and go: {loud:?}");
}

#[tokio::test]
async fn a_16_a_socket_dropped_in_mid_stream_does_not_end_the_turn() {
    let server = serve(Script::new().call([stream("x", 60, 5)])).await;
    let mut sessions = Vec::new();
    for way in 0..3 {
        let mut socket = RawSocket::initialized(&server).await;
        let session = new_session(&server, &mut socket).await;
        socket.text(&prompt(&session, "go")).await;
        while !socket.message().await.to_string().contains(r#""x""#) {}
        match way {
            0 => drop(socket),
            1 => socket.reset(),
            _ => drop(socket.send(&Frame::last(opcode::CLOSE, *b"\x03\xe8")).await),
        }
        sessions.push(session);
    }
    for session in sessions {
        turn_ends_normally(&server, &session).await;
        let events = server.home().events(&session);
        let message = events
            .iter()
            .find(|event| event["type"] == "assistant.message");
        assert_eq!(message.unwrap()["text"], "x".repeat(60));
    }
}

#[tokio::test]
async fn b_08_sending_to_a_client_that_left_is_not_an_error() {
    // The client leaves while a tool waits for its permission, and while the model thinks.
    let script = Script::new()
        .call([
            think("hm"),
            pause(100),
            tool("write", json!({"path": "a", "content": "x"})),
        ])
        .call([say("done")]);
    let server = serve_with(script, &[("FASTNESS_LOG", "debug")]).await;
    let mut leaver = AcpClient::connect_ws(&server).await;
    let session = leaver.new_session().await;
    leaver.start_prompt(&session, "go").await;
    drop(leaver);
    let asked = || {
        stored(server.home(), &session)
            .iter()
            .any(|kind| kind == "permission.asked")
    };
    wait_for("the question stands, though nobody is there", asked).await;
    let mut next = AcpClient::connect_ws(&server).await;
    next.on_permission(Choice::Allow);
    next.load_session(&session).await.unwrap();
    next.updates_until(|update| update.text() == Some("done"))
        .await;
    turn_ends_normally(&server, &session).await;
    assert_eq!(server.home().read("a").as_deref(), Some("x"));
    let loud = logged(&server, &["WARN", "ERROR", "panicked"]);
    assert!(loud.is_empty(), "{loud:?}");
}

#[tokio::test]
async fn b_13_closing_twice_is_harmless_at_this_end_too() {
    let server = serve(echo()).await;
    let mut socket = RawSocket::initialized(&server).await;
    let close = Frame::last(opcode::CLOSE, *b"\x03\xe8").to_bytes();
    socket.bytes(&[&close[..], &close[..]].concat()).await;
    assert_eq!(socket.close_code().await, Some(1000));
    drop(socket);
    let (mut client, mut other) = two_clients(&server).await;
    let session = client.new_session().await;
    let params = json!({"sessionId": session});
    client.call("session/close", params.clone()).await.unwrap();
    let again = client
        .call("session/close", params.clone())
        .await
        .unwrap_err();
    assert_eq!(again.code, -32002, "it is not attached any more");
    for _ in 0..2 {
        let deleted = other.call("session/delete", params.clone()).await;
        assert_eq!(deleted.unwrap(), json!({}));
    }
    client.leave().await;
    assert_eq!(other.new_session().await.len(), 32);
}

#[tokio::test]
async fn b_14_every_error_names_the_request() {
    let server = serve(echo()).await;
    let stranger = token(server.home(), &["stranger", "--scope", "observe"]).await;
    let mut socket = RawSocket::initialized(&server).await;
    let session = new_session(&server, &mut socket).await;
    let unknown = json!({"sessionId": "0".repeat(32)});
    let mut named = Vec::new();
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        (
            "session/new",
            json!({"cwd": "relative", "mcpServers": []}),
            -32602,
        ),
        ("session/new", json!({"cwd": 5}), -32602),
        ("session/close", unknown.clone(), -32002),
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": 5}),
            -32602,
        ),
        (
            "session/set_mode",
            json!({"sessionId": session, "modeId": "nonsense"}),
            -32602,
        ),
        ("session/list", json!({"cursor": "nonsense"}), -32602),
        ("initialize", json!({"protocolVersion": 1}), -32600),
        ("session/cancel", json!({"sessionId": session}), -32600),
    ] {
        let answer = socket.call(method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
        named.push((method.to_owned(), answer));
    }
    let mut watcher = RawSocket::open_as(&server, &stranger, "").await;
    watcher
        .call("initialize", json!({"protocolVersion": 1}))
        .await;
    let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
    named.push(("observe".to_owned(), watcher.call("session/new", new).await));
    for frame in [
        "{",
        "[]",
        r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
        r#"{"id":1}"#,
    ] {
        socket.text(frame).await;
        named.push((frame.to_owned(), socket.message().await));
    }
    let mut names = std::collections::HashSet::new();
    for (what, answer) in named {
        let error = &answer["error"];
        assert!(
            error["message"].as_str().is_some_and(|text| text.len() > 5),
            "{what}: {answer}"
        );
        let name = error["data"]["requestId"].as_str();
        assert!(name.is_some_and(|name| name.len() > 8), "{what}: {answer}");
        assert!(
            names.insert(name.unwrap().to_owned()),
            "{what}: two requests of one name"
        );
    }
}

/// Fails for a key in snake case, except inside what a model or a tool said.
fn camel_case_only(message: &Value, whole: &str) {
    match message {
        Value::Object(fields) => {
            for (key, value) in fields {
                let inner = key.trim_start_matches('_');
                assert!(!inner.contains('_'), "{key} in {whole}");
                if !["rawInput", "rawOutput"].contains(&key.as_str()) {
                    camel_case_only(value, whole);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| camel_case_only(item, whole)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Everything a client can make the agent say, in the official form and in the older one.
async fn say_everything(client: &mut AcpClient, cwd: &std::path::Path) {
    client.on_permission(Choice::Allow);
    for (new, prompt, load, resume, list, set_mode, id, server_key) in [
        (
            "session/new",
            "session/prompt",
            "session/load",
            "session/resume",
            "session/list",
            "session/set_mode",
            "sessionId",
            "mcpServers",
        ),
        (
            "new_session",
            "prompt",
            "load_session",
            "resume_session",
            "list_sessions",
            "set_session_mode",
            "session_id",
            "mcp_servers",
        ),
    ] {
        let made = client
            .call(new, json!({"cwd": cwd, server_key: []}))
            .await
            .unwrap();
        let session = made["sessionId"].as_str().unwrap().to_owned();
        let blocks = json!([{"type": "text", "text": "go"}]);
        let asked = json!({id: session, "prompt": blocks});
        let answered = client.call(prompt, asked.clone()).await.unwrap();
        assert_eq!(answered["stopReason"], "end_turn");
        assert!(client.call(prompt, asked).await.is_err(), "the model fails");
        let mode = if id == "sessionId" {
            "modeId"
        } else {
            "mode_id"
        };
        client
            .call(set_mode, json!({id: session, mode: "plan"}))
            .await
            .unwrap();
        let option = json!({id: session, "configId": "mode", "value": "default"});
        client
            .call("session/set_config_option", option)
            .await
            .unwrap();
        let attach = json!({id: session, "cwd": cwd, server_key: []});
        client.call(load, attach.clone()).await.unwrap();
        client.call(resume, attach).await.unwrap();
        client.call(list, json!({})).await.unwrap();
        client.call("no_such", json!({})).await.unwrap_err();
        client
            .call("authenticate", json!({"methodId": "none"}))
            .await
            .ok();
        client.raw("{").await;
        client.next_stray().await;
        client.notify("session/cancel", json!({id: session})).await;
        client
            .call("session/close", json!({id: session}))
            .await
            .unwrap();
        client
            .call("session/delete", json!({id: session}))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn b_05_everything_that_is_said_is_valid_and_in_camel_case() {
    let script = || {
        Script::new()
            .call([
                think("hm"),
                say("writing"),
                tool("write", json!({"path": "a_b", "content": "x"})),
            ])
            .call([tool("read", json!({"path": "a_b"}))])
            .call([tool("read", json!({"path": "not there"}))])
            .call([say("done")])
            .call([testkit::script::fail(400, "no")])
    };
    let home = Home::new(binary(), script());
    home.write("a_b", "y");
    let mut stdio = AcpClient::spawn_stdio(&home).await;
    say_everything(&mut stdio, &home.workspace()).await;
    let server = serve(script()).await;
    let mut websocket = AcpClient::dial_ws(&server.acp_url(), Some(server.token()))
        .await
        .unwrap();
    let turns = json!({"_meta": {"fastness": {"turns": true}}});
    websocket.initialize_with(turns).await;
    say_everything(&mut websocket, &server.home().workspace()).await;
    // The oracle has held each against the schema already.
    for client in [&stdio, &websocket] {
        let received = client.received();
        for kind in [
            "agent_message_chunk",
            "agent_thought_chunk",
            "tool_call",
            "tool_call_update",
            "session/request_permission",
            "current_mode_update",
            "config_option_update",
            "user_message_chunk",
            "available_commands_update",
        ] {
            let was_said = received.iter().any(|message| message.contains(kind));
            assert!(
                was_said || kind == "available_commands_update",
                "{kind} was not driven"
            );
        }
        for message in received {
            camel_case_only(&serde_json::from_str(message).unwrap(), message);
        }
    }
}

#[tokio::test]
async fn a_09_whoever_is_not_admitted_makes_no_session() {
    let server = serve(echo()).await;
    let home = server.home();
    let made = || std::fs::read_dir(home.data_dir().join("sessions")).map_or(0, Iterator::count);
    // Only the gate makes a principal, and only a principal reaches the directory of sessions:
    // what is left to show is that nothing happens before the gate and nothing after it closed.
    let expired = token(home, &["short", "--expires", "1s"]).await;
    let revoked = token(home, &["friend"]).await;
    let mut clients = Vec::new();
    for secret in [&expired, &revoked] {
        let client = AcpClient::dial_ws(&server.acp_url(), Some(secret))
            .await
            .unwrap();
        let mut client = client.in_directory(home.workspace());
        client.initialize().await;
        clients.push(client);
    }
    let mut revoke = home.clean(home.binary());
    revoke.args(["token", "revoke", "friend", "--data-dir"]);
    assert!(
        revoke
            .arg(home.data_dir())
            .status()
            .await
            .unwrap()
            .success()
    );
    for client in &mut clients {
        assert_eq!(client.closed().await, Some(4401));
        client
            .raw(
                &json!({"jsonrpc": "2.0", "id": 5, "method": "session/new",
            "params": {"cwd": home.workspace(), "mcpServers": []}})
                .to_string(),
            )
            .await;
    }
    for secret in [expired.as_str(), revoked.as_str(), "never"] {
        let refused = AcpClient::dial_ws(&server.acp_url(), Some(secret))
            .await
            .err();
        assert_eq!(refused.and_then(|error| error.status), Some(401));
    }
    // Somebody who is admitted gets the first session there is.
    let mut owner = AcpClient::connect_ws(&server).await;
    assert_eq!(made(), 0, "no id was used up");
    owner.new_session().await;
    assert_eq!(made(), 1);
}

#[tokio::test]
async fn a_20_two_hundred_prompts_share_a_few_upstream_connections() {
    let model = RecordingModel::start().await;
    let server = Program::serve_in(model.home(binary())).await;
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = AcpClient::connect_ws(&server).await;
        let session = client.new_session().await;
        clients.push((client, session));
    }
    for round in 0..20 {
        let mut prompts = Vec::new();
        for (client, session) in &mut clients {
            prompts.push(
                client
                    .start_prompt(session, &format!("round {round}"))
                    .await,
            );
        }
        for ((client, session), prompt) in clients.iter_mut().zip(&prompts) {
            client.finish_prompt(session, prompt).await.unwrap();
        }
    }
    assert_eq!(model.requests().len(), 200);
    let connections = model.connections();
    assert!(
        connections <= 20,
        "ten at a time took {connections} connections"
    );
}
