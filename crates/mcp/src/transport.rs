//! How messages travel to a server and back.
//!
//! Every transport here has a [`Life`], and ends it at the moment it knows that nothing more will
//! come. `rmcp` drives it through [`Pipe`] (program, SSE) or [`Watched`] (Streamable HTTP).
#![expect(deprecated, reason = "servers of older eras send us their log")]

pub(crate) mod http;
pub(crate) mod program;
pub(crate) mod sse;
pub(crate) mod streamable;

use std::collections::HashSet;
use std::io;

use domain::limits::MCP_WRITE_WAIT;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, LoggingMessageNotificationParam,
    RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::life::Life;

/// A message on its way out, and where to say that it is written.
pub(crate) struct Outgoing {
    pub(crate) message: TxJsonRpcMessage<RoleClient>,
    pub(crate) written: oneshot::Sender<io::Result<()>>,
}

/// Two bounded queues to tasks that own the connection.
pub(crate) struct Pipe {
    pub(crate) incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
    pub(crate) life: Life,
    /// Requests that have no answer yet.
    waiting: HashSet<RequestId>,
    probe: Probe,
}

impl Pipe {
    pub(crate) fn new(
        incoming: mpsc::Receiver<ServerJsonRpcMessage>,
        outgoing: mpsc::Sender<Outgoing>,
        life: Life,
    ) -> Self {
        Self {
            incoming,
            outgoing,
            life,
            waiting: HashSet::new(),
            probe: Probe::default(),
        }
    }

    /// Notes which request a message answers. An error without an id is the answer to the only
    /// request there is; among several nobody knows.
    fn answered(&mut self, message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
        match &message {
            ServerJsonRpcMessage::Response(response) => self.waiting.remove(&response.id),
            ServerJsonRpcMessage::Error(error) => match &error.id {
                Some(id) => self.waiting.remove(id),
                None if self.waiting.len() == 1 => {
                    let only = self.waiting.drain().next();
                    return match only {
                        Some(id) => streamable::with_id(message, &id),
                        None => message,
                    };
                }
                None => false,
            },
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => false,
        };
        message
    }

    fn asked(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        self.probe.sent(message);
        if let Some(id) = streamable::request_id(message) {
            self.waiting.insert(id.clone());
        }
        if let ClientJsonRpcMessage::Notification(notification) = message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.waiting.remove(id);
        }
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.asked(&message);
        let (outgoing, life) = (self.outgoing.clone(), self.life.clone());
        let (written, done) = oneshot::channel();
        async move {
            let writing = async {
                let outgoing = outgoing.send(Outgoing { message, written });
                outgoing.await.map_err(|_| closed(&life))?;
                done.await.unwrap_or_else(|_| Err(closed(&life)))
            };
            tokio::select! {
                written = timeout(MCP_WRITE_WAIT, writing) => {
                    written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                }
                () = life.ended() => Err(closed(&life)),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = tokio::select! {
                biased;
                message = self.incoming.recv() => message?,
                () = self.life.ended() => return None,
            };
            let message = self.answered(message);
            if !self.probe.is_late(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.life.end("it was closed");
        Ok(())
    }
}

/// A transport of `rmcp`'s own whose end is noticed.
pub(crate) struct Watched<T> {
    pub(crate) inner: T,
    pub(crate) life: Life,
    pub(crate) probe: Probe,
}

/// The question what a server speaks. A server that takes too long to answer it is greeted in the
/// older way; what it then says about the question would be taken for its answer to the greeting.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    asked: Option<RequestId>,
    given_up: Option<RequestId>,
}

impl Probe {
    fn sent(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        let ClientJsonRpcMessage::Request(request) = message else {
            return;
        };
        if matches!(request.request, ClientRequest::DiscoverRequest(_)) {
            self.asked = Some(request.id.clone());
        } else if matches!(request.request, ClientRequest::InitializeRequest(_)) {
            self.given_up = self.asked.take();
        }
    }

    fn is_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let Some(given_up) = &self.given_up else {
            return false;
        };
        match message {
            ServerJsonRpcMessage::Response(response) => response.id == *given_up,
            ServerJsonRpcMessage::Error(error) => error.id.as_ref() == Some(given_up),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => false,
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.probe.sent(&message);
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = tokio::select! {
                message = self.inner.receive() => message,
                () = self.life.ended() => None,
            };
            let Some(message) = message else {
                self.life.end("it closed the connection");
                return None;
            };
            if is_of_use(&message, &self.life) && !self.probe.is_late(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.life.end("it was closed");
        self.inner.close().await
    }
}

/// Whether anybody here would do something about a message. What nobody wants is dropped before a
/// task is made of it, so that a flood of it costs no more than reading it. The server's own log is
/// taken over into ours on the way.
pub(crate) fn is_of_use(message: &ServerJsonRpcMessage, life: &Life) -> bool {
    let ServerJsonRpcMessage::Notification(notification) = message else {
        return true;
    };
    if let ServerNotification::LoggingMessageNotification(logged) = &notification.notification {
        log(&logged.params, life);
        return false;
    }
    matches!(
        notification.notification,
        ServerNotification::ProgressNotification(_)
            | ServerNotification::ToolListChangedNotification(_)
            | ServerNotification::PromptListChangedNotification(_)
            | ServerNotification::CancelledNotification(_)
            | ServerNotification::SubscriptionsAcknowledgedNotification(_)
    )
}

fn log(logged: &LoggingMessageNotificationParam, life: &Life) {
    life.log(logged.logger.as_deref(), &logged.data);
}

fn closed(life: &Life) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, life.why())
}
