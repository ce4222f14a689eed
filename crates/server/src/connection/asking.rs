//! What the server asks of one client: its files and terminals, in the name of a session.
//!
//! A request is registered before it is written, so an answer can never come too soon. It leaves
//! the register by its answer, by its deadline, by being dropped, or with the connection, and then
//! at once. [`port`] is what a session's turn holds of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::limits::{CLIENT_DISCOVERIES_MAX, CLIENT_REQUESTS_MAX};
use domain::{ConnectionId, SessionId};
use serde_json::value::RawValue;
use session::client_side::ClientError;
use session::client_side::discovery::ClientTool;
use tokio::sync::{OnceCell, oneshot};
use wire::acp::cancel_request;
use wire::acp::client_side::ClientRequest;
use wire::rpc::{RequestId, RpcError};

use super::lanes::Lanes;

mod port;

pub(crate) use port::Port;

/// The way to the client.
pub(crate) trait Lane: Send + Sync {
    /// Sends a frame in the name of a session. It never waits.
    fn send(&self, session: SessionId, frame: String);
}

impl Lane for Lanes {
    fn send(&self, session: SessionId, frame: String) {
        self.of(session).answer(frame);
    }
}

/// A client's answer to a request of ours.
pub(crate) type Reply = Result<Box<RawValue>, RpcError>;

/// The requests that wait for one client.
pub(crate) struct Asking {
    lane: Box<dyn Lane>,
    register: Mutex<Register>,
    /// The client's own tools, by session, each once it was asked for them.
    discoveries: Mutex<HashMap<SessionId, Discovery>>,
}

/// A client's own tools, once it has said which.
type Discovery = Arc<OnceCell<Arc<[ClientTool]>>>;

#[derive(Default)]
struct Register {
    waiting: HashMap<RequestId, oneshot::Sender<Reply>>,
    /// The client has left: nothing is asked of it any more.
    is_closed: bool,
}

impl Asking {
    pub(crate) fn new(lane: impl Lane + 'static) -> Self {
        Self {
            lane: Box::new(lane),
            register: Mutex::default(),
            discoveries: Mutex::default(),
        }
    }

    /// Where the client's own tools for `session` are kept.
    fn discovery(&self, session: SessionId) -> Discovery {
        let known = self.discoveries.lock();
        // The map is whole at every step, so a panic elsewhere does not spoil it.
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CLIENT_DISCOVERIES_MAX && !known.contains_key(&session) {
            known.retain(|_, discovery| Arc::strong_count(discovery) > 1);
        }
        Arc::clone(known.entry(session).or_default())
    }

    /// Uses a response; gives it back if it answers nothing that was asked here.
    pub(crate) fn settle(&self, id: &RequestId, reply: Reply) -> Result<(), Reply> {
        let Some(asker) = self.lock().waiting.remove(id) else {
            return Err(reply);
        };
        // Whoever asked may have stopped waiting this moment; it was an answer all the same.
        let _ = asker.send(reply);
        Ok(())
    }

    /// The client has left: every request fails now, and new ones from now on. Says how many did.
    pub(crate) fn abort(&self) -> usize {
        let mut register = self.lock();
        register.is_closed = true;
        let waiting = std::mem::take(&mut register.waiting);
        drop(register);
        // Dropping what would have taken the answer is how an asker learns of it.
        waiting.len()
    }

    /// Whether the client has left.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Tells the client something, if it is there.
    fn tell(&self, session: SessionId, frame: String) {
        if !self.is_closed() {
            self.lane.send(session, frame);
        }
    }

    /// Registers a request and writes it.
    ///
    /// # Errors
    /// If the client has left, in which case nothing is written, or too much is asked of it.
    fn ask(
        self: &Arc<Self>,
        session: SessionId,
        request: &ClientRequest,
    ) -> Result<Open, ClientError> {
        let id = RequestId::string(ConnectionId::random().to_string());
        let (asker, reply) = oneshot::channel();
        let mut register = self.lock();
        if register.is_closed {
            return Err(ClientError::Gone);
        }
        if register.waiting.len() >= CLIENT_REQUESTS_MAX {
            return Err(ClientError::TooMany);
        }
        register.waiting.insert(id.clone(), asker);
        drop(register);
        let open = Open {
            asking: Arc::clone(self),
            session,
            id,
            method: request.method(),
            reply,
            is_wanted: true,
            _counted: meters::CLIENT_REQUESTS.hold(),
        };
        self.lane.send(session, request.to_frame(&open.id, session));
        Ok(open)
    }

    /// Forgets a request; says whether it was still waiting.
    fn forget(&self, id: &RequestId) -> bool {
        self.lock().waiting.remove(id).is_some()
    }

    /// The register is whole at every step, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Register> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits for its answer. Dropped, it is taken back.
struct Open {
    asking: Arc<Asking>,
    session: SessionId,
    id: RequestId,
    method: &'static str,
    reply: oneshot::Receiver<Reply>,
    /// Whether the client still believes that the answer is wanted.
    is_wanted: bool,
    _counted: meters::Held,
}

impl Open {
    /// The answer, within `time_max` if there is one.
    async fn answer(&mut self, time_max: Option<Duration>) -> Result<Box<RawValue>, ClientError> {
        let reply = match time_max {
            None => (&mut self.reply).await,
            Some(waited) => match tokio::time::timeout(waited, &mut self.reply).await {
                Ok(reply) => reply,
                Err(_) => {
                    let method = self.method;
                    return Err(ClientError::Timeout { method, waited });
                }
            },
        };
        match reply {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(ClientError::Peer {
                code: error.code,
                message: error.message,
                data: error.data.map(|data| *data),
            }),
            Err(_) => Err(ClientError::Gone),
        }
    }

    /// Tells the client that the answer is not needed; one that comes all the same is still taken.
    fn withdraw(&mut self) {
        if std::mem::replace(&mut self.is_wanted, false) {
            let frame = cancel_request(&self.id);
            self.asking.lane.send(self.session, frame);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.asking.forget(&self.id) {
            self.withdraw();
        }
    }
}

#[cfg(test)]
mod tests;
