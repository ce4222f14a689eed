//! How a session comes into memory and leaves it.

use std::collections::HashMap;
use std::sync::Arc;

use agent::Root;
use auth::Principal;
use domain::clock::Timestamp;
use domain::event::SessionCreated;
use domain::{FailureKind, PrincipalId, SessionId};
use journal::StoreError;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{OpenSession, SessionActor, Stopping};
use crate::directory::{DirectoryLink, Engine, NewSession};
use crate::family::ChildBirth;
use crate::feed::{Feed, Head};
use crate::handle::{AttachError, AttachReply, Bell, CommandError, Envelope, Mailbox};
use crate::overview::Shown;
use crate::resume_file::ResumeFile;
use crate::session_roots;
use crate::state::{Command, SessionState};
use crate::store_task::{blocking, failure_kind};

/// Where a session comes from.
pub(crate) enum Birth {
    /// It is new, and this is how it shall be.
    New(Principal, NewSession),
    /// It is a sub-agent's.
    Child(Box<ChildBirth>),
    /// Its journal is on disk.
    Load,
}

impl SessionActor {
    pub(crate) fn new(
        id: SessionId,
        engine: Arc<Engine>,
        directory: DirectoryLink,
        (mailbox_sender, mailbox): (Mailbox, mpsc::Receiver<Box<Envelope>>),
        shown: Shown,
    ) -> Self {
        let patience = engine.limits.lsp;
        let commands = engine.operator.settings.lsp.clone();
        Self {
            id,
            resume: ResumeFile::new(engine.store.clone(), id),
            engine,
            directory,
            mailbox,
            mailbox_sender,
            bell: Arc::new(Bell::default()),
            cancels_seen: 0,
            feed: Arc::new(Feed::new(Head::default())),
            shown,
            open: None,
            roots: None,
            read_only: None,
            staged: super::Staged::default(),
            attachments: Vec::new(),
            observers: Vec::new(),
            envelopes_seen: 0,
            attaches: 0,
            turn: None,
            watched: None,
            open_kind: None,
            view: None,
            remote: None,
            has_servers: false,
            prompted_at: None,
            model: None,
            is_model_changed: false,
            system: None,
            conversation: None,
            seen: agent::Seen::default(),
            languages: agent::LanguageServers::new(patience).with_commands(commands),
            verdicts: HashMap::new(),
            unable: HashMap::new(),
            question_deadlines: HashMap::new(),
            next_prompter: None,
            queued_by: HashMap::new(),
            sync_due: None,
            disk_room: None,
            idle_since: Instant::now(),
            cool_at: None,
            stopping: None,
            deferred: Vec::new(),
            parting: Vec::new(),
            ended: false,
            role: None,
        }
    }

    pub(super) async fn be_born(&mut self, birth: Birth) -> Result<(), StoreError> {
        let (owner, new) = match birth {
            Birth::Load => {
                self.resume.load().await;
                return self.load().await;
            }
            Birth::Child(birth) => return self.be_born_as_child(*birth).await,
            Birth::New(owner, new) => (owner, new),
        };
        let roots: Arc<[Root]> = std::iter::once(new.cwd)
            .chain(new.additional_directories)
            .collect();
        let mut names = session_roots::names(&roots);
        let created = SessionCreated {
            owner: owner.id().clone(),
            cwd: names.remove(0),
            epoch: 0,
            additional_directories: names,
            real_directories: session_roots::real_directories(&roots),
        };
        self.roots = Some(roots);
        let (store, id) = (self.engine.store.clone(), self.id);
        let made = blocking(move || store.create(id, vec![created.into()], Timestamp::now()));
        let (writer, stored) = made.await?;
        let mut state = SessionState::default();
        for event in &stored {
            state.apply(event.seq, &event.event);
        }
        // Nobody follows it yet, and who wants its beginning reads the file.
        self.feed.recovered(writer.head(), writer.epoch());
        self.open = Some(Box::new(OpenSession { writer, state }));
        self.take_servers(new.servers);
        meters::EVENTS.add(stored.len());
        self.publish();
        self.announce();
        Ok(())
    }

