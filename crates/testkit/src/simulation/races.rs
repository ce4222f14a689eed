//! Schedules that aim at one place: many clients that come and go, the sweeper against somebody who
//! comes back, entering against leaving, and what is left when all have gone.

use std::time::Duration;

use domain::SessionId;
use domain::clock::Timestamp;
use serde_json::json;

use super::client::{Asked, Client};
use super::world::{GRACE, Life, World, paused_runtime};
use super::{Grounds, Summary, Verdict};

/// Yields between two things of the same moment: enough to come between any two steps of an actor.
const YIELDS_MAX: u64 = 24;

/// Schedules of one seed of [`enter_and_leave`]: moments in which several things happen at once.
pub const SCHEDULES: u64 = 24;

/// `count` clients, each with a session of its own, connect, prompt and break off in any order.
/// In the end each session is there, with one owner, and each prompt has its answer.
///
/// # Errors
/// What was lost or mixed up.
pub fn many_clients(seed: u64, grounds: &Grounds, count: usize) -> Result<Summary, String> {
    let mut world = World::new(seed, grounds);
    for at in 0..count {
        let (who, turns) = (world.chance.index(3), world.chance.one_in(2));
        let name = format!("client {at}");
        world.clients.push(Client::new(name, who, turns));
    }
    let runtime = paused_runtime()?;
    let outcome = runtime.block_on(crowd(&mut world, count));
    drop(runtime);
    finish(world, seed, outcome)
}

async fn crowd(world: &mut World<'_>, count: usize) -> Verdict {
    let life = world.begin();
    for _ in 0..8 * count {
        world.summary.steps += 1;
        let at = world.chance.index(count);
        let client = &mut world.clients[at];
        let has_asked = client
            .line
            .as_ref()
            .is_some_and(|line| line.asked.values().any(|asked| matches!(asked, Asked::New)));
        if client.line.is_none() {
            world.come_back(&life, at)?;
        } else if client.views.is_empty() && !has_asked {
            let params = json!({"cwd": world.cwd(), "mcpServers": []});
            world.clients[at].ask(Asked::New, "session/new", params);
        } else {
            match world.chance.below(4) {
                0 => world.prompt(at),
                1 => world.prompt_again(at),
                2 => world.answer(at),
                _ => {
                    world.summary.drops += 1;
                    world.clients[at].cut();
                }
            }
        }
        if world.chance.one_in(6) {
            let delay_ms = world.chance.below(200);
            world.pass(&life, delay_ms).await;
            world.settle(&life).await?;
        }
    }
    for at in 0..count {
        if world.clients[at].line.is_none() {
            world.come_back(&life, at)?;
        }
        if world.clients[at].views.is_empty() {
            let params = json!({"cwd": world.cwd(), "mcpServers": []});
            world.clients[at].ask(Asked::New, "session/new", params);
        }
    }
    world.settle(&life).await?;
    world.bring_to_an_end(&life).await?;
    let sessions: usize = world.clients.iter().map(|client| client.views.len()).sum();
    match sessions == world.records.len() && world.clients.iter().all(|one| !one.views.is_empty()) {
        true => Ok(()),
        false => Err(format!("{sessions} sessions for {count} clients")),
    }
}

/// A session that nobody uses is unloaded while somebody comes back for it: at the same moment,
/// just before and just after, `schedules` times. `is_loaded` says whether the session is in memory.
///
/// # Errors
/// What was left half done.
pub fn grace_against_resume(
    seed: u64,
    grounds: &Grounds,
    schedules: u64,
    is_loaded: impl Fn() -> bool,
) -> Result<Summary, String> {
    let mut world = World::new(seed, grounds);
    for at in 0..2 {
        let name = format!("client {at}");
        world.clients.push(Client::new(name, 0, at == 0));
    }
    let runtime = paused_runtime()?;
    let outcome = runtime.block_on(sweep(&mut world, schedules, is_loaded));
    drop(runtime);
    finish(world, seed, outcome)
}

