//! Finding sessions: one task that knows which are in memory, and brings in those that are not.
//!
//! Every way into a session passes here, so a session that wants to leave memory can ask whether
//! somebody is on the way ([`DirectoryLink::may_leave`]): resuming never races with cleaning.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agent::{
    Catalog, Operator, PathError, Provider, RemoteSource, Root, RootBase, Roots, Shell, Web,
};
use auth::{Gate, Principal};
use domain::clock::Timestamp;
use domain::limits::MAILBOX_COMMANDS_MAX;
use domain::{FailureKind, Limits, PrincipalId, SessionId, ToolServer};
use journal::FileStore;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::actor::{Birth, SessionActor};
use crate::changes::Board;
use crate::family::{ChildBirth, GuardReply, Guarded};
use crate::handle::{
    AttachError, AttachReply, Attached, CommandError, DeleteReply, Entrance, Envelope, From,
    Mailbox,
};
use crate::overview::{self, Shown};
use crate::session_roots;
use crate::standing::Standing;
use crate::state::SessionState;

/// What all sessions of a process share.
pub struct Engine {
    /// Where journals are.
    pub store: FileStore,
    /// Where models come from, unless a session has chosen another.
    pub provider: Arc<dyn Provider>,
    /// The models that a session can choose.
    pub catalog: Arc<dyn Catalog>,
    /// Every bound.
    pub limits: Limits,
    /// What to say before a session's first prompt.
    pub greeting: Option<String>,
    /// What no tool may see: the data directory.
    pub hidden: Vec<PathBuf>,
    /// The directory beneath which guests work; without it they have none.
    pub base: Option<Arc<RootBase>>,
    /// Who is let in: a right to come back ends with the token that got it.
    pub gate: Arc<Gate>,
    /// What tools reach the network through; without it they do not.
    pub web: Option<Web>,
    /// What the operator has set for every session.
    pub operator: Arc<Operator>,
    /// How commands run on the server; without it they do not.
    pub shell: Option<Shell>,
    /// Where tool servers come from; without it there are none.
    pub remotes: Option<Arc<dyn RemoteSource>>,
}

impl Engine {
    /// The model that the next turn of a session uses: the one it has chosen while that is on
    /// offer, else the process's own.
    pub(crate) fn model_of(&self, state: &SessionState) -> String {
        let chosen = state.model();
        let chosen = chosen.filter(|spec| self.catalog.offered(spec).is_ok());
        chosen.unwrap_or(self.provider.label()).to_owned()
    }
}

/// How a new session shall be.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its working directory, checked.
    pub cwd: Root,
    /// Other directories it may touch.
    pub additional_directories: Vec<Root>,
    /// Tool servers that its client named; they belong to it alone.
    pub servers: Vec<ToolServer>,
}

/// The way to all sessions. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    requests: mpsc::Sender<Request>,
    pub(crate) store: FileStore,
    limits: Arc<Limits>,
    standing: Standing,
    board: Arc<Board>,
    base: Option<Arc<RootBase>>,
    hidden: Vec<PathBuf>,
    shell: Option<Shell>,
}

impl Sessions {
    /// Starts the directory on the current runtime.
    #[must_use]
    pub fn start(engine: Engine) -> Self {
        let (requests, inbox) = mpsc::channel(MAILBOX_COMMANDS_MAX);
        let store = engine.store.clone();
        let limits = Arc::new(engine.limits.clone());
        let board = Arc::new(Board::default());
        let base = engine.base.clone();
        let (hidden, shell) = (engine.hidden.clone(), engine.shell.clone());
        let link = DirectoryLink {
            requests: requests.clone(),
            board: Arc::clone(&board),
        };
        let directory = Directory {
            engine: Arc::new(engine),
            link,
            live: HashMap::new(),
            expected: HashMap::new(),
            shutdown: None,
        };
        tokio::spawn(directory.run(inbox));
        Self {
            requests,
            store,
            limits,
            standing: Standing::default(),
            board,
            base,
            hidden,
            shell,
        }
    }

    /// The directory at `path`, for a new session of `principal`. Blocks.
    ///
    /// # Errors
    /// If it lies outside of what the principal may use.
    pub fn find_root(&self, principal: &Principal, path: &str) -> Result<Root, PathError> {
        session_roots::find(principal, self.base.as_deref(), path)
    }

