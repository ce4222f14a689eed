//! Coming and going at the worst moment, by seed.

use meters::label::{Phase, Transport};
use testkit::simulation::Grounds;
use testkit::simulation::races::{
    Live, ends_clean, enter_and_leave, grace_against_resume, many_clients,
};

use crate::ALONE;

#[test]
fn a_07_fifty_clients_that_come_and_go_lose_no_session_and_share_none() {
    let _shared = ALONE.read();
    let grounds = Grounds::new().unwrap();
    for seed in 0..2 {
        let summary = many_clients(seed, &grounds, 50).unwrap();
        assert!(summary.answered > 50 && summary.drops > 50, "{summary:?}");
    }
}

#[test]
fn a_08_nothing_is_left_of_a_session_that_ended_but_its_journal() {
    let _alone = ALONE.write();
    let grounds = Grounds::new().unwrap();
    for seed in 0..4 {
        let [before, during, after] = ends_clean(seed, &grounds, live).unwrap();
        assert_eq!(before, [0, 0, 0]);
        assert_eq!(during, [1, 4, 4], "it is there while it is used");
        assert_eq!(after, before, "seed {seed}: something is left");
    }
}

#[test]
fn b_09_the_sweeper_and_a_client_that_comes_back_never_meet_half_way() {
    let _alone = ALONE.write();
    let grounds = Grounds::new().unwrap();
    let (mut loaded, mut unloaded) = (0, 0);
    for seed in 0..20 {
        let is_loaded = || live()[0] > 0;
        let summary = grace_against_resume(seed, &grounds, 50, is_loaded).unwrap();
        assert!(summary.resumes > 50, "{summary:?}");
        loaded += summary.met_loaded;
        unloaded += summary.met_unloaded;
    }
    // Of a thousand, a fair share was a moment too early for the sweeper, and one too late.
    assert_eq!(loaded + unloaded, 1_000);
    assert!(loaded > 100 && unloaded > 100, "{loaded} {unloaded}");
}

#[test]
fn f_33_entering_leaving_closing_and_deleting_at_once_leave_nothing_half_done() {
    let _shared = ALONE.read();
    let grounds = Grounds::new().unwrap();
    let mut strangers = 0;
    for seed in 0..40 {
        strangers += enter_and_leave(seed, &grounds).unwrap().strangers;
    }
    assert!(strangers > 0, "no stranger took part");
}

/// What is in memory: sessions, attachments, connections.
fn live() -> Live {
    let phases = [Phase::Idle, Phase::Running, Phase::Waiting];
    let sessions = phases.map(|phase| meters::SESSIONS.of(phase).value());
    let transports = [Transport::WebSocket, Transport::Http, Transport::Stdio];
    let connections = transports.map(|one| meters::CONNECTIONS.of(one).value());
    [
        sessions.iter().sum(),
        meters::ATTACHMENTS.value(),
        connections.iter().sum(),
    ]
}
