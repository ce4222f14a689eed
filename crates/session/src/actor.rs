//! The owner of one session: the only one who changes it.
//!
//! Every change takes the same path: decide, append, apply, ring. What already waits is taken as
//! one batch, so that many commands share one sync ([`commit`]). Because a later command of a batch
//! is decided on the outcome of an earlier one, entries are applied when they are staged; if the
//! append then fails, that state is thrown away and recovery says what is true.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use agent::client_side::{ClientSeat, ClientSide};
use agent::project::Moment;
use agent::{
    Conversation, LanguageServers, Model, Patience, ProjectView, RemoteTools, Report, Root, Seen,
    Verdict,
};
use auth::Line;
use domain::event::MessageKind;
use domain::ids::PermissionId;
use domain::{
    CallId, EventSeq, FailureKind, MessageId, PrincipalId, SessionId, TraceParent, TurnId,
};
use journal::Writer;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::directory::{DirectoryLink, Engine};
use crate::family::Role;
use crate::feed::Feed;
use crate::handle::{
    Accepted, Answer, AttachmentId, Bell, CommandError, Config, DeleteReply, Envelope, Mailbox,
    Presence, Prompt, Reply,
};
use crate::overview::Shown;
use crate::resume_file::ResumeFile;
use crate::state::{Command, Rejected, Said, SessionState};
use crate::store_task::blocking;

mod commit;
mod enter;
mod family;
mod life;
mod pace;
mod project;
mod recall;
mod room;
mod running;
mod settings;
mod watched;

pub use watched::adopt_traces_with;

use commit::Staged;
pub(crate) use life::Birth;

/// How long a cancelled turn gets to end by itself before the session ends it.
const CANCEL_TIME_MAX: Duration = Duration::from_millis(900);

/// One session's actor.
pub(crate) struct SessionActor {
    id: SessionId,
    engine: Arc<Engine>,
    directory: DirectoryLink,
    mailbox: mpsc::Receiver<Box<Envelope>>,
    mailbox_sender: Mailbox,
    bell: Arc<Bell>,
    cancels_seen: u64,
    feed: Arc<Feed>,
    shown: Shown,
    /// `None` before the files are open and after the store failed.
    open: Option<Box<OpenSession>>,
    /// Its directories, from the moment that they were checked or found again.
    roots: Option<Arc<[Root]>>,
    /// What can be read of a journal that is damaged; `open` stays `None` then.
    read_only: Option<Box<ReadOnly>>,
    staged: Staged,
    /// Clients that may act, by the order in which they came.
    attachments: Vec<(AttachmentId, Weak<Presence>)>,
    /// Clients that only look.
    observers: Vec<Weak<Presence>>,
    /// Attaches and deletes that came through the directory.
    envelopes_seen: u64,
    attaches: u64,
    resume: ResumeFile,
    turn: Option<LiveTurn>,
    /// Outlives the turn's task, until the journal has its end.
    watched: Option<watched::WatchedTurn>,
    /// The kind of the message being streamed.
    open_kind: Option<MessageKind>,
    /// What is around the session, once it has been asked for.
    view: Option<ProjectView>,
    /// Its tool servers, once somebody named some or a turn asked for them.
    remote: Option<Arc<dyn RemoteTools>>,
    /// Somebody came who may have named tool servers: it is settled which it has.
    has_servers: bool,
    /// When the turn that is about to start was asked for.
    prompted_at: Option<Moment>,
    model: Option<Box<dyn Model>>,
    /// Another model was chosen while a turn had the old one.
    is_model_changed: bool,
    /// What the model is told first.
    system: Option<Arc<str>>,
    conversation: Option<Conversation>,
    /// How the turns of this session last saw the files that they read and wrote.
    seen: Seen,
    /// They end with the session.
    languages: LanguageServers,
    verdicts: HashMap<CallId, oneshot::Sender<Verdict>>,
    /// Who cannot answer which question.
    unable: HashMap<PermissionId, HashSet<AttachmentId>>,
    question_deadlines: HashMap<PermissionId, Instant>,
    /// Whose prompt the next turn is, and whose prompt waits at which event.
    next_prompter: Option<Prompter>,
    queued_by: HashMap<EventSeq, Prompter>,
    sync_due: Option<Instant>,
    /// Whether the disk had room when it was last asked, and when that was.
    disk_room: Option<(bool, Instant)>,
    idle_since: Instant,
    /// When an idle session lets go of what only makes the next turn begin sooner.
    cool_at: Option<Instant>,
    stopping: Option<Stopping>,
    /// Attaches that wait for a close to be done.
    deferred: Vec<Envelope>,
    /// Clients that leave while others stay, once the turn they started has ended.
    parting: Vec<Reply<Result<EventSeq, CommandError>>>,
    ended: bool,
    /// What makes it a sub-agent's, while its task runs.
    role: Option<Box<Role>>,
}

