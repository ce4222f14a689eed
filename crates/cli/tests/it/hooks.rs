//! Hooks: commands that look at what a session does, change it and stop it.

use std::path::Path;

use serde_json::{Value, json};
use testkit::model::RecordingModel;
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program, wait_for};

use crate::support::binary;

/// Writes the operator's file of `home`.
pub(crate) fn configure(home: &Home, text: &str) {
    let place = home.workspace();
    let folder = place.parent().unwrap().join("home/.config/fastness");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
}

/// One hook as it is written in a file.
pub(crate) fn hook(event: &str, command: &str) -> String {
    format!("[[hooks]]\nevent = \"{event}\"\ncommand = '''{command}'''\n")
}

/// A model that writes `a` and then says what came of it.
pub(crate) fn writing() -> Script {
    Script::new()
        .call([tool("write", json!({"path": "a", "content": "model"}))])
        .call([say("result: ${result}")])
}

/// A server whose operator has set `hooks`.
pub(crate) async fn serve(script: impl Into<Value>, hooks: &str) -> Program {
    let home = Home::new(binary(), script);
    configure(&home, hooks);
    Program::serve_in(home).await
}

/// The hooks that ran in a session: event, outcome and reason.
pub(crate) fn ran(home: &Home, session: &str) -> Vec<(String, String, String)> {
    let events = home.events(session);
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let hooks = events.iter().filter(|event| event["type"] == "hook.event");
    hooks
        .map(|event| {
            (
                text(event, "event"),
                text(event, "outcome"),
                text(event, "reason"),
            )
        })
        .collect()
}

/// Whether the process whose number is in `file` is still there.
pub(crate) fn lives(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    status.is_ok_and(|status| !status.contains(") Z "))
}

#[tokio::test]
async fn d_07_every_point_runs_its_hook_in_order_and_leaves_an_event() {
    let points = [
        "SessionStart",
        "UserPromptSubmit",
        "BeforeModelCall",
        "AfterModelCall",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    ];
    let hooks: String = points
        .map(|point| hook(point, "cat >> heard; echo >> heard"))
        .concat();
    let server = serve(writing(), &hooks).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    client.prompt(&session, "again").await;
    client
        .call("session/close", json!({"sessionId": session}))
        .await
        .unwrap();
    let ran = ran(server.home(), &session);
    let order: Vec<&str> = ran.iter().map(|(event, ..)| event.as_str()).collect();
    let expected = [
        "SessionStart",
        "UserPromptSubmit",
        "BeforeModelCall",
        "AfterModelCall",
        "PreToolUse",
        "PostToolUse",
        "BeforeModelCall",
        "AfterModelCall",
        "Stop",
        "UserPromptSubmit",
        "BeforeModelCall",
        "AfterModelCall",
        "Stop",
        "SessionEnd",
    ];
    assert_eq!(order, expected);
    assert!(ran.iter().all(|(_, outcome, _)| outcome == "ok"), "{ran:?}");
    let heard = server.home().read("heard").unwrap();
    let heard: Vec<Value> = heard
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(heard.len(), expected.len());
    for (heard, point) in heard.iter().zip(expected) {
        assert_eq!(heard["event"], point);
        assert_eq!(heard["sessionId"], session);
        assert_eq!(heard["cwd"], server.home().workspace().to_str().unwrap());
    }
    assert_eq!(heard[1]["prompt"], "go");
    assert_eq!(heard[3]["toolCalls"][0]["toolName"], "write");
    assert_eq!(heard[4]["toolInput"]["content"], "model");
    assert_eq!(heard[5]["result"]["status"], "completed");
    assert_eq!(heard[9]["turn"], 2);
    assert_eq!(heard[13]["reason"], "closed");
}

