//! Stories about `script:FILE`: a script and a conversation in, chunks out.

use std::sync::Arc;
use std::time::Duration;

use domain::{CallId, Limits};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::{Script, ScriptModel, ScriptProvider};
use crate::model::{Chunk, Message, Model, ModelRequest, Provider, ToolOutcome};

#[tokio::test(start_paused = true)]
async fn each_step_does_what_it_says() {
    check(r#"[[{"text":"hello"}]]"#, "text hello\nstop EndTurn\n").await;
    check(
        r#"[[{"thought":"hm"},{"text":"a"},{"text":"b"}]]"#,
        "thought hm\ntext a\ntext b\nstop EndTurn\n",
    )
    .await;
    check(
        r#"[[{"text":"x","repeat":3,"everyMs":0}]]"#,
        "text x\ntext x\ntext x\nstop EndTurn\n",
    )
    .await;
    check(
        r#"[[{"tool":"bash","input":{"command":"ls"}}]]"#,
        "tool bash {\"command\":\"ls\"}\nstop ToolUse\n",
    )
    .await;
    check(r#"[[{"tool":"list"}]]"#, "tool list {}\nstop ToolUse\n").await;
    check(
        r#"[[{"text":"a"},{"error":{"status":529,"message":"overloaded"}},{"text":"never"}]]"#,
        "text a\nerror the model's server answered 529: overloaded\n",
    )
    .await;
    check(
        r#"[[{"tool":"list"},{"stop":"max_tokens"},{"text":"never"}]]"#,
        "tool list {}\nstop MaxTokens\n",
    )
    .await;
    check(r#"[[{"stop":"refusal"}]]"#, "stop Refusal\n").await;
    check(r#"[[]]"#, "stop EndTurn\n").await;
    check(
        r#"[[{"text":""},{"text":"x","repeat":0}]]"#,
        "stop EndTurn\n",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_last_prompt_and_the_last_result_fill_the_blanks_once() {
    let messages = vec![
        user("first"),
        results(&["old"]),
        user("say ${result}"),
        results(&["one", "two"]),
    ];
    let script = r#"[[
        {"text":"<${prompt}> <${result}> ${other} $ {prompt"},
        {"tool":"write","input":{"path":"${result}.txt","lines":["${prompt}",1]}},
        {"error":{"message":"no ${result}"}}
    ]]"#;
    assert_eq!(
        play(&mut model(script), messages).await,
        "text <say ${result}> <two> ${other} $ {prompt\n\
         tool write {\"path\":\"two.txt\",\"lines\":[\"say ${result}\",1]}\n\
         error the model's server reported an error: no two\n"
    );
    let nothing = play(&mut model(r#"[[{"text":"[${prompt}${result}]"}]]"#), vec![]).await;
    assert_eq!(nothing, "text []\nstop EndTurn\n");
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_per_session_and_the_last_entry_repeats() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"[[{"text":"1"}],[{"text":"2"}]]"#).unwrap();
    let path = file.path().to_str().unwrap();
    let provider = ScriptProvider::read(path, Arc::new(Limits::default())).unwrap();
    let mut model = provider.open();
    for expected in ["1", "2", "2"] {
        let chunks = play(model.as_mut(), vec![]).await;
        assert_eq!(chunks, format!("text {expected}\nstop EndTurn\n"));
    }
    let other = play(provider.open().as_mut(), vec![]).await;
    assert_eq!(other, "text 1\nstop EndTurn\n");
    assert!(!provider.label().contains('/'), "{}", provider.label());
}

#[tokio::test(start_paused = true)]
async fn sleeps_and_pauses_take_their_time_and_instant_chunks_take_none() {
    let took = async |script: &str| {
        let start = Instant::now();
        play(&mut model(script), vec![]).await;
        start.elapsed().as_millis()
    };
    assert_eq!(
        took(r#"[[{"text":"x","repeat":50000,"everyMs":0}]]"#).await,
        0
    );
    assert_eq!(
        took(r#"[[{"text":"x","repeat":5,"everyMs":100}]]"#).await,
        400
    );
    assert_eq!(took(r#"[[{"sleepMs":500},{"text":"x"}]]"#).await, 500);
}

#[tokio::test(start_paused = true)]
async fn a_script_that_sleeps_too_long_meets_the_deadlines_of_models() {
    let cases = [
        (
            r#"[[{"sleepMs":119000},{"text":"x"}]]"#,
            "text x\nstop EndTurn\n",
        ),
        (
            r#"[[{"sleepMs":70000},{"sleepMs":70000},{"text":"x"}]]"#,
            "error the model did not begin to answer within 120 s\n",
        ),
        (
            r#"[[{"text":"x"},{"sleepMs":61000},{"text":"y"}]]"#,
            "text x\nerror the model stopped in mid-answer and did not go on within 60 s\n",
        ),
    ];
    for (script, expected) in cases {
        check(script, expected).await;
    }
    let start = Instant::now();
    let endless = play(
        &mut model(r#"[[{"text":"x","repeat":4000000,"everyMs":30000}]]"#),
        vec![],
    )
    .await;
    assert!(endless.ends_with("error the model did not finish its answer within 1800 s\n"));
    assert_eq!(start.elapsed(), Duration::from_secs(1_800));
}

#[tokio::test(start_paused = true)]
async fn every_tool_call_has_its_own_id() {
    let mut model = model(r#"[[{"tool":"a"},{"tool":"b"}]]"#);
    let mut ids = std::collections::HashSet::new();
    for _ in 0..100 {
        let mut stream = model.stream(request(vec![]));
        while let Some(Ok(Chunk::ToolCall(call))) = stream.next().await {
            assert_eq!(call.id.as_str().len(), 9);
            assert!(ids.insert(call.id));
        }
    }
    assert_eq!(ids.len(), 200);
}

#[test]
fn a_bad_script_says_where_and_why() {
    let cases = [
        ("[", "EOF while parsing a list at line 1 column 1"),
        ("{}", "missing field `calls` at line 1 column 2"),
        ("{\"calls\":[]}", "has no entries"),
        ("{\"calls\":[[]],\"agents\":{\"a\":[]}}", "has no entries"),
        ("{\"calls\":[[]],\"agent\":{}}", "unknown field `agent`"),
        ("[]", "has no entries"),
        ("[[{}]]", "a step has one of `text`, `thought`, `tool`"),
        (
            "[[\n{\"text\":\"a\",\"stop\":\"refusal\"}]]",
            "a step does one thing; use two steps at line 2",
        ),
        ("[[{\"txt\":\"a\"}]]", "unknown field `txt`"),
        ("[[{\"stop\":\"enough\"}]]", "unknown variant `enough`"),
        (
            "[[{\"stop\":\"refusal\",\"repeat\":2}]]",
            "`repeat` and `everyMs` belong to",
        ),
        ("[[{\"input\":{}}]]", "`input` belongs to `tool`"),
        (
            "[[{\"text\":\"x\",\"repeat\":-1}]]",
            "invalid value: integer `-1`",
        ),
    ];
    for (json, expected) in cases {
        let error = Script::parse("demo.json", json.as_bytes()).err().unwrap();
        let error = error.to_string();
        assert!(error.starts_with("the script `demo.json`"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_missing_script_is_named() {
    let limits = Arc::new(Limits::default());
    let error = ScriptProvider::read("no/such/file.json", limits)
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "the script `no/such/file.json` cannot be read: entity not found"
    );
}

#[tokio::test]
async fn a_sub_agent_plays_its_own_part_or_else_the_whole() {
    let script = r#"{"calls": [[{"text": "all"}]], "agents": {"scout": [[{"text": "own"}]]}}"#;
    let provider = ScriptProvider {
        label: String::new(),
        script: Arc::new(Script::parse("test.json", script.as_bytes()).unwrap()),
        limits: Arc::new(Limits::default()),
    };
    for (mut model, words) in [
        (provider.open(), "all"),
        (provider.open_for("scout"), "own"),
        (provider.open_for("other"), "all"),
    ] {
        let played = play(model.as_mut(), vec![]).await;
        assert!(played.contains(words), "{played}");
    }
}

async fn check(script: &str, expected: &str) {
    assert_eq!(play(&mut model(script), vec![]).await, expected, "{script}");
}

fn model(script: &str) -> ScriptModel {
    ScriptModel {
        part: Script::parse("test.json", script.as_bytes()).unwrap().own,
        limits: Arc::new(Limits::default()),
        calls: 0,
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: String::new(),
        messages: Arc::new(messages),
        tools: Arc::new([]),
    }
}

/// The chunks of one call, one line each.
async fn play(model: &mut dyn Model, messages: Vec<Message>) -> String {
    let mut stream = model.stream(request(messages));
    let mut lines = String::new();
    while let Some(chunk) = stream.next().await {
        lines += &match chunk {
            Ok(Chunk::Text(text)) => format!("text {text}\n"),
            Ok(Chunk::Thought(text)) => format!("thought {text}\n"),
            Ok(Chunk::ToolCall(call)) => format!("tool {} {}\n", call.name, call.input),
            Ok(Chunk::Usage(usage)) => format!("usage {usage:?}\n"),
            Ok(Chunk::Stop(stop)) => format!("stop {stop:?}\n"),
            Err(error) => format!("error {error}\n"),
        };
    }
    lines
}

fn user(text: &str) -> Message {
    Message::User {
        text: text.to_owned(),
        blocks: vec![],
    }
}

fn results(texts: &[&str]) -> Message {
    let outcome = |text: &&str| ToolOutcome {
        call: CallId::new("call"),
        name: "tool".to_owned(),
        text: (*text).to_owned(),
        failed: false,
    };
    Message::ToolResults(texts.iter().map(outcome).collect())
}
