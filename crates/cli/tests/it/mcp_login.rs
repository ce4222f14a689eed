//! Logging in to tool servers with the real program: by hand, in sessions, and by many at once.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;
use testkit::guarded::browse;
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Guarded, Home, Program};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::hooks::configure;
use crate::mcp::home_with;
use crate::project::run;

fn set(home: &Home, far: &Guarded) {
    let allow = "[permissions]\nallow = [\"mcp__far__*\"]\n";
    let url = far.url();
    configure(
        home,
        &format!("{allow}[mcp.far]\nurl = \"{url}\"\nrequired = true\n"),
    );
}

/// Logs in as a person would who follows the address that is printed; what else is printed.
async fn log_in(home: &Home) -> String {
    let mut command = home.command("mcp");
    command.args(["login", "far", "--no-browser", "--log", "trace"]);
    let mut login = command.stdin(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(login.stderr.take().unwrap()).lines();
    let mut printed = String::new();
    let address = loop {
        let Some(line) = lines.next_line().await.unwrap() else {
            panic!("no address was printed:\n{printed}");
        };
        if line.starts_with("http://127.0.0.1") {
            break line;
        }
        printed += &format!("{line}\n");
    };
    let back = address.split("redirect_uri=").nth(1).unwrap();
    let back = back.split('&').next().unwrap();
    let back = back.replace("%3A", ":").replace("%2F", "/");
    let forged = browse(&format!("{back}?code=forged&state=guessed")).await;
    assert_eq!(forged, 404, "who does not know the state is turned away");
    assert_eq!(
        browse(&address).await,
        200,
        "the person is told that it worked"
    );
    let mut out = String::new();
    let mut stdout = login.stdout.take().unwrap();
    stdout.read_to_string(&mut out).await.unwrap();
    while let Some(line) = lines.next_line().await.unwrap() {
        printed += &format!("{line}\n");
    }
    assert!(login.wait().await.unwrap().success(), "{out}{printed}");
    assert!(out.contains("logged in to far: 2 tools"), "{out}");
    printed + &out
}

#[tokio::test]
async fn a_server_that_wants_a_login_says_so_and_is_used_once_somebody_has_logged_in() {
    let far = Guarded::start().await;
    let home = home_with(Script::says("hi"));
    set(&home, &far);
    let (text, code) = run(&home, "mcp", &["list"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("far: needs a login"), "{text}");
    assert!(text.contains("run `fastness mcp login far`"), "{text}");

    let printed = log_in(&home).await;
    assert!(
        !printed.contains(far.secret()),
        "no secret is printed or logged:\n{printed}"
    );
    let (text, code) = run(&home, "mcp", &["list"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("mcp__far__whoami"), "{text}");

    let folder = home.data_dir().join("mcp-logins");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    for visit in far.all_visits() {
        let is_known = visit.authorization.is_some();
        assert!(!is_known || visit.line == "POST /mcp", "{visit:?}");
    }
    let asked = &far.visits("GET /authorize")[0].form;
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["resource"], far.url());
    assert_eq!(asked["scope"], "basic");

    let (text, _) = run(&home, "mcp", &["logout", "far"]).await;
    assert_eq!(text, "logged out of far\n");
    let (text, _) = run(&home, "mcp", &["list"]).await;
    assert!(text.contains("far: needs a login"), "{text}");
    let (text, _) = run(&home, "mcp", &["logout", "far"]).await;
    assert_eq!(text, "there was no login to far\n");
}

#[tokio::test]
async fn programs_that_need_a_new_token_at_the_same_time_renew_it_once() {
    let far = Guarded::start().await;
    let home = home_with(Script::says("hi"));
    set(&home, &far);
    log_in(&home).await;
    far.expire();
    let list = ["list"];
    let lists = (0..4).map(|_| run(&home, "mcp", &list));
    for (text, code) in futures_util::future::join_all(lists).await {
        assert_eq!(code, Some(0), "{text}");
    }
    let tokens = far.visits("POST /token");
    let renewals = tokens
        .iter()
        .filter(|visit| visit.form["grant_type"] == "refresh_token");
    let renewals: Vec<u16> = renewals.map(|visit| visit.status).collect();
    assert_eq!(renewals, [200], "one renews, the others take what it got");

    far.forget();
    let (text, _) = run(&home, "mcp", &["list"]).await;
    assert!(text.contains("run `fastness mcp login far`"), "{text}");
    log_in(&home).await;
}

#[tokio::test]
async fn a_tool_that_wants_more_says_what_to_do_and_works_in_the_same_session_afterwards() {
    let far = Guarded::start().await;
    let script = Script::new()
        .call([tool("mcp__far__admin", json!({}))])
        .call([say("result: ${result}")])
        .call([tool("mcp__far__admin", json!({}))])
        .call([say("result: ${result}")]);
    let home = home_with(script);
    set(&home, &far);
    log_in(&home).await;
    let server = Program::serve_in(home).await;
    let home = server.home();
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    let hint = "needs a login: run `fastness mcp login far`";
    assert!(answer.text.contains(hint), "{}", answer.text);
    log_in(home).await;
    let asked = far.visits("GET /authorize");
    assert_eq!(
        asked[1].form["scope"], "basic admin",
        "what it had, and more"
    );
    let answer = client.prompt(&session, "again").await;
    assert_eq!(answer.text, "result: good for basic admin");
}

#[tokio::test]
async fn a_session_that_waits_for_a_login_has_the_tools_once_somebody_has_logged_in() {
    let far = Guarded::start().await;
    let script = Script::new()
        .call([say("none")])
        .call([tool("mcp__far__whoami", json!({}))])
        .call([say("result: ${result}")]);
    let home = home_with(script);
    set(&home, &far);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "one").await.text, "none");
    log_in(server.home()).await;
    let answer = client.prompt(&session, "two").await;
    assert_eq!(answer.text, "result: good for basic");
}
