//! Every case of `tests/data/auth.json`: who gets in, and whose things are whose.
//!
//! Refusals at the door are driven on every method here, and on every route in `vectors_routes`.

mod stories;

use serde_json::{Value, json};
use testkit::raw::{HttpAnswer, UPGRADE, address, request};
use testkit::{AcpClient, Home, Program, RawSocket};

use self::stories::STORIES;
use crate::identity::token;
use crate::support::{binary, echo, serve, two_clients};

const VECTORS: &str = include_str!("../data/auth.json");

const SOURCES: &[&str] = &[
    include_str!("http2.rs"),
    include_str!("identity.rs"),
    include_str!("remote_clients.rs"),
    include_str!("serve.rs"),
    include_str!("streamable.rs"),
    include_str!("unix.rs"),
    include_str!("vectors_auth.rs"),
    include_str!("vectors_door.rs"),
    include_str!("vectors_jsonrpc.rs"),
    include_str!("vectors_routes.rs"),
];

#[test]
fn every_case_of_the_file_is_told_by_a_test_that_exists() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let ids: Vec<_> = vectors.as_array().unwrap().iter().collect();
    for vector in &ids {
        let is_told = STORIES.iter().any(|(story, _)| vector["id"] == *story);
        assert!(is_told, "{} is told by nothing", vector["id"]);
    }
    for (id, test) in STORIES {
        assert!(
            ids.iter().any(|vector| vector["id"] == *id),
            "{id} is no case"
        );
        let declared = format!("async fn {test}(");
        let exists = SOURCES.iter().any(|source| source.contains(&declared));
        assert!(exists, "{id}: there is no test {test}");
    }
}

pub(crate) const METHODS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW",
];

/// Asks for `path` with these headers and nothing else; `<P>` and `<T>` stand for port and token.
pub(crate) async fn knock(server: &Program, method: &str, path: &str, headers: &str) -> HttpAnswer {
    let (_, port) = address(server).rsplit_once(':').unwrap();
    let asked = format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
    let asked = asked.replace("<P>", port).replace("<T>", server.token());
    request(server, asked).await
}

/// Asks for a WebSocket with these headers.
pub(crate) async fn upgrade(server: &Program, path: &str, headers: &str) -> HttpAnswer {
    let (_, port) = address(server).rsplit_once(':').unwrap();
    let asked = format!("GET {path} HTTP/1.1\r\n{headers}{UPGRADE}\r\n");
    let asked = asked.replace("<P>", port).replace("<T>", server.token());
    request(server, asked).await
}

pub(crate) fn no_session_was_made(server: &Program) {
    let sessions = server.home().data_dir().join("sessions");
    let count = std::fs::read_dir(sessions).map_or(0, Iterator::count);
    assert_eq!(count, 0, "nothing was created");
}

/// What does not authenticate: the case, what is added to a path, and headers.
pub(crate) const WRONG_TOKENS: &[(&str, &str, &str)] = &[
    ("token-01", "", ""),
    ("token-02", "", "authorization: Bearer wrong\r\n"),
    ("token-03", "", "authorization: Bearer \r\n"),
    ("token-03", "", "authorization: Bearer\r\n"),
    ("token-03", "", "authorization:\r\n"),
    ("token-04", "", "authorization: Bearer <T>x\r\n"),
    ("token-04", "", "authorization: Bearer <T> <T>\r\n"),
    ("token-04", "", "authorization: Bearer <T>,Bearer <T>\r\n"),
    (
        "token-04",
        "",
        "authorization: Bearer <T>\r\nauthorization: Bearer <T>\r\n",
    ),
    ("token-04", "", "authorization: Bearer \"<T>\"\r\n"),
    ("token-02", "", "authorization: <T>\r\n"),
    ("token-02", "", "authorization: Basic <T>\r\n"),
    ("token-02", "", "authorization: BearerX <T>\r\n"),
    ("token-02", "", "x-authorization: Bearer <T>\r\n"),
    ("token-02", "", "cookie: token=<T>\r\n"),
    ("token-02", "", "cookie: authorization=Bearer <T>\r\n"),
    ("token-02", "", "sec-websocket-protocol: bearer.<T>\r\n"),
    (
        "token-02",
        "",
        "sec-websocket-protocol: fastness.v1, bearer.<T>x\r\n",
    ),
    (
        "token-02",
        "",
        "sec-websocket-protocol: fastness.v1, Bearer.<T>\r\n",
    ),
    (
        "token-02",
        "",
        "authorization: Bearer wrong\r\nsec-websocket-protocol: fastness.v1, bearer.<T>\r\n",
    ),
    ("token-10", "?token=<T>", ""),
    ("token-10", "?access_token=<T>", ""),
    ("token-10", "?authorization=Bearer%20<T>", ""),
    ("token-10", "?token=<T>", "authorization: Bearer wrong\r\n"),
];

