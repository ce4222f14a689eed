//! `fastness ask`: in this process or through a server, the same answer.

use std::process::Output;

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{Home, Program};

use crate::support::{binary, echo, serve};

async fn ask(home: &Home, arguments: &[&str]) -> Output {
    let mut command = home.command("ask");
    command.args(arguments).stdin(std::process::Stdio::null());
    command.output().await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn with_nothing_configured_the_offline_assistant_answers_and_says_what_it_is() {
    let home = Home::new(binary(), json!([])).model("offline");
    let output = ask(&home, &["what can you do"]).await;
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output).contains("not an AI model"),
        "{}",
        text(&output)
    );
    home.write("notes.txt", "remember the milk");
    let output = ask(&home, &["read notes.txt"]).await;
    assert!(
        text(&output).contains("remember the milk"),
        "{}",
        text(&output)
    );
}

#[tokio::test]
async fn a_session_is_continued_here_and_through_a_server() {
    let home = Home::new(binary(), echo());
    let first: Value = serde_json::from_str(&text(&ask(&home, &["one", "--json"]).await)).unwrap();
    assert_eq!(
        (&first["text"], &first["stopReason"]),
        (&json!("you said one"), &json!("end_turn"))
    );
    let session = first["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(
        text(&ask(&home, &["two", "--session", &session]).await),
        "you said two\n"
    );
    let server = Program::serve_in(home).await;
    let url = server.url().to_owned();
    let output = ask(
        server.home(),
        &["three", "--session", &session, "--server", &url],
    )
    .await;
    assert_eq!(
        text(&output),
        "you said three\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let prompts: Vec<_> = server
        .home()
        .events(&session)
        .into_iter()
        .filter(|event| event["type"] == "user.message")
        .map(|event| event["text"].clone())
        .collect();
    assert_eq!(prompts, ["one", "two", "three"]);
}

#[tokio::test]
async fn stdin_is_read_only_where_it_was_asked_for() {
    use tokio::io::AsyncWriteExt as _;
    let home = Home::new(binary(), echo());
    let with_stdin = async |arguments: &[&str]| {
        let mut asking = home.command("ask").args(arguments).spawn().unwrap();
        let mut stdin = asking.stdin.take().unwrap();
        // Who does not read it may have gone before it is written.
        let _ = stdin.write_all(b"from the pipe\n").await;
        drop(stdin);
        text(&asking.wait_with_output().await.unwrap())
    };
    assert_eq!(with_stdin(&["one"]).await, "you said one\n");
    let both = with_stdin(&["one", "--stdin"]).await;
    assert_eq!(both, "you said one\n\nfrom the pipe\n");
    assert_eq!(with_stdin(&["-"]).await, "you said from the pipe\n");
}

#[tokio::test]
async fn stream_json_tells_what_happens_a_line_at_a_time_and_nothing_else() {
    let script = Script::new()
        .call([say("looking "), tool("list", json!({}))])
        .call([say("done")]);
    let home = Home::new(binary(), script);
    let output = ask(&home, &["look", "--stream-json"]).await;
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "quiet when piped");
    let printed = text(&output);
    let lines = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert_eq!(kinds.first().copied(), Some("session"));
    assert_eq!(kinds.last().copied(), Some("result"));
    assert!(
        kinds.contains(&"tool") && kinds.contains(&"tool_update"),
        "{kinds:?}"
    );
    let said = lines.iter().filter(|line| line["type"] == "text");
    let said: String = said.filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(said, "looking done");
    assert_eq!(lines[lines.len() - 1]["stopReason"], "end_turn");
}

