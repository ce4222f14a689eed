//! Stories of a session: what it tells, and the lines that come of it.

use client::{ToolCall, Update};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Transcript;

fn shown(updates: &[Value]) -> Vec<String> {
    let mut transcript = Transcript::default();
    let now = Instant::now();
    for raw in updates {
        let text = |key: &str| raw[key].as_str().unwrap_or_default().to_owned();
        let call = || ToolCall {
            id: text("id"),
            name: raw["name"].as_str().map(str::to_owned),
            title: raw["title"].as_str().map(str::to_owned),
            status: raw["status"].as_str().map(str::to_owned),
            outcome: raw["outcome"].as_str().map(str::to_owned),
            ..ToolCall::default()
        };
        let update = match text("kind").as_str() {
            "text" => Update::Text {
                text: text("text"),
                greeting: false,
                message: None,
            },
            "thought" => Update::Thought { text: text("text") },
            "tool" => Update::ToolCall(call()),
            "tool_update" => Update::ToolUpdate(call()),
            kind => Update::Other {
                kind: kind.to_owned(),
            },
        };
        transcript.update(update, raw, now);
    }
    transcript.turn_ended();
    let lines = transcript.take_finished(80);
    lines.iter().map(|line| line.plain()).collect()
}

#[test]
fn kinds_of_things_stand_apart_and_pieces_of_one_belong_together() {
    assert_eq!(
        shown(&[
            json!({"kind": "user_message_chunk", "content": {"text": "do"}}),
            json!({"kind": "user_message_chunk", "content": {"text": " it"}}),
            json!({"kind": "thought", "text": "how"}),
            json!({"kind": "text", "text": "I do"}),
            json!({"kind": "text", "text": " it.\n"}),
        ]),
        ["❯ do it", "", "how", "", "I do it."]
    );
}

#[test]
fn a_call_is_folded_to_its_last_lines() {
    let result: String = (1..=9).map(|n| format!("line {n}\n")).collect();
    let content = json!([{"type": "content", "content": {"type": "text", "text": result}}]);
    assert_eq!(
        shown(&[
            json!({"kind": "tool", "id": "a", "name": "bash", "title": "make test"}),
            json!({"kind": "tool_update", "id": "a", "status": "completed", "content": content}),
        ]),
        [
            "✓ make test",
            "  … 5 lines more (Ctrl-O shows them)",
            "  line 6",
            "  line 7",
            "  line 8",
            "  line 9"
        ]
    );
}

#[test]
fn a_change_is_shown_as_one_and_a_call_that_did_not_run_says_so() {
    let diff =
        json!([{"type": "diff", "path": "a.rs", "oldText": "one\ntwo", "newText": "one\n2"}]);
    assert_eq!(
        shown(&[
            json!({"kind": "tool", "id": "a", "name": "edit", "title": "edit a.rs", "content": diff}),
            json!({"kind": "tool_update", "id": "a", "status": "completed"}),
            json!({"kind": "tool", "id": "b", "name": "bash", "title": "rm x"}),
            json!({"kind": "tool_update", "id": "b", "status": "failed", "outcome": "denied"}),
        ]),
        [
            "✓ edit a.rs +1 -1",
            "    one",
            "  - two",
            "  + 2",
            "✗ rm x (denied)"
        ]
    );
}

#[test]
fn hunks_of_one_file_are_shown_together() {
    let hunk = |path: &str, old: &str, new: &str| json!({"type": "diff", "path": path, "oldText": old, "newText": new});
    let diff = json!([hunk("a.rs", "1\n", "one\n"), hunk("a.rs", "9\n", "nine\n"),]);
    assert_eq!(
        shown(&[
            json!({"kind": "tool", "id": "a", "name": "edit", "title": "edit a.rs", "content": diff}),
            json!({"kind": "tool_update", "id": "a", "status": "completed"}),
        ]),
        [
            "✓ edit a.rs +2 -2",
            "  - 1",
            "  + one",
            "  ⋮",
            "  - 9",
            "  + nine"
        ]
    );
}

#[test]
fn a_plan_stands_at_the_end_of_its_turn() {
    let entries = json!([
        {"content": "look", "status": "completed"},
        {"content": "fix", "status": "in_progress"},
        {"content": "test", "status": "pending"},
    ]);
    assert_eq!(
        shown(&[
            json!({"kind": "plan", "entries": entries}),
            json!({"kind": "text", "text": "done"}),
        ]),
        ["done", "", "☑ look", "▸ fix", "☐ test"]
    );
}
