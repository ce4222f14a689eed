//! One client: its identity, its requests, and the sessions it is attached to.
//!
//! A connection is one task that reads frames and never waits for anything slow: a request that
//! takes time runs in a task of its own, and each attached session has a pump ([`attachment`])
//! that moves the session's stream into the [`outbox`]. Losing the connection detaches; turns go on.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use auth::Principal;
use domain::{ConnectionId, SessionId};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::acp::{self, ClientCapabilities, ClientMessage, PermissionReply};
use wire::rpc::{self, Incoming, RequestId, RpcError};

use crate::service::Service;

mod answers;
mod attachment;
mod entering;
pub(crate) mod outbox;
mod requests;
mod waiting;

use answers::Answers;
use attachment::Attachment;
use outbox::{Close, Outbox};

/// What a transport's reader hands over.
pub(crate) enum Inbound {
    /// One frame.
    Frame(Vec<u8>),
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

/// How a connection begins and for whom.
pub(crate) struct Opening<S> {
    pub(crate) id: ConnectionId,
    pub(crate) principal: Principal,
    pub(crate) source: S,
    pub(crate) outbox: Outbox,
    /// Whether `initialize` must come in time; a person may take as long as they like on stdio.
    pub(crate) hurry: bool,
}

/// Frames a transport may have read ahead of the connection.
pub(crate) const INBOUND_FRAMES_MAX: usize = 16;

/// Serves one client until it leaves or the service closes.
pub(crate) async fn serve<S: Source>(service: Arc<Service>, opening: Opening<S>) {
    let Opening {
        id,
        principal,
        source,
        outbox,
        hurry,
    } = opening;
    let deadline = hurry.then(|| Instant::now() + service.limits.handshake);
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    tracing::info!(connection = %id, principal = principal.id().as_str(), "connected");
    let mut connection = Connection {
        service,
        principal,
        answers: Arc::new(Answers::new(outbox.clone())),
        outbox,
        capabilities: None,
        attachments: HashMap::new(),
        leaving: Vec::new(),
        attaching: HashMap::new(),
        events,
        gone: CancellationToken::new(),
        responses_ignored: 0,
    };
    connection.run(source, inbox, deadline).await;
    connection.leave();
    tracing::info!(connection = %id, "disconnected");
}

/// Events that tasks of one connection may have on the way to it.
const EVENTS_MAX: usize = 32;

/// What the connection's own tasks tell it.
enum Event {
    /// Entering a session succeeded or failed; either way its answer is taken care of.
    Attached {
        session: SessionId,
        attachment: Option<Box<Attachment>>,
    },
    /// A session's stream has ended here.
    Detached { session: SessionId, serial: u64 },
}

struct Connection {
    service: Arc<Service>,
    principal: Principal,
    answers: Arc<Answers>,
    outbox: Outbox,
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
    responses_ignored: u64,
}

impl Connection {
    async fn run(
        &mut self,
        mut source: impl Source,
        mut inbox: mpsc::Receiver<Event>,
        deadline: Option<Instant>,
    ) {
        let service = Arc::clone(&self.service);
        loop {
            let late = self.capabilities.is_none().then_some(deadline).flatten();
            tokio::select! {
                biased;
                () = service.closing.cancelled() => {
                    self.outbox.close(Close::After(1001));
                    return;
                }
                Some(event) = inbox.recv() => self.on_event(event),
                frame = source.next() => match frame {
                    Some(frame) => self.on_inbound(frame),
                    None => return,
                },
                () = sleep_until(late) => {
                    tracing::debug!("no initialize in time");
                    self.outbox.close(Close::After(1002));
                    return;
                }
            }
            self.outbox.answers_have_room().await;
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Attached {
                session,
                attachment,
            } => {
                if let Some(attachment) = attachment {
                    self.attachments.insert(session, *attachment);
                }
                // What was sent meanwhile enters the session now, in the order it came.
                for (id, message) in self.attaching.remove(&session).unwrap_or_default() {
                    self.on_message(id, message);
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
                self.leaving
                    .retain(|attachment| attachment.serial != serial);
            }
        }
    }

    fn on_inbound(&mut self, inbound: Inbound) {
        let frame = match inbound {
            Inbound::Frame(frame) => frame,
            Inbound::TooLong => {
                let error = RpcError::invalid_request("the message is too long");
                return self
                    .outbox
                    .answer(rpc::error_response(&RequestId::null(), &error));
            }
        };
        match rpc::parse(&frame) {
            Err(refusal) => self.outbox.answer(refusal.to_frame()),
            Ok(Incoming::Response { id, outcome }) => self.on_response(&id, outcome),
            Ok(Incoming::Ignored(reason)) => self.ignore(reason),
            Ok(Incoming::Request { id, method, params }) => self.on_request(id, &method, params),
            Ok(Incoming::Notification { method, params }) => {
                if let Ok(message) = acp::decode(&method, params.as_deref()) {
                    self.on_notification(message);
                }
            }
        }
    }

    fn on_request(&mut self, id: RequestId, method: &str, params: Option<Box<RawValue>>) {
        let decoded = acp::decode(method, params.as_deref());
        let is_prompt = matches!(decoded, Ok(ClientMessage::Prompt(_)));
        if let Err(error) = self.answers.open(&id, is_prompt) {
            return self.outbox.answer(rpc::error_response(&id, &error));
        }
        let message = match decoded {
            Ok(message) => message,
            // Before the handshake nothing is looked at, not even whether it makes sense.
            Err(_) if self.capabilities.is_none() => {
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
            // Bounded: requests by their number in flight, cancels by one being enough.
            let known = id.is_none() && waiting.iter().any(|(id, _)| id.is_none());
            if !known {
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
        let Some(asked) = self.answers.take_question(id) else {
            return self.ignore("an answer to nothing we asked");
        };
        let answer = match outcome.as_deref().map(acp::permission_outcome) {
            Ok(PermissionReply::Selected(option)) if asked.offers(&option) => {
                session::Answer::Selected(option)
            }
            Ok(PermissionReply::Cancelled) => session::Answer::Dismissed,
            Ok(PermissionReply::Selected(_) | PermissionReply::Invalid) | Err(_) => {
                session::Answer::Unable
            }
        };
        if let Some(attachment) = self.attachments.get(&asked.session) {
            attachment.handle.answer(asked.question, answer);
        }
    }

    fn ignore(&mut self, reason: &'static str) {
        self.responses_ignored += 1;
        tracing::debug!(reason, ignored = self.responses_ignored, "response ignored");
    }

    /// Detaches from everything; the sessions go on.
    fn leave(&mut self) {
        self.gone.cancel();
        let questions = self.answers.forget_questions();
        if questions > 0 {
            tracing::info!("aborted {questions} pending requests");
        }
        self.attachments.clear();
        self.leaving.clear();
        self.outbox.close(Close::Gone);
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
