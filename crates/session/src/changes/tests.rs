//! What a listener is told, and what it is not.

use std::sync::{Arc, Mutex};

use auth::{Credential, Gate, Principal};
use domain::SessionId;
use domain::clock::Timestamp;
use domain::limits::CHANGED_SESSIONS_MAX;

use super::{FellBehind, Waiting};
use crate::overview::Shown;

fn nothing() -> Shown {
    Arc::new(Mutex::new(None))
}

fn ids(waiting: &mut Waiting, count: usize) -> (Vec<SessionId>, Vec<SessionId>) {
    let (changed, removed) = waiting.take(count).unwrap();
    (changed.into_iter().map(|(id, _)| id).collect(), removed)
}

#[test]
fn a_session_that_changes_often_waits_once_and_in_its_place() {
    let (first, second) = (SessionId::random(), SessionId::random());
    let mut waiting = Waiting::default();
    for id in [first, second, first, first] {
        waiting.change(id, &nothing());
    }
    assert_eq!(ids(&mut waiting, 1), (vec![first], vec![]));
    waiting.change(first, &nothing());
    assert_eq!(ids(&mut waiting, 9), (vec![second, first], vec![]));
    assert!(waiting.is_empty());
}

#[test]
fn a_deleted_session_is_told_of_as_that_and_not_as_changed() {
    let id = SessionId::random();
    let mut waiting = Waiting::default();
    waiting.change(id, &nothing());
    waiting.remove(id);
    assert_eq!(ids(&mut waiting, 9), (vec![], vec![id]));
    assert!(waiting.is_empty());
}

#[test]
fn what_is_too_much_to_keep_is_forgotten_and_said_to_be() {
    let mut waiting = Waiting::default();
    for _ in 0..=CHANGED_SESSIONS_MAX {
        waiting.change(SessionId::random(), &nothing());
    }
    assert!(!waiting.is_empty());
    assert!(matches!(waiting.take(1), Err(FellBehind)));
    assert!(waiting.is_empty());
    let id = SessionId::random();
    waiting.change(id, &nothing());
    assert_eq!(ids(&mut waiting, 1), (vec![id], vec![]));
}

#[test]
fn a_board_tells_only_those_who_may_see_and_forgets_those_who_left() {
    let gate = Gate::this_process_only();
    let now = Timestamp(0.0);
    let local: Principal = gate.admit(&Credential::ThisProcess, now).unwrap();
    let board = Arc::new(super::Board::default());
    assert!(!board.is_heard());
    let listener = Arc::new(super::Listener {
        principal: local.clone(),
        waiting: Mutex::default(),
        rung: tokio::sync::Notify::new(),
    });
    board.add(&listener);
    assert!(board.is_heard());
    let stranger = domain::PrincipalId::new("token:x");
    board.removed(SessionId::random(), &stranger);
    assert!(listener.waiting().is_empty());
    board.removed(SessionId::random(), local.id());
    assert!(!listener.waiting().is_empty());
    board.remove(&listener);
    assert!(!board.is_heard());
}
