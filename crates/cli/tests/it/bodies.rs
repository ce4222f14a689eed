//! Request bodies: whatever is sent, it is answered, and the next client is served.
//!
//! [`ROUTES`] is the list of endpoints that read a body; a new one is added there.

use serde_json::{Value, json};
use testkit::raw::{self, HttpAnswer};
use testkit::{AcpClient, Program, wait_for};
use tokio::io::AsyncWriteExt;

use crate::identity::token;
use crate::support::{echo, serve, serve_with, stored};

/// An endpoint that reads a body.
struct Route {
    path: &'static str,
    /// The largest body it takes.
    bytes_max: usize,
    /// A body it takes.
    good: &'static str,
    /// How it may answer that.
    served: &'static [u16],
    /// What it does with JSON that is no object.
    no_object: u16,
}

const ROUTES: &[Route] = &[
    Route {
        path: "/echo",
        bytes_max: 2_000_000,
        good: r#"{"a":[1,"é"]}"#,
        served: &[200],
        no_object: 400,
    },
    Route {
        path: "/tui/append-prompt",
        bytes_max: 2_000_000,
        good: r#"{"text":"hello"}"#,
        served: &[200],
        no_object: 400,
    },
    Route {
        path: "/api/v1/login",
        bytes_max: 4 * 1024,
        good: r#"{"ticket":"of nobody"}"#,
        // It was understood and is wrong, for some time or for good.
        served: &[401, 429],
        no_object: 400,
    },
    Route {
        path: "/api/v1/sessions",
        bytes_max: 2_000_000,
        good: "{}",
        served: &[201],
        no_object: 400,
    },
    Route {
        path: "/api/v1/sessions/00000000000000000000000000000000/prompts",
        bytes_max: 16 * 1024 * 1024,
        good: r#"{"prompt":"hello"}"#,
        // Understood, and there is no such session.
        served: &[404],
        no_object: 400,
    },
    Route {
        path: "/acp",
        bytes_max: 16 * 1024 * 1024,
        good: r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#,
        served: &[200],
        // A batch, which it does not know.
        no_object: 501,
    },
];

impl Route {
    /// Holds a refusal against what it should be; what ACP refuses looks otherwise.
    fn check(&self, answer: &HttpAnswer, status: u16, code: &str) {
        if self.path == "/acp" {
            assert_eq!(answer.status, status, "{answer}");
            assert!(
                serde_json::from_str::<Value>(&answer.body).is_ok(),
                "{answer}"
            );
        } else {
            assert_eq!(refused(answer), is(status, code), "{}", self.path);
        }
    }

    async fn serves(&self, server: &Program) {
        let answer = send(server, self.path, self.good).await;
        assert!(self.served.contains(&answer.status), "{answer}");
    }
}

const JSON: &str = "content-type: application/json\r\n";

/// A whole request with `headers` and a `content-length` of its own.
fn post(server: &Program, path: &str, headers: &str, body: &str) -> String {
    let length = format!("{headers}content-length: {}\r\n", body.len());
    raw::authorized(server, "POST", path, &length) + body
}

async fn send(server: &Program, path: &str, body: &str) -> HttpAnswer {
    raw::request(server, post(server, path, JSON, body)).await
}

/// The status and the code of a refusal, which must be a whole one.
fn refused(answer: &HttpAnswer) -> (u16, String) {
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    for key in ["error", "message", "requestId"] {
        assert!(
            body[key].as_str().is_some_and(|text| !text.is_empty()),
            "{answer}"
        );
    }
    (
        answer.status,
        body["error"].as_str().unwrap_or_default().to_owned(),
    )
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn c_3_bodies_that_are_not_what_a_route_takes_get_a_clear_400() {
    let server = serve(echo()).await;
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(127), "]".repeat(127));
    let just_right = format!("{{\"a\":{}{}}}", "[".repeat(126), "]".repeat(126));
    let many = format!("{{\"a\":[{}0]}}", "0,".repeat(300_000));
    for route in ROUTES {
        for not_json in ["{not-json", "", " ", "{\"a\":1", "{\"a\":\u{1}}", &deep] {
            let answer = send(&server, route.path, not_json).await;
            route.check(&answer, 400, "invalid_json");
        }
        let answer = send(&server, route.path, "[1]").await;
        route.check(&answer, route.no_object, "invalid_request");
        for misshapen in ["1", "null", "\"text\""] {
            let answer = send(&server, route.path, misshapen).await;
            route.check(&answer, 400, "invalid_request");
        }
        if many.len() <= route.bytes_max {
            let answer = send(&server, route.path, &many).await;
            route.check(&answer, 400, "invalid_request");
        }
        let not_utf8 = b"{\"a\":\"\xff\xfe\"}";
        let length = format!("{JSON}content-length: {}\r\n", not_utf8.len());
        let head = raw::authorized(&server, "POST", route.path, &length);
        let invalid = [head.as_bytes(), not_utf8].concat();
        let answer = raw::request(&server, invalid).await;
        route.check(&answer, 400, "invalid_json");
        route.serves(&server).await;
    }
    assert_eq!(send(&server, "/echo", &just_right).await.status, 200);
}