#[tokio::test]
async fn d_07_a_rewritten_call_is_what_is_shown_asked_about_stored_and_run() {
    let rewrite = r#"echo '{"input":{"path":"b","content":"hook"}}'"#;
    let server = serve(writing(), &hook("PreToolUse", rewrite)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let (home, asked) = (server.home(), &client.requests()[0].params["toolCall"]);
    assert_eq!(asked["title"], "Write b", "{asked}");
    assert_eq!(
        (home.read("a"), home.read("b")),
        (None, Some("hook".to_owned()))
    );
    let events = home.events(&session);
    let used = events
        .iter()
        .find(|event| event["type"] == "tool.use")
        .unwrap();
    assert_eq!(used["input"]["path"], "b");
    assert_eq!(ran(home, &session)[0].1, "rewrote");
}

#[tokio::test]
async fn d_07_no_hook_widens_a_permission() {
    let allow = r#"echo '{"decision":"allow","input":{"path":"b","content":"hook"}}'"#;
    let server = serve(writing(), &hook("PreToolUse", allow)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Reject);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert!(answer.text.contains("not allow"), "{}", answer.text);
    assert_eq!(
        client.requests().len(),
        1,
        "the person is asked all the same"
    );
    let plan = json!({"sessionId": session, "modeId": "plan"});
    client.call("session/set_mode", plan).await.unwrap();
    let answer = client.prompt(&session, "go").await;
    assert!(answer.text.contains("result: "), "{}", answer.text);
    assert_eq!(
        (server.home().read("a"), server.home().read("b")),
        (None, None)
    );
}

#[tokio::test]
async fn d_07_a_blocked_call_is_not_asked_about_not_run_and_the_model_reads_why() {
    let guard = "grep -q '\"path\":\"a\"' && { echo not that file >&2; exit 2; }; true";
    let only_write = hook("PreToolUse", guard) + "matcher = \"write|edit\"\n";
    let script = Script::new()
        .call([
            tool("write", json!({"path": "a", "content": "x"})),
            tool("write", json!({"path": "b", "content": "x"})),
            tool("read", json!({"path": "a"})),
        ])
        .call([say("done")]);
    let server = serve(script, &only_write).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(
        client.requests().len(),
        1,
        "only the other call is asked about"
    );
    assert_eq!(server.home().read("a"), None);
    assert_eq!(server.home().read("b").as_deref(), Some("x"));
    let events = server.home().events(&session);
    let results = events.iter().filter(|event| event["type"] == "tool.result");
    let results: Vec<_> = results
        .map(|event| (&event["status"], &event["text"]))
        .collect();
    let is_denied = results.iter().any(|(status, text)| {
        let text = text.as_str().unwrap_or_default();
        *status == "denied" && text.starts_with("The hook `") && text.ends_with(": not that file")
    });
    assert!(is_denied, "{results:?}");
    let outcomes: Vec<String> = ran(server.home(), &session)
        .into_iter()
        .map(|(_, o, _)| o)
        .collect();
    assert_eq!(outcomes, ["blocked", "ok"]);
}

#[tokio::test]
async fn d_07_a_result_is_rewritten_and_remarked_on_before_it_is_stored() {
    let rewrite = r#"echo '{"result":"all secrets gone","context":"mind the style"}'"#;
    let server = serve(writing(), &hook("PostToolUse", rewrite)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    let expected = "result: all secrets gone\n\n[from a hook]\nmind the style";
    assert_eq!(answer.text, expected);
}

#[tokio::test]
async fn d_07_a_blocked_prompt_never_reaches_the_model_and_the_next_one_does() {
    let model = RecordingModel::start().await;
    let home = model.home(binary());
    let guard = "grep -q password && { echo no secrets here >&2; exit 2; }; true";
    configure(&home, &hook("UserPromptSubmit", guard));
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let answer = client.prompt(&session, "my password is tiger").await;
    assert_eq!(answer.stop_reason, "refusal");
    assert!(answer.text.contains("no secrets here"), "{}", answer.text);
    assert!(model.requests().is_empty());
    let answer = client.prompt(&session, "hello").await;
    assert_eq!(answer.stop_reason, "end_turn");
    let request = model.requests()[0].to_string();
    assert!(
        request.contains("hello") && !request.contains("tiger"),
        "{request}"
    );
    assert!(!request.contains("no secrets here"), "{request}");
}

#[tokio::test]
async fn d_07_a_rewritten_prompt_is_what_the_model_reads_also_after_a_restart() {
    let model = RecordingModel::start().await;
    let home = model.home(binary());
    let rewrite = r#"echo '{"prompt":"speak of owls","context":"it is night"}'"#;
    configure(&home, &hook("UserPromptSubmit", rewrite));
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "speak of cats").await;
    let events = server.home().events(&session);
    let typed = events
        .iter()
        .find(|event| event["type"] == "user.message")
        .unwrap();
    assert_eq!(typed["text"], "speak of cats");
    configure(server.home(), "");
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    client.prompt(&session, "and of dogs").await;
    let requests = model.requests();
    for request in &requests {
        let request = request.to_string();
        assert!(request.contains("speak of owls"), "{request}");
        assert!(request.contains("it is night"), "{request}");
        assert!(!request.contains("cats"), "{request}");
    }
    assert_eq!(requests.len(), 2);
}

#[tokio::test]
async fn d_07_a_stop_hook_sends_the_model_back_to_work_but_not_for_ever() {
    let script = Script::new()
        .call([say("done")])
        .call([say("you said: ${prompt}")]);
    let server = serve(script, &hook("Stop", "echo tests fail >&2; exit 2")).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(answer.stop_reason, "end_turn");
    assert!(answer.text.contains("tests fail"), "{}", answer.text);
    assert_eq!(ran(server.home(), &session).len(), 3);
}

#[tokio::test]
async fn d_07_a_hook_that_takes_too_long_blocks_in_time_and_leaves_nothing_running() {
    let slow = hook("PreToolUse", "sleep 1000 & echo $! > pid; wait") + "timeout_ms = 300\n";
    let server = serve(writing(), &slow).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert!(
        answer.text.contains("took longer than 300 ms"),
        "{}",
        answer.text
    );
    assert_eq!(ran(server.home(), &session)[0].1, "timed_out");
    assert_eq!(server.home().read("a"), None);
    let pid = server.home().workspace().join("pid");
    wait_for("the hook's child ends", || !lives(&pid)).await;
}

#[tokio::test]
async fn d_07_a_hook_that_only_watches_and_fails_is_passed_over() {
    let watcher = hook("PreToolUse", "exit 7") + "on_failure = \"ignore\"\n";
    let server = serve(writing(), &(watcher + &hook("Stop", "exit 1"))).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(server.home().read("a").as_deref(), Some("model"));
    let outcomes: Vec<String> = ran(server.home(), &session)
        .into_iter()
        .map(|(_, o, _)| o)
        .collect();
    assert_eq!(outcomes, ["failed", "failed"]);
}

#[tokio::test]
async fn d_07_hooks_see_the_environment_without_its_secrets() {
    let home = Home::new(binary(), Script::says("hi"))
        .env("OPENAI_API_KEY", "sk-do-not-tell")
        .env("MY_COPY", "sk-do-not-tell")
        .env("FASTNESS_TOKEN", "also-not-this-one")
        .env("COLOUR", "blue");
    configure(&home, &hook("SessionStart", "env > seen"));
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let seen = server.home().read("seen").unwrap();
    assert!(
        seen.contains("COLOUR=blue") && seen.contains("PATH="),
        "{seen}"
    );
    assert!(
        !seen.contains("sk-do-not-tell") && !seen.contains("also-not"),
        "{seen}"
    );
}

#[tokio::test]
async fn d_07_a_project_s_hooks_run_only_while_the_file_is_as_it_was_approved() {
    let home = Home::new(binary(), Script::says("hi"));
    home.write("fastness.toml", &hook("UserPromptSubmit", "echo x >> ran"));
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(server.home().read("ran"), None);
    let events = server.home().events(&session);
    let notice = |event: &&Value| event["type"] == "notice" && event["kind"] == "project";
    let notices: Vec<&Value> = events.iter().filter(notice).collect();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0]["text"]
            .as_str()
            .unwrap()
            .contains("`fastness approve`")
    );
    // From the next turn on, in the same session.
    let approved = server
        .home()
        .command("approve")
        .arg("--yes")
        .output()
        .await
        .unwrap();
    assert!(approved.status.success(), "{approved:?}");
    client.prompt(&session, "go").await;
    assert_eq!(server.home().read("ran").as_deref(), Some("x\n"));
    let file = server.home().read("fastness.toml").unwrap();
    server.home().write("fastness.toml", &format!("{file} "));
    client.prompt(&session, "go").await;
    assert_eq!(server.home().read("ran").as_deref(), Some("x\n"));
    server.home().write("fastness.toml", &file);
    client.prompt(&session, "go").await;
    assert_eq!(server.home().read("ran").as_deref(), Some("x\nx\n"));
    let revoked = server
        .home()
        .command("approve")
        .arg("--revoke")
        .output()
        .await
        .unwrap();
    assert!(revoked.status.success(), "{revoked:?}");
    client.prompt(&session, "go").await;
    assert_eq!(server.home().read("ran").as_deref(), Some("x\nx\n"));
}

