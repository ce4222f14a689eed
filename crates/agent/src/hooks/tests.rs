//! Stories of hooks: what they read, what their answers mean, and what their failures do.

use std::sync::Arc;
use std::time::Duration;

use domain::SessionId;
use domain::event::{HookOutcome, HookPoint};
use serde_json::{Map, Value, json};

use super::{Hooks, Ran};
use crate::project::Place;
use crate::settings::{FileSettings, Hook, OnFailure};

fn hook(point: HookPoint, command: &str) -> Hook {
    let event = point.name();
    let text = format!("[[hooks]]\nevent = \"{event}\"\ncommand = '''{command}'''\n");
    let (mut settings, _) = FileSettings::parse(&text).unwrap();
    settings.hooks.remove(0)
}

async fn run(hook: &Hook) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
    let environment = Arc::from([("PATH".to_owned(), path)]);
    let hooks = Hooks::new(vec![hook.clone()], environment);
    let place = Place {
        session: SessionId::random(),
        cwd: directory.path().to_owned().into(),
        is_local: true,
        operator: Arc::default(),
        hidden: Vec::new(),
        agent: None,
    };
    let mut fields = Map::new();
    fields.insert("toolName".to_owned(), json!("bash"));
    hooks.run(hook, &place, &fields).await
}

async fn check(
    point: HookPoint,
    command: &str,
    outcome: HookOutcome,
    stopped: Option<&str>,
) -> Ran {
    let ran = run(&hook(point, command)).await;
    assert_eq!(
        ran.event.outcome, outcome,
        "{command}: {:?}",
        ran.event.reason
    );
    assert_eq!(ran.stopped.as_deref(), stopped, "{command}");
    assert_eq!(ran.event.stopped, stopped.is_some(), "{command}");
    ran
}

#[tokio::test]
async fn d_07_a_hook_reads_what_happens_and_where() {
    let echo = hook(HookPoint::PreToolUse, "printf '{\"input\":%s}' \"$(cat)\"");
    let ran = run(&echo).await;
    let input: Value = ran.answer.input.unwrap();
    assert_eq!(input["event"], "PreToolUse");
    assert_eq!(input["toolName"], "bash");
    assert_eq!(input["sessionId"].as_str().map(str::len), Some(32));
    assert!(
        input["cwd"]
            .as_str()
            .is_some_and(|cwd| cwd.starts_with('/'))
    );
}

#[tokio::test]
async fn d_07_silence_is_consent_and_a_decision_or_exit_code_2_says_no() {
    use HookOutcome::{Blocked, Ok};
    let point = HookPoint::PreToolUse;
    check(point, "true", Ok, None).await;
    check(point, "echo '{}'", Ok, None).await;
    check(
        point,
        "echo '{\"decision\":\"allow\",\"reason\":\"fine\"}'",
        Ok,
        None,
    )
    .await;
    let no = "echo '{\"decision\":\"block\",\"reason\":\"not here\"}'";
    check(point, no, Blocked, Some("not here")).await;
    check(point, "echo oh no >&2; exit 2", Blocked, Some("oh no")).await;
    check(point, "exit 2", Blocked, Some("a hook said no")).await;
    // Whoever says no changes nothing besides.
    let both = "echo '{\"decision\":\"block\",\"input\":{}}'";
    let ran = check(point, both, Blocked, Some("a hook said no")).await;
    assert_eq!(ran.answer.input, None);
}

#[tokio::test]
async fn d_07_a_guard_that_fails_blocks_and_another_hook_that_fails_is_passed_over() {
    let broken = [
        "exit 1",
        "kill -9 $$",
        "echo yes",
        "echo '{\"decison\":\"block\"}'",
        "echo '{\"decision\":\"maybe\"}'",
        "echo '{\"prompt\":\"x\"}'",
        "echo '{\"input\":3}'",
        "echo '{} {}'",
        "head -c 3000000 /dev/zero",
        "cat nothing-of-this-name",
    ];
    for command in broken {
        let guard = run(&hook(HookPoint::PreToolUse, command)).await;
        assert_eq!(guard.event.outcome, HookOutcome::Failed, "{command}");
        assert!(guard.stopped.is_some(), "{command}");
        assert!(guard.event.reason.is_some(), "{command}");
        let watcher = Hook {
            on_failure: OnFailure::Ignore,
            ..hook(HookPoint::PreToolUse, command)
        };
        let watcher = run(&watcher).await;
        assert_eq!(
            (watcher.event.outcome, watcher.stopped),
            (HookOutcome::Failed, None)
        );
    }
    check(HookPoint::PostToolUse, "exit 1", HookOutcome::Failed, None).await;
}

#[tokio::test]
async fn d_07_a_hook_that_takes_too_long_is_killed_and_counts_as_failed() {
    let slow = Hook {
        time_max: Duration::from_millis(200),
        ..hook(HookPoint::PreToolUse, "sleep 100 & sleep 100")
    };
    let ran = run(&slow).await;
    assert_eq!(ran.event.outcome, HookOutcome::TimedOut);
    assert!(ran.stopped.unwrap().contains("longer than 200 ms"));
    assert!((200..20_000).contains(&ran.event.ms), "{}", ran.event.ms);
}

#[tokio::test]
async fn d_07_changes_are_told_from_consent_and_bounded() {
    let context = "echo '{\"context\":\"mind the gap\"}'";
    let ran = check(HookPoint::SessionStart, context, HookOutcome::Rewrote, None).await;
    assert_eq!(ran.answer.context.as_deref(), Some("mind the gap"));
    let long = "printf '{\"context\":\"%0100000d\"}' 1";
    check(HookPoint::SessionStart, long, HookOutcome::Failed, None).await;
}

#[test]
fn a_label_is_one_harmless_line() {
    let long = Hook {
        command: format!("a\n\tb \u{1b}[31m{}", "x".repeat(300)),
        ..hook(HookPoint::Stop, "x")
    };
    let label = super::label(&long);
    assert!(
        label.starts_with("a b [31mxxx") && label.ends_with('…'),
        "{label}"
    );
}