#[tokio::test]
async fn c_3_other_content_types_get_415_and_any_spelling_of_json_is_taken() {
    let server = serve(echo()).await;
    for route in ROUTES {
        for headers in [
            "",
            "content-type: text/plain\r\n",
            "content-type: application/jsonx\r\n",
            "content-type: application/x-www-form-urlencoded\r\n",
            "content-type: application/json\r\ncontent-type: text/plain\r\n",
            "content-type: application/json\r\ncontent-encoding: gzip\r\n",
        ] {
            let request = post(&server, route.path, headers, route.good);
            let answer = raw::request(&server, request).await;
            route.check(&answer, 415, "unsupported_media_type");
        }
        for headers in [
            "content-type: APPLICATION/JSON\r\n",
            "content-type: application/json; charset=utf-8\r\n",
            "content-type: application/json ;x=y\r\ncontent-encoding: identity\r\n",
        ] {
            let request = post(&server, route.path, headers, route.good);
            let answer = raw::request(&server, request).await;
            assert!(route.served.contains(&answer.status), "{answer}");
        }
    }
}

#[tokio::test]
async fn c_3_a_body_that_is_too_large_gets_413_however_it_is_sent() {
    let server = serve(echo()).await;
    for route in ROUTES {
        let too_large = |answer| route.check(&answer, 413, "payload_too_large");
        // By its header alone: nothing of it needs to be sent to be refused.
        let length = format!("{JSON}content-length: {}\r\n", route.bytes_max + 1);
        let head = raw::authorized(&server, "POST", route.path, &length);
        too_large(raw::request(&server, &head).await);
        // With all of it on its way: the answer is not lost to a reset.
        let long = "x".repeat(route.bytes_max + 6_000_000);
        too_large(send(&server, route.path, &long).await);
        // Without a promise: counted while it comes.
        let chunk = format!("{:x}\r\n{}\r\n", 1_000_000, "x".repeat(1_000_000));
        let headers = format!("{JSON}transfer-encoding: chunked\r\n");
        let head = raw::authorized(&server, "POST", route.path, &headers);
        let chunks = route.bytes_max / 1_000_000 + 3;
        let chunked = head + &chunk.repeat(chunks) + "0\r\n\r\n";
        too_large(raw::request(&server, chunked).await);
        route.serves(&server).await;
    }
    // Exactly as large as allowed is allowed.
    let rest = ROUTES[0].bytes_max - "{\"a\":\"\"}".len();
    let exact = format!("{{\"a\":\"{}\"}}", "x".repeat(rest));
    assert_eq!(send(&server, "/echo", &exact).await.status, 200);
}

