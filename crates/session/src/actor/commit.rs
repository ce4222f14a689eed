//! Decide, append, apply, ring; and what happens when the append fails.

use std::sync::{Arc, PoisonError};

use agent::Verdict;
use domain::clock::Timestamp;
use domain::event::{ToolResult, ToolStatus};
use domain::ids::PermissionId;
use domain::limits::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX};
use domain::{CallId, Event, EventSeq, FailureKind, Permit};
use journal::{Entry, StoreError, Stored};
use tokio::time::Instant;

use super::{OpenSession, ReadOnly, SessionActor};
use crate::attach;
use crate::overview::Glance;
use crate::session_roots::find_again;
use crate::state::{CallStanding, Command, Rejected, SessionState};
use crate::store_task::{blocking, failure_kind};

type After = Box<dyn FnOnce(Result<(), FailureKind>) + Send>;

/// Entries decided but not yet stored, and who waits to hear of it.
#[derive(Default)]
pub(super) struct Staged {
    entries: Vec<Entry>,
    after: Vec<After>,
}

impl Staged {
    /// Has `tell` called once everything staged so far is stored, or could not be.
    pub(super) fn after(&mut self, tell: impl FnOnce(Result<(), FailureKind>) + Send + 'static) {
        self.after.push(Box::new(tell));
    }
}

impl SessionActor {
    /// Decides `command` and stages what it means; one whose time has passed means nothing.
    pub(super) fn stage(&mut self, command: Command) {
        // Whoever needs to know of a refusal uses `try_stage`.
        let _ = self.try_stage(command);
    }

    /// Decides `command` and stages what it means, or says why it means nothing.
    pub(super) fn try_stage(&mut self, command: Command) -> Result<(), Rejected> {
        let Some(open) = &mut self.open else {
            return Err(Rejected::Late);
        };
        let entries = open.state.decide(command)?;
        for entry in &entries {
            open.state.apply_entry(open.state.head().next(), entry);
        }
        self.staged.entries.extend(entries);
        Ok(())
    }

    /// Stores what is staged with one sync, then shows it.
    pub(super) async fn commit(&mut self) {
        let staged = std::mem::take(&mut self.staged);
        if staged.entries.is_empty() {
            return staged.after.into_iter().for_each(|tell| tell(Ok(())));
        }
        let Some(mut open) = self.open.take() else {
            let kind = FailureKind::StorageFailed;
            return staged.after.into_iter().for_each(|tell| tell(Err(kind)));
        };
        let entries = staged.entries;
        let prompted = self.view.clone().zip(self.prompted_at);
        let appended = blocking(move || {
            let appended = open.writer.append(entries, Timestamp::now());
            // The turn to come looks around first; so it need not go to a thread once more.
            if let Some((view, asked)) = prompted {
                view.recheck(asked);
            }
            Ok((open, appended))
        });
        match appended.await {
            Ok((open, Ok(stored))) => {
                self.open = Some(open);
                self.stored(&stored, staged.after);
            }
            Ok((_, Err(error))) | Err(error) => self.fence(&error, staged.after),
        }
    }

    /// What is stored becomes visible: first to those who asked for it, then to everyone.
    fn stored(&mut self, stored: &[Arc<Stored>], after: Vec<After>) {
        if let Some(conversation) = &mut self.conversation {
            let mut long = false;
            let mut rewound = false;
            for event in stored {
                rewound |= matches!(event.event, Event::SessionRewound(_));
                conversation.apply(event.seq, &event.event, |_| {
                    long = true;
                    String::new()
                });
            }
            // A message too long for memory is read back when the model needs it, and so is what a
            // compaction replaced before it was undone.
            let too_large = conversation.bytes() > domain::limits::CONVERSATION_CACHE_BYTES_MAX;
            if long || rewound || too_large {
                self.conversation = None;
            }
        }
        self.note_questions(stored);
        self.tell_children(stored);
        self.watch_ends(stored);
        meters::EVENTS.add(stored.len());
        self.publish();
        self.announce();
        after.into_iter().for_each(|tell| tell(Ok(())));
        self.feed.push(stored);
        self.release_verdicts(stored);
    }

    fn note_questions(&mut self, stored: &[Arc<Stored>]) {
        for event in stored {
            if let Some(asked) = asked_in(&event.event) {
                let deadline = Instant::now() + self.engine.limits.permission;
                self.question_deadlines.insert(asked.clone(), deadline);
            }
            if let Some(answered) = answered_in(&event.event) {
                self.question_deadlines.remove(answered);
                self.unable.remove(answered);
            }
        }
    }

    /// Tells the turn about every call whose fate the journal now decides.
    fn release_verdicts(&mut self, stored: &[Arc<Stored>]) {
        let Some(open) = &self.open else { return };
        // What completed without a run did so by a person's answer.
        let is_answered = |call: &CallId| {
            let mut results = stored.iter().filter_map(|stored| result_in(&stored.event));
            results.any(|result| result.call_id == *call && result.status == ToolStatus::Completed)
        };
        let decided: Vec<_> = self
            .verdicts
            .keys()
            .filter_map(|call| match open.state.standing(call) {
                CallStanding::Allowed(event) => Some((call.clone(), Some(event))),
                CallStanding::Over => Some((call.clone(), None)),
                CallStanding::Asked => None,
            })
            .collect();
        for (call, allowed_by) in decided {
            let verdict = match allowed_by {
                Some(event) => Verdict::Run(Permit::granted(call.clone(), event)),
                None if is_answered(&call) => Verdict::Answered,
                None => Verdict::Denied,
            };
            if let Some(reply) = self.verdicts.remove(&call) {
                // A turn that is gone needs no verdict; its calls get their end from the journal.
                let _ = reply.send(verdict);
            }
        }
    }