    /// Makes a session that belongs to `principal`, and enters it.
    ///
    /// # Errors
    /// If it cannot be stored, or is not safe in its directories.
    pub async fn create(
        &self,
        principal: &Principal,
        new: NewSession,
    ) -> Result<Attached, AttachError> {
        let others = new.additional_directories.iter().cloned();
        let roots = Roots::of(new.cwd.clone(), others, self.hidden.clone());
        session_roots::check_safe(self.shell.as_ref(), &roots).await?;
        let (reply, attached) = oneshot::channel();
        self.ask(
            Request::Create {
                principal: principal.clone(),
                new,
                reply,
            },
            attached,
        )
        .await
    }

    /// Enters the session `id`, bringing it into memory if need be.
    ///
    /// # Errors
    /// If it is not there, not the principal's, or cannot be opened.
    pub async fn attach(&self, id: SessionId, entrance: Entrance) -> Result<Attached, AttachError> {
        let (reply, attached) = oneshot::channel();
        let entrance = Box::new(entrance);
        let envelope = Envelope::Attach { entrance, reply };
        self.ask(Request::Attach { id, envelope }, attached).await
    }

    /// Deletes the session `id`, and its sub-agents', if it is the principal's; otherwise does
    /// nothing.
    ///
    /// # Errors
    /// If it is there and theirs but cannot be deleted.
    pub async fn delete(&self, principal: &Principal, id: SessionId) -> Result<(), FailureKind> {
        let link = DirectoryLink {
            requests: self.requests.clone(),
            board: Arc::clone(&self.board),
        };
        link.delete(id, principal.id().clone()).await
    }

    /// Lets running turns end until `deadline`, interrupts the rest, and returns when every
    /// session has left memory.
    pub async fn shut_down(&self, deadline: Instant) {
        self.standing.drain();
        let (reply, done) = oneshot::channel();
        if self
            .requests
            .send(Request::ShutDown { deadline, reply })
            .await
            .is_ok()
        {
            let _ = done.await;
        }
    }

    /// Whether new sessions and prompts would be taken now.
    ///
    /// # Errors
    /// Why they would not.
    pub async fn check_ready(&self) -> Result<(), FailureKind> {
        self.standing.check(&self.store, &self.limits).await
    }

    /// Whether the process is ending and nothing new is taken.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.standing.is_draining()
    }

    /// The sessions in memory, or only `of` if it is there.
    pub(crate) async fn live(&self, of: Option<SessionId>) -> overview::Live {
        let (reply, live) = oneshot::channel();
        match self.requests.send(Request::Live { of, reply }).await {
            Ok(()) => live.await.unwrap_or_default(),
            Err(_) => HashMap::new(),
        }
    }

    /// Where sessions are put that have changed.
    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    async fn ask(
        &self,
        request: Request,
        answer: oneshot::Receiver<Result<Attached, AttachError>>,
    ) -> Result<Attached, AttachError> {
        let draining = AttachError::Failed(FailureKind::Draining);
        if self.requests.send(request).await.is_err() {
            return Err(draining);
        }
        answer.await.unwrap_or(Err(draining))
    }
}

/// An actor's way back to the directory.
#[derive(Clone)]
pub(crate) struct DirectoryLink {
    requests: mpsc::Sender<Request>,
    /// Where a session says that it has changed.
    pub(crate) board: Arc<Board>,
}

impl DirectoryLink {
    /// Whether the session may leave memory: yes, if all that the directory sent it are among the
    /// `envelopes_seen`. From then on newcomers wait until it [`left`](Self::left).
    pub(crate) async fn may_leave(&self, id: SessionId, envelopes_seen: u64) -> bool {
        let (reply, may) = oneshot::channel();
        let request = Request::MayLeave {
            id,
            envelopes_seen,
            reply,
        };
        // Without a directory nobody can come any more.
        self.requests.send(request).await.is_err() || may.await.unwrap_or(true)
    }

    /// Says that the sub-agent `id` will be there: whoever comes before it is waits for it.
    pub(crate) async fn expect(&self, id: SessionId) -> Expected {
        // Without a directory nobody can come any more.
        let _ = self.requests.send(Request::Expect { id }).await;
        let link = self.clone();
        Expected { id, link }
    }

    /// Deletes the session `id` if it is `owner`'s; otherwise does nothing.
    pub(crate) async fn delete(
        &self,
        id: SessionId,
        owner: PrincipalId,
    ) -> Result<(), FailureKind> {
        let (reply, done) = oneshot::channel();
        let request = Request::Delete { owner, id, reply };
        if self.requests.send(request).await.is_err() {
            return Err(FailureKind::Draining);
        }
        // Dropped without an answer: there was nothing to delete.
        done.await.unwrap_or(Ok(()))
    }

