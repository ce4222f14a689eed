//! The loop, with a session that stores nothing and a client whose files answer when told to.

mod compacting;
mod hooked;
mod repeated;
mod world;

use domain::Event;
use domain::event::StopReason;
use llm::{Chunk, Message, ModelError, ModelStop};

use world::{World, call, having_read, says, wants};

#[tokio::test]
async fn d_03_neighbouring_reads_overlap_and_their_results_come_in_the_order_of_the_calls() {
    let mut world = World::new(vec![
        wants([call("a", "read"), call("b", "read"), call("c", "read")]),
        says("done"),
    ]);
    world.start();
    // No read is answered before all of them have been asked for: that they all arrive proves
    // that none waits for another.
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(world.asked().await);
    }
    asked.sort_by(|one, other| other.what.cmp(&one.what));
    for asked in asked {
        let text = format!("text of {}", asked.what);
        asked.answer(&text);
        world.finished_one().await;
    }
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    let finished = ["c", "b", "a"];
    assert_eq!(world.finished(), finished, "stored as they came");
    let Some(Message::ToolResults(results)) = world.request(1).pop() else {
        panic!("the model was not shown the results");
    };
    let texts: Vec<_> = results.iter().map(|result| result.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "1\ttext of read a",
            "1\ttext of read b",
            "1\ttext of read c"
        ]
    );
}

#[tokio::test]
async fn d_03_effects_never_overlap_with_anything() {
    let mut world = World::new(vec![
        wants([
            call("a", "read"),
            call("b", "write"),
            call("c", "write"),
            call("d", "read"),
        ]),
        says("done"),
    ]);
    world.start();
    for what in ["read a", "write b", "write c", "read d"] {
        let asked = world.asked().await;
        assert_eq!(asked.what, what);
        assert!(world.is_quiet().await, "something runs beside {what}");
        asked.answer("");
    }
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.finished(), ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn d_03_no_more_reads_run_at_once_than_the_limit_says() {
    let names: Vec<String> = (0..12).map(|number| format!("f{number:02}")).collect();
    let calls: Vec<_> = names.iter().map(|name| call(name, "read")).collect();
    let mut world = World::new(vec![wants(calls), says("done")]);
    world.start();
    let mut open = Vec::new();
    for _ in 0..domain::limits::PARALLEL_CALLS_MAX {
        open.push(world.asked().await);
    }
    assert!(world.is_quiet().await);
    open.pop().unwrap().answer("");
    open.push(world.asked().await);
    assert!(world.is_quiet().await);
    open.into_iter().for_each(|asked| asked.answer(""));
    for _ in domain::limits::PARALLEL_CALLS_MAX + 1..names.len() {
        world.asked().await.answer("");
    }
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.finished().len(), names.len());
}

#[tokio::test]
async fn d_03_a_cancel_drops_every_call_that_runs_and_starts_none_that_waits() {
    let mut world = World::new(vec![wants([
        call("a", "read"),
        call("b", "read"),
        call("c", "write"),
    ])]);
    world.start();
    let mut asked = [world.asked().await, world.asked().await];
    asked.sort_by(|one, other| one.what.cmp(&other.what));
    let [a, b] = asked;
    a.answer("there");
    world.finished_one().await;
    world.cancel();
    assert_eq!(world.ended().await, Ok(StopReason::Cancelled));
    assert!(b.is_dropped(), "the read goes on after the turn");
    assert_eq!(world.finished(), ["a"]);
    assert!(world.is_quiet().await, "the write ran after the cancel");
}

#[tokio::test]
async fn d_03_a_refusal_ends_the_turn_and_what_it_still_asks_for_is_not_run() {
    let refuses = vec![
        Ok(Chunk::Text("I will not.".to_owned())),
        Ok(Chunk::ToolCall(call("a", "write"))),
        Ok(Chunk::Stop(ModelStop::Refusal)),
    ];
    let mut world = World::new(vec![refuses]);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::Refusal));
    assert!(world.is_quiet().await, "the write ran");
    let proposed = |event: &Event| matches!(event, Event::ToolUse(_));
    assert!(!world.events.iter().any(proposed), "the write was proposed");
}

#[tokio::test]
async fn d_03_the_turn_ends_for_the_reason_that_the_model_gives() {
    let reasons = [
        (ModelStop::EndTurn, StopReason::EndTurn),
        (ModelStop::ToolUse, StopReason::EndTurn),
        (ModelStop::MaxTokens, StopReason::MaxTokens),
        (ModelStop::Refusal, StopReason::Refusal),
    ];
    for (stop, reason) in reasons {
        let words = Ok(Chunk::Text("words".to_owned()));
        let mut world = World::new(vec![vec![words, Ok(Chunk::Stop(stop))]]);
        world.start();
        assert_eq!(world.ended().await, Ok(reason));
    }
}

#[tokio::test]
async fn a_call_that_breaks_off_or_is_cancelled_has_used_what_was_counted() {
    let half = || vec![Ok(Chunk::Text("half".to_owned()))];
    let mut broken = half();
    broken.push(Err(ModelError::Cut));
    let mut world = World::new(vec![having_read(100, broken)]);
    world.start();
    assert!(world.ended().await.is_err());
    assert_eq!(world.tokens_read(), [100]);

    let mut world = World::new(vec![having_read(200, half())]);
    world.start();
    world.heard("half").await;
    world.cancel();
    assert_eq!(world.ended().await, Ok(StopReason::Cancelled));
    assert_eq!(world.tokens_read(), [200]);
}

#[tokio::test]
async fn a_call_that_is_counted_as_it_goes_is_stored_once_by_its_last_count() {
    let play = having_read(100, having_read(300, says("done")));
    let mut world = World::new(vec![play]);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.tokens_read(), [300]);
}

#[tokio::test]
async fn a_model_elsewhere_is_not_asked_before_the_prompt_is_stored() {
    let mut world = World::new(vec![says("done")]);
    world.is_stored = false;
    world.start();
    assert!(world.is_quiet().await);
    assert_eq!(world.requests(), 0, "it was asked");
    world.stored().await;
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.requests(), 1);
}
