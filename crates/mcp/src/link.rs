//! One connection to a server, on which every request ends once.

use std::time::Duration;

use domain::limits::{
    MCP_CALL_SILENCE, MCP_CALL_WAIT, MCP_CLOSE_WAIT, MCP_LIST_WAIT, MCP_PAGES_MAX, MCP_TOOLS_MAX,
};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientRequest, PaginatedRequestParams, RequestId, ServerResult,
    Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, Peer, PeerRequestOptions,
    RunningService, ServiceError,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::AuthRequiredError;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{CallError, ConnectError, quoted};
use crate::handler::Handler;
use crate::life::Life;

/// One connection. Dropped, it is closed.
#[derive(Debug)]
pub(crate) struct Link {
    service: RunningService<RoleClient, Handler>,
    life: Life,
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
        let serving = handler.serve_with_lifecycle(transport, lifecycle);
        let served = tokio::select! {
            served = serving => served.map_err(|error| refusal(&error, &life)),
            () = life.ended() => Err(ConnectError::Failed(life.why())),
        };
        let service = served?;
        ending.keep();
        Ok(Self { service, life })
    }

    pub(crate) fn life(&self) -> &Life {
        &self.life
    }

    /// Whether the server speaks a protocol from before 2026-07-28.
    pub(crate) fn is_older(&self) -> bool {
        let info = self.service.peer().peer_info();
        info.is_some_and(|info| info.protocol_version.has_initialize())
    }

    pub(crate) fn handler(&self) -> &Handler {
        self.service.service()
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

    /// Calls a tool, telling `on_progress` how far it is. Dropped, it takes the call back.
    ///
    /// # Errors
    /// If there is no result in time, or none at all.
    pub(crate) async fn call(
        &self,
        tool: &str,
        input: Map<String, Value>,
        silence_max: Option<Duration>,
        on_progress: impl Fn(&str) + Send,
    ) -> Result<CallToolResult, CallError> {
        let silence_max = silence_max.unwrap_or(MCP_CALL_SILENCE);
        let peer = self.service.peer();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(input);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let (begun, options) = (Instant::now(), PeerRequestOptions::no_options());
        let sending = peer.send_request_with_option(request, options);
        let sent = tokio::select! {
            sent = timeout(silence_max, sending) => sent.map_err(|_| CallError::Silent(silence_max))?,
            () = self.life.ended() => return Err(CallError::Closed(self.life.why())),
        };
        let mut handle = sent.map_err(|error| self.failure(error))?;
        let mut following = self.handler().follow(&handle.progress_token);
        let abandoned = Abandoned::new(peer, &handle.id);
        let end_by = begun + MCP_CALL_WAIT;
        let mut silent_by = begun + silence_max;
        let answered = loop {
            tokio::select! {
                biased;
                answered = &mut handle.rx => break answered,
                () = self.life.ended() => return Err(CallError::Closed(self.life.why())),
                far = following.next() => {
                    silent_by = Instant::now() + silence_max;
                    on_progress(&far);
                }
                () = sleep_until(end_by) => return Err(CallError::TooLong(MCP_CALL_WAIT)),
                () = sleep_until(silent_by) => return Err(CallError::Silent(silence_max)),
            }
        };
        abandoned.not_any_more();
        let answered = answered.map_err(|_| CallError::Closed(self.life.why()))?;
        let answered = answered.map_err(|error| self.failure(error))?;
        if let ServerResult::CallToolResult(result) = answered {
            return Ok(result);
        }
        let why = match matches!(answered, ServerResult::InputRequiredResult(_)) {
            true => "the server asks for input, which is not supported yet",
            false => "what the server answered is no result of a tool",
        };
        Err(CallError::Unexpected(why.to_owned()))
    }

    fn failure(&self, error: ServiceError) -> CallError {
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

/// Tells the server about a call that nobody waits for any more.
struct Abandoned {
    call: Option<(Peer<RoleClient>, RequestId)>,
}

impl Abandoned {
    fn new(peer: &Peer<RoleClient>, id: &RequestId) -> Self {
        Self {
            call: Some((peer.clone(), id.clone())),
        }
    }

    fn not_any_more(mut self) {
        self.call = None;
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let Some((peer, id)) = self.call.take() else {
            return;
        };
        let reason = "nobody waits for it any more".to_owned();
        let params = CancelledNotificationParam::new(Some(id), Some(reason));
        let cancelled = CancelledNotification::new(params);
        // Where no runtime is left, no connection is left either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                timeout(MCP_CLOSE_WAIT, peer.send_notification(cancelled.into())).await
            });
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
        cause = error.source();
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
        return ConnectError::Failed(quoted(&error.error.to_string()));
    }
    if let ClientInitializeError::JsonRpcError(error) = error {
        return ConnectError::Failed(format!("it refused: {}", quoted(&error.message)));
    }
    ConnectError::Failed(quoted(&error.to_string()))
}