async fn sweep(world: &mut World<'_>, schedules: u64, is_loaded: impl Fn() -> bool) -> Verdict {
    let life = world.begin();
    make_session(world, &life).await?;
    for schedule in 0..schedules {
        world.summary.steps += 1;
        world.note(format!("schedule {schedule}"));
        for client in &mut world.clients {
            client.cut();
        }
        world.summary.drops += 2;
        // The grace time begins when the last one has left, which takes no time that counts.
        let around_ms = world.chance.below(4);
        let until = Duration::from_millis(around_ms) + GRACE - Duration::from_millis(1);
        tokio::time::sleep(until).await;
        for at in 0..world.clients.len() {
            yield_some(world).await;
            if at == 0 {
                let is_loaded = is_loaded();
                world.summary.met_loaded += u64::from(is_loaded);
                world.summary.met_unloaded += u64::from(!is_loaded);
            }
            world.come_back(&life, at)?;
            if world.chance.one_in(20) {
                world.prompt(at);
            }
        }
        world.settle(&life).await?;
        everyone_is_inside(world)?;
        // A turn or a question would keep the session in memory.
        world.cancel(0);
        world.pass(&life, 1_000).await;
        world.settle(&life).await?;
    }
    world.bring_to_an_end(&life).await?;
    nobody_holds_on(world).await
}

/// Several clients enter, leave, close, prompt, cancel and at last delete one session, many of them
/// in the same moment.
///
/// # Errors
/// What was left half done.
pub fn enter_and_leave(seed: u64, grounds: &Grounds) -> Result<Summary, String> {
    let mut world = World::new(seed, grounds);
    for at in 0..4 {
        let (who, turns) = (usize::from(at == 3), at % 2 == 0);
        let name = format!("client {at}");
        world.clients.push(Client::new(name, who, turns));
    }
    let runtime = paused_runtime()?;
    let outcome = runtime.block_on(scramble(&mut world));
    drop(runtime);
    finish(world, seed, outcome)
}

async fn scramble(world: &mut World<'_>) -> Verdict {
    let life = world.begin();
    let session = make_session(world, &life).await?;
    for _ in 0..SCHEDULES {
        for _ in 0..=world.chance.below(5) {
            world.summary.steps += 1;
            let at = world.chance.index(world.clients.len());
            jostle(world, &life, at, session)?;
            yield_some(world).await;
        }
        match world.chance.below(6) {
            0 => tokio::time::sleep(GRACE).await,
            _ => world.pass(&life, 40).await,
        }
        world.settle(&life).await?;
    }
    if world.chance.one_in(2) {
        world.doomed.insert(session);
        delete_amid(world, &life, session).await?;
    }
    world.bring_to_an_end(&life).await?;
    nobody_holds_on(world).await
}

/// When all have left and the grace time is over, every journal is free for its next owner.
async fn nobody_holds_on(world: &mut World<'_>) -> Verdict {
    world.clients.iter_mut().for_each(Client::cut);
    tokio::time::sleep(GRACE * 2).await;
    let (store, doomed) = (world.store(), &world.doomed);
    for id in world.records.keys().filter(|id| !doomed.contains(id)) {
        let opened = store.open_session(*id, Timestamp::now(), &mut |_| {});
        opened.map_err(|error| format!("session {id} was left in memory: {error}"))?;
    }
    Ok(())
}

/// One thing that changes who is in the session.
fn jostle(world: &mut World<'_>, life: &Life, at: usize, session: SessionId) -> Verdict {
    if world.clients[at].line.is_none() {
        return world.come_back(life, at);
    }
    let cwd = world.cwd();
    let is_stranger = world.clients[at].who != world.clients[0].who;
    let knows_way = world.clients[at].knows_way_into(session);
    match world.chance.below(6) {
        _ if is_stranger => {
            world.summary.strangers += 1;
            let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
            world.clients[at].ask(Asked::Foreign("refused"), "session/load", params);
        }
        0 => {
            world.summary.drops += 1;
            world.clients[at].cut();
        }
        1 => world.close(at),
        2 => world.prompt(at),
        3 => world.cancel(at),
        _ if !knows_way => world.clients[at].resume(session, &cwd, true),
        _ => world.prompt_again(at),
    }
    Ok(())
}