    /// Tells everyone who comes that the session cannot be opened, until nobody is on the way.
    pub(super) async fn refuse_everyone(mut self: Box<Self>, error: &StoreError) {
        loop {
            while let Ok(envelope) = self.mailbox.try_recv() {
                match *envelope {
                    Envelope::Attach { reply, .. } => {
                        self.envelopes_seen += 1;
                        refuse_attach(reply, error);
                    }
                    Envelope::Guard { reply } => {
                        self.envelopes_seen += 1;
                        let _ = reply.send(Err(AttachError::Failed(failure_kind(error))));
                    }
                    Envelope::Delete { owner, reply } => {
                        self.envelopes_seen += 1;
                        if let Some(outcome) = self.delete_unopened(&owner, error).await {
                            let _ = reply.send(outcome);
                        }
                    }
                    Envelope::Prompt { .. }
                    | Envelope::DropQueued(_)
                    | Envelope::CancelTurn(_)
                    | Envelope::SetMode { .. }
                    | Envelope::SetModel { .. }
                    | Envelope::Label { .. }
                    | Envelope::Config { .. }
                    | Envelope::Roots { .. }
                    | Envelope::Rewind { .. }
                    | Envelope::Answer { .. }
                    | Envelope::ClientBack { .. }
                    | Envelope::Family(_)
                    | Envelope::Close { .. }
                    | Envelope::Shutdown { .. } => envelope.refuse(CommandError::Closed),
                }
            }
            if self.directory.may_leave(self.id, self.envelopes_seen).await {
                return self.directory.left(self.id).await;
            }
            tokio::task::yield_now().await;
        }
    }

