//! Logging in by ticket: `fastness open`, and the exchange behind it.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::raw::{HttpAnswer, address, request};
use testkit::{AcpClient, Home, Program};
use tokio::io::AsyncReadExt;

use crate::support::{binary, echo, serve};

/// Runs a command of this home; gives what it printed.
async fn run(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = home.clean(home.binary());
    let command = command.args(arguments).arg("--data-dir");
    let output = command.arg(home.data_dir()).output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// A ticket, as `fastness open` shows it.
async fn ticket(server: &Program) -> String {
    let (code, url, said) = run(server.home(), &["open", "--print"]).await;
    assert_eq!(code, Some(0), "{said}");
    let ticket = url.strip_prefix(&format!("{}/#ticket=", server.url()));
    ticket.unwrap_or_else(|| panic!("{url}")).to_owned()
}

/// Shows a ticket with more headers.
async fn log_in_with(server: &Program, ticket: &str, headers: &str) -> HttpAnswer {
    let body = json!({"ticket": ticket}).to_string();
    request(
        server,
        format!(
            "POST /api/v1/login HTTP/1.1\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ),
    )
    .await
}

async fn log_in(server: &Program, ticket: &str) -> HttpAnswer {
    let host = address(server);
    let headers = format!("host: {host}\r\ncontent-type: application/json\r\n");
    log_in_with(server, ticket, &headers).await
}

/// The token that a login gave.
fn token_of(answer: &HttpAnswer) -> String {
    assert_eq!(answer.status, 200, "{answer}");
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    body["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_ticket_opens_once_and_its_token_is_the_owners() {
    let server = serve(echo()).await;
    let mut owner = AcpClient::connect_ws(&server).await;
    let session = owner.new_session().await;
    let ticket = ticket(&server).await;
    let answer = log_in(&server, &ticket).await;
    let token = token_of(&answer);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let expires = body["expiresAt"].as_str().unwrap();
    assert!(expires.ends_with('Z') && expires.len() == 24, "{expires}");

    let again = log_in(&server, &ticket).await;
    assert_eq!(again.status, 401, "{again}");
    let page = AcpClient::dial_ws(&server.acp_url(), Some(&token)).await;
    let mut page = page.unwrap().in_directory(server.home().workspace());
    page.initialize().await;
    page.load_session(&session).await.unwrap();
    assert_eq!(page.prompt(&session, "hi").await.text, "you said hi");
    // A ticket is not a token, and nothing of either is on disk or in the log.
    let as_token = AcpClient::dial_ws(&server.acp_url(), Some(&ticket)).await;
    assert_eq!(as_token.err().and_then(|error| error.status), Some(401));
    let stored = std::fs::read_to_string(server.home().data_dir().join("tokens.json")).unwrap();
    for secret in [ticket, token] {
        assert!(!stored.contains(&secret), "{stored}");
        assert!(!server.stderr().contains(&secret));
    }
}

#[tokio::test]
async fn a_login_outlives_a_restart_and_ends_when_it_is_revoked() {
    let server = serve(echo()).await;
    let shown = ticket(&server).await;
    let token = token_of(&log_in(&server, &shown).await);
    let server = server.restart().await;
    let mut page = AcpClient::dial_ws(&server.acp_url(), Some(&token))
        .await
        .unwrap();
    page.initialize().await;
    let (_, listed, _) = run(server.home(), &["token", "list"]).await;
    let name = listed
        .split_whitespace()
        .find(|word| word.starts_with("page-"));
    let name = name.unwrap_or_else(|| panic!("{listed}"));
    let (code, _, said) = run(server.home(), &["token", "revoke", name]).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(page.closed().await, Some(4401));
}

#[tokio::test]
async fn the_door_is_checked_before_the_ticket_and_guessing_is_slowed_down() {
    let server = serve(echo()).await;
    let shown = ticket(&server).await;
    let host = format!("host: {}\r\n", address(&server));
    let json = "content-type: application/json\r\n";
    let cases = [
        (format!("host: evil.example\r\n{json}"), 403),
        (json.to_owned(), 400),
        (format!("{host}{json}origin: http://evil.example\r\n"), 403),
        (format!("{host}{json}origin: null\r\n"), 403),
        (format!("{host}{json}sec-fetch-site: cross-site\r\n"), 403),
        (host.clone(), 415),
        (format!("{host}content-type: text/plain\r\n"), 415),
    ];
    for (headers, expected) in cases {
        let answer = log_in_with(&server, &shown, &headers).await;
        assert_eq!(answer.status, expected, "{headers}: {answer}");
    }
    let got = request(
        &server,
        format!("GET /api/v1/login HTTP/1.1\r\n{host}connection: close\r\n\r\n"),
    )
    .await;
    assert_eq!(got.status, 405, "{got}");
    let mut slowed = None;
    for _ in 0..40 {
        let wrong = log_in(&server, "wrong").await;
        if wrong.status == 429 {
            slowed = Some(wrong);
            break;
        }
        assert_eq!(wrong.status, 401, "{wrong}");
    }
    let slowed = slowed.unwrap();
    assert!(slowed.body.contains("\"rate_limited\""), "{slowed}");
    let wait: u64 = slowed.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
    // None of it used the ticket up, and nobody is locked out by the guesses of others.
    let own = format!("{host}{json}origin: {}\r\n", server.url());
    token_of(&log_in_with(&server, &shown, &own).await);
}

#[tokio::test]
async fn without_a_server_there_is_nothing_to_open() {
    let mut server = serve(echo()).await;
    server.kill9().await;
    let home = server.into_home();
    assert!(home.data_dir().join("server.json").exists());
    let (code, printed, said) = run(&home, &["open", "--print"]).await;
    assert_eq!((code, printed.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("fastness serve"), "{said}");
}

#[tokio::test]
async fn open_writes_a_private_page_and_runs_no_browser_of_a_project() {
    let server = serve(echo()).await;
    let home = server.home();
    // Planted where sessions write: it must not run outside of the sandbox.
    home.write("xdg-open", "#!/bin/sh\ntouch asked\n");
    let opener = home.workspace().join("xdg-open");
    std::fs::set_permissions(opener, PermissionsExt::from_mode(0o700)).unwrap();
    let mut command = home.clean(home.binary());
    let path = home.workspace();
    command
        .args(["open", "--data-dir"])
        .arg(home.data_dir())
        .env("PATH", path);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(home.read("asked"), None);
    let page = home.data_dir().join("open.html");
    assert_eq!(page.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let page = std::fs::read_to_string(&page).unwrap();
    let (_, rest) = page.split_once("#ticket=").unwrap();
    let ticket = rest.split('"').next().unwrap();
    token_of(&log_in(&server, ticket).await);
}

#[tokio::test]
async fn open_starts_a_browser_of_the_system() {
    let server = serve(echo()).await;
    let home = server.home();
    let asked = home.workspace().join("asked");
    let script = format!(
        "#!/bin/sh\nprintf %s \"$*\" > {0}.new && /bin/mv {0}.new {0}\n",
        asked.display()
    );
    home.write("opener", &script);
    let opener = home.workspace().join("opener");
    std::fs::set_permissions(&opener, PermissionsExt::from_mode(0o755)).unwrap();
    // A system whose own directories hold that browser: root of this namespace owns them.
    let mut command = home.clean("bwrap");
    command.args([
        "--unshare-user",
        "--uid",
        "0",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]);
    for place in ["/usr/bin", "/usr/lib", "/usr/lib64"] {
        command.args(["--ro-bind-try", place, place]);
    }
    for (to, link) in [
        ("usr/bin", "/bin"),
        ("usr/lib", "/lib"),
        ("usr/lib64", "/lib64"),
    ] {
        command.args(["--symlink", to, link]);
    }
    for folder in [home.workspace(), home.user_dir(), home.data_dir()] {
        command.arg("--bind").args([&folder, &folder]);
    }
    command
        .arg("--ro-bind")
        .args([home.binary(), home.binary()]);
    command
        .arg("--ro-bind")
        .arg(&opener)
        .arg("/usr/local/bin/xdg-open");
    command.args(["--setenv", "PATH", "/usr/local/bin"]);
    command
        .arg(home.binary())
        .args(["open", "--data-dir"])
        .arg(home.data_dir());
    let output = command.output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.starts_with("opened http://"), "{told} {output:?}");
    testkit::wait_for("the browser was started", || home.read("asked").is_some()).await;
    let given = home.read("asked").unwrap();
    assert_eq!(given, home.data_dir().join("open.html").to_str().unwrap());
}

#[tokio::test]
async fn serve_shows_the_way_in_on_a_terminal_and_nowhere_else() {
    let plain = serve(echo()).await;
    assert!(!plain.stderr().contains("ticket="), "{}", plain.stderr());

    let master = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let terminal = std::fs::OpenOptions::new()
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let home = Home::new(binary(), echo());
    let mut command = home.command("serve");
    command
        .args(["--listen", "127.0.0.1:0", "--log", "off"])
        .stderr(Stdio::from(terminal));
    let mut process = command.spawn().unwrap();
    drop(command);
    let mut screen = tokio::fs::File::from_std(std::fs::File::from(master));
    let mut shown = String::new();
    let mut chunk = [0; 1024];
    let reading = async {
        while !shown.contains("\n") {
            let count = screen.read(&mut chunk).await.unwrap();
            shown.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    };
    tokio::time::timeout(testkit::program::DEADLINE, reading)
        .await
        .unwrap();
    assert!(shown.contains("/#ticket="), "{shown}");
    process.kill().await.unwrap();
}
