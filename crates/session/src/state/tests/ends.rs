//! How prompts end that could not end by themselves, and messages that end at once.

use domain::{Event, FailureKind};
use serde_json::json;

use super::{check, command, shown};
use crate::state::{Command, Fate, Rejected, SessionState};

#[test]
fn a_prompt_that_waits_when_the_process_ends_was_interrupted_also_if_no_turn_was() {
    check(
        "
prompt go as p
    notice
    session.updated
    user.message go
    turn.started 1
queue later as q
    prompt.queued
end
    result EndTurn
interrupt
    prompt.dropped 6 interrupted
prompt later as q
    rejected: repeated, ended false
prompt go as p
    rejected: repeated, ended true
",
    );
}

#[test]
fn a_turn_that_the_store_failed_under_ends_with_that() {
    let mut state = SessionState::default();
    for line in ["prompt go", "queue later"] {
        for entry in state.decide(command(line, &state)).unwrap() {
            state.apply_entry(state.head().next(), &entry);
        }
    }
    let failed = state.decide(Command::Fail(FailureKind::StorageFailed));
    let told: Vec<String> = failed.unwrap().iter().map(shown).collect();
    assert_eq!(
        told,
        ["result storage_failed", "prompt.dropped 5 interrupted"]
    );
}

#[test]
fn a_journal_that_says_so_only_by_the_turn_before_it_is_read_as_ever() {
    let mut state = SessionState::default();
    let mut tell = |kind: &str, fields: serde_json::Value| {
        let event = Event::from_json(kind, &fields.to_string()).unwrap();
        state.apply(state.head().next(), &event);
    };
    let queued = |id: &str| json!({"promptId": id, "text": "later", "blocks": []});
    tell("turn.started", json!({"turn": 1}));
    tell("prompt.queued", queued("cancelled"));
    tell("prompt.dropped", json!({"queued": 2}));
    tell("prompt.queued", queued("cut"));
    tell("turn.interrupted", json!({"turn": 1}));
    tell("prompt.dropped", json!({"queued": 4}));
    let fate = |id: &str| state.decide(command(&format!("prompt later as {id}"), &state));
    let repeated = |fate| Err(Rejected::Repeated(fate));
    assert_eq!(fate("cancelled"), repeated(Fate::Dropped));
    assert_eq!(fate("cut"), repeated(Fate::interrupted()));
}

#[test]
fn a_prompt_whose_turn_the_disk_lost_counts_as_interrupted_and_is_not_stored_twice() {
    let mut state = SessionState::default();
    let message = json!({"text": "hi", "blocks": [], "promptId": "a"}).to_string();
    let message = Event::from_json("user.message", &message).unwrap();
    state.apply(state.head().next(), &message);
    let again = state.decide(command("prompt hi as a", &state));
    assert_eq!(again, Err(Rejected::Repeated(Fate::interrupted())));
}

#[test]
fn a_message_said_at_once_ends_one_that_is_open_and_leaves_none_open() {
    check(
        "
tell
    rejected: its time has passed
prompt one
    notice
    session.updated
    user.message one
    turn.started 1
tell
    message.started
    assistant.message
text
tell
    end of message, partial false
    message.started
    assistant.message
end
    result EndTurn
",
    );
}