    /// Says that the session's files are free.
    pub(crate) async fn left(&self, id: SessionId) {
        // Without a directory nobody needs to know.
        let _ = self.requests.send(Request::Left { id }).await;
    }
}

/// A sub-agent that is about to be made. Dropped, it will never be, and who waits is told so.
pub(crate) struct Expected {
    id: SessionId,
    link: DirectoryLink,
}

impl Expected {
    /// Makes it and takes hold of it; it begins at once.
    pub(crate) async fn raise(self, birth: ChildBirth) -> Result<Guarded, AttachError> {
        let (reply, guarded) = oneshot::channel();
        let (id, birth) = (self.id, Box::new(birth));
        let draining = AttachError::Failed(FailureKind::Draining);
        let request = Request::Raise { id, birth, reply };
        if self.link.requests.send(request).await.is_err() {
            return Err(draining);
        }
        guarded.await.unwrap_or(Err(draining))
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        let requests = self.link.requests.clone();
        let sent = requests.try_send(Request::Unexpect { id: self.id });
        if let Err(mpsc::error::TrySendError::Full(request)) = sent {
            tokio::spawn(async move { requests.send(request).await });
        }
    }
}

enum Request {
    Create {
        principal: Principal,
        new: NewSession,
        reply: AttachReply,
    },
    Attach {
        id: SessionId,
        envelope: Envelope,
    },
    Expect {
        id: SessionId,
    },
    Unexpect {
        id: SessionId,
    },
    Raise {
        id: SessionId,
        birth: Box<ChildBirth>,
        reply: GuardReply,
    },
    Delete {
        owner: PrincipalId,
        id: SessionId,
        reply: DeleteReply,
    },
    MayLeave {
        id: SessionId,
        envelopes_seen: u64,
        reply: oneshot::Sender<bool>,
    },
    Left {
        id: SessionId,
    },
    Live {
        of: Option<SessionId>,
        reply: oneshot::Sender<overview::Live>,
    },
    ShutDown {
        deadline: Instant,
        reply: oneshot::Sender<()>,
    },
}

/// The directory's own view of a live session.
struct Live {
    mailbox: Mailbox,
    envelopes_sent: u64,
    /// It is on its way out; these wait for it to be gone.
    leaving: Option<Vec<Envelope>>,
    shown: Shown,
}

struct Directory {
    engine: Arc<Engine>,
    link: DirectoryLink,
    live: HashMap<SessionId, Live>,
    /// Sub-agents that their callers know of and that are not made yet, and who came for them.
    expected: HashMap<SessionId, Vec<Envelope>>,
    shutdown: Option<(Instant, Vec<oneshot::Sender<()>>)>,
}

