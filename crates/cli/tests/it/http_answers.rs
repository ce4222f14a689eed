//! Every request gets exactly one answer, in order and with the headers that protect it, whatever
//! its route, method and body; after it the connection is usable, or was said to close.

use testkit::Program;
use testkit::raw::{address, connect};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{echo, serve, serve_with};

const DEADLINE: std::time::Duration = std::time::Duration::from_secs(20);

const PATHS: &[&str] = &[
    "/",
    "/assets/nothing.js",
    "/health",
    "/ready",
    "/metrics",
    "/echo",
    "/tui/append-prompt",
    "/acp",
    "/ws",
    "/nothing",
    "/api/v1/login",
    "/api/v1/nothing",
    "/api/v1/sessions",
    "/api/v1/sessions/changes",
    "/api/v1/sessions/abc",
    "/api/v1/sessions/abc/fork",
    "/api/v1/sessions/abc/events",
    "/api/v1/sessions/abc/stream",
    "/api/v1/sessions/abc/prompts",
    "/api/v1/sessions/abc/cancel",
    "/api/v1/sessions/abc/share",
    "/api/v1/sessions/abc/shares",
    "/api/v1/sessions/abc/shares/def",
    "/api/v1/sessions/abc/files",
    "/api/v1/permissions",
    "/api/v1/permissions/abc",
    "/api/v1/usage",
    "/api/v1/server",
    "/api/v1/info",
    "/api/v1/openapi.json",
];

const METHODS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO",
];

/// Kinds of bodies: their headers, and what is sent of them.
const BODIES: &[(&str, &str)] = &[
    ("", ""),
    ("content-length: 3\r\n", "abc"),
    (
        "content-type: application/json\r\ncontent-length: 2\r\n",
        "{}",
    ),
    ("transfer-encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
    ("content-length: 1000000\r\n", "abc"),
    ("expect: 100-continue\r\ncontent-length: 3\r\n", ""),
];

/// One answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self
            .head
            .split("\r\n")
            .filter_map(|line| line.split_once(':'));
        let found = lines.find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }

    /// What a browser must be told with each.
    fn check_protection(&self, of: &str) {
        assert_eq!(
            self.header("x-content-type-options"),
            Some("nosniff"),
            "{of}"
        );
        let policy = self.header("cross-origin-resource-policy");
        assert_eq!(policy, Some("same-origin"), "{of}");
        let caching = self.header("cache-control");
        let is_page = of.contains(" / ") && (self.status == 200 || self.status == 304);
        let expected = if is_page { "no-cache" } else { "no-store" };
        assert_eq!(caching, Some(expected), "{of}");
    }
}

/// The next answer, or `None` at the end of the connection.
async fn next_answer(stream: &mut TcpStream, is_head: bool) -> Option<Answer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) if head.is_empty() => return None,
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&head)),
        }
    }
    let head = String::from_utf8(head).unwrap();
    let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer {
        status,
        head,
        body: Vec::new(),
    };
    if status == 100 {
        return Some(answer);
    }
    let length = answer
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    if !is_head {
        answer.body = vec![0; length];
        stream.read_exact(&mut answer.body).await.unwrap();
    }
    Some(answer)
}

/// Sends a request and one for `/health` right behind it; checks what comes back, and gives the
/// first answer.
async fn ask(server: &Program, method: &str, request: &str) -> Answer {
    let mut stream = connect(server).await;
    let probe = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", address(server));
    // The server may close before it has read all of it.
    let _ = stream
        .write_all(format!("{request}{probe}").as_bytes())
        .await;
    let reading = async {
        let mut first = next_answer(&mut stream, method == "HEAD").await;
        if first.as_ref().is_some_and(|answer| answer.status == 100) {
            first = next_answer(&mut stream, method == "HEAD").await;
        }
        let first = first.unwrap_or_else(|| panic!("no answer to {request:?}"));
        match next_answer(&mut stream, false).await {
            None => assert!(
                first.closes(),
                "closed without a word: {request:?} {first:?}"
            ),
            Some(second) => {
                assert!(!first.closes(), "not closed: {request:?}");
                let health: serde_json::Value = serde_json::from_slice(&second.body).unwrap();
                assert_eq!(
                    (second.status, &health["ok"]),
                    (200, &true.into()),
                    "{request:?}"
                );
            }
        }
        first
    };
    let first = timeout(DEADLINE, reading).await;
    first.unwrap_or_else(|_| panic!("not both answered: {request:?}"))
}

