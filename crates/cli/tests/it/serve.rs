//! The server as a program: its ready line, its door, its leaving.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use testkit::AcpClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{echo, serve};

/// The status line and the rest of the answer to one plain HTTP request, sent as it stands.
async fn send(url: &str, request: &str) -> (String, String) {
    let mut socket = TcpStream::connect(url.strip_prefix("http://").unwrap())
        .await
        .unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (status, rest) = answer.split_once("\r\n").unwrap();
    (status.to_owned(), rest.to_ascii_lowercase())
}

async fn get(url: &str, path: &str, headers: &str) -> (String, String) {
    let host = url.strip_prefix("http://").unwrap();
    send(
        url,
        &format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n"),
    )
    .await
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

/// The status of a WebSocket upgrade with the right token and these Host and Origin headers.
async fn knock(server: &testkit::Program, method: &str, headers: &str) -> (String, String) {
    let upgrade = "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nconnection: upgrade, close\r\n";
    let token = format!("authorization: Bearer {}\r\n", server.token());
    let port = server.url().rsplit(':').next().unwrap();
    let headers = headers.replace("<P>", port);
    let address = server.url().strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} /acp HTTP/1.1\r\n{headers}{token}{upgrade}\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = socket.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).to_lowercase();
    let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
    (status, answer)
}

#[tokio::test]
async fn a_foreign_host_is_refused_before_the_token_is_looked_at() {
    let server = serve(echo()).await;
    for (headers, expected) in [
        ("host: 127.0.0.1:<P>\r\n", "101"),
        ("host: localhost:<P>\r\n", "101"),
        ("host: evil.example\r\n", "403"),
        ("host: 127.0.0.1.evil.example:<P>\r\n", "403"),
        ("host: localhost.evil.example\r\n", "403"),
        ("host: 127.0.0.1:1\r\n", "403"),
        ("host: localhost.:<P>\r\n", "403"),
        ("", "400"),
        ("host: 127.0.0.1:<P>\r\nhost: evil.example\r\n", "400"),
        ("host: 127.0.0.1:<P>\0\r\n", "400"),
    ] {
        assert_eq!(
            knock(&server, "GET", headers).await.0,
            expected,
            "{headers}"
        );
        if expected != "101" {
            for method in ["POST", "DELETE", "OPTIONS"] {
                assert_eq!(
                    knock(&server, method, headers).await.0,
                    expected,
                    "{method} {headers}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_page_may_call_only_from_our_own_or_an_allowed_origin() {
    let home = testkit::Home::new(crate::support::binary(), echo());
    let home = home.arg("--allow-origin").arg("https://app.example");
    let server = testkit::Program::serve_in(home).await;
    let host = "host: 127.0.0.1:<P>\r\n";
    for (origin, expected) in [
        ("http://127.0.0.1:<P>", "101"),
        ("https://app.example", "101"),
        ("http://evil.example:<P>", "403"),
        ("null", "403"),
        ("http://localhost:3000", "403"),
        ("chrome-extension://abcd", "403"),
    ] {
        let headers = format!("{host}origin: {origin}\r\n");
        let (status, answer) = knock(&server, "GET", &headers).await;
        assert_eq!(status, expected, "{origin}");
        let allowed = answer.contains("access-control-allow-origin: https://app.example\r\n");
        assert_eq!(allowed, origin == "https://app.example", "{answer}");
        assert!(
            !answer.contains("access-control-allow-origin: *") && !answer.contains("credentials")
        );
        if expected == "403" {
            for method in ["POST", "DELETE", "OPTIONS"] {
                assert_eq!(
                    knock(&server, method, &headers).await.0,
                    "403",
                    "{method} {origin}"
                );
            }
        }
    }
    let two = format!("{host}origin: https://app.example\r\norigin: https://app.example\r\n");
    assert_eq!(knock(&server, "GET", &two).await.0, "403");
    let silent = format!("{host}sec-fetch-site: cross-site\r\n");
    assert_eq!(knock(&server, "GET", &silent).await.0, "403");
    let asks = format!(
        "{host}origin: https://app.example\r\naccess-control-request-private-network: true\r\n"
    );
    let (status, answer) = knock(&server, "OPTIONS", &asks).await;
    assert_eq!(status, "204");
    assert!(
        answer.contains("vary: origin")
            && answer.contains("access-control-allow-methods: get, post, patch, delete")
    );
    assert!(!answer.contains("private-network"), "{answer}");
}

#[tokio::test]
async fn second_server_of_a_data_directory_fails_and_names_the_first() {
    let server = serve(echo()).await;
    let mut command = server.home().command("serve");
    command.args(["--listen", "127.0.0.1:0"]);
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "it is not ready");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let data_dir = server.home().data_dir().display().to_string();
    for expected in [server.url(), "process ", "--server local", &data_dir] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let pid = said.split("process ").nth(1).unwrap();
    let pid: u32 = pid.split(' ').next().unwrap().parse().unwrap();
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    // The first goes on.
    let mut ask = server.home().command("ask");
    ask.args(["one", "--server", "local"]);
    let output = ask.output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "you said one\n");
}
