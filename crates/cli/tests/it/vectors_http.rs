//! HTTP itself: headers and requests that never end, are too many, or mean two things.

use serde_json::Value;
use testkit::raw::{HttpAnswer, address, authorized, connect, ended, read_answer, request};
use tokio::io::AsyncWriteExt;

use crate::support::{echo, serve, serve_with};

#[tokio::test]
async fn f_30_headers_that_never_finish_are_given_up() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_HANDSHAKE_MS", "400")]).await;
    let mut slow = Vec::new();
    for begun in [
        "",
        "G",
        "GET /acp HT",
        "GET /acp HTTP/1.1\r\nhost: x\r\n",
        "\r\n",
    ] {
        for _ in 0..10 {
            let mut stream = connect(&server).await;
            stream.write_all(begun.as_bytes()).await.unwrap();
            slow.push((begun, stream));
        }
    }
    // Others are served while these hold on.
    let health = request(
        &server,
        format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", address(&server)),
    )
    .await;
    assert_eq!(health.status, 200);
    for (_, stream) in &mut slow {
        ended(stream).await;
    }
}

#[tokio::test]
async fn an_idle_keep_alive_connection_is_closed() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_KEEP_ALIVE_MS", "300")]).await;
    let mut stream = connect(&server).await;
    let health = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", address(&server));
    for _ in 0..2 {
        stream.write_all(health.as_bytes()).await.unwrap();
        assert_eq!(read_answer(&mut stream).await.unwrap().status, 200);
    }
    ended(&mut stream).await;
}

/// What is no request gets an answer like any other refusal.
fn says_why(refused: &HttpAnswer, error: &str) {
    assert_eq!(refused.header("content-type"), Some("application/json"));
    let body: Value = serde_json::from_str(&refused.body).unwrap_or_default();
    assert_eq!(body["error"], error, "{refused}");
    assert!(body["message"].is_string() && body["requestId"].is_string());
}

#[tokio::test]
async fn too_many_or_too_long_headers_are_refused_with_431() {
    let server = serve(echo()).await;
    let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let long = format!("x: {}\r\n", "y".repeat(1_000_000));
    for headers in [many, long] {
        let refused = request(&server, authorized(&server, "GET", "/acp", &headers)).await;
        assert_eq!(refused.status, 431, "{refused}");
        says_why(&refused, "headers_too_large");
    }
    let line = format!("/{}", "y".repeat(1_000_000));
    let refused = request(&server, authorized(&server, "GET", &line, "")).await;
    assert!([414, 431].contains(&refused.status), "{refused}");
}

#[tokio::test]
async fn requests_that_two_parsers_read_differently_are_refused() {
    let server = serve(echo()).await;
    for headers in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: +5\r\n",
        "content-length: 0x5\r\n",
        "x: a\r\n folded: b\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: identity\r\n",
        "x : y\r\n",
        "x\u{0}: y\r\n",
        "x: y\u{0}\r\n",
        "no colon\r\n",
    ] {
        let refused = request(&server, authorized(&server, "POST", "/acp", headers)).await;
        assert_eq!(refused.status, 400, "{headers:?}: {refused}");
        says_why(&refused, "invalid_request");
    }
    for line in [
        "GET",
        "GET /acp",
        "GET /acp HTTP/9.9",
        "GET  HTTP/1.1",
        "G\u{1}T / HTTP/1.1",
    ] {
        let refused = request(&server, format!("{line}\r\nhost: x\r\n\r\n")).await;
        assert_eq!(refused.status, 400, "{line:?}: {refused}");
        says_why(&refused, "invalid_request");
    }
}

#[tokio::test]
async fn an_expectation_does_not_hang() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_BODY_MS", "400")]).await;
    let headers = "expect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: 5\r\n";
    let answer = request(&server, authorized(&server, "POST", "/acp", headers)).await;
    let refused_or_continued = answer.status == 100 || (400..=417).contains(&answer.status);
    assert!(refused_or_continued, "{answer}");
    let wrong = headers.replace("100-continue", "200-ok");
    let answer = request(&server, authorized(&server, "POST", "/acp", &wrong)).await;
    assert!((400..=417).contains(&answer.status), "{answer}");
}