    /// A session that is damaged, or has no space to recover, cannot be opened, but its owner may
    /// delete it; one that another process holds cannot be deleted, and its owner is told.
    /// `None`: there is nothing to delete.
    async fn delete_unopened(
        &mut self,
        owner: &PrincipalId,
        error: &StoreError,
    ) -> Option<Result<(), FailureKind>> {
        if !self.is_owner(owner).await {
            return None;
        }
        // Deleting needs neither a whole journal nor any space; it gives some back.
        if !matches!(error, StoreError::Damaged { .. } | StoreError::Full) {
            return Some(Err(failure_kind(error)));
        }
        let (store, id) = (self.engine.store.clone(), self.id);
        let deleted = blocking(move || store.delete(id)).await;
        if deleted.is_ok() {
            self.directory.board.removed(id, owner);
        }
        Some(deleted.map_err(|error| failure_kind(&error)))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let force = self.turn.as_ref().and_then(|turn| turn.end_by);
        let expiry = self.question_deadlines.values().min().copied();
        let stop = match &self.stopping {
            Some(Stopping::Shutdown(deadline)) => Some(*deadline),
            Some(Stopping::Close(_) | Stopping::Delete(_)) | None => None,
        };
        let grace = self
            .is_unused()
            .then(|| self.idle_since + self.engine.limits.grace);
        [force, expiry, stop, grace, self.sync_due, self.cool_at]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) async fn on_deadlines(&mut self) {
        let now = Instant::now();
        if self
            .turn
            .as_ref()
            .and_then(|turn| turn.end_by)
            .is_some_and(|at| at <= now)
        {
            tracing::warn!(session = %self.id, "a cancelled turn did not end by itself");
            self.stage(Command::End(Ok(domain::event::StopReason::Cancelled)));
            self.drop_turn();
        }
        let late = self.question_deadlines.iter().filter(|(_, at)| **at <= now);
        for question in late.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.question_deadlines.remove(&question);
            self.stage(Command::Expire(question));
        }
        if self.cool_at.is_some_and(|at| at <= now) {
            (self.cool_at, self.conversation) = (None, None);
            self.feed.cool();
            if let Some(open) = &mut self.open {
                open.writer.rest();
            }
        }
        if self.sync_due.is_some_and(|at| at <= now) {
            self.sync_due = None;
            self.sync_text().await;
        }
    }

    /// Syncs streamed text on another thread. Text that comes meanwhile waits in the channel.
    async fn sync_text(&mut self) {
        let job = self.open.as_mut().and_then(|open| open.writer.unsynced());
        let Some(job) = job else { return };
        if let Err(error) = blocking(move || job.run()).await {
            if let Some(open) = &mut self.open {
                open.writer.fence();
            }
            self.fence(&error, Vec::new());
        }
    }

    /// After everything is stored: starts what should run, and leaves when it is time.
    pub(super) async fn carry_on(&mut self) {
        if self.turn.is_none() {
            self.let_go();
        }
        self.start_what_waits().await;
        if self.turn.is_some() && !self.must_interrupt() {
            return;
        }
        match self.stopping.take() {
            None => self.leave_if_unused().await,
            Some(Stopping::Close(replies)) => {
                self.run_end_hooks("closed").await;
                self.stage(Command::Close);
                self.commit().await;
                let head = self.feed.head().seq;
                replies.into_iter().for_each(|reply| reply(Ok(head)));
                if self.directory.may_leave(self.id, self.envelopes_seen).await {
                    self.leave().await;
                } else {
                    // Somebody is on the way in, perhaps deferred: look again at once.
                    self.bell.notify.notify_one();
                }
            }
            Some(Stopping::Delete(reply)) => {
                self.run_end_hooks("deleted").await;
                let deleted = self.delete().await;
                let _ = reply.send(deleted);
            }
            Some(Stopping::Shutdown(_)) => {
                self.drop_turn();
                self.stage(Command::Interrupt);
                self.commit().await;
                self.run_end_hooks("shutdown").await;
                self.leave().await;
            }
        }
    }

    async fn start_what_waits(&mut self) {
        if self.turn.is_some() || self.stopping.is_some() {
            return;
        }
        let Some(open) = &self.open else { return };
        if let (None, Some(next)) = (open.state.running(), open.state.next_queued()) {
            self.next_prompter = self.queued_by.remove(&next);
            let greeting = self.engine.greeting.clone();
            self.stage(Command::StartQueued { greeting });
            self.commit().await;
        }
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.state.running().is_some())
        {
            let prompter = self.next_prompter.take();
            self.start_turn(prompter).await;
        } else {
            // Nothing runs and nothing waits, so nobody's prompt does.
            self.next_prompter = None;
            self.queued_by.clear();
        }
    }

    fn must_interrupt(&self) -> bool {
        matches!(&self.stopping, Some(Stopping::Shutdown(deadline)) if *deadline <= Instant::now())
    }

    fn is_unused(&self) -> bool {
        let asked = self
            .open
            .as_ref()
            .is_some_and(|open| !open.state.questions().is_empty());
        let alone = self.attachments.is_empty() && self.observers.is_empty();
        alone && self.turn.is_none() && !asked
    }

    async fn leave_if_unused(&mut self) {
        let grace_over = Instant::now() >= self.idle_since + self.engine.limits.grace;
        if !self.is_unused() || !grace_over {
            return;
        }
        if self.directory.may_leave(self.id, self.envelopes_seen).await {
            self.run_end_hooks("unused").await;
            self.leave().await;
        } else {
            // Somebody is on the way in; they start a new grace time.
            self.idle_since = Instant::now();
        }
    }

    /// Lets go of the files, then tells the directory, which may open them again at once.
    async fn leave(&mut self) {
        if let Some(mut open) = self.open.take() {
            let saved = blocking(move || open.writer.save_meta());
            if let Err(error) = saved.await {
                // It is a cache; the journal has everything. What else is to be done is done.
                meters::CLEANUP_FAILURES.count();
                tracing::warn!(session = %self.id, %error, "meta.json was not saved");
            }
        }
        self.resume.save().await;
        self.let_go();
        self.feed.end();
        self.ended = true;
        self.directory.left(self.id).await;
    }

    async fn delete(&mut self) -> Result<(), FailureKind> {
        self.delete_children().await;
        let owner = self.readable().map(|state| state.owner().clone());
        self.open = None;
        let (store, id) = (self.engine.store.clone(), self.id);
        let deleted = blocking(move || store.delete(id)).await;
        if let Err(error) = &deleted {
            meters::CLEANUP_FAILURES.count();
            tracing::error!(session = %self.id, %error, "the session was not deleted");
        } else if let Some(owner) = owner {
            self.directory.board.removed(self.id, &owner);
        }
        self.let_go();
        self.feed.end();
        self.ended = true;
        self.directory.left(self.id).await;
        deleted.map_err(|error| failure_kind(&error))
    }
}

/// Answers an attach that cannot be served.
fn refuse_attach(reply: AttachReply, error: &StoreError) {
    let refusal = if matches!(error, StoreError::NotFound) {
        AttachError::NotFound
    } else {
        AttachError::Failed(failure_kind(error))
    };
    let _ = reply.send(Err(refusal));
}
