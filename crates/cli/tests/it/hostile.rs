//! Malformed and hostile input: each gets the answer the vectors demand, and the next message
//! is served all the same.

use serde_json::{Value, json};
use testkit::{AcpClient, Home};

use crate::support::{binary, echo, serve, serve_with};

/// Sends `frame` and gives the code and id of the stray answer.
async fn refusal(client: &mut AcpClient, frame: &str) -> (i64, Value) {
    client.raw(frame).await;
    let answer = client.next_stray().await;
    (
        answer["error"]["code"].as_i64().unwrap_or(0),
        answer["id"].clone(),
    )
}

#[tokio::test]
async fn bad_frames_are_answered_and_the_connection_stays_open() {
    let server = serve(echo()).await;
    let mut websocket = AcpClient::connect_ws(&server).await;
    let home = Home::new(binary(), echo());
    let mut stdio = AcpClient::spawn_stdio(&home).await;
    let deep = "[".repeat(128) + &"]".repeat(128);
    for client in [&mut websocket, &mut stdio] {
        for frame in [
            "",
            "{} trailing",
            "{\"a\":1}{\"b\":2}",
            "[1,2",
            "NaN",
            "01",
            "+1",
            ".5",
            "1.",
            "\u{feff}{}",
            deep.as_str(),
            "{\"a\":\"\u{1}\"}",
        ] {
            assert_eq!(
                refusal(client, frame).await,
                (-32700, Value::Null),
                "{frame}"
            );
        }
        for frame in [
            "[]",
            "[1,2,3]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"session/list"}]"#,
        ] {
            assert_eq!(
                refusal(client, frame).await,
                (-32600, Value::Null),
                "{frame}"
            );
        }
        let session = client.new_session().await;
        assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");
    }
}

#[tokio::test]
async fn nothing_is_served_before_initialize_and_it_comes_once() {
    let server = serve(echo()).await;
    let mut client = AcpClient::dial_ws(&server.acp_url(), Some(server.token()))
        .await
        .unwrap();
    let early = client.call("session/list", json!({})).await.unwrap_err();
    assert_eq!(early.code, -32600);
    client.initialize().await;
    let again = client
        .call("initialize", json!({"protocolVersion": 1}))
        .await
        .unwrap_err();
    assert_eq!(again.code, -32600);
    assert_eq!(
        client.call("no/such", json!({})).await.unwrap_err().code,
        -32601
    );
}

#[tokio::test]
async fn ids_are_echoed_exactly_and_one_in_use_is_refused() {
    let server =
        serve(testkit::Script::new().call([testkit::script::stream("x", 10_000, 10)])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    for id in [
        json!("a"),
        json!(""),
        json!(0),
        json!(9_223_372_036_854_775_807_i64),
        json!("\u{0}\n\""),
    ] {
        let request = client.start_as(id, "session/list", json!({})).await;
        client.wait(&request).await.unwrap();
    }
    let session = client.new_session().await;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    client
        .start_as(json!("twice"), "session/prompt", prompt)
        .await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    let second = client
        .start_as(json!("twice"), "session/list", json!({}))
        .await;
    assert_eq!(client.wait(&second).await.unwrap_err().code, -32600);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_refused_and_the_next_one_served() {
    let home = Home::new(binary(), echo()).env("FASTNESS_LIMITS_LINE_BYTES_MAX", 100_000);
    let mut client = AcpClient::spawn_stdio(&home).await;
    let long = json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": ["y".repeat(200_000)]});
    assert_eq!(
        refusal(&mut client, &long.to_string()).await,
        (-32600, Value::Null)
    );
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn a_websocket_message_that_is_too_big_closes_with_1009() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_MESSAGE_BYTES_MAX", "100000")]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.raw(&"x".repeat(200_000)).await;
    assert_eq!(client.closed().await, Some(1009));
    AcpClient::connect_ws(&server).await;
}

#[tokio::test]
async fn a_client_that_never_initializes_is_shown_out() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_HANDSHAKE_MS", "100")]).await;
    let mut client = AcpClient::dial_ws(&server.acp_url(), Some(server.token()))
        .await
        .unwrap();
    assert_eq!(client.closed().await, Some(1002));
}

#[tokio::test]
async fn too_many_requests_in_flight_are_refused_by_name() {
    let server =
        serve(testkit::Script::new().call([testkit::script::stream("x", 10_000, 10)])).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let queued = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}], "_meta": {"fastness": {"queue": true}}});
    let mut prompts = Vec::new();
    for _ in 0..18 {
        prompts.push(client.start("session/prompt", queued.clone()).await);
    }
    // One runs, sixteen wait, the next is one too many.
    let refused = client.wait(&prompts[17]).await.unwrap_err();
    assert_eq!(
        (refused.code, &refused.data["limit"]),
        (-32012, &json!("queued_prompts"))
    );
    client.cancel(&session).await;
    for prompt in &prompts[..17] {
        assert_eq!(
            client.wait(prompt).await.unwrap()["stopReason"],
            "cancelled"
        );
    }
}
