//! The task that owns a connection's state: it reads frames, routes them to whoever waits, and hands
//! what is to be written to the writer.
//!
//! It never blocks on a slow caller or a slow peer: while an update waits for its listener it stops
//! reading, and while a frame waits for the writer it takes no more requests, but everything else
//! goes on. Read [`Connection::step`] for what it reacts to.

use std::collections::HashMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use domain::limits::REQUESTS_IN_FLIGHT_MAX;
use domain::{PromptId, SessionId};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use wire::acp::{PermissionReply, requests};
use wire::rpc::{self, RequestId, RpcError};

use crate::error::{ClientError, TransportError};
use crate::message::{self, Inbound};
use crate::prompt::{Ask, Item, PromptEnd};
use crate::transport::{FrameIn, FramesIn, Heartbeat};

/// What handles ask of the connection.
#[derive(Debug)]
pub(crate) enum Command {
    Request(Request),
    /// Sends what happens in a session here from now on.
    Watch {
        session: SessionId,
        listener: mpsc::Sender<Item>,
        begun: oneshot::Sender<()>,
    },
    Notify {
        frame: String,
    },
    Close,
}

/// A request on its way out.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) method: &'static str,
    pub(crate) frame: String,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) reply: Reply,
    /// Where the updates of a session go until the answer comes.
    pub(crate) listener: Option<(SessionId, mpsc::Sender<Item>)>,
}

/// Who hears the answer to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Whoever waits for it.
    Asker(oneshot::Sender<Result<Value, ClientError>>),
    /// The same, and the updates of the session that it names go to a listener from then on.
    Entering(
        oneshot::Sender<Result<Value, ClientError>>,
        mpsc::Sender<Item>,
    ),
    /// The watch over the session, in order with the session's updates.
    Watch {
        session: SessionId,
        prompt: PromptId,
    },
}

/// Until when an answer is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) seconds: f64,
}

/// The state of one connection.
pub(crate) struct Connection {
    commands: mpsc::Receiver<Command>,
    frames_in: FramesIn,
    outgoing: mpsc::Sender<String>,
    heartbeat: Option<Heartbeat>,
    heard: Instant,
    waiting: HashMap<String, Waiting>,
    listeners: HashMap<SessionId, mpsc::Sender<Item>>,
    /// Questions of the server that the caller has not answered yet.
    asks: FuturesUnordered<Answering>,
    /// The same questions by their id, to tell the caller when one is withdrawn.
    asked: HashMap<RequestId, oneshot::Sender<()>>,
    /// A frame that did not fit the writer's queue; nothing else is written before it.
    unsent: Option<String>,
    /// An item that did not fit its listener's queue; nothing is read before it is delivered.
    undelivered: Option<(mpsc::Sender<Item>, Item)>,
    /// Set once, when the connection has ended: handles read here why.
    cause: Arc<OnceLock<TransportError>>,
}

/// A request whose answer has not come.
struct Waiting {
    method: &'static str,
    deadline: Option<Deadline>,
    reply: Reply,
    session: Option<SessionId>,
}

/// Gives `None` if the caller dropped the question.
type Answering = Pin<Box<dyn Future<Output = (RequestId, Option<PermissionReply>)> + Send>>;

impl Connection {
    pub(crate) fn new(
        commands: mpsc::Receiver<Command>,
        frames_in: FramesIn,
        outgoing: mpsc::Sender<String>,
        heartbeat: Option<Heartbeat>,
        cause: Arc<OnceLock<TransportError>>,
    ) -> Self {
        Self {
            commands,
            frames_in,
            outgoing,
            heartbeat,
            heard: Instant::now(),
            waiting: HashMap::new(),
            listeners: HashMap::new(),
            asks: FuturesUnordered::new(),
            asked: HashMap::new(),
            unsent: None,
            undelivered: None,
            cause,
        }
    }

    /// Runs until the connection ends, then tells everyone who waits, and joins the writer.
    pub(crate) async fn run(mut self, mut writer: JoinHandle<TransportError>) {
        let cause = loop {
            match self.step().await {
                Ok(()) => {}
                Err(Ended::Because(cause)) => break cause,
                Err(Ended::WriterStopped) => {
                    break (&mut writer).await.unwrap_or(TransportError::ClosedHere);
                }
            }
        };
        if let Some(frame) = self.unsent.take() {
            // Closing must not wait for a full queue; what did not fit is not sent.
            let _ = self.outgoing.try_send(frame);
        }
        self.fail_all(&cause);
        // Nobody else sets it, so this cannot fail.
        let _ = self.cause.set(cause);
        let Self {
            commands, outgoing, ..
        } = self;
        drop(outgoing);
        if !writer.is_finished() {
            let _ = writer.await;
        }
        // Handles learn that the connection is gone when this is dropped: not before it is.
        drop(commands);
    }

