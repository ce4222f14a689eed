//! Commands on the server, through the real program: asked for, shown while they run, and gone
//! with whatever ends them.

use std::path::Path;

use serde_json::json;
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Update, wait_for};
use tokio::time::{Duration, Instant};

use crate::support::{serve, serve_with, stored};

/// A model that runs `command` and repeats what it was told.
fn runner(command: &str) -> Script {
    Script::new()
        .call([tool("bash", json!({"command": command}))])
        .call([say("${result}")])
}

/// Starts a child that leaves its parents and ignores requests to end; its number is in `child`.
pub(crate) const STUBBORN: &str = "(setsid sh -c 'trap \"\" TERM HUP; echo $$ > new; mv new child; \
                        while :; do sleep 1; done' &); until [ -e child ]; do sleep 0.01; done; echo ready; ";

/// The number that the system knows the child by: it has told us the one in its own sandbox.
pub(crate) fn stubborn(home: &Home) -> Option<String> {
    let told = home.read("child")?;
    let told = format!("\t{}", told.trim());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut processes = processes.filter(|process| {
        let read = |name| std::fs::read_to_string(process.path().join(name)).unwrap_or_default();
        let status = read("status");
        let numbers = status.lines().find(|line| line.starts_with("NSpid:"));
        numbers.is_some_and(|numbers| numbers.ends_with(&told))
            && read("environ").contains(&home.user_dir().display().to_string())
    });
    let found = processes.next()?;
    found.file_name().into_string().ok()
}

pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn is_progress(update: &Update, text: &str) -> bool {
    update.kind == "tool_call_update"
        && update.update["status"] == "in_progress"
        && update.update["content"][0]["content"]["text"] == text
}

#[tokio::test]
async fn d_05_a_command_runs_on_the_server_once_it_was_allowed() {
    let server = serve(runner("echo hello; pwd; touch made")).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    let workspace = server.home().workspace().canonicalize().unwrap();
    assert_eq!(done.text, format!("hello\n{}\n", workspace.display()));
    assert_eq!(server.home().read("made").as_deref(), Some(""));
    let mut asked = client.requests().iter();
    let asked = asked.find(|request| request.method == "session/request_permission");
    let call = &asked.unwrap().params["toolCall"];
    assert_eq!(call["title"], "echo hello; pwd; touch made");
    assert_eq!(call["kind"], "execute");
}

#[tokio::test]
async fn d_04_a_rejected_command_does_not_run() {
    let server = serve(runner("touch made")).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Reject);
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    assert!(done.text.contains("was not run"), "{}", done.text);
    assert_eq!(server.home().read("made"), None);
}

#[tokio::test]
async fn a_command_sees_no_secrets_of_the_server() {
    let secrets = [
        ("FASTNESS_TOKEN", "sesame"),
        ("OPENAI_API_KEY", "sesame"),
        ("DEPLOY_PASSWORD", "sesame"),
    ];
    // Also not in the process between.
    let command = "env; tr '\\0' '\\n' < /proc/$PPID/environ; echo over";
    let server = serve_with(runner(command), &secrets).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    assert!(done.text.ends_with("over\n"), "{}", done.text);
    assert!(!done.text.contains("sesame"), "{}", done.text);
    assert!(done.text.contains("PATH="), "{}", done.text);
}

#[tokio::test]
async fn what_a_running_command_prints_is_shown_to_all_and_to_whoever_comes_later() {
    let command = "echo begun; until [ -e go ]; do sleep 0.01; done; echo ended";
    let server = serve(runner(command)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    let updates = client
        .updates_until(|update| is_progress(update, "begun\n"))
        .await;
    let last = updates.last().unwrap();
    assert_eq!(last.seq(), None, "it is no event: {last:?}");
    assert!(updates.iter().any(|update| update.kind == "tool_call"));

    let mut late = AcpClient::connect_ws(&server).await;
    let seen = late.load_session(&session).await.unwrap();
    if !seen.iter().any(|update| is_progress(update, "begun\n")) {
        late.updates_until(|update| is_progress(update, "begun\n"))
            .await;
    }
    let mut remote = AcpClient::connect_http(&server).await;
    let seen = remote.load_session(&session).await.unwrap();
    if !seen.iter().any(|update| is_progress(update, "begun\n")) {
        remote
            .updates_until(|update| is_progress(update, "begun\n"))
            .await;
    }

    server.home().write("go", "");
    let done = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(done.text, "begun\nended\n");
    let mut after = AcpClient::connect_ws(&server).await;
    let seen = after.load_session(&session).await.unwrap();
    assert!(
        !seen
            .iter()
            .any(|update| update.update["status"] == "in_progress")
    );
}

#[tokio::test]
async fn f_34_cancel_ends_the_whole_tree_within_a_second() {
    let server = serve(runner(&format!("{STUBBORN} while :; do sleep 1; done"))).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let running = client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| is_progress(update, "ready\n"))
        .await;
    let pid = stubborn(server.home()).unwrap();
    assert!(lives(&pid));
    let asked = Instant::now();
    client.cancel(&session).await;
    let done = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(done.stop_reason, "cancelled");
    wait_for("its end", || !lives(&pid)).await;
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
    let kinds = stored(server.home(), &session);
    assert!(kinds.iter().any(|kind| kind == "tool.result"));
}

#[tokio::test]
async fn f_37_a_killed_server_takes_its_commands_along() {
    let mut server = serve(runner(&format!("{STUBBORN} while :; do sleep 1; done"))).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| is_progress(update, "ready\n"))
        .await;
    let pid = stubborn(server.home()).unwrap();
    assert!(lives(&pid));
    server.kill9().await;
    let killed = Instant::now();
    wait_for("its end", || !lives(&pid)).await;
    assert!(
        killed.elapsed() < Duration::from_secs(1),
        "{:?}",
        killed.elapsed()
    );
}

#[tokio::test]
async fn long_output_is_kept_beside_the_journal_and_goes_with_the_session() {
    let script = Script::new()
        .call([tool("bash", json!({"command": "seq 1000000"}))])
        .call([say("${result}")]);
    let server = serve(script).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    assert!(done.text.ends_with("\n1000000\n"), "{}", done.text.len());
    let outputs = server
        .home()
        .data_dir()
        .join("sessions")
        .join(&session)
        .join("outputs");
    let name = done.text.split_once("read as output:").unwrap().1[..32].to_owned();
    assert_eq!(outputs.join(&name).metadata().unwrap().len(), 6_888_896);
    client
        .call("session/delete", json!({"sessionId": session}))
        .await
        .unwrap();
    assert!(!outputs.exists());
}
