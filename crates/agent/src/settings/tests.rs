//! Stories of settings files: what is understood, and what is said about the rest.

use std::time::Duration;

use domain::event::HookPoint;

use super::{FileSettings, OnFailure, Trust, trust};

fn parse(text: &str) -> FileSettings {
    FileSettings::parse(text)
        .map(|(settings, _)| settings)
        .unwrap()
}

fn problem(text: &str) -> String {
    FileSettings::parse(text).unwrap_err().to_string()
}

#[test]
fn hooks_agents_context_rules_and_models_are_read() {
    let settings = parse(
        r#"
[[hooks]]
event = "PreToolUse"
matcher = "bash|web_*"
command = "check"
timeout_ms = 500

[[hooks]]
event = "Stop"
command = "make test"
on_failure = "block"

[agents.reviewer]
description = "reviews"
prompt = "You review."
tools = ["read"]

[context]
style = "short"
skills = false

[permissions]
deny = ["bash(rm *)"]

[models]
default = "offline"

[limits]
steps_max = 3

[network]
allow = ["127.0.0.1:3000"]
"#,
    );
    let [guard, stop] = settings.hooks.as_slice() else {
        panic!("two hooks")
    };
    assert_eq!(guard.time_max, Duration::from_millis(500));
    assert_eq!(
        (guard.on_failure, stop.on_failure),
        (OnFailure::Block, OnFailure::Block)
    );
    assert!(guard.is_for(HookPoint::PreToolUse, Some("bash")));
    assert!(guard.is_for(HookPoint::PreToolUse, Some("web_fetch")));
    assert!(!guard.is_for(HookPoint::PreToolUse, Some("bash2")));
    assert!(!guard.is_for(HookPoint::PostToolUse, Some("bash")));
    assert!(stop.is_for(HookPoint::Stop, None));
    assert_eq!(
        settings.agents["reviewer"].tools.as_deref(),
        Some(&["read".to_owned()][..])
    );
    assert!(settings.context.instructions && !settings.context.skills);
    assert_eq!(settings.permissions.deny[0].to_string(), "bash(rm *)");
    assert_eq!(settings.models.default.as_deref(), Some("offline"));
    assert_eq!(parse(""), FileSettings::default());
}

#[test]
fn an_unknown_key_names_the_nearest_one_and_a_wrong_value_says_where() {
    let said = |text: &str, expected: &str| {
        let problem = problem(text);
        assert!(problem.contains(expected), "{problem}");
    };
    said(
        "[hook]\n",
        "[hook] is not a setting; the nearest one that is known is `hooks`",
    );
    said(
        "[[hooks]]\nevnt = \"Stop\"\n",
        "hooks.evnt is not a setting; the nearest one that is known is `event`",
    );
    said("[agents.a]\ntool = []\n", "`tools`");
    said("[hooks]\nevent = \"Stop\"\n", "write [[hooks]]");
    said("[context]\nstile = \"x\"\n", "`style`");
    said("context = 1", "write [context]");
    said(
        "[[hooks]]\nevent = \"Halt\"\ncommand = \"x\"\n",
        "hook 1: unknown variant `Halt`",
    );
    said(
        "[[hooks]]\nevent = \"Stop\"\n",
        "hook 1: missing field `command`",
    );
    said(
        "[[hooks]]\nevent = \"Stop\"\ncommand = \" \"\n",
        "the command is empty",
    );
    said(
        "[[hooks]]\nevent = \"Stop\"\nmatcher = \"bash\"\ncommand = \"x\"\n",
        "a matcher is for",
    );
    said(
        "[[hooks]]\nevent = \"Stop\"\ncommand = \"x\"\ntimeout_ms = 0\n",
        "timeout_ms is between",
    );
    said(
        "[permissions]\ndeny = \"bash\"\n",
        "[permissions]: invalid type",
    );
    said(
        "[permissions]\nallow = [\"bash(git:*)\"]\n",
        "[permissions]: `bash(git:*)` is not a rule: a star needs no colon; the nearest one is `bash(git *)`",
    );
    said("a = [", "");
    let many = "[[hooks]]\nevent = \"Stop\"\ncommand = \"x\"\n".repeat(65);
    said(&many, "more than 64 hooks");
}

#[test]
fn a_bomb_of_brackets_is_an_error_and_not_a_crash() {
    let deep = format!("a = {}1{}", "[".repeat(20_000), "]".repeat(20_000));
    assert!(!problem(&deep).is_empty());
    let long = format!("[{}]\n", "x".repeat(60_000));
    assert!(problem(&long).len() < 300);
}

#[test]
fn a_project_may_narrow_freely_widen_by_approval_and_touch_the_server_never() {
    assert_eq!(trust("context", "style"), Trust::Free);
    assert_eq!(trust("permissions", "deny"), Trust::Free);
    assert_eq!(trust("permissions", "allow"), Trust::Approval);
    for table in ["hooks", "agents", "models", "network"] {
        assert_eq!(trust(table, "any"), Trust::Approval, "{table}");
    }
    for table in ["limits", "search", "listen", "unheard_of"] {
        assert_eq!(trust(table, "any"), Trust::Operator, "{table}");
    }
}

#[test]
fn stars_stand_for_anything() {
    let hook = |matcher: &str| {
        let text = format!(
            "[[hooks]]\nevent = \"PreToolUse\"\nmatcher = \"{matcher}\"\ncommand = \"x\"\n"
        );
        parse(&text).hooks.remove(0).matcher
    };
    for (matcher, name, expected) in [
        ("", "bash", true),
        ("*", "bash", true),
        ("b*h", "bash", true),
        ("*a*s*", "bash", true),
        ("b*h", "bas", false),
        ("ba", "bash", false),
        ("mcp__*__read", "mcp__x__read", true),
        ("bash | edit", "edit", true),
    ] {
        assert_eq!(hook(matcher).matches(name), expected, "{matcher} on {name}");
    }
}