fn request(server: &Program, (method, path): (&str, &str), more: &str, body: &str) -> String {
    let host = address(server);
    format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{more}\r\n{body}")
}

#[tokio::test]
async fn every_route_method_and_body_gets_one_protected_answer() {
    let settings = [("FASTNESS_LIMITS_REQUESTS_PER_SECOND", "1000000")];
    let server = serve_with(echo(), &settings).await;
    let token = format!("authorization: Bearer {}\r\n", server.token());
    for path in PATHS {
        for method in METHODS {
            for (headers, body) in BODIES {
                for token in ["", &token] {
                    let streams = *path == "/api/v1/sessions/changes" && *method == "GET";
                    if streams && !token.is_empty() {
                        continue;
                    }
                    let more = format!("{token}{headers}");
                    let request = request(&server, (method, path), &more, body);
                    let answer = ask(&server, method, &request).await;
                    let of = format!("{method} {path} {headers:?}");
                    answer.check_protection(&of);
                    if answer.status == 405 {
                        let allowed = answer.header("allow").unwrap_or_else(|| panic!("{of}"));
                        let allowed: Vec<_> = allowed.split(',').map(str::trim).collect();
                        assert!(!allowed.is_empty() && !allowed.contains(method), "{of}");
                        assert_eq!(allowed.contains(&"GET"), allowed.contains(&"HEAD"), "{of}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn refusals_of_http_itself_are_protected_and_close() {
    let server = serve(echo()).await;
    let token = format!("authorization: Bearer {}\r\n", server.token());
    let long = format!("x: {}\r\n", "a".repeat(100_000));
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let posted = |headers: &str, body: &str| {
        let headers = format!("{token}content-type: application/json\r\n{headers}");
        request(&server, ("POST", "/echo"), &headers, body)
    };
    for (expected, raw) in [
        (400, "\u{1} / HTTP/1.1\r\n\r\n".to_owned()),
        (400, "GET / HTTP/1.2\r\n\r\n".to_owned()),
        (431, request(&server, ("GET", "/"), &long, "")),
        (
            400,
            posted("transfer-encoding: chunked\r\n", "zz\r\nabc\r\n0\r\n\r\n"),
        ),
        (
            501,
            posted("transfer-encoding: gzip, chunked\r\n", "0\r\n\r\n"),
        ),
        (
            501,
            posted(
                "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
                "0\r\n\r\n",
            ),
        ),
        (413, posted("content-length: 9000000\r\n", "x")),
        (
            400,
            request(
                &server,
                ("GET", "/acp"),
                &format!("{token}{upgrade}content-length: 70000\r\n"),
                "abc",
            ),
        ),
    ] {
        let answer = ask(&server, "GET", &raw).await;
        assert_eq!(answer.status, expected, "{raw:?}");
        assert!(answer.closes(), "{raw:?}");
        answer.check_protection("an error");
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert!(body["message"].is_string(), "{body}");
    }
    // Behind a good request, too.
    let mut stream = connect(&server).await;
    let good = request(&server, ("GET", "/health"), "", "");
    stream
        .write_all(format!("{good}\u{1}bad\r\n\r\n").as_bytes())
        .await
        .unwrap();
    assert_eq!(next_answer(&mut stream, false).await.unwrap().status, 200);
    let refused = next_answer(&mut stream, false).await.unwrap();
    assert_eq!(refused.status, 400);
    refused.check_protection("behind another");
    assert!(refused.closes() && next_answer(&mut stream, false).await.is_none());
}

#[tokio::test]
async fn slow_body_that_nobody_reads_does_not_hold_the_answer() {
    let server = serve(echo()).await;
    let mut stream = connect(&server).await;
    let slow = request(&server, ("POST", "/health"), "content-length: 9\r\n", "abc");
    stream.write_all(slow.as_bytes()).await.unwrap();
    let answer = timeout(DEADLINE, next_answer(&mut stream, false))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((answer.status, answer.closes()), (405, true));
    assert!(
        timeout(DEADLINE, next_answer(&mut stream, false))
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn upgrade_that_is_wrong_says_what_is_needed() {
    let server = serve(echo()).await;
    let headers = format!(
        "authorization: Bearer {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 12\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        server.token()
    );
    let wrong = request(&server, ("GET", "/acp"), &headers, "");
    let answer = ask(&server, "GET", &wrong).await;
    assert_eq!(answer.status, 426);
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    assert_eq!(answer.header("sec-websocket-version"), Some("13"));
}
