//! What running calls show of themselves before they end: state, not history.
//!
//! Each call has one place on the [`Progress`] of its session, which holds the newest only: whoever
//! looks late misses what has passed, and nobody waits for anybody.

use std::sync::Arc;

use domain::{CallId, EventSeq, Permit};
use tokio::sync::watch;

/// The calls of one session that show something. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Progress {
    board: Arc<watch::Sender<Board>>,
}

/// All that is shown now.
#[derive(Debug, Default)]
pub struct Board {
    /// Grows with every change.
    version: u64,
    live: Vec<Live>,
}

/// A call under way, as it is shown.
#[derive(Clone, Debug)]
pub struct Live {
    /// Which one.
    pub call: CallId,
    /// The event that let it run: nobody should hear of it before that.
    pub after: EventSeq,
    /// Its newest output.
    pub text: Arc<str>,
    /// The version of the board that it came with.
    version: u64,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            board: Arc::new(watch::Sender::default()),
        }
    }
}

impl Progress {
    /// A place for the call that `permit` lets run. It is empty until something is shown, and
    /// again when it is dropped, which must be before the call's result is told.
    #[must_use]
    pub fn of(&self, permit: &Permit) -> Place {
        Place {
            progress: self.clone(),
            call: permit.call().clone(),
            after: permit.allowed_by(),
        }
    }

    /// Rings with every change.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Board> {
        self.board.subscribe()
    }
}

impl Board {
    /// What changed after version `seen` and may be shown to somebody who has come as far as `at`;
    /// moves `seen` on.
    pub fn news(&self, seen: &mut u64, at: EventSeq) -> Vec<Live> {
        let is_early = |live: &&Live| live.after > at;
        let is_new = |live: &&Live| live.version > *seen;
        let new = self.live.iter().filter(is_new);
        let news = new
            .clone()
            .filter(|live| !is_early(live))
            .cloned()
            .collect();
        // What is early is looked at again.
        let early = new.filter(is_early).map(|live| live.version - 1).min();
        *seen = early.unwrap_or(self.version);
        news
    }
}

/// One call's place.
#[derive(Debug)]
pub struct Place {
    progress: Progress,
    call: CallId,
    after: EventSeq,
}

impl Place {
    /// A place that nobody looks at.
    #[must_use]
    pub fn nowhere() -> Self {
        Self {
            progress: Progress::default(),
            call: CallId::random(),
            after: EventSeq(0),
        }
    }

    /// Shows `text` in place of what was shown before.
    pub fn show(&self, text: &str) {
        self.progress.board.send_modify(|board| {
            board.version += 1;
            board.live.retain(|live| live.call != self.call);
            board.live.push(Live {
                call: self.call.clone(),
                after: self.after,
                text: Arc::from(text),
                version: board.version,
            });
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.progress
            .board
            .send_modify(|board| board.live.retain(|live| live.call != self.call));
    }
}

#[cfg(test)]
mod tests {
    use domain::{CallId, EventSeq, Permit};

    use super::Progress;

    #[test]
    fn only_the_newest_is_shown_once_and_to_nobody_who_has_not_come_so_far() {
        let progress = Progress::default();
        let board = progress.follow();
        let permit = Permit::granted(CallId::new("c"), EventSeq(5));
        let place = progress.of(&permit);
        let mut seen = 0;
        let mut news = |at| -> Vec<String> {
            let news = board.borrow().news(&mut seen, EventSeq(at));
            news.iter().map(|live| live.text.to_string()).collect()
        };
        place.show("one");
        place.show("one two");
        assert!(news(4).is_empty(), "it has not heard of the call");
        assert_eq!(news(5), ["one two"]);
        assert!(news(5).is_empty());
        place.show("three");
        drop(place);
        assert!(news(5).is_empty(), "the call is over");
    }
}