/// The files and the fold over them.
struct OpenSession {
    writer: Writer,
    state: SessionState,
}

/// The fold over what lies before the damage.
struct ReadOnly {
    state: SessionState,
    damaged_at: EventSeq,
}

/// A turn under way.
struct LiveTurn {
    reports: mpsc::Receiver<Report>,
    cancel: CancellationToken,
    started_by: Option<Line>,
    /// Where the client sits whose files and terminals it uses.
    seat: Option<ClientSeat>,
    /// When the session ends it, if it has not ended by itself.
    end_by: Option<Instant>,
    pace: pace::Pace,
    caller: family::Caller,
}

/// Who sent a prompt.
struct Prompter {
    line: Line,
    /// The client itself, if it offers something of its own to the turn.
    client: Option<Arc<dyn ClientSide>>,
    /// The trace it belongs to.
    trace: Option<TraceParent>,
    /// How long the turn waits for tool servers that are still starting.
    patience: Patience,
}

/// Why the session is about to leave memory.
enum Stopping {
    /// The last client closed it.
    Close(Vec<Reply<Result<EventSeq, CommandError>>>),
    /// Its owner deleted it.
    Delete(DeleteReply),
    /// The process ends; a turn may go on until then.
    Shutdown(Instant),
}

/// Why the actor woke up.
enum Wake {
    Bell,
    Envelope(Option<Box<Envelope>>),
    Report(Option<Report>),
    Due,
}

impl SessionActor {
    /// Lives until the session leaves memory.
    ///
    /// What it does is boxed, waiting is not: an idle session has the room of the largest step of
    /// this task for as long as it lives.
    pub(crate) async fn run(mut self: Box<Self>, birth: Birth) {
        if let Err(error) = Box::pin(self.be_born(birth)).await {
            return Box::pin(self.refuse_everyone(&error)).await;
        }
        let mut seen = meters::SessionSeen::loaded();
        while !self.ended {
            let wake = self.wait().await;
            Box::pin(self.wake(wake)).await;
            seen.is(self.phase());
        }
    }

    async fn wake(&mut self, wake: Wake) {
        match wake {
            Wake::Bell | Wake::Due => {}
            Wake::Envelope(Some(envelope)) => Box::pin(self.on_envelope(*envelope)).await,
            // Every sender is gone, and with them all ways to reach this session.
            Wake::Envelope(None) => self.ended = true,
            Wake::Report(report) => self.on_report(report).await,
        }
        self.take_all_that_waits().await;
        self.on_bell();
        self.on_deadlines().await;
        self.commit().await;
        self.carry_on().await;
    }

    async fn wait(&mut self) -> Wake {
        let due = self.next_deadline();
        tokio::select! {
            biased;
            () = self.bell.notify.notified() => Wake::Bell,
            envelope = self.mailbox.recv() => Wake::Envelope(envelope),
            report = next_report(self.turn.as_mut()) => Wake::Report(report),
            () = sleep_until(due) => Wake::Due,
        }
    }

    /// Takes everything that is already there, so that it shares one append.
    async fn take_all_that_waits(&mut self) {
        if self.stopping.is_none() {
            for envelope in std::mem::take(&mut self.deferred) {
                Box::pin(self.on_envelope(envelope)).await;
            }
        }
        while let Ok(envelope) = self.mailbox.try_recv() {
            Box::pin(self.on_envelope(*envelope)).await;
        }
        while let Some(turn) = &mut self.turn
            && turn.pace.opens_at().is_none()
            && let Ok(report) = turn.reports.try_recv()
        {
            self.on_report(Some(report)).await;
        }
    }

