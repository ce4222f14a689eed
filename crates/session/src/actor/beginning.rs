//! A turn that begins together with its prompt.
//!
//! A model in this process has its answer before a disk has the prompt. So the session runs such a
//! turn itself as far as it comes without waiting, and what it says shares the prompt's sync. Nothing
//! of it leaves the process before that: the turn asks first ([`Report::ReachesOut`]), a call runs
//! once its event is stored, and text that streams is written behind the prompt.
//!
//! [`Report::ReachesOut`]: agent::Report::ReachesOut

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use agent::ProjectView;

use super::SessionActor;
use crate::store_task::blocking;

/// How often it is polled at most before it becomes a task of its own: it looks at the prompt, asks for
/// the conversation, and answers. One that says more is heard like all others, beside the mailbox and
/// the bell.
const POLLS_MAX: usize = 4;

impl SessionActor {
    /// Begins the turn of a prompt that is not stored yet, if it may have something to say at once.
    pub(super) async fn begin_with_prompt(&mut self) {
        let Some(view) = self.view.clone().filter(|_| self.can_begin()) else {
            return;
        };
        if still_holds(view).await {
            Box::pin(self.begin()).await;
        }
    }

    /// Whether a turn is decided and not begun, its model is in this process, and the conversation is
    /// at hand. One whose predecessor ends in the same breath begins when that has ended for everyone.
    fn can_begin(&self) -> bool {
        let model = self.model.as_ref();
        let is_inside = model.is_some_and(|model| !model.reaches_out());
        let open = self.open.as_ref();
        let is_decided = open.is_some_and(|open| open.state.running().is_some());
        let is_idle = self.turn.is_none() && self.stopping.is_none();
        let is_new = !self.staged.is_empty() && self.staged.only_adds();
        is_idle && is_inside && is_decided && is_new && self.conversation.is_some()
    }

    async fn begin(&mut self) {
        let Some(mut turn) = self.set_up_turn().await else {
            return;
        };
        for _ in 0..POLLS_MAX {
            let polled = poll_fn(|context| {
                let polled = catch_unwind(AssertUnwindSafe(|| turn.as_mut().poll(context)));
                // One that panics has stopped without saying how, like a task.
                Poll::Ready(polled.unwrap_or(Poll::Ready(())))
            })
            .await;
            let mut is_heard = false;
            // Once the prompt is stored, because text streams, there is nothing left to share.
            while self.is_beginning()
                && let Some(report) = self.report_at_hand()
            {
                is_heard = true;
                self.on_report(Some(report)).await;
            }
            if polled.is_ready() {
                return;
            }
            if !is_heard || !self.is_beginning() {
                break;
            }
        }
        if self.turn.is_some() {
            tokio::spawn(turn);
        }
    }

    /// Whether the prompt of the turn that runs is not stored yet.
    pub(super) fn is_beginning(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.is_beginning)
    }
}

/// Whether nothing has changed around a session since its last turn: else the next one reads that
/// first, which takes its time.
async fn still_holds(view: ProjectView) -> bool {
    let Some((told, recheck)) = view.join_recheck() else {
        return false;
    };
    if let Some(recheck) = recheck {
        let asking = blocking(move || {
            recheck.run();
            Ok(())
        });
        if asking.await.is_err() {
            return false;
        }
    }
    told.await.is_ok_and(|holds| holds)
}
