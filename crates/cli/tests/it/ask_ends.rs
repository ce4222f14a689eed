//! How `fastness ask` ends: messages apart, errors said, and an exit code that tells a whole answer from none.

use std::fs::OpenOptions;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use testkit::Home;
use testkit::script::{Script, fail, say, stop, think, tool};
use tokio::process::Command;

use crate::hooks::{configure, hook};
use crate::support::{binary, echo};

async fn ask(home: &Home, arguments: &[&str]) -> Output {
    let mut command = home.command("ask");
    command.args(arguments).stdin(Stdio::null());
    command.output().await.unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The last line on stdout, as JSON.
fn object(output: &Output) -> Value {
    let printed = out(output);
    let last = printed.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

#[tokio::test]
async fn messages_of_one_answer_are_set_apart() {
    let script = Script::new()
        .call([say("Look"), say("ing."), tool("list", json!({}))])
        .call([think("hm"), say("Done.")]);
    let home = Home::new(binary(), script);
    let plain = ask(&home, &["go"]).await;
    assert_eq!(out(&plain), "Looking.\n\nDone.\n");
    let json = object(&ask(&home, &["go", "--json"]).await);
    assert_eq!(json["text"], "Looking.\n\nDone.");
    assert_eq!(json["messages"], json!(["Looking.", "Done."]));
    assert_eq!(json["error"], Value::Null);
    let lines = out(&ask(&home, &["go", "--stream-json"]).await);
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let texts: Vec<&Value> = lines.iter().filter(|line| line["type"] == "text").collect();
    let (first, last) = (texts[0], texts[texts.len() - 1]);
    assert!(first["messageId"].is_string(), "{first}");
    assert_ne!(first["messageId"], last["messageId"]);
}

#[tokio::test]
async fn model_error_is_said_once_and_in_json() {
    let home = Home::new(binary(), Script::new().call([fail(400, "no such thing")]));
    let plain = ask(&home, &["go"]).await;
    assert_eq!(plain.status.code(), Some(1));
    assert_eq!(
        err(&plain).matches("no such thing").count(),
        1,
        "{}",
        err(&plain)
    );
    assert!(err(&plain).starts_with("error: "), "{}", err(&plain));
    for flag in ["--json", "--stream-json"] {
        let told = ask(&home, &["go", flag]).await;
        assert_eq!(told.status.code(), Some(1));
        let object = object(&told);
        let message = object["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("no such thing"), "{object}");
        assert!(object["error"]["kind"].is_string(), "{object}");
        assert_eq!(object["stopReason"], Value::Null);
    }
}

#[tokio::test]
async fn failure_before_the_turn_is_json_too() {
    let home = Home::new(binary(), echo());
    let output = ask(&home, &["go", "--json", "--server", "http://127.0.0.1:9"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(object(&output)["error"]["kind"], "not_started");
    let home = Home::new(binary(), echo()).model("script:/nowhere");
    let output = ask(&home, &["go", "--json"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert_eq!(object(&output)["error"]["kind"], "not_started");
}

#[tokio::test]
async fn incomplete_and_empty_answers_fail_and_say_why() {
    let cut = Script::new().call([say("half"), stop("max_tokens")]);
    let steps = Script::new().call([say("on "), tool("list", json!({}))]);
    let empty = Script::new().call([think("hm")]);
    let blank = Script::new().call([say(" \n")]);
    let silent = Script::new().call([tool("list", json!({}))]).call([]);
    for (script, limit, kind, word) in [
        (cut, "50", "max_tokens", "incomplete"),
        (steps, "2", "max_turn_requests", "limit of steps"),
        (empty, "50", "empty_answer", "empty answer"),
        (blank, "50", "empty_answer", "empty answer"),
        (silent, "50", "empty_answer", "after 1 tool call"),
    ] {
        let home = Home::new(binary(), script).env("FASTNESS_LIMITS_STEPS_MAX", limit);
        let plain = ask(&home, &["go"]).await;
        assert_eq!(plain.status.code(), Some(1), "{kind}: {}", err(&plain));
        assert!(err(&plain).contains(word), "{kind}: {}", err(&plain));
        for flag in ["--json", "--stream-json"] {
            let told = ask(&home, &["go", flag]).await;
            assert_eq!(told.status.code(), Some(1), "{kind}");
            let object = object(&told);
            assert_eq!(object["error"]["kind"], kind, "{object}");
            assert!(object["stopReason"].is_string(), "{object}");
        }
    }
}

#[tokio::test]
async fn allow_does_not_answer_for_a_rule_that_asks() {
    let script = Script::new()
        .call([tool("bash", json!({"command": "touch a"}))])
        .call([say("so be it")]);
    let home = Home::new(binary(), script);
    home.write(
        "fastness.toml",
        "[permissions]\nask = [\"bash(touch *)\"]\n",
    );
    for rule in ["bash", "bash(touch *)", "*"] {
        let denied = ask(&home, &["go", "--allow", rule]).await;
        assert_eq!(denied.status.code(), Some(3), "{rule}");
        let said = err(&denied);
        assert!(said.contains("bash(touch *) of the project"), "{said}");
        assert!(!said.contains("permit it with --allow"), "{said}");
        assert_eq!(home.read("a"), None, "{rule}");
    }
    home.write("fastness.toml", "");
    let allowed = ask(&home, &["go", "--allow", "bash(touch *)"]).await;
    assert_eq!(allowed.status.code(), Some(0), "{}", err(&allowed));
    assert!(home.read("a").is_some());
}

#[tokio::test]
async fn sessions_own_directory_needs_no_rule_and_hints_are_narrow() {
    let run = |home: &Home, cwd: &str, directory: &str| {
        let cwd = cwd.replace("HOME", home.workspace().to_str().unwrap());
        let input = json!({"command": format!("mkdir {directory}"), "cwd": cwd});
        Script::new()
            .call([tool("bash", input)])
            .call([say("done")])
    };
    for (number, cwd) in ["HOME", "HOME/", ".", "./", "HOME/."]
        .into_iter()
        .enumerate()
    {
        let home = Home::new(binary(), Script::new());
        let directory = format!("made{number}");
        home.set_script(run(&home, cwd, &directory));
        let allowed = ask(&home, &["go", "--allow", "bash(mkdir *)"]).await;
        assert_eq!(allowed.status.code(), Some(0), "{cwd}: {}", err(&allowed));
        assert!(home.workspace().join(&directory).is_dir(), "{cwd}");
        let denied = ask(&home, &["go"]).await;
        let said = err(&denied);
        let hint = format!("--allow 'bash(mkdir {directory})'");
        assert!(said.contains(&hint), "{cwd}: {said}");
    }
}

#[tokio::test]
async fn refusal_names_the_rule_or_the_hook() {
    let script = || {
        Script::new()
            .call([tool("bash", json!({"command": "touch a"}))])
            .call([say("so be it")])
    };
    let home = Home::new(binary(), script());
    configure(&home, "[permissions]\ndeny = [\"bash(touch *)\"]\n");
    let denied = ask(&home, &["go", "--allow", "bash"]).await;
    assert_eq!(denied.status.code(), Some(3));
    let said = err(&denied);
    assert!(said.contains("bash(touch *)"), "{said}");
    assert!(!said.contains("no rule allows"), "{said}");
    assert!(!said.contains("permit it with --allow"), "{said}");
    configure(
        &home,
        &hook("PreToolUse", "echo not today >&2; exit 2 # guard"),
    );
    let denied = ask(&home, &["go", "--allow", "bash", "--json"]).await;
    assert_eq!(denied.status.code(), Some(3));
    let said = err(&denied);
    assert!(
        said.contains("not today") && said.contains("guard"),
        "{said}"
    );
    assert_eq!(object(&denied)["error"]["kind"], "denied");
    configure(
        &home,
        &hook("UserPromptSubmit", "echo no secrets >&2; exit 2 # filter"),
    );
    let refused = ask(&home, &["go"]).await;
    assert_eq!(refused.status.code(), Some(1));
    let said = err(&refused);
    assert!(
        said.contains("no secrets") && said.contains("filter"),
        "{said}"
    );
    assert!(!said.contains("the model refused"), "{said}");
}

/// A command whose output goes to a disk that is full.
async fn to_full_disk(command: &mut Command) -> (Option<i32>, String) {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = command.stdin(Stdio::null()).stdout(full).spawn().unwrap();
    let output = child.wait_with_output().await.unwrap();
    (output.status.code(), err(&output))
}

/// A command whose reader has gone before it writes.
async fn to_nobody(command: &mut Command) -> (Option<i32>, String) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    let writer = Stdio::from(writer);
    let child = command.stdin(Stdio::null()).stdout(writer).spawn().unwrap();
    let output = child.wait_with_output().await.unwrap();
    (output.status.code(), err(&output))
}

#[tokio::test]
async fn output_that_cannot_be_written_is_an_error() {
    let home = Home::new(binary(), Script::says("hello"));
    let asked = object(&ask(&home, &["go", "--json"]).await);
    let session = asked["sessionId"].as_str().unwrap();
    let commands: Vec<Vec<&str>> = vec![
        vec!["ask", "go"],
        vec!["ask", "go", "--json"],
        vec!["ask", "go", "--stream-json"],
        vec!["sessions", "list"],
        vec!["sessions", "list", "--json"],
        vec!["sessions", "show", session],
        vec!["sessions", "tail", session],
        vec!["sessions", "export", session],
        vec!["sessions", "export", session, "--format", "html"],
        vec!["sessions", "search", "go"],
        vec!["sessions", "verify"],
        vec!["sessions", "fork", session, "--at", "1"],
        vec!["token", "list"],
        vec!["token", "create", "lost"],
        vec!["doctor"],
        vec!["man"],
        vec!["completions", "bash"],
        vec!["fetch", "--check", "http://127.0.0.1/"],
        vec!["mcp", "add", "x", "--", "python3"],
    ];
    for words in commands {
        let command = || {
            let mut command = home.command(words[0]);
            command.args(&words[1..]);
            command
        };
        let (code, said) = to_full_disk(&mut command()).await;
        assert_eq!(code, Some(1), "{words:?}: {said}");
        let expected = "the output could not be written";
        assert!(said.contains(expected), "{words:?}: {said}");
        if !words.contains(&"add") {
            let (code, said) = to_nobody(&mut command()).await;
            assert_eq!(code, Some(1), "{words:?}: {said}");
            assert_eq!(said, "", "{words:?}");
        }
    }
    let listed = home.command("token").arg("list").output().await.unwrap();
    assert!(!out(&listed).contains("lost"), "its secret was never seen");
    for flag in ["--help", "--version"] {
        let (code, said) = to_full_disk(home.clean(binary()).arg(flag)).await;
        assert_eq!(code, Some(1), "{flag}");
        assert!(said.contains("could not be written"), "{said}");
    }
}
