//! Permissions through the real program: rules, remembered answers, hooks that rewrite, and what is
//! stored of all that. Reject means not run.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};

use crate::hooks::{configure, hook};
use crate::support::binary;

/// A model that makes these calls, one step each, and repeats the last result.
fn calls(calls: &[(&str, Value)]) -> Script {
    let script = calls.iter().fold(Script::new(), |script, (name, input)| {
        script.call([tool(name, input.clone())])
    });
    script.call([say("${result}")])
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({ "command": command }))
}

/// Rules as they stand in a file.
fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> String {
    let list = |rules: &[&str]| serde_json::to_string(rules).unwrap();
    let (allow, ask, deny) = (list(allow), list(ask), list(deny));
    format!("[permissions]\nallow = {allow}\nask = {ask}\ndeny = {deny}\n")
}

/// A server whose operator has set `settings`.
async fn serve(script: impl Into<Value>, settings: &str) -> Program {
    let home = Home::new(binary(), script);
    configure(&home, settings);
    Program::serve_in(home).await
}

async fn client(server: &Program, choice: Choice) -> AcpClient {
    let mut client = AcpClient::connect_ws(server).await;
    client.on_permission(choice);
    client
}

async fn mode(client: &mut AcpClient, session: &str, mode: &str) {
    let mode = json!({"sessionId": session, "modeId": mode});
    client.call("session/set_mode", mode).await.unwrap();
}

/// The stored events of one type.
fn events(home: &Home, session: &str, kind: &str) -> Vec<Value> {
    let mut events = home.events(session);
    events.retain(|event| event["type"] == kind);
    events
}

/// How each call ended.
fn outcomes(home: &Home, session: &str) -> Vec<String> {
    let results = events(home, session, "tool.result");
    let status = |event: &Value| event["status"].as_str().unwrap().to_owned();
    results.iter().map(status).collect()
}

