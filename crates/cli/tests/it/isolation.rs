//! Clients of one server hear and touch only the sessions they are attached to.

use std::collections::HashSet;

use serde_json::json;
use testkit::script::{Script, say, stream, tool};
use testkit::{AcpClient, Choice, Program, raw};

use crate::support::{echo, serve, serve_with, stored, two_clients};

#[tokio::test]
async fn a_01_a_client_cannot_touch_a_session_it_is_not_attached_to() {
    let server = serve(echo()).await;
    let (mut owner, mut other) = two_clients(&server).await;
    let session = owner.new_session().await;
    let unknown = "0".repeat(32);
    for (method, rest) in [
        (
            "session/prompt",
            json!({"prompt": [{"type": "text", "text": "hi"}]}),
        ),
        ("session/close", json!({})),
        ("session/set_mode", json!({"modeId": "plan"})),
        (
            "session/set_config_option",
            json!({"configId": "mode", "value": "plan"}),
        ),
    ] {
        let mut refusals = Vec::new();
        for named in [&session, &unknown] {
            let mut params = rest.clone();
            params["sessionId"] = json!(named);
            let mut error = other.call(method, params).await.unwrap_err();
            assert_eq!(error.code, -32002, "{method}");
            let request = error.data["requestId"].take();
            assert!(request.is_string(), "{method} names the request");
            refusals.push(format!("{} {} {}", error.code, error.message, error.data));
        }
        assert_eq!(
            refusals[0], refusals[1],
            "{method}: not yours and not there look alike"
        );
    }
    other.cancel(&session).await;
    other.raw(&json!({"jsonrpc": "2.0", "id": "made-up", "result": {"outcome": {"outcome": "selected", "optionId": "allow_once"}}}).to_string()).await;
    assert_eq!(
        owner.prompt(&session, "still mine").await.text,
        "you said still mine"
    );
    assert_eq!(
        stored(server.home(), &session)
            .iter()
            .filter(|kind| *kind == "user.message")
            .count(),
        1
    );
    assert!(other.take_updates(&session).is_empty());
}

#[tokio::test]
async fn a_second_client_that_attaches_sees_the_turn_and_may_act() {
    let script = Script::new()
        .call([tool("write", json!({"path": "a.txt", "content": "x"}))])
        .call([say("written")]);
    let server = serve(script).await;
    let (mut first, mut second) = two_clients(&server).await;
    let session = first.new_session().await;
    second.load_session(&session).await.unwrap();
    first.on_permission(Choice::Hold);
    second.on_permission(Choice::Allow);
    let prompt = first.start_prompt(&session, "write it").await;
    let echoed = second
        .updates_until(|update| update.text() == Some("written"))
        .await;
    let answer = first.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(answer.text, "written");
    assert_eq!(server.home().read("a.txt").as_deref(), Some("x"));
    let withdrawn = first.next_notification("$/cancel_request").await;
    assert_eq!(withdrawn["requestId"], first.requests()[0].id);
    let prompt = echoed
        .iter()
        .find(|update| update.kind == "user_message_chunk")
        .unwrap();
    assert_eq!(prompt.text(), Some("write it"));
    assert!(
        !answer.kinds().contains(&"user_message_chunk"),
        "nobody gets their own prompt echoed"
    );
}