    /// Waits for the next thing to happen, and does it.
    async fn step(&mut self) -> Result<(), Ended> {
        let may_write = self.unsent.is_none();
        let may_read = may_write && self.undelivered.is_none();
        let write_to = self.unsent.as_ref().map(|_| self.outgoing.clone());
        let deliver_to = self.undelivered.as_ref().map(|(to, _)| to.clone());
        let deadline = self.next_deadline();
        let silent_at = self
            .heartbeat
            .map(|heartbeat| self.heard + heartbeat.silence);
        tokio::select! {
            permit = reserve(write_to) => {
                let permit = permit.ok_or(Ended::WriterStopped)?;
                if let Some(frame) = self.unsent.take() {
                    permit.send(frame);
                }
                self.heard = Instant::now();
            }
            permit = reserve(deliver_to) => {
                if let (Some((_, item)), Some(permit)) = (self.undelivered.take(), permit) {
                    permit.send(item);
                }
                // The time in which we did not read was not the peer's silence.
                self.heard = Instant::now();
            }
            command = self.commands.recv(), if may_write => match command {
                Some(Command::Request(request)) => self.start(request),
                Some(Command::Watch { session, listener, begun }) => {
                    self.listeners.insert(session, listener);
                    // Whoever wanted it may have gone; then the listener is closed too.
                    let _ = begun.send(());
                }
                Some(Command::Notify { frame }) => self.send(frame),
                Some(Command::Close) | None => {
                    return Err(Ended::Because(TransportError::ClosedHere));
                }
            },
            Some((id, reply)) = self.asks.next(), if may_write => {
                self.asked.remove(&id);
                // A caller that left the session has not answered: others may, until the deadline.
                if let Some(reply) = reply {
                    self.send(requests::permission_answer(&id, &reply));
                }
            }
            frame = self.frames_in.next(), if may_read => {
                self.heard = Instant::now();
                self.receive(frame)?;
            }
            () = at(deadline) => self.expire(Instant::now()),
            () = at(silent_at), if may_read => return Err(Ended::Because(self.silence())),
            () = self.outgoing.closed() => return Err(Ended::WriterStopped),
        }
        Ok(())
    }

    fn start(&mut self, request: Request) {
        let Request {
            id,
            method,
            frame,
            deadline,
            reply,
            listener,
        } = request;
        let refusal = match &listener {
            _ if self.waiting.len() >= REQUESTS_IN_FLIGHT_MAX => {
                Some(ClientError::TooManyWaiting {
                    method,
                    id: id.clone(),
                    waiting: self.waiting.len(),
                })
            }
            Some((session, _)) if self.listeners.contains_key(session) => {
                Some(ClientError::StillAnswering { session: *session })
            }
            Some(_) | None => None,
        };
        if let Some(refusal) = refusal {
            self.tell(reply, &id, Err(refusal));
            return;
        }
        let session = listener.map(|(session, items)| {
            self.listeners.insert(session, items);
            session
        });
        // The place for the answer exists before the request is written.
        let waiting = Waiting {
            method,
            deadline,
            reply,
            session,
        };
        self.waiting.insert(id, waiting);
        self.send(frame);
    }

    /// Queues a frame. Only called while nothing is unsent, so at most one ever is.
    fn send(&mut self, frame: String) {
        if let Err(mpsc::error::TrySendError::Full(frame)) = self.outgoing.try_send(frame) {
            self.unsent = Some(frame);
        }
    }

    fn receive(&mut self, frame: Option<Result<FrameIn, TransportError>>) -> Result<(), Ended> {
        let text = match frame {
            Some(Ok(FrameIn::Text(text))) => text,
            Some(Ok(FrameIn::Life)) => return Ok(()),
            Some(Err(cause)) => return Err(Ended::Because(cause)),
            None => {
                return Err(Ended::Because(TransportError::ClosedByServer {
                    code: None,
                    reason: String::new(),
                }));
            }
        };
        match message::decode(&text) {
            Inbound::Answer { id, outcome } => self.answer(&id, outcome),
            Inbound::Update { session, received } => {
                self.deliver(session, Item::Received(received));
            }
            Inbound::Permission { id, question, call } => {
                let session = question.session;
                self.ask(id, session, |reply, withdrawn| Ask {
                    session,
                    call,
                    raw: question.tool_call,
                    options: question.options,
                    reply,
                    withdrawn,
                });
            }
            Inbound::Withdrawn { id } => {
                if let Some(withdrawn) = self.asked.remove(&id) {
                    let _ = withdrawn.send(());
                }
            }
            Inbound::Unserved { id, error } => {
                tracing::debug!(code = error.code, "refused a request of the server");
                self.send(rpc::error_response(&id, &error));
            }
            Inbound::Skipped { reason } => {
                tracing::debug!(
                    reason,
                    bytes = text.len(),
                    "skipped a message of the server"
                );
            }
        }
        Ok(())
    }

