//! One client: its identity, its requests, and the sessions it is attached to.
//!
//! A connection is one task that reads frames and never waits for anything slow: a request that
//! takes time runs in a task of its own, and each attached session has a pump ([`attachment`])
//! that moves the session's stream into the [`outbox`]. Losing the connection detaches; turns go on.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use auth::Principal;
use bytes::Bytes;
use domain::{ConnectionId, SessionId, TraceParent};
use meters::label::{Ignored, Label as _};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::acp::{self, ClientCapabilities, ClientMessage};
use wire::rpc::{self, Incoming, RequestId, RpcError};

use crate::roster::Listed;
use crate::service::Service;

mod access;
mod answers;
mod asking;
mod attachment;
mod commands;
mod entering;
mod held;
pub(crate) mod lanes;
pub(crate) mod outbox;
pub(crate) mod pace;
mod requests;
mod route;
mod servers;
#[cfg(test)]
pub(crate) mod tests;
mod waiting;

use access::{Access, Caller};
use answers::Answers;
use asking::Asking;
use attachment::Attachment;
pub(crate) use attachment::{notice, storage_error};
use entering::Entered;
use held::Held;
use lanes::Lanes;
use outbox::Close;
use pace::{Allowance, Pace};

/// What a transport's reader hands over.
pub(crate) enum Inbound {
    /// One frame.
    Frame(Bytes),
    /// One frame that the transport had to look into, and the trace that it came with.
    Parsed(Box<Incoming>, Option<TraceParent>),
    /// One frame that was too long to keep; it was skipped.
    TooLong,
}

/// Where a connection's frames come from.
pub(crate) trait Source: Send {
    /// The next frame, or `None` when the client has left. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<Inbound>> + Send;
}

impl Source for mpsc::Receiver<Inbound> {
    async fn next(&mut self) -> Option<Inbound> {
        self.recv().await
    }
}

/// Where a client is, which decides how closely it is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Across a socket: it must introduce itself in time, may not flood, and may not idle.
    Network,
    /// This process or its parent: they may take as long and be as fast as they like.
    Local,
}

/// How a connection begins and for whom.
pub(crate) struct Opening<S> {
    pub(crate) id: ConnectionId,
    pub(crate) principal: Principal,
    pub(crate) source: S,
    pub(crate) lanes: Lanes,
    /// Where the client is.
    pub(crate) reach: Reach,
    /// The trace that the connection itself belongs to.
    pub(crate) trace: Option<TraceParent>,
}

/// How long requests may take that were read before the end of the input.
const LAST_REQUESTS_TIME: Duration = Duration::from_secs(1);

/// The close code of a client that breaks the protocol.
const PROTOCOL: u16 = 1002;

/// The close code of a connection that failed on our side.
const INTERNAL: u16 = 1011;

/// The close code of a client that floods.
const FLOOD: u16 = 1008;

/// The close code of a client that nobody needs.
const IDLE: u16 = 4408;

/// The close code of a connection whose token was revoked or has expired.
const TOKEN_REVOKED: u16 = 4401;

/// Frames a transport may have read ahead of the connection.
pub(crate) const INBOUND_FRAMES_MAX: usize = 16;

/// Serves one client until it leaves or the service closes.
pub(crate) async fn serve<S: Source>(service: Arc<Service>, opening: Opening<S>) {
    let Opening {
        id,
        principal,
        source,
        lanes,
        reach,
        trace,
    } = opening;
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let transport = access::transport_of(reach, &lanes);
    let _counted = access::arrived(transport);
    let listed = service
        .roster
        .list(&id, transport.name(), (&principal, &lanes));
    tracing::info!(connection = %id, principal = principal.id().as_str(), "connected");
    let caller = Caller {
        connection: id.clone(),
        principal: principal.id().clone(),
    };
    let asking = Arc::new(Asking::new(lanes.clone()));
    let _whatever_happens = LastWord {
        lanes: lanes.clone(),
        asking: Arc::clone(&asking),
    };
    let mut connection = Connection {
        caller: Arc::new(caller),
        principal,
        answers: Arc::default(),
        asking,
        lanes,
        capabilities: None,
        attachments: HashMap::new(),
        leaving: Vec::new(),
        attaching: HashMap::new(),
        events,
        gone: CancellationToken::new(),
        pace: (reach == Reach::Network).then(|| Pace::new(&service.limits, Instant::now())),
        last_frame: Instant::now(),
        trace,
        held: Held::default(),
        is_over: false,
        listed,
        service,
        responses_ignored: 0,
    };
    connection.run(source, inbox).await;
    connection.leave();
    tracing::info!(connection = %id, "disconnected");
}