#[tokio::test]
async fn a_06_registration_is_atomic_for_500_concurrent_connects() {
    // A busy machine may need longer for 500 handshakes than one client is given.
    let patient = [("FASTNESS_LIMITS_HANDSHAKE_MS", "120000")];
    let server = serve_with(echo(), &patient).await;
    let connects = (0..500).map(|_| {
        let (url, token) = (server.acp_url(), server.token().to_owned());
        tokio::spawn(async move {
            let client = AcpClient::dial_ws(&url, Some(&token)).await.unwrap();
            (client.connection_id().map(str::to_owned), client)
        })
    });
    let mut ids = HashSet::new();
    let mut clients = Vec::new();
    for connect in connects.collect::<Vec<_>>() {
        let (id, client) = connect.await.unwrap();
        ids.insert(id.unwrap());
        clients.push(client);
    }
    assert_eq!(ids.len(), 500);
    let mut sessions = HashSet::new();
    for client in &mut clients {
        client.initialize().await;
        let cwd = server.home().workspace();
        let made = client.new_session_in(&cwd).await.unwrap();
        sessions.insert(made["sessionId"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        sessions.len(),
        500,
        "each connection has a session of its own"
    );
    assert_eq!(connected(&server).await, 500, "the registry is exact");
}

/// How many WebSocket clients the server counts.
async fn connected(server: &Program) -> u64 {
    let request = raw::authorized(server, "GET", "/metrics", "connection: close\r\n");
    let metrics = raw::request(server, request).await.body;
    let mut lines = metrics.lines();
    let counted = lines.find(|line| line.contains("connections{transport=\"websocket\"}"));
    let counted = counted.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    counted.unwrap_or_else(|| panic!("no number of connections in {metrics}"))
}

#[tokio::test]
async fn a_13_the_first_prompt_greets_and_the_second_does_not() {
    let server = serve(echo()).await;
    let mut websocket = AcpClient::connect_ws(&server).await;
    let home = testkit::Home::new(crate::support::binary(), echo());
    let mut stdio = AcpClient::spawn_stdio(&home).await;
    for client in [&mut websocket, &mut stdio] {
        let session = client.new_session().await;
        let first = client.prompt(&session, "one").await;
        let greetings: Vec<_> = first
            .updates
            .iter()
            .filter(|update| update.is_greeting())
            .collect();
        assert_eq!(greetings.len(), 1);
        assert!(
            greetings[0].text().unwrap().contains("script:"),
            "it names the model"
        );
        let mut happened = first.updates.iter().filter(|update| !update.is_state());
        assert!(happened.next().unwrap().is_greeting(), "it comes first");
        let second = client.prompt(&session, "two").await;
        assert!(!second.updates.iter().any(testkit::Update::is_greeting));
        assert_eq!(second.text, "you said two", "and the model never sees it");
    }
}

#[tokio::test]
async fn sessions_run_at_the_same_time_and_do_not_mix() {
    let script = Script::new().call([stream("${prompt} ", 50, 2)]);
    let server = serve(script).await;
    let (mut one, mut two) = two_clients(&server).await;
    let (a, b) = (one.new_session().await, two.new_session().await);
    let c = one.new_session().await;
    let first = one.start_prompt(&a, "a").await;
    let third = one.start_prompt(&c, "c").await;
    let second = two.start_prompt(&b, "b").await;
    assert_eq!(
        one.finish_prompt(&a, &first).await.unwrap().text,
        "a ".repeat(50)
    );
    assert_eq!(
        one.finish_prompt(&c, &third).await.unwrap().text,
        "c ".repeat(50)
    );
    assert_eq!(
        two.finish_prompt(&b, &second).await.unwrap().text,
        "b ".repeat(50)
    );
    assert!(one.take_updates(&b).is_empty());
}

#[tokio::test]
async fn a_02_a_session_of_stdio_is_not_there_for_a_websocket_and_the_other_way_round() {
    let home = testkit::Home::new(crate::support::binary(), echo());
    let mut stdio = AcpClient::spawn(&home, "serve", &["--stdio", "--listen", "127.0.0.1:0"]);
    stdio.initialize().await;
    let announced = home.data_dir().join("server.json");
    testkit::wait_for("the server is announced", || announced.exists()).await;
    let announced: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(announced).unwrap()).unwrap();
    let token = std::fs::read_to_string(home.data_dir().join("token")).unwrap();
    let url = announced["url"].as_str().unwrap().replace("http", "ws") + "/acp";
    let socket = AcpClient::dial_ws(&url, Some(&token)).await.unwrap();
    let mut socket = socket.in_directory(home.workspace());
    socket.initialize().await;
    let (on_stdio, on_socket) = (stdio.new_session().await, socket.new_session().await);
    assert_eq!(
        socket.try_prompt(&on_stdio, "hi").await.unwrap_err().code,
        -32002
    );
    assert_eq!(
        stdio.try_prompt(&on_socket, "hi").await.unwrap_err().code,
        -32002
    );
    assert_eq!(stdio.prompt(&on_stdio, "one").await.text, "you said one");
    assert_eq!(socket.prompt(&on_socket, "two").await.text, "you said two");
    assert!(stdio.take_updates(&on_socket).is_empty());
    assert!(socket.take_updates(&on_stdio).is_empty());
}