    /// After a failed write only recovery can say what is on disk: the turn ends here, clients
    /// stay attached, and the next command that writes opens the files anew.
    pub(super) fn fence(&mut self, error: &StoreError, after: Vec<After>) {
        let kind = failure_kind(error);
        self.watch_end(kind.into());
        tracing::error!(session = %self.id, %error, "the store failed; the session is fenced");
        self.announce();
        self.open = None;
        // What it was doing is over; until its files are open again the disk says how it stands.
        self.publish();
        self.staged.entries.clear();
        self.drop_turn();
        self.conversation = None;
        self.sync_due = None;
        let waiting = std::mem::take(&mut self.staged.after);
        after
            .into_iter()
            .chain(waiting)
            .for_each(|tell| tell(Err(kind)));
        self.feed.fail(kind);
    }

    /// Opens the files again after the store failed.
    pub(super) async fn ensure_open(&mut self) -> Result<(), FailureKind> {
        if self.open.is_some() {
            return Ok(());
        }
        if self.read_only.is_some() {
            return Err(FailureKind::Damaged);
        }
        self.load().await.map_err(|error| failure_kind(&error))
    }

    /// Shows the session as it is now to those who look without entering.
    pub(super) fn publish(&self) {
        let glance = self.open.as_ref().map(|open| Glance {
            meta: open.writer.meta().clone(),
            questions: open.state.questions().to_vec(),
            phase: attach::phase(&open.state),
        });
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = glance;
    }

    /// Has those who follow the list of sessions look at this one again.
    pub(super) fn announce(&self) {
        let board = &self.directory.board;
        if !board.is_heard() {
            return;
        }
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(glance) = &*shown {
            board.changed(&glance.meta, &self.shown);
        }
    }

    /// Opens the session's files, folds them, and closes what an earlier life left open.
    pub(super) async fn load(&mut self) -> Result<(), StoreError> {
        let (store, id) = (self.engine.store.clone(), self.id);
        let (roots, base) = (self.roots.clone(), self.engine.base.clone());
        let opened = blocking(move || {
            let mut state = SessionState::default();
            let mut visit = |stored: &Stored| state.apply(stored.seq, &stored.event);
            let (writer, _) = store.open_session(id, Timestamp::now(), &mut visit)?;
            // A session that recovers in memory keeps the directories that it has.
            let roots = roots.unwrap_or_else(|| find_again(&state, base.as_deref()));
            Ok((Box::new(OpenSession { writer, state }), roots))
        });
        let (open, roots) = match opened.await {
            Err(StoreError::Damaged { at }) => return self.load_read_only(at).await,
            opened => opened?,
        };
        self.roots = Some(roots);
        let (head, epoch) = (open.writer.head(), open.writer.epoch());
        // A turn that the store failed under ends as those who follow it were told.
        let failure = self.feed.head().failure;
        let cut_off = failure.map_or(Command::Interrupt, Command::Fail);
        self.feed.recovered(head, epoch);
        self.open = Some(open);
        if self.try_stage(cut_off).is_ok() {
            self.commit().await;
        }
        self.publish();
        if self.open.is_some() {
            Ok(())
        } else {
            Err(StoreError::Fenced)
        }
    }

    /// Folds what lies before the damage at `at`, so that it can be shown; nothing is ever added.
    async fn load_read_only(&mut self, at: EventSeq) -> Result<(), StoreError> {
        tracing::error!(session = %self.id, damaged_at = at.0, "the journal is damaged; read only");
        let (store, id) = (self.engine.store.clone(), self.id);
        let last = EventSeq(at.0.saturating_sub(1));
        let folded = blocking(move || {
            let mut state = SessionState::default();
            let mut reader = store.reader(id)?;
            while state.head() < last {
                let after = state.head();
                let events = reader.read_after(after, last, BATCH_EVENTS_MAX, BATCH_BYTES_MAX)?;
                if events.is_empty() {
                    break;
                }
                events
                    .iter()
                    .for_each(|stored| state.apply(stored.seq, &stored.event));
            }
            Ok(state)
        });
        let mut state = folded.await?;
        state.abandon_turn();
        self.feed.recovered(state.head(), state.epoch());
        self.read_only = Some(Box::new(ReadOnly {
            state,
            damaged_at: at,
        }));
        Ok(())
    }
}

/// The question that an event asks, if it asks one.
fn asked_in(event: &Event) -> Option<&PermissionId> {
    if let Event::PermissionAsked(asked) = event {
        return Some(&asked.id);
    }
    if let Event::QuestionAsked(asked) = event {
        return Some(&asked.id);
    }
    None
}

/// The question that an event ends, if it ends one.
fn answered_in(event: &Event) -> Option<&PermissionId> {
    if let Event::PermissionAnswered(answered) = event {
        return Some(&answered.id);
    }
    if let Event::QuestionAnswered(answered) = event {
        return Some(&answered.id);
    }
    None
}

fn result_in(event: &Event) -> Option<&ToolResult> {
    if let Event::ToolResult(result) = event {
        return Some(result);
    }
    None
}
