//! The cases of `tests/data/auth.json` on every route: one that was forgotten would be enough.

use serde_json::json;
use testkit::raw::{HttpAnswer, address, request};
use testkit::{Home, Program, RawRemote};

use crate::support::{binary, echo, serve};
use crate::vectors_auth::{
    METHODS, PUBLIC, WRONG_TOKENS, is_unauthorized, knock, no_session_was_made, routes,
};
use crate::vectors_door::{FOREIGN_HOSTS, FOREIGN_ORIGINS};

/// What a client asks with: a message, a stream, an end, and a browser's question before those.
const ASKED: &[(&str, &str)] = &[
    ("POST", "content-type: application/json\r\n"),
    ("GET", "accept: text/event-stream\r\n"),
    ("DELETE", "acp-connection-id: x\r\n"),
    ("OPTIONS", "access-control-request-method: POST\r\n"),
];

const PAGE: &str = "https://app.example";

/// Asks as a client does that means it: a POST carries a good message.
async fn ask(
    server: &Program,
    (method, own): (&str, &str),
    path: &str,
    headers: &str,
) -> HttpAnswer {
    let (_, port) = address(server).rsplit_once(':').unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": 1}, "text": "hi"});
    let body = if method == "POST" {
        hello.to_string()
    } else {
        String::new()
    };
    let asked = format!(
        "{method} {path} HTTP/1.1\r\n{headers}{own}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let asked = asked.replace("<P>", port).replace("<T>", server.token());
    request(server, asked).await
}

/// Every path that wants a token, and one that leads nowhere.
fn private() -> Vec<String> {
    let mut paths = routes();
    paths.retain(|path| !PUBLIC.contains(&path.as_str()));
    paths.push("/nowhere".to_owned());
    for known in ["/acp", "/ws", "/metrics", "/echo", "/tui/append-prompt"] {
        assert!(paths.iter().any(|path| path == known), "{known}");
    }
    paths
}

#[tokio::test]
async fn wrong_tokens_open_no_route_by_any_method() {
    let server = serve(echo()).await;
    for path in private() {
        for asked in ASKED {
            for (id, query, headers) in WRONG_TOKENS {
                let path = format!("{path}{query}");
                let headers = format!("host: 127.0.0.1:<P>\r\n{headers}");
                let refused = ask(&server, *asked, &path, &headers).await;
                let what = format!("{id} {} {path} {headers:?}", asked.0);
                is_unauthorized(&server, &refused, &what);
            }
        }
    }
    no_session_was_made(&server);
}

#[tokio::test]
async fn hosts_and_origins_are_judged_on_every_route() {
    let server = serve(echo()).await;
    let mut paths = private();
    // Whoever logs in has no token yet, but comes through the same door.
    paths.push("/api/v1/login".to_owned());
    for path in &paths {
        for asked in ASKED {
            for (id, hosts, expected) in FOREIGN_HOSTS {
                let headers = format!("{hosts}authorization: Bearer <T>\r\n");
                let refused = ask(&server, *asked, path, &headers).await;
                assert_eq!(
                    refused.status, *expected,
                    "{id} {asked:?} {path}: {refused}"
                );
            }
            for (id, origin) in FOREIGN_ORIGINS {
                let headers =
                    format!("host: 127.0.0.1:<P>\r\nauthorization: Bearer <T>\r\n{origin}");
                let refused = ask(&server, *asked, path, &headers).await;
                let is_refused = [400, 403].contains(&refused.status);
                assert!(is_refused, "{id} {asked:?} {path} {origin:?}: {refused}");
                assert_eq!(permissions(&refused), [""; 0], "{id} {path}: {refused}");
            }
        }
    }
    no_session_was_made(&server);
}

/// The names of the headers that allow a page something.
fn permissions(answer: &HttpAnswer) -> Vec<&str> {
    let names = answer.headers.iter().map(|(name, _)| name.as_str());
    names
        .filter(|name| name.starts_with("access-control"))
        .collect()
}

#[tokio::test]
async fn what_is_told_to_anyone_allows_nobody_anything() {
    let server = serve(echo()).await;
    for path in ["/health", "/ready"] {
        for headers in [
            "host: evil.example\r\n",
            "host: 127.0.0.1:<P>\r\norigin: http://evil.example\r\n",
            "host: 127.0.0.1:<P>\r\nauthorization: Bearer wrong\r\n",
        ] {
            let answer = knock(&server, "GET", path, headers).await;
            assert_eq!(answer.status, 200, "{path} {headers:?}: {answer}");
            assert_eq!(permissions(&answer), [""; 0], "{path}: {answer}");
        }
        for method in METHODS
            .iter()
            .filter(|method| !["GET", "HEAD"].contains(method))
        {
            let refused = knock(&server, method, path, "host: 127.0.0.1:<P>\r\n").await;
            assert_eq!(refused.status, 405, "{method} {path}: {refused}");
        }
    }
    // A login takes a ticket and nothing else.
    for method in METHODS {
        let headers = "host: 127.0.0.1:<P>\r\nauthorization: Bearer <T>\r\ncontent-length: 0\r\n";
        let refused = knock(&server, method, "/api/v1/login", headers).await;
        let expected = if *method == "POST" { 415 } else { 405 };
        assert_eq!(refused.status, expected, "{method}: {refused}");
    }
}

#[tokio::test]
async fn what_a_page_may_send_unasked_is_refused_twice() {
    let server = serve(echo()).await;
    let ours = "host: 127.0.0.1:<P>\r\nauthorization: Bearer <T>\r\n";
    for path in ["/acp", "/echo", "/tui/append-prompt", "/api/v1/login"] {
        for (id, kind) in [
            ("cors-03", "content-type: text/plain\r\n"),
            ("cors-03", "content-type: text/plain;charset=UTF-8\r\n"),
            (
                "cors-04",
                "content-type: application/x-www-form-urlencoded\r\n",
            ),
            (
                "cors-04",
                "content-type: multipart/form-data; boundary=x\r\n",
            ),
            ("cors-05", ""),
        ] {
            let own = format!("{ours}origin: http://127.0.0.1:<P>\r\n");
            let evil = format!("{ours}origin: http://evil.example\r\n");
            let silent = format!("{ours}sec-fetch-site: cross-site\r\n");
            // Each of the two signs is enough without the other.
            for (headers, status) in [
                (ours, 415),
                (own.as_str(), 415),
                (evil.as_str(), 403),
                (silent.as_str(), 403),
            ] {
                let refused = ask(&server, ("POST", kind), path, headers).await;
                assert_eq!(refused.status, status, "{id} {path} {headers:?}: {refused}");
            }
        }
        let evil = format!("{ours}origin: http://evil.example\r\n");
        let refused = ask(&server, ASKED[0], path, &evil).await;
        assert_eq!(refused.status, 403, "cors-03 {path}: {refused}");
    }
    no_session_was_made(&server);
}

/// What an allowed page is told, and nothing more.
fn is_allowed(answer: &HttpAnswer, names: &[&str], what: &str) {
    let origin = answer.header("access-control-allow-origin");
    assert_eq!(origin, Some(PAGE), "{what}: {answer}");
    assert_eq!(answer.header("vary"), Some("Origin"), "{what}: {answer}");
    let mut told = permissions(answer);
    told.sort_unstable();
    assert_eq!(told, names, "{what}: {answer}");
}

const WITH_ANSWERS: &[&str] = &[
    "access-control-allow-origin",
    "access-control-expose-headers",
];

#[tokio::test]
async fn an_allowed_page_gets_its_headers_with_every_answer_and_no_others() {
    let home = Home::new(binary(), echo()).arg("--allow-origin").arg(PAGE);
    let server = Program::serve_in(home).await;
    let page = format!("host: 127.0.0.1:<P>\r\norigin: {PAGE}\r\n");
    let mut paths = private();
    paths.push("/api/v1/login".to_owned());
    for path in &paths {
        let asks = format!(
            "{page}access-control-request-method: POST\r\naccess-control-request-private-network: true\r\n\
             access-control-request-local-network: true\r\n"
        );
        // It comes without a token, because browsers send none with this question.
        let preflight = knock(&server, "OPTIONS", path, &asks).await;
        assert_eq!(preflight.status, 204, "cors-02 {path}: {preflight}");
        let names = [
            "access-control-allow-headers",
            "access-control-allow-methods",
            "access-control-allow-origin",
        ];
        is_allowed(&preflight, &names, path);
        let refused = ask(&server, ASKED[1], path, &page).await;
        let expected = if path == "/api/v1/login" { 405 } else { 401 };
        assert_eq!(refused.status, expected, "{path}: {refused}");
        is_allowed(&refused, WITH_ANSWERS, path);
    }
    let with_token = format!("{page}authorization: Bearer <T>\r\n");
    let opened = ask(&server, ASKED[0], "/acp", &with_token).await;
    assert_eq!(opened.status, 200, "{opened}");
    is_allowed(&opened, WITH_ANSWERS, "initialize");
    let exposed = opened.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("acp-connection-id"), "{exposed}");
    let remote = RawRemote::open(&server).await;
    let origin = format!("origin: {PAGE}\r\n");
    let stream = remote.stream(&server, &origin).await;
    assert_eq!(stream.answer.status, 200);
    is_allowed(&stream.answer, WITH_ANSWERS, "a stream");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "session/list"});
    let posted = remote.post(&server, &origin, &list).await;
    is_allowed(&posted, WITH_ANSWERS, "a message");
    let ended = remote.ask(&server, "DELETE", &origin).await;
    assert_eq!(ended.status, 202);
    is_allowed(&ended, WITH_ANSWERS, "an end");
}
