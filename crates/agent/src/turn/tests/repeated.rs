//! Calls that bring nothing new, calls by other names, and calls written as text.

use domain::event::StopReason;
use domain::{CallId, FailureKind};
use llm::ToolCall;
use serde_json::{Value, json};

use super::world::{Play, World, says, wants};
use crate::turn::repeats::RESULT_IS_ABOVE;

fn call(id: usize, name: &str, input: Value) -> ToolCall {
    ToolCall {
        id: CallId::new(format!("c{id}")),
        name: name.to_owned(),
        input,
    }
}

fn lists(id: usize) -> Play {
    wants([call(id, "list", json!({}))])
}

#[tokio::test]
async fn a_read_is_not_repeated_while_nothing_changes() {
    let alike = wants([call(2, "ls", json!({"path": null}))]);
    let glob = wants([call(3, "glob", json!({"pattern": "*"}))]);
    let mut world = World::new(vec![lists(1), alike, glob, lists(4), says("done")]);
    world.write("a", "x");
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    let results = world.results();
    assert!(results[0].contains('a'), "{results:?}");
    assert_eq!(results[1], RESULT_IS_ABOVE);
    assert_eq!(results[2], "a\n");
    assert_eq!(results[3], RESULT_IS_ABOVE);
}

#[tokio::test]
async fn a_read_is_repeated_once_something_may_have_changed() {
    let todo = wants([call(2, "todo", json!({"items": []}))]);
    let write = wants([call(3, "write", json!({"path": "b", "content": "x"}))]);
    let mut world = World::new(vec![lists(1), todo, write, lists(4), says("done")]);
    world.start();
    world.asked().await.answer("");
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_ne!(world.results()[3], RESULT_IS_ABOVE);
}

#[tokio::test]
async fn a_directory_that_another_program_changed_is_read_again() {
    let read = wants([call(2, "read", json!({"path": "a"}))]);
    let mut world = World::new(vec![lists(1), read, lists(3), says("done")]);
    world.start();
    let read = world.asked().await;
    world.write("b", "x");
    read.answer("text");
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.results()[2], "b\n");
}

#[tokio::test]
async fn a_turn_of_repeats_ends_with_a_reason() {
    let plays = (0..20).map(lists).collect();
    let mut world = World::new(plays);
    world.start();
    let error = world.ended().await.unwrap_err();
    assert_eq!(error.kind, FailureKind::ModelError);
    assert!(!error.is_retryable());
    assert!(
        error
            .message
            .contains("its last 8 calls (the newest of `list`)"),
        "{}",
        error.message
    );
    assert_eq!(world.requests(), 9);
}

#[tokio::test]
async fn alternating_calls_and_calls_of_one_answer_count() {
    let two = |id: usize| {
        wants([
            call(id, "todo", json!({"items": []})),
            call(id + 100, "glob", json!({"pattern": "*.py"})),
        ])
    };
    let mut world = World::new((0..20).map(two).collect());
    world.start();
    assert!(world.ended().await.is_err());
    assert_eq!(world.requests(), 5);
    let many = wants((0..20).map(|id| call(id, "list", json!({}))));
    let mut world = World::new(vec![many]);
    world.start();
    assert!(world.ended().await.is_err());
}

#[tokio::test]
async fn new_calls_begin_the_count_anew_and_the_limit_is_a_setting() {
    let mut plays: Vec<Play> = Vec::new();
    for id in 0..12 {
        plays.push(lists(id));
        plays.push(wants([call(
            100 + id,
            "glob",
            json!({"pattern": format!("{id}")}),
        )]));
    }
    plays.push(says("done"));
    let mut world = World::new(plays);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    let mut world = World::new((0..20).map(lists).collect());
    world.limits.repeats_max = 3;
    world.start();
    assert!(world.ended().await.is_err());
    assert_eq!(world.requests(), 4);
}

#[tokio::test]
async fn calls_by_other_names_are_stored_as_they_run() {
    let calls = wants([
        call(1, "LS", json!("```json\n{\"directory\": \".\"}\n```")),
        call(2, "read_file", json!({"offset": "x"})),
    ]);
    let mut world = World::new(vec![calls, says("done")]);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    let (path, bad) = (json!({"path": "."}), json!({"offset": "x"}));
    assert_eq!(world.calls(), [("list", &path), ("read", &bad)]);
    let said = "The input of read is not valid: `path` is missing; it must be text; `offset` must be \
                a whole number from 1 on, got `x`.";
    assert!(world.results().contains(&said), "{:?}", world.results());
}

const WRITTEN: &str = "<tool_call>\n{\"name\": \"list\", \"arguments\": {}}\n</tool_call>";

#[tokio::test]
async fn a_call_written_as_text_runs_only_if_it_is_the_whole_answer() {
    let mut world = World::new(vec![says(WRITTEN), says("done")]);
    world.write("a", "x");
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.results(), ["a\n"]);
    let ending = format!("I will look.\n{WRITTEN}");
    let mut world = World::new(vec![says(&ending), says("done")]);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert!(world.results()[0].starts_with("Not run: this call was written as text"));
    let mut world = World::new(vec![says(&format!("Qwen calls so: {WRITTEN} and waits."))]);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert!(world.results().is_empty());
}

#[tokio::test]
async fn a_call_that_stands_in_a_prompt_or_a_result_is_a_quote() {
    let mut world = World::new(vec![says(WRITTEN)]).prompted(&format!("Say exactly {WRITTEN}"));
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert!(world.results().is_empty());
    let grep = wants([call(1, "grep", json!({"pattern": "name"}))]);
    let quoted = "{\"name\": \"list\", \"arguments\": {}}";
    let mut world = World::new(vec![grep, says(quoted)]);
    world.write("a", quoted);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.results().len(), 1);
}