#[tokio::test]
async fn nothing_but_the_right_token_in_the_right_place_opens() {
    let server = serve(echo()).await;
    let host = "host: 127.0.0.1:<P>\r\n";
    for (id, query, headers) in WRONG_TOKENS {
        for path in ["/acp", "/ws"] {
            let path = format!("{path}{query}");
            let refused = upgrade(&server, &path, &format!("{host}{headers}")).await;
            is_unauthorized(&server, &refused, &format!("{id} {path} {headers:?}"));
        }
    }
    // A body is not waited for: the answer comes although none of it was sent.
    let announced =
        "host: 127.0.0.1:<P>\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n";
    let refused = knock(&server, "POST", "/acp", announced).await;
    is_unauthorized(&server, &refused, "token-01");
    no_session_was_made(&server);
}

pub(crate) fn is_unauthorized(server: &Program, refused: &HttpAnswer, what: &str) {
    assert_eq!(refused.status, 401, "{what}: {refused}");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"), "{what}");
    let echoes = refused.to_string().contains(server.token());
    assert!(!echoes, "{what}: the token is echoed");
}

#[tokio::test]
async fn the_right_token_opens_however_its_scheme_is_written() {
    let server = serve(echo()).await;
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        let headers = format!("host: 127.0.0.1:<P>\r\nauthorization: {scheme} <T>\r\n");
        let answer = upgrade(&server, "/acp", &headers).await;
        assert_eq!(answer.status, 101, "{scheme}: {answer}");
        assert!(answer.header("acp-connection-id").is_some(), "{answer}");
    }
}

#[tokio::test]
async fn a_token_that_was_replaced_opens_nothing() {
    let server = serve(echo()).await;
    let old = token(server.home(), &["friend"]).await;
    let mut revoke = server.home().clean(server.home().binary());
    revoke.args(["token", "revoke", "friend", "--data-dir"]);
    assert!(
        revoke
            .arg(server.home().data_dir())
            .status()
            .await
            .unwrap()
            .success()
    );
    let new = token(server.home(), &["friend"]).await;
    let dial = async |server: &Program, token: &str| {
        let dialled = AcpClient::dial_ws(&server.acp_url(), Some(token)).await;
        dialled.err().and_then(|error| error.status)
    };
    assert_eq!(dial(&server, &old).await, Some(401));
    assert_eq!(dial(&server, &new).await, None);
    // The default token is replaced by taking its file away before a start.
    let old = server.token().to_owned();
    std::fs::remove_file(server.home().data_dir().join("token")).unwrap();
    let server = server.restart().await;
    assert_ne!(server.token(), old);
    assert_eq!(dial(&server, &old).await, Some(401));
    assert_eq!(dial(&server, server.token()).await, None);
}

/// The paths that the server's sources route, so that none can be forgotten here.
pub(crate) fn routes() -> Vec<String> {
    let mut folders =
        vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../server/src/http")];
    let mut routes = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(path).unwrap();
            let named = source
                .split(".route(")
                .skip(1)
                .chain(source.split(".nest(").skip(1));
            let named =
                named.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
            routes.extend(named.map(str::to_owned));
        }
    }
    assert!(routes.iter().any(|route| route == "/acp"), "{routes:?}");
    routes
}

/// What anyone may ask for.
pub(crate) const PUBLIC: &[&str] = &["/", "/health", "/ready", "/api/v1/login", "/assets"];

#[tokio::test]
async fn a_23_every_route_and_method_wants_the_token() {
    let server = serve(echo()).await;
    let mut paths = routes();
    paths.retain(|path| {
        !PUBLIC
            .iter()
            .any(|public| path == public || path.starts_with("/assets"))
    });
    let others = [
        "/nothing",
        "/acp/",
        "//acp",
        "/acp/../acp",
        "/ACP",
        "/acp%2f",
        "/health/../acp",
        "/healthy",
        "/metrics",
        "/api/v1/sessions",
        "/api/v1/openapi.json",
        "/api/v1/sessions/x/prompts",
        "/echo",
        "/tui/append-prompt",
        "*",
    ];
    paths.extend(others.map(str::to_owned));
    for path in &paths {
        for method in METHODS {
            for token in ["", "authorization: Bearer wrong\r\n"] {
                let headers = format!("host: 127.0.0.1:<P>\r\n{token}");
                let refused = knock(&server, method, path, &headers).await;
                // A target that is no path is refused by the parser, which knows no token.
                let expected = if path == "*" && refused.status == 400 {
                    400
                } else {
                    401
                };
                assert_eq!(
                    refused.status, expected,
                    "token-14 {method} {path}: {refused}"
                );
            }
        }
    }
    // A preflight from a page that is not allowed gets no answer either.
    let headers = "host: 127.0.0.1:<P>\r\norigin: http://evil.example\r\naccess-control-request-method: POST\r\n";
    assert_eq!(knock(&server, "OPTIONS", "/acp", headers).await.status, 403);
    no_session_was_made(&server);
}

