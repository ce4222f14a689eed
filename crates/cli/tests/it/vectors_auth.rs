//! Every case of `tests/data/auth.json` that can be told without Streamable HTTP.
//!
//! Refusals at the door come before the route, so they are driven on every method already.

use serde_json::{Value, json};
use testkit::raw::{HttpAnswer, UPGRADE, address, request};
use testkit::{AcpClient, Home, Program, RawSocket};

use crate::identity::token;
use crate::support::{binary, echo, serve, two_clients};

const VECTORS: &str = include_str!("../data/auth.json");

/// Which test tells which case.
const STORIES: &[(&str, &str)] = &[
    (
        "ok-02",
        "the_right_token_opens_however_its_scheme_is_written",
    ),
    ("ok-05", "health_tells_that_it_runs_and_nothing_else"),
    (
        "token-01",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    (
        "token-02",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    (
        "token-03",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    (
        "token-04",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    (
        "token-06",
        "the_right_token_opens_however_its_scheme_is_written",
    ),
    (
        "token-10",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    ("token-12", "a_token_that_was_replaced_opens_nothing"),
    ("token-13", "a_01_another_principal_finds_nothing_of_yours"),
    ("token-14", "a_23_every_route_and_method_wants_the_token"),
    (
        "token-17",
        "the_token_is_never_readable_by_others_not_even_briefly",
    ),
    ("host-02", "foreign_hosts_are_refused_on_every_method"),
    ("host-03", "foreign_hosts_are_refused_on_every_method"),
    ("host-04", "foreign_hosts_are_refused_on_every_method"),
    ("host-08", "foreign_hosts_are_refused_on_every_method"),
    ("host-09", "foreign_hosts_are_refused_on_every_method"),
    ("host-10", "foreign_hosts_are_refused_on_every_method"),
    ("host-14", "foreign_hosts_are_refused_on_every_method"),
    ("host-16", "foreign_hosts_are_refused_on_every_method"),
    ("origin-02", "foreign_origins_are_refused_on_every_method"),
    ("origin-03", "foreign_origins_are_refused_on_every_method"),
    (
        "origin-04",
        "a_page_may_call_only_from_our_own_or_an_allowed_origin",
    ),
    ("origin-05", "foreign_origins_are_refused_on_every_method"),
    ("origin-09", "foreign_origins_are_refused_on_every_method"),
    ("origin-10", "foreign_origins_are_refused_on_every_method"),
    (
        "origin-11",
        "a_page_may_call_only_from_our_own_or_an_allowed_origin",
    ),
    (
        "cors-02",
        "a_page_may_call_only_from_our_own_or_an_allowed_origin",
    ),
    ("cors-07", "foreign_origins_are_refused_on_every_method"),
    (
        "bind-03",
        "an_open_address_without_tls_is_refused_at_the_start",
    ),
    ("owner-02", "a_01_another_principal_finds_nothing_of_yours"),
    ("owner-03", "a_cancel_from_somebody_else_changes_nothing"),
    (
        "owner-04",
        "an_answer_to_another_clients_question_does_nothing",
    ),
    ("owner-07", "a_01_another_principal_finds_nothing_of_yours"),
    (
        "owner-08",
        "a_session_survives_its_owners_disconnect_with_all_its_history",
    ),
    ("owner-12", "what_a_client_claims_to_be_is_ignored"),
];

/// Cases that wait for a transport: Streamable HTTP, HTTP/2, the Unix socket.
const LATER: &[&str] = &[
    "ok-01", "host-12", "host-13", "cors-03", "cors-04", "cors-05", "bind-04", "owner-05",
    "owner-06",
];

const SOURCES: &[&str] = &[
    include_str!("identity.rs"),
    include_str!("serve.rs"),
    include_str!("vectors_auth.rs"),
    include_str!("vectors_door.rs"),
    include_str!("vectors_jsonrpc.rs"),
];

#[test]
fn every_case_of_the_file_is_told_by_a_test_that_exists() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    for vector in vectors.as_array().unwrap() {
        let id = vector["id"].as_str().unwrap();
        let story = STORIES.iter().find(|(story, _)| *story == id);
        assert!(
            story.is_some() != LATER.contains(&id),
            "{id} is told by one test, or waits for a transport"
        );
        if let Some((_, test)) = story {
            let declared = format!("async fn {test}(");
            let exists = SOURCES.iter().any(|source| source.contains(&declared));
            assert!(exists, "{id}: there is no test {test}");
        }
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

fn no_session_was_made(server: &Program) {
    let sessions = server.home().data_dir().join("sessions");
    let count = std::fs::read_dir(sessions).map_or(0, Iterator::count);
    assert_eq!(count, 0, "nothing was created");
}

#[tokio::test]
async fn nothing_but_the_right_token_in_the_right_place_opens() {
    let server = serve(echo()).await;
    let host = "host: 127.0.0.1:<P>\r\n";
    for (id, path, headers) in [
        ("token-01", "/acp", ""),
        ("token-02", "/acp", "authorization: Bearer wrong\r\n"),
        ("token-03", "/acp", "authorization: Bearer \r\n"),
        ("token-03", "/acp", "authorization: Bearer\r\n"),
        ("token-03", "/acp", "authorization:\r\n"),
        ("token-04", "/acp", "authorization: Bearer <T>x\r\n"),
        ("token-04", "/acp", "authorization: Bearer <T> <T>\r\n"),
        (
            "token-04",
            "/acp",
            "authorization: Bearer <T>,Bearer <T>\r\n",
        ),
        (
            "token-04",
            "/acp",
            "authorization: Bearer <T>\r\nauthorization: Bearer <T>\r\n",
        ),
        ("token-04", "/acp", "authorization: Bearer \"<T>\"\r\n"),
        ("token-02", "/acp", "authorization: <T>\r\n"),
        ("token-02", "/acp", "authorization: Basic <T>\r\n"),
        ("token-02", "/acp", "authorization: BearerX <T>\r\n"),
        ("token-02", "/acp", "x-authorization: Bearer <T>\r\n"),
        ("token-02", "/acp", "cookie: token=<T>\r\n"),
        ("token-02", "/acp", "cookie: authorization=Bearer <T>\r\n"),
        ("token-02", "/acp", "sec-websocket-protocol: bearer.<T>\r\n"),
        (
            "token-02",
            "/acp",
            "sec-websocket-protocol: fastness.v1, bearer.<T>x\r\n",
        ),
        (
            "token-02",
            "/acp",
            "sec-websocket-protocol: fastness.v1, Bearer.<T>\r\n",
        ),
        (
            "token-02",
            "/acp",
            "authorization: Bearer wrong\r\nsec-websocket-protocol: fastness.v1, bearer.<T>\r\n",
        ),
        ("token-10", "/acp?token=<T>", ""),
        ("token-10", "/acp?access_token=<T>", ""),
        ("token-10", "/acp?authorization=Bearer%20<T>", ""),
        ("token-10", "/ws?token=<T>", ""),
        (
            "token-10",
            "/acp?token=<T>",
            "authorization: Bearer wrong\r\n",
        ),
    ] {
        let refused = upgrade(&server, path, &format!("{host}{headers}")).await;
        assert_eq!(refused.status, 401, "{id} {path} {headers:?}: {refused}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"), "{id}");
        assert!(
            !refused.to_string().contains(server.token()),
            "{id}: the token is echoed"
        );
    }
    // A body is not waited for: the answer comes although none of it was sent.
    let announced =
        "host: 127.0.0.1:<P>\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n";
    let refused = knock(&server, "POST", "/acp", announced).await;
    assert_eq!(refused.status, 401, "token-01: {refused}");
    no_session_was_made(&server);
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
fn routes() -> Vec<String> {
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
const PUBLIC: &[&str] = &["/", "/health", "/ready", "/api/v1/login", "/assets"];

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
