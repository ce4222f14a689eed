//! Making room: what goes, what stays, and that the same is left after a restart.

use domain::event::{Compaction, CompactionKind, StopReason, ToolResult, ToolStatus, ToolUse};
use domain::{CallId, Event, TurnId};
use llm::{Message, ModelError};
use serde_json::json;

use super::world::{World, having_read, says};
use crate::command::Command;

/// Bytes of about so many tokens.
fn output(tokens: usize) -> String {
    "word".repeat(tokens)
}

impl World {
    /// The same, after a call that found so many tokens.
    fn having_found(mut self, id: &str, tokens: usize) -> Self {
        self.store(ToolUse {
            turn: TurnId(1),
            call_id: CallId::new(id),
            name: "read".to_owned(),
            input: json!({"path": format!("{id}.rs")}),
            title: String::new(),
            kind: domain::event::ToolKind::Read,
            locations: Box::default(),
            content: Box::default(),
            allowed_by: None,
        });
        self.store(ToolResult {
            call_id: CallId::new(id),
            status: ToolStatus::Completed,
            text: output(tokens),
            blocks: Vec::new(),
            locations: Vec::new(),
        });
        self
    }

    fn within(mut self, window: u64) -> Self {
        self.limits.context_window = window;
        self
    }

    fn compactions(&self) -> Vec<&Compaction> {
        let compactions = self.events.iter().filter_map(|event| {
            if let Event::Compaction(compaction) = event {
                Some(compaction)
            } else {
                None
            }
        });
        compactions.collect()
    }

    /// The kinds of compaction that happened.
    fn kinds(&self) -> Vec<CompactionKind> {
        self.compactions().iter().map(|done| done.kind).collect()
    }
}

fn text_of(messages: &[Message]) -> String {
    let text = |message: &Message| match message {
        Message::User { text, .. } | Message::Assistant { text, .. } => text.clone(),
        Message::ToolResults(outcomes) => {
            let texts = outcomes.iter().map(|outcome| outcome.text.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
    };
    messages.iter().map(text).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn d_08_old_output_is_pruned_first_and_the_newest_is_protected() {
    let mut world = World::new(vec![says("done")])
        .having_found("old", 25_000)
        .having_found("mid", 20_000)
        .having_found("new", 30_000)
        .within(90_000);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.kinds(), [CompactionKind::Pruned]);
    let shown = world.request(0);
    let lengths: Vec<usize> = shown
        .iter()
        .filter_map(|message| match message {
            Message::ToolResults(outcomes) => Some(outcomes[0].text.len()),
            Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect();
    // Of 50,000 protected tokens the first 40,000 reach into the middle one.
    assert!(lengths[0] < 100, "the oldest stayed");
    assert_eq!(&lengths[1..], [80_000, 120_000]);
    let again = world.folded().context().messages;
    assert_eq!(
        again[..shown.len()],
        shown[..],
        "a restart shows something else"
    );
}

#[tokio::test]
async fn d_08_pruning_that_frees_little_is_not_done_and_the_rest_is_summarised() {
    let mut world = World::new(vec![says("SUMMARY"), says("done")])
        .having_found("old", 15_000)
        .having_found("mid", 20_000)
        .having_found("new", 30_000)
        .prompted("now the second thing")
        .within(70_000);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.kinds(), [CompactionKind::Summary]);
    let shown = world.request(1);
    let text = text_of(&shown);
    assert!(text.contains("do it"), "the first instruction is lost");
    assert!(text.contains("SUMMARY") && text.contains("old.rs, mid.rs, new.rs"));
    assert!(text.ends_with("now the second thing"));
    assert!(shown.len() <= 2, "{} messages are left", shown.len());
    let done = world.compactions()[0];
    assert!(done.tokens_after < done.tokens_before / 4);
    let again = world.folded().context().messages;
    assert_eq!(
        again[..shown.len()],
        shown[..],
        "a restart shows something else"
    );
}

#[tokio::test]
async fn d_08_a_model_that_finds_it_too_long_is_asked_once_more_with_less() {
    let too_long = || vec![Err(ModelError::ContextTooLong)];
    let plays = vec![too_long(), says("SUMMARY"), says("done")];
    let mut world = World::new(plays).having_found("a", 500);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.kinds(), [CompactionKind::Summary]);
    assert!(text_of(&world.request(2)).contains("SUMMARY"));

    let plays = vec![too_long(), says("SUMMARY"), too_long()];
    let mut stubborn = World::new(plays).having_found("a", 500);
    stubborn.start();
    assert!(stubborn.ended().await.is_err());
    assert_eq!(stubborn.requests(), 3, "it was asked again and again");
}

#[tokio::test]
async fn d_08_when_no_summary_can_be_had_excerpts_keep_the_session_going() {
    let too_long = || vec![Err(ModelError::ContextTooLong)];
    let plays = vec![too_long(), too_long(), says("done")];
    let mut world = World::new(plays).having_found("a", 500);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    let text = text_of(&world.request(2));
    assert!(text.contains("do it") && text.contains("excerpts") && text.contains("a.rs"));
}

#[tokio::test]
async fn d_08_a_summary_that_fails_costs_nothing_while_the_conversation_still_fits() {
    let down = || vec![Err(ModelError::Unreachable { tries: 4 })];
    let mut world = World::new(vec![down(), says("done")])
        .having_found("a", 9_000)
        .within(10_000);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert!(world.kinds().is_empty());
    assert!(text_of(&world.request(1)).contains(&output(9_000)));
}

#[tokio::test]
async fn d_08_what_the_provider_counted_decides_and_not_only_the_length() {
    let plays = vec![
        having_read(9_500, super::wants([super::call("b", "read")])),
        says("SUMMARY"),
        says("done"),
    ];
    let mut world = World::new(plays).having_found("a", 50).within(10_000);
    world.start();
    world.asked().await.answer("short");
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.kinds(), [CompactionKind::Summary]);
}

#[tokio::test]
async fn d_08_a_person_can_have_it_compacted_with_something_in_mind() {
    let mut world = World::new(vec![says("SUMMARY")])
        .having_found("a", 500)
        .prompted("/compact the parser");
    world.command = Command::parse("/compact the parser");
    world.limits.context_window = 1_000;
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert!(text_of(&world.request(0)).contains("keep above all: the parser"));
    let messages = world.folded().context().messages;
    let text = text_of(&messages);
    assert!(text.contains("SUMMARY") && !text.contains("/compact"));
    assert!(text.contains("Compacted the conversation"));
}

#[tokio::test]
async fn d_08_what_a_summary_uses_is_spent_from_the_turns_tokens() {
    let plays = vec![
        having_read(900, says("SUMMARY")),
        having_read(200, super::wants([super::call("b", "read")])),
        says("one call too many"),
    ];
    let mut world = World::new(plays).having_found("a", 9_000).within(10_000);
    world.limits.turn_tokens_max = 1_000;
    world.start();
    world.asked().await.answer("short");
    assert_eq!(world.ended().await, Ok(StopReason::MaxTokens));
    assert_eq!(world.tokens_read(), [900, 200]);
    assert_eq!(world.requests(), 2);
}
