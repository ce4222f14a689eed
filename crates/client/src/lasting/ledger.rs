//! What must be known to make a connection anew so that its caller does not notice: pure rules.
//!
//! Every message passes through here, [`Ledger::outgoing`] on its way to the server and
//! [`Ledger::incoming`] on its way back. When the connection is lost, [`Ledger::lost`] says what the
//! caller must be told, and [`Ledger::greet`] how the next connection begins.

mod kept;
mod questions;
mod seats;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use domain::SessionId;
use serde_json::Value;
use serde_json::value::RawValue;
use wire::acp::{Method, PROTOCOL_VERSION, cancel_request};
use wire::rpc::{self, Incoming, RequestId, RpcError};

use self::kept::{Kept, KeptRequests};
use self::questions::Questions;
use self::seats::{Seats, Told};
use crate::message::meta;

/// Messages that a step gives rise to, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    pub(super) to_server: Vec<String>,
    pub(super) to_caller: Vec<String>,
}

/// The state of a connection that outlives its connections.
#[derive(Debug)]
pub(super) struct Ledger {
    /// What the caller said of itself, once the server has answered it.
    introduction: Option<Value>,
    kept: KeptRequests,
    seats: Seats,
    questions: Questions,
    /// Requests of our own on this connection.
    own: HashMap<RequestId, Own>,
    message_bytes_max: usize,
    has_progressed: bool,
}

/// Why we asked for something ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Greeting,
    Resume(SessionId),
}

impl Ledger {
    /// For a server that takes messages of at most `message_bytes_max` bytes, unless it says so.
    pub(super) fn new(message_bytes_max: usize) -> Self {
        Self {
            introduction: None,
            kept: KeptRequests::default(),
            seats: Seats::default(),
            questions: Questions::default(),
            own: HashMap::new(),
            message_bytes_max,
            has_progressed: false,
        }
    }

    /// Whether the caller's messages may be sent: not before the server knows who comes back.
    pub(super) fn is_ready(&self) -> bool {
        !self.own.values().any(|own| *own == Own::Greeting)
    }

