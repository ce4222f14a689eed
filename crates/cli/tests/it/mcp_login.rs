//! Logging in to tool servers with the real program: by hand, in sessions, and by many at once.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;
use testkit::guarded::{Posing, Visit, browse};
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

/// Where the address that is printed has people sent back to.
fn back(address: &str) -> String {
    let back = address.split("redirect_uri=").nth(1).unwrap();
    let back = back.split('&').next().unwrap();
    back.replace("%3A", ":").replace("%2F", "/")
}

/// Logs in as a person would who follows the address that is printed; what else is printed.
async fn log_in(home: &Home) -> String {
    let (printed, is_in) = try_to_log_in(home).await;
    assert!(is_in, "{printed}");
    assert!(printed.contains("logged in to far: 2 tools"), "{printed}");
    printed
}

/// The same, and whether it worked.
async fn try_to_log_in(home: &Home) -> (String, bool) {
    let mut command = home.command("mcp");
    command.args(["login", "far", "--no-browser", "--log", "trace"]);
    let mut login = command.stdin(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(login.stderr.take().unwrap()).lines();
    let mut printed = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        if !line.starts_with("http://127.0.0.1") {
            printed += &format!("{line}\n");
            continue;
        }
        let forged = format!("{}?code=forged&state=guessed", back(&line));
        assert_eq!(
            browse(&forged).await,
            404,
            "who does not know the state is turned away"
        );
        assert_eq!(
            browse(&line).await,
            200,
            "the person is told that it was heard"
        );
    }
    let mut out = String::new();
    let mut stdout = login.stdout.take().unwrap();
    stdout.read_to_string(&mut out).await.unwrap();
    let is_in = login.wait().await.unwrap().success();
    (printed + &out, is_in)
}

