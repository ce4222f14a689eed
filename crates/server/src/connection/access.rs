//! Each ACP request's line in the log and its numbers, and how clients are counted.
//!
//! A line says who asked for what and how it went, never what was in it. A request that is
//! forgotten because its client left gets its line too.

use std::sync::Arc;
use std::time::Instant;

use domain::{ConnectionId, PrincipalId, SessionId, TraceParent};
use meters::label::{Label as _, Method, Outcome, Reason, Transport};
use wire::acp::ClientMessage;
use wire::rpc::RpcError;

use super::Reach;
use super::lanes::Lanes;

/// Whose requests these are.
pub(super) struct Caller {
    pub(super) connection: ConnectionId,
    pub(super) principal: PrincipalId,
}

/// One request from its arrival to its answer.
pub(super) struct Access {
    caller: Arc<Caller>,
    method: Method,
    session: Option<SessionId>,
    trace: Option<TraceParent>,
    began: Instant,
    is_answered: bool,
}

impl Access {
    /// A request has come.
    pub(super) fn begin(
        caller: &Arc<Caller>,
        method: Method,
        session: Option<SessionId>,
        trace: Option<TraceParent>,
    ) -> Self {
        Self {
            caller: Arc::clone(caller),
            method,
            session,
            trace,
            began: Instant::now(),
            is_answered: false,
        }
    }

    /// The trace that the caller named.
    pub(super) fn trace(&self) -> Option<TraceParent> {
        self.trace
    }

    /// It was answered with a result.
    pub(super) fn served(mut self) {
        self.is_answered = true;
        self.tell(Outcome::Ok, Outcome::Ok.name(), None);
    }

    /// It was answered with an error, which the client knows by the name `request`.
    pub(super) fn refused(mut self, error: &RpcError, request: &str) {
        self.is_answered = true;
        let reason = refused(error);
        self.tell(Outcome::Error, reason.name(), Some(request));
    }

    fn tell(&self, answer: Outcome, outcome: &str, request: Option<&str>) {
        let took = self.began.elapsed();
        meters::RPC_REQUESTS.of(self.method).of(answer).count();
        if self.method != Method::Prompt {
            meters::RPC_TIME.observe(took);
        }
        tracing::info!(
            target: "access",
            connection = self.caller.connection.as_str(),
            principal = self.caller.principal.as_str(),
            method = self.method.name(),
            session = self.session.map(display),
            outcome,
            request,
            trace_id = self.trace.map(|trace| display(trace.id())),
            took_ms = took.as_secs_f64() * 1e3,
            "rpc"
        );
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        if !self.is_answered {
            self.tell(Outcome::Error, "unanswered", None);
        }
    }
}

/// Counts a refusal; says why it was.
pub(super) fn refused(error: &RpcError) -> Reason {
    let reason = Reason::of_rpc(error.code);
    meters::REFUSALS.of(reason).count();
    reason
}

/// How a client is connected.
pub(super) fn transport_of(reach: Reach, lanes: &Lanes) -> Transport {
    match (reach, lanes) {
        (Reach::Local, _) => Transport::Stdio,
        (Reach::Network, Lanes::One(_)) => Transport::WebSocket,
        (Reach::Network, Lanes::Split(_)) => Transport::Http,
    }
}

/// Counts a client as connected for as long as the answer lives.
pub(super) fn arrived(transport: Transport) -> meters::Held {
    meters::CONNECTIONS_EVER.of(transport).count();
    meters::CONNECTIONS.of(transport).hold()
}

/// The request's name as it is counted and logged: a client may have used an older one.
pub(super) fn method_of(message: Option<&ClientMessage>, name: &str) -> Method {
    let Some(message) = message else {
        return Method::named(name).unwrap_or(Method::Other);
    };
    match message {
        ClientMessage::Initialize(_) => Method::Initialize,
        ClientMessage::Authenticate(_) => Method::Authenticate,
        ClientMessage::Logout => Method::Logout,
        ClientMessage::NewSession(_) => Method::New,
        ClientMessage::LoadSession(_) => Method::Load,
        ClientMessage::ResumeSession(_) => Method::Resume,
        ClientMessage::ListSessions(_) => Method::List,
        ClientMessage::CloseSession(_) => Method::Close,
        ClientMessage::DeleteSession(_) => Method::Delete,
        ClientMessage::Prompt(_) => Method::Prompt,
        ClientMessage::SetMode(_) => Method::SetMode,
        ClientMessage::SetConfigOption(_) => Method::SetConfigOption,
        ClientMessage::Rewind(_) => Method::Rewind,
        ClientMessage::Cancel(_) | ClientMessage::CancelRequest(_) | ClientMessage::Unknown(_) => {
            Method::named(name).unwrap_or(Method::Other)
        }
    }
}