    /// Whether anything happened since it was last asked, beyond shaking hands.
    pub(super) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progressed)
    }

    /// Whether requests wait for an answer that should not take long.
    pub(super) fn is_waiting(&self) -> bool {
        self.kept.is_any_short()
    }

    /// Takes a message of the caller.
    pub(super) fn outgoing(&mut self, frame: String) -> Effects {
        match rpc::parse(frame.as_bytes()) {
            Err(refusal) => Effects::back(refusal.to_frame()),
            Ok(Incoming::Request { id, method, params }) => {
                self.request(frame, id, method, params.as_deref())
            }
            Ok(Incoming::Notification { method, params }) => {
                self.notification(frame, &method, params.as_deref())
            }
            Ok(Incoming::Response { id, outcome }) => self.answered(frame, &id, outcome),
            Ok(Incoming::Ignored(reason)) => {
                tracing::debug!(reason, "skipped an answer of the caller");
                Effects::default()
            }
        }
    }

    /// Takes a message of the server. What is not one is skipped.
    pub(super) fn incoming(&mut self, frame: String) -> Effects {
        match rpc::parse(frame.as_bytes()) {
            Ok(Incoming::Response { id, outcome }) => self.response(frame, &id, outcome),
            Ok(Incoming::Request { id, method, params }) => {
                self.questions.asked(frame, id, &method, params.as_deref())
            }
            Ok(Incoming::Notification { method, params }) => {
                self.told(frame, &method, params.as_deref())
            }
            Ok(Incoming::Ignored(_)) | Err(_) => {
                tracing::debug!(bytes = frame.len(), "skipped a message of the server");
                Effects::default()
            }
        }
    }

    /// The connection is gone: tells the caller what cannot be made good.
    pub(super) fn lost(&mut self) -> Effects {
        self.own.clear();
        self.seats.lost();
        let mut effects = Effects::default();
        for id in self.kept.take_unrepeatable() {
            let error = RpcError::connection_lost(
                "the connection to the server was lost before it answered; \
                 it may have done what was asked",
            );
            effects.to_caller.push(rpc::error_response(&id, &error));
        }
        let void = self.questions.lost();
        effects.to_caller.extend(void.iter().map(cancel_request));
        effects
    }

    /// What a new connection begins with: nothing if the caller has not introduced itself.
    pub(super) fn greet(&mut self) -> Effects {
        match &self.introduction {
            Some(params) => {
                let id = RequestId::string(crate::client::new_id());
                let frame = rpc::request(&id, "initialize", params).unwrap_or_default();
                self.own.insert(id, Own::Greeting);
                Effects::on(frame)
            }
            None => Effects {
                to_server: self.kept.again(&mut self.seats),
                ..Effects::default()
            },
        }
    }

    /// Nothing more will come: the answers to all that waits.
    pub(super) fn give_up(&mut self, why: &str) -> Effects {
        let error = RpcError::connection_lost(why);
        let failed = self.kept.take_all();
        let failed = failed.iter().map(|id| rpc::error_response(id, &error));
        Effects {
            to_caller: failed.collect(),
            ..Effects::default()
        }
    }

    fn request(
        &mut self,
        frame: String,
        id: RequestId,
        method: String,
        params: Option<&RawValue>,
    ) -> Effects {
        if frame.len() > self.message_bytes_max {
            let error = RpcError::limit("message_bytes_max");
            return Effects::back(rpc::error_response(&id, &error));
        }
        let kept = Kept::new(frame, id, method, params);
        if let (Some(session), Some(prompt)) = (kept.session, &kept.prompt_id) {
            self.seats.prompted(session, prompt.clone());
        }
        if let (Some(session), Some(Method::LoadSession)) = (kept.session, kept.method) {
            self.seats.shows_all(session);
        }
        let frame = kept.frame.clone();
        match self.kept.keep(kept) {
            Ok(()) => Effects::on(frame),
            Err(id) => {
                let error = RpcError::limit("requests_in_flight");
                Effects::back(rpc::error_response(&id, &error))
            }
        }
    }

    fn notification(&mut self, frame: String, method: &str, params: Option<&RawValue>) -> Effects {
        if frame.len() > self.message_bytes_max {
            tracing::warn!(method, "dropped a notification that is too large");
            return Effects::default();
        }
        let cancels = matches!(
            Method::named(method),
            Some(Method::Cancel | Method::CancelRequest)
        );
        if cancels {
            self.kept.cancelled(&frame, params);
        }
        Effects::on(frame)
    }

    /// The caller answered a request of the server.
    fn answered(
        &mut self,
        frame: String,
        id: &RequestId,
        outcome: Result<Box<RawValue>, RpcError>,
    ) -> Effects {
        let Some(asked_as) = self.questions.answered(id, &outcome) else {
            return Effects::default();
        };
        if frame.len() > self.message_bytes_max {
            let error = RpcError::limit("message_bytes_max");
            return Effects::on(rpc::error_response(&asked_as, &error));
        }
        if asked_as == *id {
            return Effects::on(frame);
        }
        Effects::on(match outcome {
            Ok(result) => rpc::response(&asked_as, &result).unwrap_or_default(),
            Err(error) => rpc::error_response(&asked_as, &error),
        })
    }

    fn response(
        &mut self,
        frame: String,
        id: &RequestId,
        outcome: Result<Box<RawValue>, RpcError>,
    ) -> Effects {
        let result = outcome.map(|result| {
            // The envelope was parsed, so this is JSON.
            serde_json::from_str::<Value>(result.get()).unwrap_or_default()
        });
        if let Some(own) = self.own.remove(id) {
            return match own {
                Own::Greeting => self.welcomed(&result),
                Own::Resume(session) => self.came_back(session, &result),
            };
        }
        let Some(kept) = self.kept.take(id) else {
            tracing::debug!("skipped an answer that nobody waits for");
            return Effects::default();
        };
        self.has_progressed |= kept.method != Some(Method::Initialize);
        let mut effects = Effects::default();
        if let Ok(result) = &result {
            self.settled(&kept, result);
        }
        if let (Some(Method::Prompt), Some(session)) = (kept.method, kept.session) {
            let void = self.questions.ended(session);
            effects.to_caller.extend(void.iter().map(cancel_request));
        }
        effects.to_caller.push(frame);
        effects
    }

    /// A request of the caller went well: what follows from it for the time after a loss.
    fn settled(&mut self, kept: &Kept, result: &Value) {
        match (kept.method, kept.session) {
            (Some(Method::Initialize), _) => {
                self.introduction = Some(kept.params());
                self.learn_size(result);
            }
            (Some(Method::NewSession | Method::LoadSession | Method::ResumeSession), _) => {
                self.seats.entered(kept, result);
            }
            (Some(Method::CloseSession | Method::DeleteSession), Some(session)) => {
                self.seats.left(session);
            }
            _ => {}
        }
    }

    /// The server knows us again: the sessions come back, then what waits is asked again.
    fn welcomed(&mut self, result: &Result<Value, RpcError>) -> Effects {
        let is_known = result
            .as_ref()
            .is_ok_and(|answer| answer["protocolVersion"] == PROTOCOL_VERSION);
        if !is_known {
            // Nothing is sent, so nothing is answered; the link ends such a connection by time.
            tracing::warn!("the server no longer speaks our protocol");
            let never = RequestId::string(crate::client::new_id());
            self.own.insert(never, Own::Greeting);
            return Effects::default();
        }
        if let Ok(answer) = result {
            self.learn_size(answer);
        }
        let mut effects = Effects::default();
        for session in self.seats.all() {
            if self.kept.is_loading(session) {
                continue;
            }
            let id = RequestId::string(crate::client::new_id());
            effects.to_server.extend(self.seats.resume(session, &id));
            self.own.insert(id, Own::Resume(session));
        }
        effects.to_server.extend(self.kept.again(&mut self.seats));
        effects
    }

    fn came_back(&mut self, session: SessionId, result: &Result<Value, RpcError>) -> Effects {
        match result {
            Ok(answer) => self.seats.came_back(session, answer),
            Err(error) => {
                tracing::warn!(%session, %error, "a session did not come back");
                self.seats.left(session);
            }
        }
        Effects::default()
    }

    fn learn_size(&mut self, answer: &Value) {
        let told = meta(answer)["maxMessageBytes"].as_u64();
        let told = told.and_then(|bytes| usize::try_from(bytes).ok());
        self.message_bytes_max = told.unwrap_or(self.message_bytes_max);
    }

    fn told(&mut self, frame: String, method: &str, params: Option<&RawValue>) -> Effects {
        if method == "$/cancel_request" {
            return self.questions.withdrawn(frame, params);
        }
        let told = match method {
            "session/update" | "_fastness/turn" | "_fastness/queue" | "_fastness/rewound" => {
                self.seats.told(frame, params, &mut self.kept)
            }
            _ => Told {
                frames: vec![frame],
                ..Told::default()
            },
        };
        self.has_progressed |= told.has_moved;
        let mut to_caller = told.frames;
        if let Some((session, call)) = told.call_ended {
            let void = self.questions.call_ended(session, &call);
            to_caller.extend(void.iter().map(cancel_request));
        }
        Effects {
            to_caller,
            ..Effects::default()
        }
    }
}

impl Effects {
    fn on(frame: String) -> Self {
        Self {
            to_server: vec![frame],
            ..Self::default()
        }
    }

    fn back(frame: String) -> Self {
        Self {
            to_caller: vec![frame],
            ..Self::default()
        }
    }
}
