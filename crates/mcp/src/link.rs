//! One connection to a server, on which every request ends once.

use std::io;

use domain::limits::{MCP_LIST_WAIT, MCP_PAGES_MAX, MCP_PING_WAIT, MCP_TOOLS_MAX};
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, PaginatedRequestParams, PingRequest, SubscriptionFilter, Tool};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, Peer, RunningService,
    ServiceError, Subscription,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::AuthRequiredError;
use tokio::time::timeout;

use crate::error::{CallError, ConnectError, quoted};
use crate::handler::Handler;
use crate::life::Life;

/// One connection. Dropped, it is closed.
#[derive(Debug)]
pub(crate) struct Link {
    service: RunningService<RoleClient, Handler>,
    life: Life,
    /// Whether the other end may be gone without anybody noticing.
    is_far: bool,
}

impl Link {
    /// Agrees with the server on how to speak.
    ///
    /// # Errors
    /// If it does not, or the connection ends first. How long it may take is the caller's to say.
    pub(crate) async fn begin<T>(
        transport: T,
        life: Life,
        handler: Handler,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ConnectError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let ending = EndsUnlessKept::of(&life);
        life.is_of(handler.server());
        let serving = handler.serve_with_lifecycle(transport, lifecycle);
        let served = tokio::select! {
            served = serving => served.map_err(|error| refusal(&error, &life)),
            () = life.ended() => Err(ConnectError::Failed(life.why())),
        };
        let service = served?;
        ending.keep();
        let is_far = false;
        Ok(Self {
            service,
            life,
            is_far,
        })
    }

    /// The same over a network, on which the other end may be gone without anybody noticing.
    pub(crate) fn over_network(mut self) -> Self {
        self.is_far = true;
        self
    }

    /// Finds out whether a server that was silent for too long is still there; ends the connection if
    /// not. Servers of 2026-07-28 keep none.
    pub(crate) fn doubt(&self) {
        if !self.is_far || !self.is_older() || self.life.is_over() {
            return;
        }
        let (peer, life) = (self.peer().clone(), self.life.clone());
        tokio::spawn(async move {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            let answered = tokio::select! {
                answered = timeout(MCP_PING_WAIT, peer.send_request(ping)) => answered,
                () = life.ended() => return,
            };
            // An error is a sign of life, too.
            if answered.is_err() {
                life.end("it does not answer any more");
            }
        });
    }

    pub(crate) fn life(&self) -> &Life {
        &self.life
    }

    /// Whether the server speaks a protocol from before 2026-07-28.
    pub(crate) fn is_older(&self) -> bool {
        let info = self.service.peer().peer_info();
        info.is_some_and(|info| info.protocol_version.has_initialize())
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    pub(crate) fn handler(&self) -> &Handler {
        self.service.service()
    }

    /// Whether the server has resources.
    pub(crate) fn has_resources(&self) -> bool {
        let info = self.peer().peer_info();
        info.is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Has a server of 2026-07-28 say when its tools or prompts change. Others do so unasked.
    pub(crate) async fn listen(&self) -> Option<Subscription> {
        let info = self.peer().peer_info()?;
        let tools = info.capabilities.tools.as_ref();
        let tools = tools.is_some_and(|tools| tools.list_changed == Some(true));
        let prompts = info.capabilities.prompts.as_ref();
        let prompts = prompts.is_some_and(|prompts| prompts.list_changed == Some(true));
        if self.is_older() || !tools && !prompts {
            return None;
        }
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = tools.then_some(true);
        filter.prompts_list_changed = prompts.then_some(true);
        let listening = timeout(MCP_LIST_WAIT, self.peer().listen(filter));
        tokio::select! {
            // One that does not tell is asked when it is called.
            listening = listening => listening.ok()?.ok(),
            () = self.life.ended() => None,
        }
    }

    /// The server's tools, page by page as far as pages and tools may go.
    ///
    /// # Errors
    /// If a page does not come.
    pub(crate) async fn tools(&self) -> Result<Vec<Tool>, CallError> {
        let peer = self.service.peer();
        let has_tools = peer.peer_info();
        let has_tools = has_tools.is_none_or(|info| info.capabilities.tools.is_some());
        if !has_tools {
            return Ok(Vec::new());
        }
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MCP_PAGES_MAX {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page = timeout(MCP_LIST_WAIT, peer.list_tools(Some(page)));
            let page = tokio::select! {
                page = page => page.map_err(|_| CallError::TooLong(MCP_LIST_WAIT))?,
                () = self.life.ended() => return Err(CallError::Closed(self.life.why())),
            };
            let page = page.map_err(|error| self.failure(error))?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= MCP_TOOLS_MAX {
                break;
            }
        }
        tools.truncate(MCP_TOOLS_MAX);
        Ok(tools)
    }

    pub(crate) fn failure(&self, error: ServiceError) -> CallError {
        if let ServiceError::McpError(error) = error {
            return CallError::Server {
                code: error.code.0,
                message: quoted(&error.message),
            };
        }
        if let ServiceError::TransportSend(error) = &error
            && let Some(hint) = login_hint(&*error.error)
        {
            return CallError::LoginNeeded(hint);
        }
        if let (ServiceError::TransportSend(error), false) = (&error, self.life.is_over()) {
            return CallError::Closed(quoted(&error.error.to_string()));
        }
        let is_closed = matches!(
            error,
            ServiceError::TransportSend(_) | ServiceError::TransportClosed
        );
        match is_closed {
            true => CallError::Closed(self.life.why()),
            false => CallError::Unexpected(quoted(&error.to_string())),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.life.end("it was closed");
    }
}

/// Ends a life that nobody took over: a beginning that was given up leaves no process behind.
struct EndsUnlessKept(Option<Life>);

impl EndsUnlessKept {
    fn of(life: &Life) -> Self {
        Self(Some(life.clone()))
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for EndsUnlessKept {
    fn drop(&mut self) {
        if let Some(life) = self.0.take() {
            life.end("it did not begin");
        }
    }
}

/// What must be done, if `error` says that the server does not let us in.
fn login_hint(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(needed) = error.downcast_ref::<AuthRequiredError>() {
            return Some(needed.www_authenticate_header.clone());
        }
        // What an error of the system's kind was made of is not its source.
        let made_of = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        cause = match made_of {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// Why a server did not begin.
fn refusal(error: &ClientInitializeError, life: &Life) -> ConnectError {
    if error.is_authorization_required() {
        let challenge = error.auth_challenge().unwrap_or_default();
        return ConnectError::LoginNeeded(quoted(challenge));
    }
    if life.is_over() {
        return ConnectError::Failed(life.why());
    }
    if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
        return refusal(fallback, life);
    }
    if let ClientInitializeError::TransportError { error, .. } = error {
        if let Some(hint) = login_hint(&*error.error) {
            return ConnectError::LoginNeeded(hint);
        }
        return ConnectError::Failed(quoted(&error.error.to_string()));
    }
    if let ClientInitializeError::JsonRpcError(error) = error {
        return ConnectError::Failed(format!("it refused: {}", quoted(&error.message)));
    }
    ConnectError::Failed(quoted(&error.to_string()))
}