/// What `fastness COMMAND` prints, and its exit code.
async fn run(home: &Home, command: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let output = home.command(command).args(arguments).output();
    let output = output.await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

#[tokio::test]
async fn d_04_a_compound_command_runs_unasked_only_if_every_part_is_allowed() {
    // Each would leave the file `harm`, and each begins with something that is allowed.
    let hiding = [
        "echo hi; touch harm",
        "echo hi && touch harm",
        "echo hi | touch harm",
        "echo hi\ntouch harm",
        "echo $(touch harm)",
        "echo ${x:-<(touch harm)}",
        "echo ${x:=a\\[\\$\\(touch\\ harm\\)\\]} $((x))",
        "timeout {5,touch,harm} echo hi",
        "find . {-exec,touch,harm,\\;}",
        "echo \"`touch harm`\"",
        "echo hi <<EOF\n$(touch harm)\nEOF",
        "echo hi <<'EOF'\nEOF\ntouch harm",
        "env X=1 touch harm",
        "echo harm | xargs touch",
        "shopt -s expand_aliases\nalias echo='touch harm; :'\necho hi",
        "echo() { touch harm; }; echo hi",
        "sh -c 'echo hi; touch harm'",
        "eval 'echo hi; touch harm'",
        "echo hi > harm",
        "cat <(touch harm)",
        "x=touch; $x harm",
        "find . -maxdepth 0 -exec touch harm \\;",
        "echo hi & touch harm",
        "(echo hi; touch harm)",
        "if echo hi; then touch harm; fi",
        "PATH=.:$PATH echo hi; touch harm",
    ];
    let script = calls(&hiding.map(bash));
    let settings = rules(
        &[
            "bash(echo *)",
            "bash(cat *)",
            "bash(env *)",
            "bash(xargs *)",
            "bash(find *)",
        ],
        &[],
        &[],
    );
    let server = serve(script, &settings).await;
    let mut client = client(&server, Choice::Reject).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(client.requests().len(), hiding.len(), "each is asked about");
    assert_eq!(server.home().read("harm"), None);
    assert_eq!(
        outcomes(server.home(), &session),
        vec!["denied"; hiding.len()]
    );
}

#[tokio::test]
async fn d_04_a_compound_command_of_allowed_parts_runs_unasked_and_says_by_which_rules() {
    let command = "echo one && (cat a | tail -n 1) 2>&1; echo three > /dev/null";
    let settings = rules(&["bash(echo *)", "bash(cat a)"], &[], &[]);
    let server = serve(calls(&[bash(command)]), &settings).await;
    server.home().write("a", "two\n");
    server
        .home()
        .write("fastness.toml", &rules(&["bash(tail *)"], &[], &[]));
    let (text, code) = run(server.home(), "approve", &["--yes"]).await;
    assert_eq!(code, Some(0), "{text}");
    let mut client = client(&server, Choice::Reject).await;
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    assert_eq!(done.text, "one\ntwo\n");
    assert!(client.requests().is_empty(), "nobody is asked");
    let used = &events(server.home(), &session, "tool.use")[0];
    let expected = json!({"rules": [
        {"rule": "bash(echo *)", "from": "operator"},
        {"rule": "bash(cat a)", "from": "operator"},
        {"rule": "bash(tail *)", "from": "project"},
    ]});
    let mut rules = used["allowedBy"]["rules"].as_array().unwrap().clone();
    let mut all = expected["rules"].as_array().unwrap().clone();
    let name = |rule: &Value| rule["rule"].to_string();
    rules.sort_by_key(name);
    all.sort_by_key(name);
    assert_eq!(rules, all);
    let (shown, _) = run(server.home(), "sessions", &["show", &session]).await;
    assert!(shown.contains("allowed by the rule bash("), "{shown}");
    assert!(shown.contains("bash(tail *) (project)"), "{shown}");
}

#[tokio::test]
async fn d_04_a_denied_command_does_not_run_in_any_mode_however_it_is_written() {
    let hiding = [
        "touch harm",
        "echo hi; touch harm",
        "t\\ouch harm",
        "\"touch\" harm",
        "$'to\\x75ch' harm",
        "/usr/bin/touch harm",
        "env touch harm",
        "echo harm | xargs touch",
        "sh -c 'touch harm'",
        "echo $(touch harm)",
        "echo `touch harm`",
        "cat <<EOF\n$(touch harm)\nEOF",
        "x=touch; $x harm",
        "echo 'touch harm' | sh",
        "eval \"$(printf 'touch harm')\"",
        "alias t=touch; shopt -s expand_aliases\nt harm",
        "f() { touch harm; }; f",
        "timeout 5 nice touch harm",
    ];
    let script = calls(&hiding.map(bash));
    let settings = rules(&["bash"], &[], &["bash(touch *)"]);
    let server = serve(script, &settings).await;
    for name in ["default", "bypass"] {
        let mut client = client(&server, Choice::Allow).await;
        let session = client.new_session().await;
        mode(&mut client, &session, name).await;
        client.prompt(&session, "go").await;
        assert!(client.requests().is_empty(), "nobody is asked");
        assert_eq!(server.home().read("harm"), None);
        assert_eq!(
            outcomes(server.home(), &session),
            vec!["denied"; hiding.len()]
        );
        let results = events(server.home(), &session, "tool.result");
        let why = results[0]["text"].as_str().unwrap();
        assert!(
            why.contains("the rule bash(touch *) of the operator"),
            "{why}"
        );
    }
}

#[tokio::test]
async fn d_04_rules_about_files_are_about_where_they_lead() {
    let write = |path: &str| ("write", json!({"path": path, "content": "x"}));
    let script = calls(&[
        write("src/a"),
        write("src/new/b"),
        write("src/../secrets/a"),
        write("src/link/a"),
        write("SRC/a"),
        write("secrets/denied/a"),
        write("src/link/denied/a"),
    ]);
    let settings = rules(&["write(src/**)"], &[], &["write(secrets/denied/**)"]);
    let server = serve(script, &settings).await;
    let place = server.home().workspace();
    for directory in ["src", "secrets/denied"] {
        std::fs::create_dir_all(place.join(directory)).unwrap();
    }
    std::os::unix::fs::symlink("../secrets", place.join("src/link")).unwrap();
    let mut client = client(&server, Choice::Reject).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let home = server.home();
    assert_eq!(home.read("src/a").as_deref(), Some("x"));
    assert_eq!(home.read("src/new/b").as_deref(), Some("x"));
    assert_eq!(
        client.requests().len(),
        3,
        "what no rule covers is asked about"
    );
    assert_eq!(std::fs::read_dir(place.join("secrets")).unwrap().count(), 1);
    assert_eq!(
        std::fs::read_dir(place.join("secrets/denied"))
            .unwrap()
            .count(),
        0
    );
    assert!(!place.join("SRC").exists());
    let expected = [
        "completed",
        "completed",
        "denied",
        "denied",
        "denied",
        "denied",
        "denied",
    ];
    assert_eq!(outcomes(home, &session), expected);
}

#[tokio::test]
async fn d_04_a_projects_deny_counts_at_once_and_its_allow_after_approval() {
    let script = calls(&[
        ("write", json!({"path": "a", "content": "x"})),
        ("read", json!({"path": "secret"})),
    ]);
    let server = serve(script, "").await;
    let home = server.home();
    home.write("secret", "s3cret");
    home.write("fastness.toml", &rules(&["write"], &[], &["read(secret)"]));
    let mut client = client(&server, Choice::Reject).await;
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    assert_eq!(client.requests().len(), 1, "its allow does not count yet");
    assert_eq!(outcomes(home, &session), ["denied", "denied"]);
    assert!(
        done.text.contains("of the project denies it"),
        "{}",
        done.text
    );
    let (text, code) = run(home, "approve", &["--yes"]).await;
    assert_eq!(code, Some(0), "{text}");
    let second = client.new_session().await;
    client.prompt(&second, "go").await;
    assert_eq!(client.requests().len(), 1, "nobody is asked any more");
    assert_eq!(outcomes(home, &second), ["completed", "denied"]);
    // One changed byte, and the approval is gone.
    let changed = rules(&["write", "bash"], &[], &["read(secret)"]);
    home.write("fastness.toml", &changed);
    let third = client.new_session().await;
    client.prompt(&third, "go").await;
    assert_eq!(client.requests().len(), 2);
}

#[tokio::test]
async fn d_04_a_rule_that_asks_beats_bypass_and_is_asked_each_time() {
    let script = calls(&[bash("git push origin"), bash("echo hi")]);
    let server = serve(script, &rules(&["bash"], &["bash(git push*)"], &[])).await;
    let mut client = client(&server, Choice::Reject).await;
    let session = client.new_session().await;
    mode(&mut client, &session, "bypass").await;
    client.prompt(&session, "go").await;
    let asked = client.requests();
    assert_eq!(asked.len(), 1);
    let options = asked[0].params["options"].as_array().unwrap();
    let ids: Vec<_> = options.iter().map(|option| &option["optionId"]).collect();
    assert_eq!(ids, ["allow_once", "reject_once"]);
    assert_eq!(outcomes(server.home(), &session), ["denied", "completed"]);
}

#[tokio::test]
async fn d_04_plan_mode_stays_read_only_whatever_rules_allow() {
    let script = calls(&[
        bash("touch harm"),
        ("write", json!({"path": "harm", "content": ""})),
    ]);
    let server = serve(script, &rules(&["*"], &[], &[])).await;
    let mut client = client(&server, Choice::Allow).await;
    let session = client.new_session().await;
    mode(&mut client, &session, "plan").await;
    client.prompt(&session, "go").await;
    assert!(client.requests().is_empty());
    assert_eq!(server.home().read("harm"), None);
    assert_eq!(outcomes(server.home(), &session), ["denied", "denied"]);
}

#[tokio::test]
async fn d_04_an_answer_for_good_is_kept_over_a_restart_and_is_of_one_command_in_one_place() {
    let command = "echo x >> log";
    let elsewhere = json!({"command": command, "cwd": "sub"});
    let script = Script::new()
        .call([tool("bash", json!({ "command": command }))])
        .call([say("done")])
        .call([tool("bash", json!({ "command": command }))])
        .call([tool("bash", elsewhere)])
        .call([tool("bash", json!({"command": "echo x >> log "}))])
        .call([say("done")]);
    let server = serve(script, "").await;
    std::fs::create_dir(server.home().workspace().join("sub")).unwrap();
    let mut first = client(&server, Choice::AllowAlways).await;
    let session = first.new_session().await;
    first.prompt(&session, "go").await;
    let asked = &first.requests()[0].params["options"][1];
    assert_eq!(asked["name"], "Allow this exact command for this session");
    let answer = events(server.home(), &session, "permission.answered")[0]["seq"].clone();
    server.home().set_script(
        Script::new()
            .call([tool("bash", json!({ "command": command }))])
            .call([tool("bash", json!({"command": command, "cwd": "sub"}))])
            .call([tool("bash", json!({"command": "echo x >> log "}))])
            .call([say("done")]),
    );
    let server = server.restart().await;
    let mut again = client(&server, Choice::Reject).await;
    again.load_session(&session).await.unwrap();
    again.prompt(&session, "go").await;
    assert_eq!(again.requests().len(), 2, "only what is another command");
    assert_eq!(server.home().read("log").as_deref(), Some("x\nx\n"));
    let used = events(server.home(), &session, "tool.use");
    assert_eq!(used[1]["allowedBy"], json!({ "event": answer }));
    let (shown, _) = run(server.home(), "sessions", &["show", &session]).await;
    let expected = format!("allowed for the session by event {answer}");
    assert!(shown.contains(&expected), "{shown}");
    assert!(
        shown.contains(&format!("allowed by local in event {answer}")),
        "{shown}"
    );
}

#[tokio::test]
async fn d_04_a_fork_does_not_copy_answers_for_good() {
    let script = calls(&[("write", json!({"path": "a", "content": "x"}))]);
    let server = serve(script, "").await;
    let mut first = client(&server, Choice::AllowAlways).await;
    let session = first.new_session().await;
    first.prompt(&session, "go").await;
    let head = server.home().events(&session).len().to_string();
    let (text, code) = run(
        server.home(),
        "sessions",
        &["fork", &session, "--at", &head],
    )
    .await;
    assert_eq!(code, Some(0), "{text}");
    let fork = text
        .split_whitespace()
        .find(|word| word.len() == 32)
        .unwrap();
    let mut other = client(&server, Choice::Reject).await;
    other.load_session(fork).await.unwrap();
    std::fs::remove_file(server.home().workspace().join("a")).unwrap();
    other.prompt(fork, "go").await;
    assert_eq!(other.requests().len(), 1, "the copy asks");
    assert_eq!(server.home().read("a"), None);
}

#[tokio::test]
async fn d_04_what_a_hook_makes_of_a_call_is_judged_anew() {
    // The hook turns what was allowed, by a rule and for good, into something else.
    let rewrite = r#"grep -q turn-me && echo '{"input":{"command":"touch harm"}}'; true"#;
    let settings = rules(&["bash(echo *)"], &[], &[]) + &hook("PreToolUse", rewrite);
    let always = bash("printf turn-me; test -e no");
    let script = calls(&[bash("echo fine"), bash("echo turn-me"), always]);
    let server = serve(script, &settings).await;
    let mut client = client(&server, Choice::Reject).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(
        outcomes(server.home(), &session),
        ["completed", "denied", "denied"]
    );
    let asked = client.requests().iter();
    let titles: Vec<_> = asked.map(|ask| &ask.params["toolCall"]["title"]).collect();
    assert_eq!(titles, ["touch harm", "touch harm"]);
    assert_eq!(server.home().read("harm"), None);
}

#[tokio::test]
async fn d_04_an_answer_for_good_does_not_cover_what_a_hook_makes_of_the_call() {
    let rewrite = r#"test -e turn && echo '{"input":{"command":"touch harm"}}'; true"#;
    let script = Script::new()
        .call([tool("bash", json!({"command": "true"}))])
        .call([say("done")])
        .call([tool("bash", json!({"command": "true"}))])
        .call([say("done")]);
    let server = serve(script, &hook("PreToolUse", rewrite)).await;
    let mut client = client(&server, Choice::AllowAlways).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    server.home().write("turn", "");
    client.on_permission(Choice::Reject);
    client.prompt(&session, "go").await;
    assert_eq!(client.requests().len(), 2, "it is another call now");
    assert_eq!(outcomes(server.home(), &session), ["completed", "denied"]);
    assert_eq!(server.home().read("harm"), None);
}

#[tokio::test]
async fn d_04_a_rule_that_cannot_be_read_is_named_with_the_nearest_one() {
    let home = Home::new(binary(), Script::says("hi"));
    let (text, code) = run(&home, "ask", &["go", "--allow", "bash(git:*)"]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("the nearest one is `bash(git *)`"), "{text}");
    configure(&home, &rules(&[], &[], &["Bash(rm *)"]));
    let (text, code) = run(&home, "ask", &["go"]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("`Bash(rm *)` is not a rule"), "{text}");
    assert!(text.contains("the nearest one is `bash(rm *)`"), "{text}");
}

#[tokio::test]
async fn d_04_ask_permits_by_the_same_rules_and_a_deny_of_the_operator_beats_them() {
    let script = calls(&[bash("echo one; echo two"), bash("echo hi; touch harm")]);
    let home = Home::new(binary(), script);
    let (text, code) = run(&home, "ask", &["go", "--allow", "bash(echo *)"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(home.read("harm"), None);
    configure(&home, &rules(&[], &[], &["bash(echo *)"]));
    let (text, code) = run(&home, "ask", &["go", "--allow", "bash"]).await;
    assert_eq!((code, home.read("harm")), (Some(3), None), "{text}");
}

#[tokio::test]
async fn d_04_rules_hold_for_sub_agents_too() {
    let write = |path: &str| [tool("write", json!({"path": path, "content": ""}))];
    let agent = Script::new().call(write("denied/a")).call(write("b"));
    let script = calls(&[("task", json!({"prompt": "work"}))]);
    let script = script.agent("general", agent.call([say("done")]));
    let settings = rules(&["task", "write(b)"], &[], &["write(denied/**)"]);
    let server = serve(script, &settings).await;
    for name in ["default", "bypass"] {
        let mut client = client(&server, Choice::Allow).await;
        let session = client.new_session().await;
        mode(&mut client, &session, name).await;
        client.prompt(&session, "go").await;
        assert!(client.requests().is_empty(), "nobody is asked");
        assert!(!server.home().workspace().join("denied").exists());
        assert_eq!(server.home().read("b").as_deref(), Some(""));
        std::fs::remove_file(server.home().workspace().join("b")).unwrap();
    }
}

#[tokio::test]
async fn d_04_a_tool_that_is_not_there_is_a_failed_call_that_nobody_is_asked_about() {
    let script = calls(&[
        ("raed", json!({"path": "a"})),
        ("mcp__gone__tool", json!({})),
        ("x\n\u{1b}[31m", json!({})),
    ]);
    let server = serve(script, "").await;
    let mut client = client(&server, Choice::Allow).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert!(client.requests().is_empty(), "nobody is asked");
    let home = server.home();
    assert!(events(home, &session, "permission.asked").is_empty());
    assert_eq!(outcomes(home, &session), ["failed", "failed", "failed"]);
    let results = events(home, &session, "tool.result");
    let texts = results
        .iter()
        .map(|result| result["text"].as_str().unwrap());
    let texts: Vec<&str> = texts.collect();
    let near = "There is no tool called raed. Did you mean read? The tools are: ";
    assert!(texts[0].starts_with(near), "{}", texts[0]);
    let gone = "There is no tool called mcp__gone__tool. The tools are: ";
    assert!(texts[1].starts_with(gone), "{}", texts[1]);
    assert!(!texts[2].contains(['\n', '\u{1b}']), "{}", texts[2]);
}