/// Tells the client and whoever waits for it that the connection has failed. After one that ended
/// as it should, all that has been said already, and the first word counts.
struct LastWord {
    lanes: Lanes,
    asking: Arc<Asking>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.asking.abort();
        self.lanes.close(Close::After(INTERNAL));
    }
}

/// Events that tasks of one connection may have on the way to it.
const EVENTS_MAX: usize = 32;

/// What the connection's own tasks tell it.
enum Event {
    /// Entering a session succeeded or failed; either way its answer is taken care of.
    Attached {
        session: SessionId,
        entered: Option<Box<Entered>>,
    },
    /// A session's stream has ended here.
    Detached { session: SessionId, serial: u64 },
}

struct Connection {
    service: Arc<Service>,
    caller: Arc<Caller>,
    principal: Principal,
    answers: Arc<Answers>,
    asking: Arc<Asking>,
    lanes: Lanes,
    /// Set by `initialize`; nothing else is served before.
    capabilities: Option<ClientCapabilities>,
    attachments: HashMap<SessionId, Attachment>,
    /// Sessions being closed, until their streams have ended here.
    leaving: Vec<Attachment>,
    /// Messages for a session that is being entered, in wire order.
    attaching: HashMap<SessionId, VecDeque<(Option<RequestId>, ClientMessage)>>,
    events: mpsc::Sender<Event>,
    /// Fires when the client has left.
    gone: CancellationToken,
    /// How fast it has been talking; `None` for those who may talk as they like.
    pace: Option<Pace>,
    last_frame: Instant,
    trace: Option<TraceParent>,
    /// What waits for the client to read its answers.
    held: Held,
    /// Nothing more is to be done for this client.
    is_over: bool,
    /// That it is shown among those who are connected.
    listed: Listed,
    responses_ignored: u64,
}

impl Connection {
    async fn run(&mut self, mut source: impl Source, mut inbox: mpsc::Receiver<Event>) {
        let service = Arc::clone(&self.service);
        let mut tokens = service.tokens_changed.subscribe();
        // It may have been revoked between admission and here.
        tokens.mark_changed();
        while !self.is_over {
            let has_room = self.lanes.main().has_answer_room();
            if has_room && let Some(held) = self.held.take() {
                self.on_inbound(held);
                continue;
            }
            self.listed.has_sessions(self.attachments.len());
            let (late, late_code) = self.deadline();
            tokio::select! {
                biased;
                () = service.closing.cancelled() => {
                    self.lanes.close(Close::After(1001));
                    return;
                }
                Ok(()) = tokens.changed() => if !service.still_admits(&self.principal) {
                    self.lanes.close(Close::After(TOKEN_REVOKED));
                    return;
                },
                Some(event) = inbox.recv() => self.on_event(event),
                () = self.lanes.main().answers_have_room(), if !has_room => {}
                frame = source.next(), if has_room || self.held.has_room() => match frame {
                    Some(frame) if has_room => self.on_inbound(frame),
                    Some(frame) => self.on_unread(frame),
                    None => return self.finish_requests(&mut inbox).await,
                },
                () = sleep_until(late) => {
                    self.lanes.close(Close::After(late_code));
                    return;
                }
            }
        }
    }

    /// Takes a message of a client that does not read its answers: what needs none is done, so
    /// that a cancel always gets in; the rest waits until it reads.
    fn on_unread(&mut self, inbound: Inbound) {
        let needs_no_answer = |incoming: &Incoming| {
            matches!(
                incoming,
                Incoming::Notification { .. } | Incoming::Response { .. } | Incoming::Ignored(_)
            )
        };
        match inbound {
            Inbound::Frame(frame) => match rpc::parse(&frame) {
                Ok(incoming) if needs_no_answer(&incoming) => {
                    self.on_inbound(Inbound::Parsed(Box::new(incoming), None));
                }
                Ok(_) | Err(_) => self.held.put(Inbound::Frame(frame)),
            },
            Inbound::Parsed(incoming, trace) if needs_no_answer(&incoming) => {
                self.on_inbound(Inbound::Parsed(incoming, trace));
            }
            other @ (Inbound::Parsed(..) | Inbound::TooLong) => self.held.put(other),
        }
    }