    async fn on_envelope(&mut self, envelope: Envelope) {
        match envelope {
            // Whoever comes while the last client closes finds the session closed, not missing.
            Envelope::Attach { .. } if matches!(self.stopping, Some(Stopping::Close(_))) => {
                self.deferred.push(envelope);
            }
            Envelope::Attach { entrance, reply } => {
                self.commit().await;
                self.envelopes_seen += 1;
                self.attaches += 1;
                let attached = self.attach(*entrance).await;
                // The asker may have gone; dropping the handle detaches it again.
                let _ = reply.send(attached);
            }
            Envelope::Prompt {
                prompt,
                cancels,
                from,
                reply,
            } => {
                if cancels > self.cancels_seen {
                    self.cancels_seen = cancels;
                    self.cancel_turn();
                }
                self.on_prompt(*prompt, from, reply).await;
            }
            Envelope::DropQueued(queued) => self.stage(Command::DropQueued(queued)),
            Envelope::CancelTurn(turn) => {
                let running = self.open.as_ref().and_then(|open| open.state.running());
                if running.is_some_and(|running| running.turn == turn) {
                    self.cancel_turn();
                }
            }
            Envelope::SetMode { mode, reply } => self.on_set_mode(mode, reply).await,
            Envelope::SetModel { model, reply } => self.on_set_model(model, reply).await,
            Envelope::Label { label, reply } => self.on_label(label, reply).await,
            Envelope::Config { reply } => {
                let state = self.readable();
                let config = state.map(|state| Config::of(state, &self.engine));
                reply(config.ok_or(CommandError::Closed));
            }
            Envelope::Roots { reply } => reply(self.roots().ok_or(CommandError::Closed)),
            Envelope::Rewind { to, reply } => self.on_rewind(to, reply).await,
            Envelope::Answer {
                question,
                answer,
                from,
                by,
            } => self.on_answer(question, answer, from, by),
            Envelope::ClientBack { client, from } => self.on_client_back(client, from),
            Envelope::Close {
                may_act: false,
                reply,
                ..
            } => reply(Ok(self.feed.head().seq)),
            Envelope::Close {
                from, line, reply, ..
            } => self.on_close((from, line), reply).await,
            Envelope::Delete { owner, reply } => self.on_delete(owner, reply).await,
            Envelope::Guard { reply } => self.on_guard(reply),
            Envelope::Family(message) => self.on_family(message),
            Envelope::Shutdown { deadline } => {
                // One that is being closed or deleted leaves by itself.
                self.stopping.get_or_insert(Stopping::Shutdown(deadline));
            }
        }
    }

    async fn on_prompt(
        &mut self,
        prompt: Prompt,
        line: Line,
        reply: Reply<Result<Accepted, CommandError>>,
    ) {
        if self.turn.is_none() {
            self.prompted_at = Some(Moment::now());
        }
        if self.stopping.is_some() {
            return reply(Err(CommandError::Failed(FailureKind::Draining)));
        }
        if let Err(kind) = self.ensure_open().await {
            return reply(Err(CommandError::Failed(kind)));
        }
        if !self.has_disk_room().await {
            return reply(Err(CommandError::Failed(FailureKind::StorageFull)));
        }
        match self.recall(prompt.prompt_id.as_ref()).await {
            Ok(None) => {}
            Ok(Some(fate)) => return reply(Ok(Accepted::Repeated(fate, self.feed.head().seq))),
            Err(kind) => return reply(Err(CommandError::Failed(kind))),
        }
        let Some(open) = &self.open else {
            return reply(Err(CommandError::Closed));
        };
        let starts = open.state.running().is_none() && !open.state.has_queue();
        let (turn, queued_at) = (open.state.last_turn(), open.state.head().next());
        let tokens_max = self.engine.limits.session_tokens_max;
        let is_spent = tokens_max > 0 && open.state.usage().tokens() >= tokens_max;
        let prompter = Prompter {
            line,
            client: prompt.client,
            trace: prompt.trace,
            patience: prompt.patience,
        };
        let command = Command::Prompt {
            text: prompt.text,
            blocks: prompt.blocks,
            message_id: prompt.message_id.unwrap_or_else(MessageId::random),
            prompt_id: prompt.prompt_id,
            queue: prompt.queue,
            greeting: self.engine.greeting.clone(),
            is_spent,
        };
        let accepted = match self.try_stage(command) {
            Ok(()) if starts => {
                self.next_prompter = Some(prompter);
                Ok(Accepted::Turn(TurnId(turn.0 + 1)))
            }
            Ok(()) => {
                self.queued_by.insert(queued_at, prompter);
                Ok(Accepted::Queued(queued_at))
            }
            Err(Rejected::Repeated(fate)) => Ok(Accepted::Repeated(fate, self.decided_head())),
            Err(Rejected::QueueFull) => Err(CommandError::Limit("queued_prompts")),
            Err(Rejected::Spent) => Err(CommandError::Limit("session_tokens")),
            Err(Rejected::SubAgent) => Err(CommandError::Invalid("a sub-agent takes no prompts")),
            Err(Rejected::Busy | Rejected::Late | Rejected::Nothing) => Err(CommandError::Busy),
        };
        self.staged.after(move |stored| {
            reply(stored.map_err(CommandError::Failed).and(accepted));
        });
    }