#[tokio::test]
async fn the_token_is_never_readable_by_others_not_even_briefly() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    // With the most permissive mask: what is private is so by the mode it was made with.
    let home = Home::new(binary(), echo()).under(&["sh", "-c", "umask 0; exec \"$0\" \"$@\""]);
    let data_dir = home.data_dir();
    let file = data_dir.join("token");
    let watching = std::thread::spawn(move || {
        let started = std::time::Instant::now();
        while started.elapsed() < std::time::Duration::from_secs(20) {
            if let Ok(metadata) = file.metadata() {
                return metadata.permissions().mode() & 0o777;
            }
        }
        0
    });
    let server = Program::serve_in(home).await;
    assert_eq!(
        watching.join().unwrap(),
        0o600,
        "the first time it was seen"
    );
    let own = std::fs::metadata(server.home().workspace()).unwrap().uid();
    for (path, mode) in [(data_dir.join("token"), 0o600), (data_dir, 0o700)] {
        let metadata = path.metadata().unwrap();
        assert_eq!(
            metadata.permissions().mode() & 0o777,
            mode,
            "{}",
            path.display()
        );
        assert_eq!(metadata.uid(), own);
    }
}

#[tokio::test]
async fn an_open_address_without_tls_is_refused_at_the_start() {
    for open in ["0.0.0.0:0", "[::]:0"] {
        let home = Home::new(binary(), echo());
        let mut command = home.command("serve");
        command.args(["--listen", open]);
        let output = tokio::time::timeout(testkit::program::DEADLINE, command.output());
        let output = output.await.unwrap().unwrap();
        assert!(!output.status.success(), "{open}");
        assert!(output.stdout.is_empty(), "no ready line for {open}");
        let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(
            said.contains("tls") || said.contains("encrypted"),
            "{open}: {said}"
        );
    }
}

#[tokio::test]
async fn a_cancel_from_somebody_else_changes_nothing() {
    let script = testkit::Script::new().call([testkit::script::stream("x", 30, 10)]);
    let server = serve(script).await;
    let stranger = token(server.home(), &["stranger"]).await;
    let (mut owner, mut beside) = two_clients(&server).await;
    let mut other = AcpClient::dial_ws(&server.acp_url(), Some(&stranger))
        .await
        .unwrap();
    other.initialize().await;
    let session = owner.new_session().await;
    let prompt = owner.start_prompt(&session, "go").await;
    owner
        .updates_until(|update| update.text() == Some("x"))
        .await;
    for client in [&mut beside, &mut other] {
        client.cancel(&session).await;
        client
            .notify("$/cancel_request", json!({"requestId": prompt.as_json()}))
            .await;
        client.call("session/list", json!({})).await.unwrap();
    }
    let answer = owner.finish_prompt(&session, &prompt).await.unwrap();
    assert_eq!(answer.stop_reason, "end_turn");
}

#[tokio::test]
async fn a_session_survives_its_owners_disconnect_with_all_its_history() {
    let server = serve(echo()).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let session = owner.new_session().await;
    owner.prompt(&session, "one").await;
    owner.leave().await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let replayed = owner.load_session(&session).await.unwrap();
    let said = |kind| testkit::client::text_of(&replayed, kind);
    assert_eq!(said("user_message_chunk"), "one");
    assert_eq!(said("agent_message_chunk"), "you said one");
    assert_eq!(owner.prompt(&session, "two").await.text, "you said two");
}

#[tokio::test]
async fn what_a_client_claims_to_be_is_ignored() {
    let server = serve(echo()).await;
    let watch = token(server.home(), &["watcher", "--scope", "observe"]).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let session = owner.new_session().await;
    let mut socket = RawSocket::open_as(
        &server,
        &watch,
        "x-role: admin\r\nx-forwarded-user: local\r\n",
    )
    .await;
    let claims = json!({"protocolVersion": 1, "clientCapabilities": {"_meta": {"fastness": {"scope": "control"}}},
        "clientInfo": {"name": "local", "version": "1"}, "role": "operator", "scope": "control",
        "scopes": ["control", "admin"], "principal": "local", "token": server.token(),
        "_meta": {"fastness": {"principal": "local", "scope": "control"}}});
    assert!(socket.call("initialize", claims).await["result"].is_object());
    let login = json!({"methodId": "local", "scope": "control", "token": server.token()});
    socket.call("authenticate", login).await;
    let new = json!({"cwd": server.home().workspace(), "mcpServers": [], "owner": "local", "scope": "control"});
    assert_eq!(
        socket.call("session/new", new).await["error"]["code"],
        -32013
    );
    let attach = json!({"sessionId": session, "cwd": server.home().workspace(), "mcpServers": []});
    assert!(socket.call("session/load", attach).await["result"].is_object());
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hi"}], "scope": "control"});
    assert_eq!(
        socket.call("session/prompt", prompt).await["error"]["code"],
        -32013
    );
}