#[tokio::test]
async fn what_no_rule_allows_is_denied_with_exit_code_3() {
    let script = || {
        Script::new()
            .call([tool("write", json!({"path": "a.txt", "content": "x"}))])
            .call([say("${result}")])
    };
    let home = Home::new(binary(), script());
    let denied = ask(&home, &["write it"]).await;
    assert_eq!(denied.status.code(), Some(3));
    assert_eq!(home.read("a.txt"), None);
    // The model is told what happened, and both are told what would have helped.
    let rule = "--allow 'write(a.txt)'";
    let told = text(&denied);
    assert!(
        told.contains("No rule allows it") && told.contains(rule),
        "{told}"
    );
    assert!(!told.contains("person"), "nobody was asked: {told}");
    let hint = String::from_utf8_lossy(&denied.stderr).into_owned();
    assert!(hint.contains(rule), "{hint}");
    let narrow = ask(&home, &["write it", "--allow", "write(a.txt)"]).await;
    assert_eq!(narrow.status.code(), Some(0), "the rule that was named");
    std::fs::remove_file(home.workspace().join("a.txt")).unwrap();
    let allowed = ask(&home, &["write it", "--allow", "write"]).await;
    assert_eq!(allowed.status.code(), Some(0));
    assert_eq!(home.read("a.txt").as_deref(), Some("x"));
}

#[tokio::test]
async fn b_03_a_server_that_dies_in_mid_answer_is_a_clear_error_with_exit_code_1() {
    let mut server = serve(Script::new().call([testkit::script::stream("x", 10_000, 10)])).await;
    let url = server.url().to_owned();
    let mut command = server.home().command("ask");
    command.args(["go", "--server", &url]);
    let mut asking = command.spawn().unwrap();
    let mut out = asking.stdout.take().unwrap();
    let mut first = [0; 1];
    tokio::io::AsyncReadExt::read_exact(&mut out, &mut first)
        .await
        .unwrap();
    server.kill9().await;
    let output = asking.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("error: "), "{said}");
}

#[tokio::test]
async fn the_end_of_input_ends_the_agent_and_records_its_turn_as_interrupted() {
    let home = Home::new(
        binary(),
        Script::new().call([testkit::script::stream("x", 10_000, 10)]),
    );
    let mut client = testkit::AcpClient::spawn_stdio(&home).await;
    let session = client.new_session().await;
    client.start_prompt(&session, "go").await;
    client
        .updates_until(|update| update.text() == Some("x"))
        .await;
    client.leave().await;
    assert_eq!(
        crate::support::stored(&home, &session).last().unwrap(),
        "turn.interrupted"
    );
}

#[tokio::test]
async fn offline_edit_changes_the_file() {
    let home = Home::new(binary(), json!([])).model("offline");
    home.write("a.txt", "one two three");
    let edit = ["edit a.txt replace two with 2", "--allow", "edit"];
    let output = ask(&home, &edit).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(home.read("a.txt").as_deref(), Some("one 2 three"));
    assert!(
        text(&output).contains("Done: in `a.txt`"),
        "{}",
        text(&output)
    );
    let missing = ask(&home, &["edit b.txt replace two with 2", "--allow", "edit"]).await;
    assert!(
        text(&missing).contains("did not succeed"),
        "{}",
        text(&missing)
    );
}

#[tokio::test]
async fn short_ids_name_sessions_for_ask_and_token() {
    let home = Home::new(binary(), echo());
    let first: Value = serde_json::from_str(&text(&ask(&home, &["one", "--json"]).await)).unwrap();
    let session = first["sessionId"].as_str().unwrap();
    let again = ask(&home, &["two", "--session", &session[..8]]).await;
    assert_eq!(text(&again), "you said two\n");
    let prompts = home.events(session).into_iter();
    let prompts = prompts.filter(|event| event["type"] == "user.message");
    assert_eq!(prompts.count(), 2, "the same session");
    let create = ["create", "guest", "--session", &session[..8]];
    let made = home.command("token").args(create).output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    let listed = home.command("token").arg("list").output().await.unwrap();
    assert!(text(&listed).contains(session), "{}", text(&listed));
    // Another session with the same beginning makes it ambiguous; both are named.
    let sessions = home.data_dir().join("sessions");
    let twin = format!("{}{}", &session[..8], "0".repeat(24));
    let copied = home
        .clean("cp")
        .arg("-r")
        .args([sessions.join(session), sessions.join(&twin)])
        .status();
    assert!(copied.await.unwrap().success());
    let create = ["create", "other", "--session", &session[..8]];
    let refused = home.command("token").args(create).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains(session) && said.contains(&twin), "{said}");
    let unknown = ask(&home, &["three", "--session", "zzzz"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    let short = ask(&home, &["three", "--session", "3f"]).await;
    assert_eq!(short.status.code(), Some(2));
}