/// The owner deletes while others come and go; afterwards it is not there for anyone.
async fn delete_amid(world: &mut World<'_>, life: &Life, session: SessionId) -> Verdict {
    if world.clients[0].line.is_none() {
        world.come_back(life, 0)?;
    }
    let params = json!({"sessionId": session});
    world.clients[0].ask(Asked::Other, "session/delete", params);
    for _ in 0..6 {
        yield_some(world).await;
        let at = world.chance.index(world.clients.len());
        if at > 0 {
            jostle(world, life, at, session)?;
        }
    }
    world.pass(life, 2_000).await;
    world.settle(life).await?;
    let cwd = world.cwd();
    for at in 0..world.clients.len() {
        world.clients[at].views.remove(&session);
        if world.clients[at].line.is_none() {
            world.come_back(life, at)?;
        }
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        world.clients[at].ask(Asked::Foreign("refused"), "session/load", params);
    }
    world.settle(life).await?;
    match world.store().exists(session) {
        true => Err("a deleted session is still there".to_owned()),
        false => Ok(()),
    }
}

/// What is in memory: sessions, attachments, connections.
pub type Live = [i64; 3];

/// Sessions are used and then left to their grace time, or closed. `look` is asked before, while
/// they live, and after.
///
/// # Errors
/// What is stale, or cannot be loaded again.
pub fn ends_clean(
    seed: u64,
    grounds: &Grounds,
    look: impl Fn() -> Live,
) -> Result<[Live; 3], String> {
    let mut world = World::new(seed, grounds);
    for at in 0..4 {
        let name = format!("client {at}");
        world.clients.push(Client::new(name, 0, true));
    }
    let before = look();
    let runtime = paused_runtime()?;
    let outcome = runtime.block_on(async {
        let life = world.begin();
        let session = make_session(&mut world, &life).await?;
        for _ in 0..6 {
            world.prompt(0);
            world.pass(&life, 500).await;
            world.settle(&life).await?;
        }
        world.bring_to_an_end(&life).await?;
        let during = look();
        close_then_prompt(&mut world, &life, session).await?;
        for client in &mut world.clients {
            client.cut();
        }
        tokio::time::sleep(GRACE * 2).await;
        world.pass(&life, 2).await;
        let after = look();
        world.come_back(&life, 1)?;
        world.settle(&life).await?;
        match world.clients[1].is_inside(session) {
            true => Ok([before, during, after]),
            false => Err("its journal could not be loaded again".to_owned()),
        }
    });
    drop(runtime);
    let outcome = outcome.map_err(|why| world.with_trail(&why))?;
    world.nothing_panicked().map(|()| outcome)
}

/// The last client closes the session; for it the session is not there any more.
async fn close_then_prompt(world: &mut World<'_>, life: &Life, session: SessionId) -> Verdict {
    for client in world.clients.iter_mut().skip(1) {
        client.cut();
    }
    world.pass(life, 2).await;
    world.close(0);
    world.settle(life).await?;
    let prompt = json!([{"type": "text", "text": "are you there?"}]);
    let params = json!({"sessionId": session, "prompt": prompt});
    world.clients[0].ask(Asked::Foreign("refused"), "session/prompt", params);
    world.settle(life).await
}

/// A session that every client of its owner follows.
async fn make_session(world: &mut World<'_>, life: &Life) -> Result<SessionId, String> {
    for at in 0..world.clients.len() {
        world.come_back(life, at)?;
    }
    let cwd = world.cwd();
    let params = json!({"cwd": cwd, "mcpServers": []});
    world.clients[0].ask(Asked::New, "session/new", params);
    world.settle(life).await?;
    let session = world.records.keys().next().copied();
    let session = session.ok_or("no session was made")?;
    let owner = world.clients[0].who;
    for client in world.clients.iter_mut().skip(1) {
        if client.who == owner {
            client.load(session, &cwd);
        }
    }
    world.settle(life).await?;
    Ok(session)
}

fn everyone_is_inside(world: &World<'_>) -> Verdict {
    for client in &world.clients {
        let mut followed = client.views.keys();
        if let Some(session) = followed.find(|session| !client.is_inside(**session)) {
            return Err(format!("{} is not in {session}", client.name));
        }
    }
    Ok(())
}

async fn yield_some(world: &mut World<'_>) {
    for _ in 0..world.chance.below(YIELDS_MAX) {
        tokio::task::yield_now().await;
    }
}

fn finish(world: World<'_>, seed: u64, outcome: Verdict) -> Result<Summary, String> {
    let outcome = outcome.map_err(|why| world.with_trail(&why));
    match outcome.and_then(|()| world.nothing_panicked()) {
        Ok(()) => Ok(world.told()),
        Err(told) => Err(format!(
            "seed {seed}: {told}\nrepeat: cargo xtask soak resume --seed {seed}"
        )),
    }
}