    fn answer(&mut self, id: &str, outcome: Result<Value, RpcError>) {
        let Some(waiting) = self.waiting.remove(id) else {
            tracing::debug!("skipped an answer that nobody waits for");
            return;
        };
        let result = outcome.map_err(|error| ClientError::Refused {
            method: waiting.method,
            id: id.to_owned(),
            code: error.code,
            message: error.message,
            data: error.data.unwrap_or_default(),
        });
        self.finish(waiting, id, result);
    }

    /// Gives `waiting` its result. Its listener hears nothing after this.
    fn finish(&mut self, waiting: Waiting, id: &str, result: Result<Value, ClientError>) {
        if let Some(session) = waiting.session {
            self.listeners.remove(&session);
        }
        self.tell(waiting.reply, id, result);
    }

    fn tell(&mut self, reply: Reply, id: &str, result: Result<Value, ClientError>) {
        // The asker may have gone; the answer then has no reader.
        match reply {
            Reply::Asker(asker) => drop(asker.send(result)),
            Reply::Entering(asker, listener) => {
                let answer = result.as_ref().ok();
                if let Some(session) = answer.and_then(message::session_at) {
                    self.listeners.insert(session, listener);
                }
                drop(asker.send(result));
            }
            Reply::Watch { session, prompt } => {
                let end = result.and_then(|answer| PromptEnd::read(&answer, id));
                self.deliver(session, Item::Ended { prompt, end });
            }
        }
    }

    fn deliver(&mut self, session: SessionId, item: Item) {
        let Some(listener) = self.listeners.get(&session) else {
            tracing::debug!(%session, "skipped an update that nobody listens to");
            return;
        };
        if let Err(mpsc::error::TrySendError::Full(item)) = listener.try_send(item) {
            self.undelivered = Some((listener.clone(), item));
        }
    }

    fn ask(
        &mut self,
        id: RequestId,
        session: SessionId,
        ask: impl FnOnce(oneshot::Sender<PermissionReply>, oneshot::Receiver<()>) -> Ask,
    ) {
        let listener = self.listeners.get(&session);
        if listener.is_none_or(mpsc::Sender::is_closed) {
            // The caller has left the session, as it could have by closing the connection.
            tracing::debug!(%session, "left a question open that nobody listens to");
            return;
        }
        if self.asks.len() >= REQUESTS_IN_FLIGHT_MAX {
            // An error withdraws this connection; others may still answer.
            self.send(rpc::error_response(&id, &RpcError::internal()));
            return;
        }
        let (reply, answer) = oneshot::channel();
        let (withdraw, withdrawn) = oneshot::channel();
        self.asked.insert(id.clone(), withdraw);
        self.asks
            .push(Box::pin(async move { (id, answer.await.ok()) }));
        self.deliver(session, Item::Ask(ask(reply, withdrawn)));
    }

    fn next_deadline(&self) -> Option<Instant> {
        let deadlines = self.waiting.values().filter_map(|waiting| waiting.deadline);
        deadlines.map(|deadline| deadline.at).min()
    }

    fn expire(&mut self, now: Instant) {
        let is_late = |_: &String, waiting: &mut Waiting| {
            waiting.deadline.is_some_and(|deadline| deadline.at <= now)
        };
        let late: Vec<_> = self.waiting.extract_if(is_late).collect();
        for (id, waiting) in late {
            let timeout = ClientError::Timeout {
                method: waiting.method,
                id: id.clone(),
                seconds: waiting.deadline.map_or(0.0, |deadline| deadline.seconds),
            };
            self.finish(waiting, &id, Err(timeout));
        }
    }

    fn silence(&self) -> TransportError {
        TransportError::Silent {
            seconds: self
                .heartbeat
                .map_or(0.0, |heartbeat| heartbeat.silence.as_secs_f64()),
        }
    }

    fn fail_all(&mut self, cause: &TransportError) {
        let waiting = std::mem::take(&mut self.waiting);
        if !waiting.is_empty() {
            tracing::info!(%cause, "aborted {} pending requests", waiting.len());
        }
        for (id, waiting) in waiting {
            let lost = ClientError::Lost {
                method: waiting.method,
                id: id.clone(),
                cause: cause.clone(),
            };
            self.finish(waiting, &id, Err(lost));
        }
    }
}

/// Why a connection stops.
enum Ended {
    Because(TransportError),
    /// The writer ended; it knows why.
    WriterStopped,
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

/// A place in a queue, if one is wanted; `None` if its reader is gone.
async fn reserve<T>(queue: Option<mpsc::Sender<T>>) -> Option<mpsc::OwnedPermit<T>> {
    match queue {
        Some(queue) => queue.reserve_owned().await.ok(),
        None => pending().await,
    }
}
