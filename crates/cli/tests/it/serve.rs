//! The server as a program: its ready line, its door, its leaving.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use testkit::AcpClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{echo, serve};

/// The status line and the rest of the answer to one plain HTTP request.
async fn get(url: &str, path: &str, headers: &str) -> (String, String) {
    let address = url.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (status, rest) = answer.split_once("\r\n").unwrap();
    (status.to_owned(), rest.to_owned())
}

#[tokio::test]
async fn without_the_token_nobody_gets_in_not_even_on_loopback() {
    let server = serve(echo()).await;
    let refused = |token: Option<String>| {
        let url = server.acp_url();
        async move {
            AcpClient::dial_ws(&url, token.as_deref())
                .await
                .err()
                .and_then(|error| error.status)
        }
    };
    assert_eq!(refused(None).await, Some(401));
    for wrong in [
        "",
        "wrong",
        &format!("{}x", server.token()),
        &server.token()[1..],
    ] {
        assert_eq!(refused(Some(wrong.to_owned())).await, Some(401), "{wrong}");
    }
    let in_query = format!("{}?token={}", server.acp_url(), server.token());
    assert_eq!(
        AcpClient::dial_ws(&in_query, None)
            .await
            .err()
            .and_then(|error| error.status),
        Some(401)
    );
    for path in ["/acp", "/ws", "/metrics", "/api/v1/sessions", "/nothing"] {
        let (status, rest) = get(server.url(), path, "").await;
        assert_eq!(status, "HTTP/1.1 401 Unauthorized", "{path}");
        assert!(
            rest.to_ascii_lowercase()
                .contains("www-authenticate: bearer"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn both_paths_and_the_browsers_way_to_show_a_token_are_served() {
    let server = serve(echo()).await;
    let ws = server.acp_url().replace("/acp", "/ws");
    AcpClient::dial_ws(&ws, Some(server.token()))
        .await
        .unwrap()
        .initialize()
        .await;
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let protocols = format!(
        "sec-websocket-protocol: fastness.v1, bearer.{}\r\n",
        server.token()
    );
    let request = format!("GET /acp HTTP/1.1\r\nhost: {address}\r\n{upgrade}{protocols}\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 1024];
    let length = socket.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).to_lowercase();
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(
        answer.contains("sec-websocket-protocol: fastness.v1\r\n"),
        "{answer}"
    );
    assert!(
        !answer.contains("bearer."),
        "the token is never echoed: {answer}"
    );
    assert!(answer.contains("acp-connection-id: "), "{answer}");
}

#[tokio::test]
async fn health_tells_that_it_runs_and_nothing_else() {
    let server = serve(echo()).await;
    let (status, rest) = get(server.url(), "/health", "").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(rest.ends_with(r#"{"status":"ok","ok":true}"#), "{rest}");
    assert_eq!(get(server.url(), "/ready", "").await.0, "HTTP/1.1 200 OK");
    let token = format!("authorization: bearer {}\r\n", server.token());
    assert_eq!(
        get(server.url(), "/nothing", &token).await.0,
        "HTTP/1.1 404 Not Found"
    );
}

#[tokio::test]
async fn the_server_is_announced_while_it_runs_and_leaves_quietly() {
    let mut server = serve(echo()).await;
    let data_dir = server.home().data_dir();
    assert_eq!(
        data_dir.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    assert_eq!(
        data_dir
            .join("token")
            .metadata()
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let announced: Value =
        serde_json::from_str(&std::fs::read_to_string(data_dir.join("server.json")).unwrap())
            .unwrap();
    assert_eq!(announced["url"], server.url());
    assert_eq!(announced["pid"], server.pid().unwrap());
    let mut client = AcpClient::connect_ws(&server).await;
    assert_eq!(server.terminate().await.code(), Some(0));
    assert_eq!(client.closed().await, Some(1001));
    assert!(!data_dir.join("server.json").exists());
    assert_eq!(
        server.stdout_after_ready(),
        "",
        "the ready line is the only one"
    );
}

#[tokio::test]
async fn two_processes_share_a_data_directory_but_not_a_session() {
    let server = serve(echo()).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let mut beside = AcpClient::spawn_stdio(server.home()).await;
    let held = beside.load_session(&session).await.unwrap_err();
    assert_eq!(
        (held.code, held.data["kind"].as_str()),
        (-32603, Some("held_elsewhere"))
    );
    let own = beside.new_session().await;
    assert_eq!(beside.prompt(&own, "hi").await.text, "you said hi");
    assert_eq!(client.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn no_log_line_holds_a_prompt_an_answer_or_the_token() {
    let mut server = serve(testkit::Script::says("the-answer")).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "the-prompt").await;
    server.terminate().await;
    let log = server.stderr();
    assert!(
        log.contains("connected"),
        "connects are told at info:\n{log}"
    );
    for secret in ["the-prompt", "the-answer", server.token()] {
        assert!(!log.contains(secret), "{log}");
    }
}