    fn on_answer(
        &mut self,
        question: PermissionId,
        answer: Answer,
        from: AttachmentId,
        by: PrincipalId,
    ) {
        let said = match answer {
            Answer::Selected(option) => Said::Option(option),
            Answer::Explained { option, reason } => Said::Explained { option, reason },
            Answer::Said(words) => Said::Words(words),
            Answer::Filled(content) => Said::Form(content),
            Answer::Dismissed => Said::Nothing,
            Answer::Unable => return self.on_unable(question, from),
        };
        self.stage(Command::Answer { question, said, by });
    }

    /// The client of an attachment is there again; a turn that it started may go on with it.
    fn on_client_back(&mut self, client: Arc<dyn ClientSide>, from: Line) {
        let started = self.turn.as_ref();
        let started = started.filter(|turn| turn.started_by == Some(from));
        let Some(seat) = started.and_then(|turn| turn.seat.as_ref()) else {
            return;
        };
        if !seat.take_back(client) {
            tracing::info!(session = %self.id, "a client came back that offers something else");
        }
    }

    /// A client cannot answer; the question is denied when nobody else can.
    fn on_unable(&mut self, question: PermissionId, from: AttachmentId) {
        let is_here = |presence: &Weak<Presence>| presence.strong_count() > 0;
        self.attachments.retain(|(_, presence)| is_here(presence));
        let unable = self.unable.entry(question.clone()).or_default();
        unable.insert(from);
        let somebody_can = self.attachments.iter().any(|(id, _)| !unable.contains(id));
        if !somebody_can {
            self.stage(Command::Deny(question));
        }
    }

    async fn on_close(
        &mut self,
        (from, line): (AttachmentId, Line),
        reply: Reply<Result<EventSeq, CommandError>>,
    ) {
        if let Err(kind) = self.ensure_open().await {
            return reply(Err(CommandError::Failed(kind)));
        }
        let others = self
            .attachments
            .iter()
            .any(|(id, presence)| *id != from && presence.strong_count() > 0);
        let started_it = self.is_turn_of(line);
        if !others || started_it {
            self.cancel_turn();
        }
        if others {
            // What it is told was cancelled must not run later.
            let queued = self.queued_by.iter();
            let queued = queued.filter(|(_, by)| by.line == line);
            for seq in queued.map(|(seq, _)| *seq).collect::<Vec<_>>() {
                self.stage(Command::DropQueued(seq));
            }
            self.attachments.retain(|(id, _)| *id != from);
            if started_it {
                // Its prompt is answered with how the turn ended, and not before.
                return self.parting.push(reply);
            }
            let (head, shown) = (self.decided_head(), self.feed.head().seq);
            self.staged
                .after(move |stored| reply(Ok(stored.map_or(shown, |()| head))));
            return;
        }
        match &mut self.stopping {
            Some(Stopping::Close(replies)) => replies.push(reply),
            None => self.stopping = Some(Stopping::Close(vec![reply])),
            // The turn that was just cancelled is to end first.
            Some(Stopping::Delete(_) | Stopping::Shutdown(_)) => self.parting.push(reply),
        }
    }

