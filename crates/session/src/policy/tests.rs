//! The order in which rules, modes and remembered answers count.

use agent::permissions::{Named, Origin, Ruled};
use domain::EventSeq;
use domain::event::{GroundRule, Grounds};
use serde_json::json;

use super::{Always, Memory, Remembered, Ruling, judge, options};
use crate::mode::Mode;

const MODES: [Mode; 4] = [Mode::Default, Mode::AcceptEdits, Mode::Plan, Mode::Bypass];

fn wanted(tool: &str) -> Always {
    Always::of(tool, &json!({"command": "ls"}))
}

fn remembered(tool: &str) -> [Remembered; 1] {
    [Remembered {
        what: wanted(tool),
        answer: EventSeq(7),
    }]
}

fn named() -> Named {
    Named {
        rule: "r".to_owned(),
        from: Origin::Project,
    }
}

/// What is judged of `tool` in a word.
fn check(mode: Mode, tool: &str, ruled: &Ruled, always: &[Remembered]) -> &'static str {
    match judge(mode, &wanted(tool), ruled, always) {
        Ruling::Allow(Grounds { mode: Some(_), .. }) => "by mode",
        Ruling::Allow(Grounds { event: Some(_), .. }) => "by answer",
        Ruling::Allow(_) => "by rule",
        Ruling::Ask(Memory::Kept) => "ask",
        Ruling::Ask(Memory::None) => "ask each time",
        Ruling::Deny(_) => "no",
    }
}

#[test]
fn d_04_reading_is_free_editing_asks_and_plan_mode_changes_nothing() {
    let always = remembered("bash");
    for mode in MODES {
        assert_eq!(check(mode, "read", &Ruled::Silent, &[]), "by mode");
    }
    assert_eq!(check(Mode::Default, "write", &Ruled::Silent, &[]), "ask");
    let edits = check(Mode::AcceptEdits, "write", &Ruled::Silent, &[]);
    assert_eq!(edits, "by mode");
    assert_eq!(check(Mode::AcceptEdits, "bash", &Ruled::Silent, &[]), "ask");
    let kept = check(Mode::Default, "bash", &Ruled::Silent, &always);
    assert_eq!(kept, "by answer");
    assert_eq!(check(Mode::Bypass, "bash", &Ruled::Silent, &[]), "by mode");
    assert_eq!(check(Mode::Plan, "bash", &Ruled::Silent, &always), "no");
    assert_eq!(check(Mode::Plan, "write", &Ruled::Silent, &[]), "no");
}

#[test]
fn d_04_a_rule_that_denies_beats_every_mode_and_every_answer() {
    let deny = Ruled::Deny("no".to_owned());
    for (mode, tool) in MODES.into_iter().zip(["read", "write", "read", "bash"]) {
        assert_eq!(check(mode, tool, &deny, &remembered(tool)), "no");
    }
}

#[test]
fn d_04_a_rule_that_asks_beats_modes_and_answers_and_is_not_answered_for_good() {
    let ask = Ruled::Ask(named());
    for mode in MODES {
        let read = check(mode, "read", &ask, &remembered("read"));
        assert_eq!(read, "ask each time");
        let bash = check(mode, "bash", &ask, &remembered("bash"));
        let expected = if mode == Mode::Plan {
            "no"
        } else {
            "ask each time"
        };
        assert_eq!(bash, expected);
    }
    let ids = |memory| {
        let options = options(&wanted("bash"), memory);
        let ids = options.into_iter().map(|option| option.option_id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(
        ids(Memory::Kept),
        ["allow_once", "allow_always", "reject_once"]
    );
    assert_eq!(ids(Memory::None), ["allow_once", "reject_once"]);
}

#[test]
fn d_04_a_rule_that_allows_spares_the_question_but_not_plan_mode() {
    let allow = Ruled::Allow(vec![named()]);
    assert_eq!(check(Mode::Default, "bash", &allow, &[]), "by rule");
    assert_eq!(check(Mode::AcceptEdits, "bash", &allow, &[]), "by rule");
    assert_eq!(check(Mode::Plan, "bash", &allow, &[]), "no");
    let ruling = judge(Mode::Default, &wanted("write"), &allow, &[]);
    let rules = vec![GroundRule {
        rule: "r".to_owned(),
        from: "project".to_owned(),
    }];
    let grounds = Grounds {
        rules,
        ..Grounds::default()
    };
    assert_eq!(ruling, Ruling::Allow(grounds));
}

#[test]
fn d_04_a_command_allowed_always_allows_no_other_command_and_no_other_place() {
    let always = [remembered("bash"), remembered("write")].concat();
    let is_asked = |tool: &str, input: serde_json::Value| {
        let wanted = Always::of(tool, &input);
        let ruling = judge(Mode::Default, &wanted, &Ruled::Silent, &always);
        ruling == Ruling::Ask(Memory::Kept)
    };
    assert!(!is_asked("bash", json!({"command": "ls"})));
    assert!(is_asked("bash", json!({"command": "ls; rm -r x"})));
    assert!(is_asked("bash", json!({"command": "ls "})));
    assert!(is_asked(
        "bash",
        json!({"command": "ls", "cwd": "elsewhere"})
    ));
    // The same text may start something else next time.
    for command in [
        "$x",
        "sh -c \"$x\"",
        "cat f | sh",
        "eval \"$x\"",
        "python3 -c 'x'",
    ] {
        let wanted = Always::of("bash", &json!({ "command": command }));
        let remembered = [Remembered {
            what: wanted.clone(),
            answer: EventSeq(7),
        }];
        let ruling = judge(Mode::Default, &wanted, &Ruled::Silent, &remembered);
        assert_eq!(ruling, Ruling::Ask(Memory::None), "{command}");
    }
    assert!(!is_asked("write", json!({"path": "b"})));
    assert!(is_asked("edit", json!({"path": "b"})));
}

#[test]
fn d_04_protected_files_are_asked_about_in_every_mode_but_bypass() {
    let protected = Ruled::Protected("git runs it");
    for (mode, expected) in [
        (Mode::Default, "ask each time"),
        (Mode::AcceptEdits, "ask each time"),
        (Mode::Plan, "no"),
        (Mode::Bypass, "by mode"),
    ] {
        for tool in ["write", "edit", "notebook_edit"] {
            let judged = check(mode, tool, &protected, &remembered(tool));
            assert_eq!(judged, expected, "{mode:?} {tool}");
        }
    }
    let asked = check(Mode::AcceptEdits, "bash", &protected, &[]);
    assert_eq!(asked, "ask");
    let same = check(Mode::Default, "bash", &protected, &remembered("bash"));
    assert_eq!(same, "by answer");
}