#[tokio::test]
async fn a_server_that_wants_a_login_says_so_and_is_used_once_somebody_has_logged_in() {
    let far = Guarded::start().await;
    let home = home_with(Script::says("hi"));
    set(&home, &far);
    let (text, code) = run(&home, "mcp", &["list"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("far: needs a login"), "{text}");
    assert!(text.contains("run `fastness mcp login far"), "{text}");

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
    for visit in far.visits("POST /token") {
        assert_eq!(visit.form["resource"], far.url(), "for it alone");
    }

    let (text, _) = run(&home, "mcp", &["logout", "far"]).await;
    assert_eq!(text, "logged out of far\n");
    let revoked = far.visits("POST /revoke");
    let revoked: Vec<&str> = revoked
        .iter()
        .map(|visit| visit.form["token_type_hint"].as_str())
        .collect();
    assert_eq!(revoked, ["refresh_token", "access_token"]);
    let (text, _) = run(&home, "mcp", &["list"]).await;
    assert!(text.contains("far: needs a login"), "{text}");
    let (text, _) = run(&home, "mcp", &["logout", "far"]).await;
    assert_eq!(text, "there was no login to far\n");
}

#[tokio::test]
async fn an_authorization_server_that_is_not_the_one_named_is_shown_no_code() {
    for (posing, said, asked) in [
        (
            Posing::InDescription,
            "the authorization server says it is",
            0,
        ),
        (Posing::InAnswers, "the answer comes from", 1),
        (Posing::BySilence, "does not say from whom it comes", 1),
    ] {
        let far = Guarded::start().await;
        far.pose(posing);
        let home = home_with(Script::says("hi"));
        set(&home, &far);
        let (text, is_in) = try_to_log_in(&home).await;
        assert!(!is_in && text.contains(said), "{posing:?}: {text}");
        let count = |line: &str| far.visits(line).len();
        assert_eq!(count("POST /register"), asked, "{posing:?}");
        assert_eq!(count("GET /authorize"), asked, "{posing:?}");
        assert_eq!(count("POST /token"), 0, "{posing:?}");
        let (text, _) = run(&home, "mcp", &["list"]).await;
        assert!(text.contains("far: needs a login"), "{posing:?}: {text}");
    }
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
    assert!(text.contains("run `fastness mcp login far"), "{text}");
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

/// The names under which logins were asked for, and where people were sent back to.
fn introduced(far: &Guarded) -> Vec<(String, String)> {
    let asked = far.visits("GET /authorize").into_iter();
    let of = |visit: &Visit, name: &str| visit.form[name].clone();
    let named = asked.map(|visit| (of(&visit, "client_id"), of(&visit, "redirect_uri")));
    named.collect()
}

async fn log_out(home: &Home) -> String {
    run(home, "mcp", &["logout", "far"]).await.0
}

#[tokio::test]
async fn who_has_registered_once_is_known_by_that_the_next_time() {
    let far = Guarded::start().await;
    let home = home_with(Script::says("hi"));
    set(&home, &far);
    log_in(&home).await;
    log_out(&home).await;
    log_in(&home).await;
    assert_eq!(far.visits("POST /register").len(), 1);
    let introduced = introduced(&far);
    assert_eq!(
        introduced[0], introduced[1],
        "also sent back to the same place"
    );
    // Somebody else may have that place.
    let place = introduced[0].1.strip_prefix("http://").unwrap();
    let place = place.strip_suffix("/callback").unwrap();
    let _taken = std::net::TcpListener::bind(place).unwrap();
    log_out(&home).await;
    log_in(&home).await;
    assert_eq!(far.visits("POST /register").len(), 2);
}

#[tokio::test]
async fn who_is_not_known_any_more_registers_anew() {
    let far = Guarded::start().await;
    let home = home_with(Script::says("hi"));
    set(&home, &far);
    log_in(&home).await;
    log_out(&home).await;
    far.forget_clients();
    log_in(&home).await;
    let names: Vec<String> = introduced(&far).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["c1", "c1", "c2"], "tried once, and then anew");
    // It turns out when a token is renewed, too.
    far.forget_clients();
    far.expire();
    let (text, _) = run(&home, "mcp", &["list"]).await;
    assert!(text.contains("run `fastness mcp login far"), "{text}");
    log_in(&home).await;
    let names = introduced(&far);
    assert_eq!((names.len(), names[3].0.as_str()), (4, "c3"));
}

#[tokio::test]
async fn login_survives_a_renewal_that_fails() {
    let far = Guarded::start().await;
    let home = home_with(Script::says("hi"));
    set(&home, &far);
    log_in(&home).await;
    for (status, retry_after) in [
        (429, Some(7)),
        (401, None),
        (403, None),
        (400, None),
        (503, Some(1_000_000)),
    ] {
        far.expire();
        far.be_busy(Some((status, retry_after)));
        let (text, code) = run(&home, "mcp", &["list"]).await;
        assert_eq!(code, Some(1), "{status}: {text}");
        assert!(
            text.contains("its login could not be renewed"),
            "{status}: {text}"
        );
        assert!(text.contains(&status.to_string()), "{text}");
        assert!(!text.contains("needs a login"), "{status}: {text}");
        let waits = match retry_after {
            Some(7) => "in 7 s",
            Some(_) => "in 300 s",
            None => "in 5 s",
        };
        assert!(text.contains(waits), "{status}: {text}");
        far.be_busy(None);
        let (text, code) = run(&home, "mcp", &["list"]).await;
        assert_eq!(code, Some(0), "{status}: it is as good as before: {text}");
    }
    far.forget();
    let (text, _) = run(&home, "mcp", &["list"]).await;
    assert!(
        text.contains("needs a login"),
        "invalid_grant ends it: {text}"
    );
}

#[tokio::test]
async fn what_did_not_work_is_not_used_for_the_next_login() {
    let far = Guarded::start().await;
    let home = home_with(Script::says("hi"));
    set(&home, &far);
    log_in(&home).await;
    log_out(&home).await;
    let mut command = home.command("mcp");
    command.args(["login", "far", "--no-browser"]);
    let mut login = command.stdin(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(login.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        // The page says that something is wrong, and the person gives up.
        if line.contains("client_id=c1") {
            break;
        }
    }
    login.kill().await.unwrap();
    log_in(&home).await;
    assert_eq!(introduced(&far).last().unwrap().0, "c2");
}

#[tokio::test]
async fn a_login_is_forgotten_also_if_nobody_wants_to_hear_of_it() {
    let far = Guarded::start().await;
    let home = home_with(Script::says("hi"));
    set(&home, &far);
    log_in(&home).await;
    far.stop_hearing();
    let text = log_out(&home).await;
    assert!(text.contains("logged out of far\n"), "{text}");
    assert!(text.contains("could not be told"), "{text}");
    let (text, _) = run(&home, "mcp", &["list"]).await;
    assert!(text.contains("far: needs a login"), "{text}");
}
