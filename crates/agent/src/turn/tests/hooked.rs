//! Hooks in a turn, where a story through the whole program would not reach.

use domain::Event;
use domain::event::{HookOutcome, HookPoint, StopReason};

use super::world::{World, call, says, wants};
use crate::command::Command;

impl World {
    /// The same, with a hook.
    fn with_hook(mut self, point: HookPoint, command: &str) -> Self {
        let event = point.name();
        self.settings += &format!("[[hooks]]\nevent = \"{event}\"\ncommand = '''{command}'''\n");
        self
    }

    /// The hooks that ran.
    fn hooked(&self) -> Vec<(HookPoint, HookOutcome)> {
        let ran = self.events.iter().filter_map(|event| {
            if let Event::HookRan(ran) = event {
                Some((ran.event, ran.outcome))
            } else {
                None
            }
        });
        ran.collect()
    }
}

fn crowded(plays: Vec<super::world::Play>) -> World {
    let mut world = World::new(plays)
        .prompted(&"word ".repeat(2_000))
        .prompted("/compact");
    world.command = Command::parse("/compact");
    world.limits.context_window = 1_000;
    world
}

#[tokio::test]
async fn d_07_a_hook_hears_of_a_compaction_and_tells_the_summary_what_to_mind() {
    let mind = "cat > heard; echo '{\"context\":\"the colour of the shed\"}'";
    let mut world = crowded(vec![says("SUMMARY")]).with_hook(HookPoint::SessionCompacting, mind);
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    let rewrote = (HookPoint::SessionCompacting, HookOutcome::Rewrote);
    assert_eq!(world.hooked(), [rewrote]);
    assert!(world.file("heard").contains("\"trigger\":\"wanted\""));
    let asked = format!("{:?}", world.request(0));
    assert!(asked.contains("the colour of the shed"), "{asked}");
    // It is for the summary alone.
    let after = format!("{:?}", world.folded().context().messages);
    assert!(!after.contains("the colour of the shed"), "{after}");
}

#[tokio::test]
async fn d_07_a_hook_keeps_a_conversation_as_it_is() {
    let mut world = crowded(Vec::new()).with_hook(HookPoint::SessionCompacting, "exit 2");
    world.start();
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert_eq!(world.requests(), 0);
    let kinds: Vec<&str> = world.events.iter().map(Event::kind).collect();
    assert!(!kinds.contains(&"compaction"), "{kinds:?}");
}

#[tokio::test]
async fn d_07_a_hook_ends_a_turn_before_or_after_a_model_call() {
    for (point, requests) in [
        (HookPoint::BeforeModelCall, 0),
        (HookPoint::AfterModelCall, 1),
    ] {
        let plays = vec![wants([call("a", "write")]), says("done")];
        let mut world = World::new(plays).with_hook(point, "echo enough >&2; exit 2");
        world.start();
        assert_eq!(world.ended().await, Ok(StopReason::Refusal));
        assert_eq!(world.requests(), requests);
        assert!(world.finished().is_empty(), "nothing ran");
        let events = format!("{:?}", world.events);
        assert!(
            events.contains("A hook ended this turn: enough"),
            "{events}"
        );
    }
}

#[tokio::test]
async fn d_07_each_hook_sees_what_the_one_before_it_made_of_the_call() {
    let plays = vec![wants([call("a", "read")]), says("done")];
    let mut world = World::new(plays)
        .with_hook(
            HookPoint::PreToolUse,
            "echo '{\"input\":{\"path\":\"first\"}}'",
        )
        .with_hook(
            HookPoint::PreToolUse,
            "cat > heard; echo '{\"input\":{\"path\":\"second\"}}'",
        );
    world.start();
    let asked = world.asked().await;
    assert_eq!(asked.what, "read second");
    asked.answer("text");
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    assert!(world.file("heard").contains("\"path\":\"first\""));
}

#[tokio::test]
async fn d_07_no_hook_runs_before_the_prompt_that_it_is_about_is_stored() {
    let mut world = World::new(vec![says("done")])
        .prompted("hello")
        .with_hook(HookPoint::UserPromptSubmit, "true");
    world.is_stored = false;
    world.start();
    assert!(world.is_quiet().await);
    assert_eq!(world.hooked(), [], "it ran");
    world.stored().await;
    assert_eq!(world.ended().await, Ok(StopReason::EndTurn));
    let ran = (HookPoint::UserPromptSubmit, HookOutcome::Ok);
    assert_eq!(world.hooked(), [ran]);
}