    /// A client on stdio may end its input and still want its answers: what it asked before is
    /// done, except for turns, which are not waited for.
    async fn finish_requests(&mut self, inbox: &mut mpsc::Receiver<Event>) {
        while let Some(held) = self.held.take() {
            self.on_inbound(held);
        }
        self.abort_pending();
        if self.pace.is_some() {
            return;
        }
        let deadline = Instant::now() + LAST_REQUESTS_TIME;
        while !self.answers.only_prompts_open() {
            tokio::select! {
                Some(event) = inbox.recv() => self.on_event(event),
                () = self.answers.answered() => {}
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }

    /// When this client has been silent for too long, and how that is told. One that uses a
    /// session may be silent as long as its socket lives.
    fn deadline(&self) -> (Option<Instant>, u16) {
        let limits = &self.service.limits;
        if self.pace.is_none() {
            return (None, IDLE);
        }
        if self.capabilities.is_none() {
            return (Some(self.last_frame + limits.handshake), PROTOCOL);
        }
        let is_idle = self.attachments.is_empty()
            && self.attaching.is_empty()
            && self.leaving.is_empty()
            && self.answers.none_open();
        (is_idle.then(|| self.last_frame + limits.idle), IDLE)
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Attached { session, entered } => {
                if let Some(entered) = entered {
                    self.entered(session, *entered);
                }
                // What was sent meanwhile enters the session now, in the order it came.
                for (id, message) in self.attaching.remove(&session).unwrap_or_default() {
                    self.on_ordered(id, message);
                }
            }
            Event::Detached { session, serial } => {
                let same = self
                    .attachments
                    .get(&session)
                    .is_some_and(|a| a.serial == serial);
                if same {
                    self.attachments.remove(&session);
                }
                if !self.attachments.contains_key(&session) {
                    self.lanes.forget(session);
                }
                self.leaving
                    .retain(|attachment| attachment.serial != serial);
            }
        }
    }

    fn on_inbound(&mut self, inbound: Inbound) {
        let (parsed, trace) = match inbound {
            Inbound::Frame(frame) => (rpc::parse(&frame), None),
            Inbound::Parsed(incoming, trace) => (Ok(*incoming), trace),
            Inbound::TooLong => {
                let error = RpcError::invalid_request("the message is too long");
                return self.refuse(&RequestId::null(), error);
            }
        };
        let now = Instant::now();
        if self.capabilities.is_some() {
            self.last_frame = now;
        }
        if !self.keeps_pace(&parsed, now) {
            return;
        }
        match parsed {
            Err(refusal) => self.refuse(&refusal.id, refusal.error),
            Ok(Incoming::Response { id, outcome }) => self.on_response(&id, outcome),
            Ok(Incoming::Ignored(reason)) => self.ignore(reason),
            Ok(Incoming::Request { id, method, params }) => {
                self.on_request(id, (&method, params), trace)
            }
            Ok(Incoming::Notification { method, params }) => {
                if let Ok(message) = acp::decode(&method, params.as_deref()) {
                    self.on_notification(message);
                }
            }
        }
    }

    /// Whether a message is taken; one that comes too fast is refused, and a flood ends it all.
    fn keeps_pace(&mut self, parsed: &Result<Incoming, rpc::Refusal>, now: Instant) -> bool {
        let Some(pace) = &mut self.pace else {
            return true;
        };
        let id = match parsed {
            Ok(Incoming::Request { id, .. }) => Some(id.clone()),
            Err(refusal) => Some(refusal.id.clone()),
            Ok(
                Incoming::Notification { .. } | Incoming::Response { .. } | Incoming::Ignored(_),
            ) => None,
        };
        let allowance = if id.is_some() {
            pace.request(now)
        } else {
            pace.other(now)
        };
        match allowance {
            Allowance::Take => true,
            Allowance::TooFast(wait_ms) => {
                let error = RpcError::rate_limited(wait_ms);
                self.refuse(&id.unwrap_or_else(RequestId::null), error);
                false
            }
            Allowance::Flood => {
                self.lanes.close(Close::After(FLOOD));
                self.is_over = true;
                false
            }
        }
    }

    fn on_request(
        &mut self,
        id: RequestId,
        (method, params): (&str, Option<Box<RawValue>>),
        trace: Option<TraceParent>,
    ) {
        let decoded = acp::decode(method, params.as_deref());
        let is_prompt = matches!(decoded, Ok(ClientMessage::Prompt(_)));
        let named = decoded.as_ref().ok().and_then(ClientMessage::session);
        let lane = match named {
            Some(Ok(session)) if self.attachments.contains_key(&session) => self.lanes.of(session),
            Some(_) | None => self.lanes.main().clone(),
        };
        let access = Access::begin(
            &self.caller,
            access::method_of(decoded.as_ref().ok(), method),
            named.and_then(Result::ok),
            acp::trace_parent(params.as_deref())
                .or(trace)
                .or(self.trace),
        );
        if let Err(error) = self.answers.open(&id, is_prompt, lane, access) {
            return self.refuse(&id, error);
        }
        let message = match decoded {
            Ok(message) => message,
            // Before the handshake nothing is looked at, not even whether it makes sense.
            Err(_) if self.capabilities.is_none() && method != "initialize" => {
                return self.answers.error(&id, not_initialized());
            }
            Err(error) => return self.answers.error(&id, error),
        };
        let first = matches!(message, ClientMessage::Initialize(_));
        if first != self.capabilities.is_none() {
            let again = RpcError::invalid_request("already initialized");
            return self
                .answers
                .error(&id, if first { again } else { not_initialized() });
        }
        self.on_ordered(Some(id), message);
    }

    fn on_notification(&mut self, message: ClientMessage) {
        if self.capabilities.is_none() {
            return;
        }
        if let ClientMessage::CancelRequest(request) = &message {
            self.cancel_request(request);
        } else if message.is_notification() {
            self.on_ordered(None, message);
        } else {
            // A request without an id wants nothing done that anyone would hear of.
            tracing::debug!("a request without an id was ignored");
        }
    }

    /// Keeps the wire order of messages that name a session which is being entered.
    fn on_ordered(&mut self, id: Option<RequestId>, message: ClientMessage) {
        if let Some(Ok(session)) = message.session()
            && let Some(waiting) = self.attaching.get_mut(&session)
        {
            if id.is_none() && self.attachments.contains_key(&session) {
                // A cancel waits behind nothing, least of all behind a slow reader.
                return self.on_message(id, message);
            }
            // Bounded: requests by their number in flight, cancels by what they follow.
            let repeats = id.is_none() && waiting.back().is_some_and(|(id, _)| id.is_none());
            if !repeats {
                waiting.push_back((id, message));
            }
            return;
        }
        self.on_message(id, message);
    }

    fn on_message(&mut self, id: Option<RequestId>, message: ClientMessage) {
        match (id, message) {
            (None, ClientMessage::Cancel(session)) => self.cancel(session),
            (None, _) => {}
            (Some(id), message) => self.serve_request(id, message),
        }
    }

    /// Uses the answer to a request of ours; one we did not ask for is ignored.
    fn on_response(&mut self, id: &RequestId, outcome: Result<Box<RawValue>, RpcError>) {
        let outcome = match self.asking.settle(id, outcome) {
            Ok(()) => return,
            Err(outcome) => outcome,
        };
        let Some(asked) = self.answers.take_question(id) else {
            return self.ignore("an answer to nothing we asked");
        };
        let answer = asked.read(&outcome);
        if let Some(attachment) = self.attachments.get(&asked.session) {
            attachment.handle.answer(asked.question, answer);
        }
    }

    /// Answers what is not let in as a request.
    fn refuse(&self, id: &RequestId, error: RpcError) {
        access::refused(&error);
        let named = error.with_request_id(ConnectionId::random().as_str());
        self.lanes.main().answer(rpc::error_response(id, &named));
    }

    fn ignore(&mut self, reason: &'static str) {
        self.responses_ignored += 1;
        meters::IGNORED.of(Ignored::Response).count();
        tracing::debug!(reason, ignored = self.responses_ignored, "response ignored");
    }

    /// Nothing that we asked of the client will be answered any more.
    fn abort_pending(&self) {
        let aborted = self.asking.abort() + self.answers.forget_questions();
        if aborted > 0 {
            tracing::info!("aborted {aborted} pending requests");
        }
    }

    /// Detaches from everything; the sessions go on.
    fn leave(&mut self) {
        self.gone.cancel();
        self.abort_pending();
        self.attachments.clear();
        self.leaving.clear();
        self.lanes.close(Close::Gone);
    }
}

fn not_initialized() -> RpcError {
    RpcError::invalid_request("not initialized: send initialize first")
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