impl Directory {
    async fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        while let Some(request) = inbox.recv().await {
            self.handle(request);
            if self.shutdown.is_some() && self.live.is_empty() {
                for reply in self
                    .shutdown
                    .take()
                    .into_iter()
                    .flat_map(|(_, replies)| replies)
                {
                    let _ = reply.send(());
                }
                return;
            }
        }
    }

    fn handle(&mut self, request: Request) {
        match request {
            Request::Create {
                principal,
                new,
                reply,
            } => {
                // Proven once is not proven for ever: the token may have been revoked since.
                if !self.engine.gate.still_admits(&principal, Timestamp::now()) {
                    let _ = reply.send(Err(AttachError::NotFound));
                    return;
                }
                let id = SessionId::random();
                let entrance = Box::new(Entrance::new(&principal, From::Head));
                let envelope = Envelope::Attach { entrance, reply };
                self.send(id, Birth::New(principal, new), envelope);
            }
            Request::Attach { id, envelope } => self.send(id, Birth::Load, envelope),
            Request::Expect { id } => {
                self.expected.entry(id).or_default();
            }
            Request::Unexpect { id } => {
                let waiting = self.expected.remove(&id);
                self.load_for(id, waiting);
            }
            Request::Raise { id, birth, reply } => {
                let waiting = self.expected.remove(&id);
                self.send(id, Birth::Child(birth), Envelope::Guard { reply });
                self.load_for(id, waiting);
            }
            Request::Delete { owner, id, reply } => {
                self.send(id, Birth::Load, Envelope::Delete { owner, reply });
            }
            Request::MayLeave {
                id,
                envelopes_seen,
                reply,
            } => {
                let may = self
                    .live
                    .get_mut(&id)
                    .is_none_or(|live| live.may_leave(envelopes_seen));
                let _ = reply.send(may);
            }
            Request::Left { id } => {
                let parked = self.live.remove(&id).and_then(|live| live.leaving);
                self.load_for(id, parked);
            }
            Request::Live { of, reply } => {
                let wanted = self.live.iter();
                let wanted = wanted.filter(|(id, _)| of.is_none_or(|of| of == **id));
                let shown = wanted.filter_map(|(id, live)| {
                    let shown = live.shown.lock().unwrap_or_else(PoisonError::into_inner);
                    shown.clone().map(|glance| (*id, glance))
                });
                let _ = reply.send(shown.collect());
            }
            Request::ShutDown { deadline, reply } => self.shut_down(deadline, reply),
        }
    }

    /// Sends those who waited for the session to it.
    fn load_for(&mut self, id: SessionId, parked: Option<Vec<Envelope>>) {
        for envelope in parked.unwrap_or_default() {
            self.send(id, Birth::Load, envelope);
        }
    }

    /// Sends `envelope` to the session, which is brought in first if need be.
    fn send(&mut self, id: SessionId, birth: Birth, envelope: Envelope) {
        if self.shutdown.is_some() {
            return envelope.refuse(CommandError::Failed(FailureKind::Draining));
        }
        let leaving = self
            .live
            .get_mut(&id)
            .and_then(|live| live.leaving.as_mut());
        if let Some(parked) = leaving.or(self.expected.get_mut(&id)) {
            if parked.len() < MAILBOX_COMMANDS_MAX {
                parked.push(envelope);
            } else {
                envelope.refuse(CommandError::Limit("attaches_waiting"));
            }
            return;
        }
        let mailbox = self.bring_in(id, birth);
        match mailbox.try_send(Box::new(envelope)) {
            Ok(()) => {
                if let Some(live) = self.live.get_mut(&id) {
                    live.envelopes_sent += 1;
                }
            }
            Err(mpsc::error::TrySendError::Full(envelope)) => {
                envelope.refuse(CommandError::Limit("commands_waiting"));
            }
            // It is just leaving; its last word makes room for a new one.
            Err(mpsc::error::TrySendError::Closed(envelope)) => {
                if let Some(live) = self.live.get_mut(&id) {
                    live.leaving = Some(vec![*envelope]);
                }
            }
        }
    }

    /// The session's mailbox; starts its actor if it is not in memory.
    fn bring_in(&mut self, id: SessionId, birth: Birth) -> Mailbox {
        if let Some(live) = self.live.get(&id) {
            return live.mailbox.clone();
        }
        let (mailbox, receiver) = mpsc::channel(MAILBOX_COMMANDS_MAX);
        let shown: Shown = Arc::new(Mutex::new(None));
        // Boxed: as part of the task it would be there twice, once as the argument of `run`.
        let actor = Box::new(SessionActor::new(
            id,
            Arc::clone(&self.engine),
            self.link.clone(),
            (mailbox.clone(), receiver),
            Arc::clone(&shown),
        ));
        tokio::spawn(actor.run(birth));
        let live = Live {
            mailbox: mailbox.clone(),
            envelopes_sent: 0,
            leaving: None,
            shown,
        };
        self.live.insert(id, live);
        mailbox
    }

    fn shut_down(&mut self, deadline: Instant, reply: oneshot::Sender<()>) {
        let (_, replies) = self.shutdown.get_or_insert_with(|| (deadline, Vec::new()));
        replies.push(reply);
        for envelope in self.expected.drain().flat_map(|(_, parked)| parked) {
            envelope.refuse(CommandError::Failed(FailureKind::Draining));
        }
        for live in self.live.values() {
            let mailbox = live.mailbox.clone();
            // The mailbox may be full; the actor empties it without waiting for anyone.
            let envelope = Box::new(Envelope::Shutdown { deadline });
            tokio::spawn(async move { mailbox.send(envelope).await });
        }
    }
}

impl Live {
    fn may_leave(&mut self, envelopes_seen: u64) -> bool {
        let nobody_coming = self.envelopes_sent == envelopes_seen;
        if nobody_coming {
            self.leaving = Some(Vec::new());
        }
        nobody_coming
    }
}