#[tokio::test]
async fn c_3_a_body_that_is_cut_off_or_too_long_is_answered_and_the_server_goes_on() {
    let server = serve(echo()).await;
    for route in ROUTES {
        let length = format!("{JSON}content-length: {}\r\n", route.good.len() + 5);
        let short = raw::authorized(&server, "POST", route.path, &length) + route.good;
        let mut stream = raw::connect(&server).await;
        stream.write_all(short.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = raw::read_answer(&mut stream).await.unwrap();
        route.check(&answer, 400, "invalid_request");
        // What follows a whole body is another request, and not one.
        let long = post(&server, route.path, JSON, route.good) + "garbage\r\n\r\n";
        let mut stream = raw::connect(&server).await;
        stream.write_all(long.as_bytes()).await.unwrap();
        let answer = raw::read_answer(&mut stream).await.unwrap();
        assert!(route.served.contains(&answer.status), "{answer}");
        assert_eq!(raw::read_answer(&mut stream).await.unwrap().status, 400);
        route.serves(&server).await;
    }
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_told_to_go_on_or_not_to() {
    let server = serve(echo()).await;
    let body = "{\"a\":1}";
    let expect = |length: usize| {
        let headers = format!("{JSON}expect: 100-continue\r\ncontent-length: {length}\r\n");
        raw::authorized(&server, "POST", "/echo", &headers)
    };
    let mut stream = raw::connect(&server).await;
    stream
        .write_all(expect(body.len()).as_bytes())
        .await
        .unwrap();
    assert_eq!(raw::read_answer(&mut stream).await.unwrap().status, 100);
    stream.write_all(body.as_bytes()).await.unwrap();
    let answer = raw::read_answer(&mut stream).await.unwrap();
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (200, r#"{"echo":{"a":1}}"#)
    );
    let answer = raw::request(&server, expect(9_000_000)).await;
    assert_eq!(refused(&answer), is(413, "payload_too_large"));
}

#[tokio::test]
async fn a_refusal_before_the_body_is_read_reaches_a_client_that_is_still_sending() {
    let server = serve(echo()).await;
    let body = "x".repeat(4_000_000);
    let headers = format!("{JSON}content-length: {}\r\n", body.len());
    let host = raw::address(&server);
    let stranger = format!("POST /echo HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n{body}");
    let answer = raw::request(&server, stranger).await;
    assert_eq!(refused(&answer), is(401, "unauthorized"));
    let nowhere = raw::authorized(&server, "POST", "/nowhere", &headers) + &body;
    let answer = raw::request(&server, nowhere).await;
    assert_eq!(refused(&answer), is(404, "not_found"));
}

#[tokio::test]
async fn f30_slow_headers_and_slow_bodies_end_while_a_neighbour_is_served() {
    let limits = [
        ("FASTNESS_LIMITS_HANDSHAKE_MS", "400"),
        ("FASTNESS_LIMITS_BODY_MS", "400"),
    ];
    let server = serve_with(echo(), &limits).await;
    let mut slow_headers = raw::connect(&server).await;
    slow_headers.write_all(b"POST /echo HT").await.unwrap();
    let mut slow_bodies = Vec::new();
    for route in ROUTES {
        let headers = format!("{JSON}content-length: 100\r\n");
        let head = raw::authorized(&server, "POST", route.path, &headers);
        let mut stream = raw::connect(&server).await;
        stream
            .write_all((head + "{\"a\"").as_bytes())
            .await
            .unwrap();
        slow_bodies.push(stream);
    }
    assert_eq!(send(&server, "/echo", "{}").await.status, 200);
    for (route, mut stream) in ROUTES.iter().zip(slow_bodies) {
        let answer = raw::read_answer(&mut stream).await.unwrap();
        route.check(&answer, 408, "request_timeout");
    }
    raw::ended(&mut slow_headers).await;
    assert_eq!(send(&server, "/echo", "{}").await.status, 200);
}

#[tokio::test]
async fn append_prompt_makes_a_session_or_goes_on_with_one() {
    let server = serve(echo()).await;
    let answer = send(&server, "/tui/append-prompt", r#"{"prompt":"one"}"#).await;
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((answer.status, &body["ok"]), (200, &json!(true)));
    let session = body["session_id"].as_str().unwrap();
    let first = &server.home().events(session)[0];
    assert_eq!(first["cwd"], json!(server.home().workspace()));
    let kinds = stored(server.home(), session);
    assert!(kinds.contains(&"user.message".to_owned()), "{kinds:?}");
    let ends = |turns: usize| {
        let kinds = stored(server.home(), session);
        kinds.iter().filter(|kind| *kind == "result").count() == turns
    };
    wait_for("the first turn's end", || ends(1)).await;
    let again = json!({"content": "two", "session_id": session}).to_string();
    assert_eq!(
        send(&server, "/tui/append-prompt", &again).await.status,
        200
    );
    wait_for("the second turn's end", || ends(2)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let told = client.load_session(session).await.unwrap();
    assert!(
        told.iter()
            .any(|update| update.text() == Some("you said two"))
    );
    for misshapen in [
        r#"{"text":1}"#,
        r#"{"text":""}"#,
        "{}",
        r#"{"text":"x","session_id":4}"#,
    ] {
        let answer = send(&server, "/tui/append-prompt", misshapen).await;
        assert_eq!(refused(&answer), is(400, "invalid_request"), "{misshapen}");
    }
}

#[tokio::test]
async fn append_prompt_refuses_what_the_session_or_the_token_does_not_allow() {
    let script = testkit::Script::new().call([testkit::script::stream("x", 10_000, 10)]);
    let server = serve(script).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let session = owner.new_session().await;
    let body = json!({"text": "go", "session_id": session}).to_string();
    assert_eq!(send(&server, "/tui/append-prompt", &body).await.status, 200);
    let answer = send(&server, "/tui/append-prompt", &body).await;
    assert_eq!(refused(&answer), is(409, "busy"));
    for unknown in ["0".repeat(32), "nonsense".to_owned()] {
        let body = json!({"text": "go", "session_id": unknown}).to_string();
        let answer = send(&server, "/tui/append-prompt", &body).await;
        assert_eq!(refused(&answer), is(404, "not_found"));
    }
    let stranger = token(server.home(), &["stranger"]).await;
    let watcher = token(server.home(), &["watcher", "--scope", "observe"]).await;
    let new = r#"{"text":"go"}"#.to_owned();
    for (token, body, expected) in [
        (&stranger, &body, is(404, "not_found")),
        (&watcher, &body, is(403, "forbidden_scope")),
        (&watcher, &new, is(403, "forbidden_scope")),
    ] {
        let request = post(&server, "/tui/append-prompt", JSON, body);
        let request = request.replace(server.token(), token);
        assert_eq!(refused(&raw::request(&server, request).await), expected);
    }
}

#[tokio::test]
async fn append_prompt_says_when_the_disk_is_full() {
    let limits = [("FASTNESS_LIMITS_DISK_FREE_MIN", u64::MAX.to_string())];
    let limits: Vec<_> = limits
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    let server = serve_with(echo(), &limits).await;
    let answer = send(&server, "/tui/append-prompt", r#"{"text":"go"}"#).await;
    assert_eq!(refused(&answer), is(507, "storage_full"));
}
