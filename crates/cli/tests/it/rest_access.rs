//! Which token may do what over HTTP: one table for all routes; and how often.

use serde_json::{Value, json};
use testkit::Program;
use testkit::raw::{address, request};

use crate::identity::token;
use crate::rest::Rest;
use crate::support::{echo, serve, serve_with};

/// The operator, a guest who has sessions of their own, an observer of all, a token for this one
/// session, and a share of it.
const PRINCIPALS: [&str; 5] = ["local", "guest", "observer", "one session", "share"];

/// A route and the status for each principal. `{id}` is a session of the operator.
const TABLE: &[(&str, &str, [u16; 5])] = &[
    ("GET", "/metrics", [200, 403, 200, 403, 403]),
    ("GET", "/api/v1/server", [200, 403, 403, 403, 403]),
    ("GET", "/api/v1/info", [200; 5]),
    ("GET", "/api/v1/usage", [200; 5]),
    ("GET", "/api/v1/openapi.json", [200; 5]),
    ("GET", "/api/v1/sessions", [200; 5]),
    ("POST", "/api/v1/sessions", [201, 201, 403, 403, 403]),
    ("GET", "/api/v1/permissions", [200; 5]),
    ("GET", "/api/v1/sessions/{id}", [200, 404, 200, 200, 200]),
    (
        "GET",
        "/api/v1/sessions/{id}/events",
        [200, 404, 200, 200, 200],
    ),
    (
        "GET",
        "/api/v1/sessions/{id}/files",
        [200, 404, 403, 403, 403],
    ),
    (
        "GET",
        "/api/v1/sessions/{id}/shares",
        [200, 404, 403, 403, 403],
    ),
    (
        "POST",
        "/api/v1/sessions/{id}/share",
        [201, 404, 403, 403, 403],
    ),
    (
        "DELETE",
        "/api/v1/sessions/{id}/shares/x",
        [404, 404, 403, 403, 403],
    ),
    ("PATCH", "/api/v1/sessions/{id}", [200, 404, 403, 200, 403]),
    (
        "POST",
        "/api/v1/sessions/{id}/prompts",
        [200, 404, 403, 200, 403],
    ),
    (
        "POST",
        "/api/v1/sessions/{id}/cancel",
        [202, 404, 403, 202, 403],
    ),
    (
        "POST",
        "/api/v1/sessions/{id}/fork",
        [201, 404, 403, 403, 403],
    ),
    // The operator comes last, and the session is gone then.
    ("DELETE", "/api/v1/sessions/{id}", [204, 404, 403, 403, 403]),
];

fn body_of(method: &str, path: &str) -> Value {
    match (method, path.rsplit('/').next()) {
        ("POST", Some("prompts")) => json!({"prompt": "hi"}),
        ("POST", Some("fork")) => json!({"at": 1}),
        ("PATCH", _) => json!({"archived": false}),
        _ => json!({}),
    }
}

async fn status(server: &Program, token: &str, (method, path): (&str, &str)) -> (u16, String) {
    let (host, body) = (address(server), body_of(method, path).to_string());
    let body = if method == "GET" { String::new() } else { body };
    let asked = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
         prefer: wait=60\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = request(server, asked).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn each_principal_may_do_what_the_table_says() {
    let server = serve(echo()).await;
    let owner = Rest::of(&server);
    let id = owner.session().await;
    let shared = owner
        .post(&format!("/sessions/{id}/share"), &json!({}))
        .await
        .is(201);
    let tokens = [
        server.token().to_owned(),
        token(server.home(), &["guest"]).await,
        token(server.home(), &["observer", "--scope", "observe"]).await,
        token(server.home(), &["helper", "--session", &id]).await,
        shared["token"].as_str().unwrap().to_owned(),
    ];
    for (method, path, expected) in TABLE {
        let path = path.replace("{id}", &id);
        for (number, principal) in PRINCIPALS.iter().enumerate().rev() {
            let (status, said) = status(&server, &tokens[number], (method, &path)).await;
            let of = format!("{method} {path} as {principal}: {said}");
            assert_eq!(status, expected[number], "{of}");
            if status == 403 {
                assert!(said.contains("\"forbidden_scope\""), "{of}");
            }
        }
    }
}

#[tokio::test]
async fn rest_requests_are_limited_for_each_token() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_REQUESTS_PER_SECOND", "5")]).await;
    let guest = token(server.home(), &["guest"]).await;
    let (flooder, neighbour) = (Rest::with(&server, &guest), Rest::of(&server));
    let mut refused = 0;
    for _ in 0..60 {
        let said = flooder.get("/info").await;
        if said.status != 200 {
            said.is_refused(429, "rate_limited");
            let wait: u64 = said.answer.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=2).contains(&wait), "{wait}");
            refused += 1;
        }
    }
    assert!(refused > 0, "none of 60 requests was refused");
    neighbour.get("/info").await.is(200);
    // Anyone may ask whether the server lives.
    let health = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", address(&server));
    for _ in 0..30 {
        assert_eq!(request(&server, &health).await.status, 200);
    }
}