#[tokio::test]
async fn d_07_a_hook_says_what_a_summary_shall_mind_or_keeps_the_conversation_as_it_is() {
    let model = RecordingModel::start().await;
    let home = model.home(binary());
    let command = "cat > asked; [ -e no ] && { echo 'not now' >&2; exit 2; }; \
                   echo '{\"context\": \"Mind the gap.\"}'";
    configure(&home, &hook("SessionCompacting", command));
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "first").await;
    server.home().write("no", "");
    let refused = client.prompt(&session, "/compact").await.text;
    assert!(
        refused.contains("did not let this be compacted: not now"),
        "{refused}"
    );
    let summaries = |home: &Home| {
        let events = home.events(&session).into_iter();
        events.filter(|event| event["type"] == "compaction").count()
    };
    assert_eq!((summaries(server.home()), model.requests().len()), (0, 1));
    std::fs::remove_file(server.home().workspace().join("no")).unwrap();
    let done = client.prompt(&session, "/compact the parser").await.text;
    assert!(done.starts_with("Compacted the conversation"), "{done}");
    assert_eq!(summaries(server.home()), 1);
    let asked = model.requests().pop().unwrap().to_string();
    assert!(
        asked.contains("the parser") && asked.contains("Mind the gap."),
        "{asked}"
    );
    let heard: Value = serde_json::from_str(&server.home().read("asked").unwrap()).unwrap();
    assert_eq!(
        (&heard["event"], &heard["trigger"]),
        (&json!("SessionCompacting"), &json!("wanted"))
    );
    let outcomes: Vec<String> = ran(server.home(), &session)
        .into_iter()
        .map(|(_, outcome, _)| outcome)
        .collect();
    assert_eq!(outcomes, ["blocked", "rewrote"]);
}
