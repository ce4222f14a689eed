//! That a simulation notices what is wrong with the server around the sessions.

use std::sync::{Mutex, PoisonError};

use super::client::Client;
use super::world::{World, paused_runtime};
use super::{Grounds, Lines, Verdict, panics};

/// Panics are counted for the whole process, so these run one after another.
static ALONE: Mutex<()> = Mutex::new(());

/// A client that connects, and what is found after `then` happened to its server.
fn connected(lines: Lines, then: impl Fn(&server::Service)) -> Verdict {
    let grounds = Grounds::new()?;
    let mut world = World::new(1, &grounds);
    world.lines = lines;
    world
        .clients
        .push(Client::new("client".to_owned(), 1, true));
    let runtime = paused_runtime()?;
    let outcome = runtime.block_on(async {
        let life = world.begin();
        world.come_back(&life, 0)?;
        world.settle(&life).await?;
        then(&life.service);
        world.settle(&life).await
    });
    drop(runtime);
    outcome.and_then(|()| world.nothing_panicked())
}

#[test]
fn a_connection_that_the_server_ends_for_no_reason_is_noticed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for lines in [Lines::Pipes, Lines::Streams] {
        assert_eq!(connected(lines, |_| {}), Ok(()));
        let found = connected(lines, |service| service.closing.cancel());
        let found = found.unwrap_err();
        assert!(found.contains("for no reason"), "{lines:?}: {found}");
    }
}

#[test]
fn a_task_that_panics_is_noticed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = connected(Lines::Pipes, |service| {
        service.connections.spawn(async { panic!("on purpose") });
    });
    let found = found.unwrap_err();
    assert!(found.contains("on purpose"), "{found}");
    assert_eq!(panics::none_since(panics::count()), Ok(()));
}
