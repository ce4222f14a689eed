//! A client that comes by single requests from within this process: what a POST, a GET and a DELETE
//! do, without the HTTP around it. For simulations.

use std::convert::Infallible;
use std::sync::Arc;

use auth::Principal;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use wire::rpc;

use super::{Remote, mark_named};
use crate::service::Service;

/// One client between its requests.
pub struct Within {
    service: Arc<Service>,
    remote: Arc<Remote>,
}

impl Within {
    /// Begins a connection with `initialize`; gives it and the answer. `None` if it is refused.
    pub async fn open(
        service: &Arc<Service>,
        principal: Principal,
        initialize: &str,
    ) -> Option<(Self, String)> {
        let slot = service.take_slot(&principal)?;
        let message = rpc::parse(initialize.as_bytes()).ok()?;
        let opened = Remote::open(service, principal, slot, (message, None)).await;
        let (remote, answer) = opened?;
        let service = Arc::clone(service);
        Some((Self { service, remote }, answer))
    }

    /// Takes a message; `false` if it is not one, or those before it are not taken in time.
    pub async fn post(&self, message: &str) -> bool {
        let Ok(message) = rpc::parse(message.as_bytes()) else {
            return false;
        };
        let patience = self.service.limits.handshake;
        self.remote.post((message, None), patience).await.is_ok()
    }

    /// Reads the connection's stream or a session's, after the event that `last` names; `None` if
    /// it cannot be read like that.
    #[must_use]
    pub fn read(
        &self,
        session: Option<&str>,
        last: Option<&str>,
    ) -> Option<impl Stream<Item = Bytes> + use<>> {
        let after = match last {
            Some(name) => Some(mark_named(name)?),
            None => None,
        };
        let open = self.remote.read(session, after).ok()?;
        let bytes = open.into_bytes();
        Some(bytes.map(|bytes: Result<Bytes, Infallible>| bytes.unwrap_or_default()))
    }

    /// Ends the connection.
    pub fn end(&self) {
        self.service.remotes.end(&self.remote);
    }
}