    /// Whether the turn that runs, or is decided and about to begin, answers a prompt of `line`.
    fn is_turn_of(&self, line: Line) -> bool {
        if let Some(turn) = &self.turn {
            return turn.started_by == Some(line);
        }
        let running = self.open.as_ref().and_then(|open| open.state.running());
        let next = self.next_prompter.as_ref().filter(|_| running.is_some());
        next.is_some_and(|prompter| prompter.line == line)
    }

    /// The newest event, once what is staged is stored. Whoever is told of a staged change must be
    /// shown it first, so this is what they wait for.
    fn decided_head(&self) -> EventSeq {
        let open = self.open.as_ref();
        open.map_or(self.feed.head().seq, |open| open.state.head())
    }

    async fn on_delete(&mut self, owner: PrincipalId, reply: DeleteReply) {
        self.envelopes_seen += 1;
        // Not theirs: dropping the reply says that there was nothing to do.
        if !self.is_owner(&owner).await {
            return;
        }
        match self.stopping.take() {
            None => {}
            Some(Stopping::Close(replies)) => {
                let head = self.feed.head().seq;
                replies.into_iter().for_each(|reply| reply(Ok(head)));
            }
            Some(other @ (Stopping::Delete(_) | Stopping::Shutdown(_))) => {
                return self.stopping = Some(other);
            }
        }
        self.cancel_turn();
        self.stopping = Some(Stopping::Delete(reply));
    }

    /// Whether `owner` owns the session, also when the store failed and its state is gone.
    async fn is_owner(&mut self, owner: &PrincipalId) -> bool {
        match self.readable() {
            Some(state) => state.owner() == owner,
            None => {
                let (store, id) = (self.engine.store.clone(), self.id);
                let meta = blocking(move || store.meta(id)).await;
                meta.is_ok_and(|meta| meta.owner == *owner)
            }
        }
    }

    /// Looks at what wakes the actor outside its mailbox: cancels, and clients that left.
    fn on_bell(&mut self) {
        let cancels = self.bell.cancels.load(Ordering::Acquire);
        if cancels > self.cancels_seen {
            self.cancels_seen = cancels;
            self.cancel_turn();
        }
        let before = self.attachments.len();
        self.attachments
            .retain(|(_, presence)| presence.strong_count() > 0);
        let watched = self.observers.len();
        self.observers
            .retain(|presence| presence.strong_count() > 0);
        let somebody_left = self.attachments.len() != before || self.observers.len() != watched;
        if somebody_left || self.turn.is_some() {
            self.idle_since = Instant::now();
        }
    }

    /// Tells those who leave how far to read before they do.
    fn let_go(&mut self) {
        let head = self.feed.head().seq;
        let parting = std::mem::take(&mut self.parting);
        parting.into_iter().for_each(|reply| reply(Ok(head)));
    }

    /// The session's state, also when it can only be read.
    fn readable(&self) -> Option<&SessionState> {
        let read_only = self.read_only.as_ref().map(|read_only| &read_only.state);
        self.open.as_ref().map(|open| &open.state).or(read_only)
    }
}

impl Drop for SessionActor {
    /// However it ends, by leaving or by a panic, nobody is left waiting for it.
    fn drop(&mut self) {
        let error = if self.ended {
            CommandError::Closed
        } else {
            self.feed.fail(FailureKind::StorageFailed);
            self.feed.end();
            CommandError::Failed(FailureKind::StorageFailed)
        };
        self.mailbox.close();
        self.let_go();
        let deferred = std::mem::take(&mut self.deferred);
        deferred
            .into_iter()
            .for_each(|envelope| envelope.refuse(error.clone()));
        while let Ok(envelope) = self.mailbox.try_recv() {
            envelope.refuse(error.clone());
        }
        // A panic takes one session out of memory, not the directory's trust in it.
        if std::thread::panicking()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            tracing::error!(session = %self.id, "the session stopped unexpectedly");
            let (id, directory) = (self.id, self.directory.clone());
            runtime.spawn(async move { directory.left(id).await });
        }
    }
}

/// The next report of a running turn; without one, never.
async fn next_report(turn: Option<&mut LiveTurn>) -> Option<Report> {
    match turn {
        Some(turn) => {
            if let Some(opens_at) = turn.pace.opens_at() {
                tokio::time::sleep_until(opens_at).await;
            }
            turn.reports.recv().await
        }
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
