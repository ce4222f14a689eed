//! Leaving a session in which others stay.

use domain::event::StopReason;
use domain::{Event, EventSeq};
use session::{Entrance, From, Item, Prompt};
use tokio::sync::oneshot;

use crate::entering::World;

#[tokio::test(start_paused = true)]
async fn a_prompt_of_a_client_that_leaves_in_the_same_breath_is_cancelled_and_never_runs() {
    let world = World::new();
    let first = world.create(&world.local()).await.unwrap();
    let entrance = Entrance::new(&world.local(), From::Start);
    let second = world.sessions.attach(first.handle.id(), entrance).await;
    let mut second = second.unwrap();
    let (left, leaving) = oneshot::channel();
    let prompt = Prompt {
        text: "hello".to_owned(),
        ..Prompt::default()
    };
    // The session gets both at once. Its model would panic.
    first
        .handle
        .prompt(prompt, Box::new(|accepted| drop(accepted.unwrap())));
    first
        .handle
        .close(Box::new(|closed| left.send(closed).unwrap()));
    let read_to = leaving.await.unwrap().unwrap();
    let (seq, stop_reason) = loop {
        let deliveries = second.subscription.next().await.unwrap().unwrap();
        let ended = deliveries.iter().find_map(|delivery| {
            if let Item::Event(stored) = &delivery.item
                && let Event::TurnResult(result) = &stored.event
            {
                return Some((stored.seq, result.stop_reason));
            }
            None
        });
        if let Some(ended) = ended {
            break ended;
        }
    };
    assert_eq!(stop_reason, Some(StopReason::Cancelled));
    assert!(
        read_to >= seq && seq > EventSeq(0),
        "{read_to} {seq}: it is told how its turn ended"
    );
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_a_session_that_was_deleted_ends_even_if_nothing_of_it_was_read() {
    let world = World::new();
    let session = world.create(&world.local()).await.unwrap();
    let id = session.handle.id();
    let entrance = Entrance::new(&world.local(), From::Start);
    let entered = world.sessions.attach(id, entrance).await;
    let mut late = entered.unwrap().subscription;
    assert_eq!(world.sessions.delete(&world.local(), id).await, Ok(()));
    let end = loop {
        match late.next().await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert!(matches!(end, Ok(None)), "{:?}", end.err());
}
