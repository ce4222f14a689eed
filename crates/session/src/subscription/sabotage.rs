//! Followers that fail on purpose, to show that the tests would notice.
//!
//! Set for the current thread only, so that runs beside it are not spoiled.

use std::cell::Cell;

use domain::{Cursor, Event};

use super::{Delivery, Item};

/// How a follower fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Now and then something is not handed over.
    SkipOne,
    /// Now and then something is handed over twice.
    DeliverTwice,
    /// Whoever comes back in the middle of a message gets it from its start.
    ForgetOffset,
}

/// Of so many deliveries that a client would see, one is spoiled.
const EVERY: u64 = 23;

thread_local! {
    static SABOTAGE: Cell<Option<Sabotage>> = const { Cell::new(None) };
    static SHOWN: Cell<u64> = const { Cell::new(0) };
}

/// Has all followers of this thread fail like this from now on; `None` mends them.
pub fn set(sabotage: Option<Sabotage>) {
    SABOTAGE.set(sabotage);
    SHOWN.set(0);
}

pub(super) fn spoil(batch: &mut Vec<Delivery>) {
    let Some(sabotage) = SABOTAGE.get() else {
        return;
    };
    let Some(at) = batch.iter().position(is_shown) else {
        return;
    };
    SHOWN.set(SHOWN.get() + 1);
    if !SHOWN.get().is_multiple_of(EVERY) {
        return;
    }
    match sabotage {
        Sabotage::SkipOne => drop(batch.remove(at)),
        Sabotage::DeliverTwice => batch.insert(at, batch[at].clone()),
        Sabotage::ForgetOffset => {}
    }
}

pub(super) fn forget(cursor: Cursor) -> Cursor {
    match SABOTAGE.get() {
        Some(Sabotage::ForgetOffset) => Cursor {
            offset: 0,
            ..cursor
        },
        Some(Sabotage::SkipOne | Sabotage::DeliverTwice) | None => cursor,
    }
}

/// Whether every client is told of it.
fn is_shown(delivery: &Delivery) -> bool {
    match &delivery.item {
        Item::Text { .. } => true,
        Item::Event(stored) => matches!(
            stored.event,
            Event::ToolUse(_) | Event::ToolResult(_) | Event::ModeChanged(_)
        ),
        Item::Progress(_) | Item::Failed(_) => false,
    }
}
