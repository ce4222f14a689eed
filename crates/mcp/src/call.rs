//! One call of a tool, which ends once.
//!
//! A server may want something first: it asks beside the call ([`Handler`](crate::handler::Handler)), or, since 2026-07-28,
//! answers with what it needs and is called again with that. Neither counts as silence.

use std::time::Duration;

use domain::limits::{MCP_CALL_SILENCE, MCP_CALL_WAIT, MCP_CLOSE_WAIT, MCP_ROUNDS_MAX};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientRequest, InputRequest, InputRequests, InputResponses,
    RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until, timeout};

use crate::callers::{OnBehalf, Standing};
use crate::error::CallError;
use crate::link::Link;

/// How long a call may take.
struct Patience {
    silence_max: Duration,
    silent_by: Instant,
    end_by: Instant,
    /// Since when a person is being asked, if one is.
    asked_since: Option<Instant>,
}

impl Patience {
    fn new(silence_max: Option<Duration>) -> Self {
        let (now, silence_max) = (Instant::now(), silence_max.unwrap_or(MCP_CALL_SILENCE));
        Self {
            silence_max,
            silent_by: now + silence_max,
            end_by: now + MCP_CALL_WAIT,
            asked_since: None,
        }
    }

    fn heard(&mut self) {
        self.silent_by = Instant::now() + self.silence_max;
    }

    /// The time in which a person is asked is theirs.
    fn is_asked(&mut self, is_asked: bool) {
        match (is_asked, self.asked_since) {
            (true, None) => self.asked_since = Some(Instant::now()),
            (false, Some(since)) => {
                self.end_by += since.elapsed();
                self.asked_since = None;
                self.heard();
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Waits until there was too much silence, or it is too late. Cancel safe.
    async fn ends(&self) -> CallError {
        if self.asked_since.is_some() {
            return std::future::pending().await;
        }
        tokio::select! {
            () = sleep_until(self.end_by) => CallError::TooLong(MCP_CALL_WAIT),
            () = sleep_until(self.silent_by) => CallError::Silent(self.silence_max),
        }
    }
}

impl Link {
    /// Calls a tool, telling `on_progress` how far it is, and lets the server ask `on_behalf` of the
    /// call. Dropped, it takes the call back.
    ///
    /// # Errors
    /// If there is no result in time, or none at all.
    pub(crate) async fn call(
        &self,
        params: CallToolRequestParams,
        silence_max: Option<Duration>,
        on_behalf: Option<OnBehalf>,
        on_progress: impl Fn(&str) + Send,
    ) -> Result<CallToolResult, CallError> {
        let mut standing = self.handler().callers().stand_by(on_behalf);
        let mut patience = Patience::new(silence_max);
        let mut params = params;
        for _ in 0..MCP_ROUNDS_MAX {
            let request = CallToolRequest::new(params.clone());
            let request = ClientRequest::CallToolRequest(request);
            let answered = self
                .round(request, &mut standing, &mut patience, &on_progress)
                .await?;
            if let ServerResult::CallToolResult(result) = answered {
                return Ok(result);
            }
            let ServerResult::InputRequiredResult(wanted) = answered else {
                let why = "what the server answered is no result of a tool";
                return Err(CallError::Unexpected(why.to_owned()));
            };
            patience.is_asked(true);
            let inputs = wanted.input_requests.unwrap_or_default();
            let given = tokio::select! {
                given = self.give(inputs) => given?,
                () = self.life().ended() => return Err(CallError::Closed(self.life().why())),
            };
            patience.is_asked(false);
            (params.input_responses, params.request_state) = (Some(given), wanted.request_state);
        }
        let why = "the server asks for more and more before it answers";
        Err(CallError::Unexpected(why.to_owned()))
    }

    /// Sends a request and waits for what the server says to it.
    async fn round(
        &self,
        request: ClientRequest,
        standing: &mut Standing,
        patience: &mut Patience,
        on_progress: &(impl Fn(&str) + Send),
    ) -> Result<ServerResult, CallError> {
        let (peer, silence_max) = (self.peer(), patience.silence_max);
        let closed = || CallError::Closed(self.life().why());
        let sending = peer.send_request_with_option(request, PeerRequestOptions::no_options());
        let sent = tokio::select! {
            sent = timeout(silence_max, sending) => sent.map_err(|_| CallError::Silent(silence_max))?,
            () = self.life().ended() => return Err(closed()),
        };
        let mut handle = sent.map_err(|error| self.failure(error))?;
        let mut following = self.handler().follow(&handle.progress_token);
        let abandoned = Abandoned::new(peer, &handle.id);
        let answered = loop {
            patience.is_asked(standing.is_asked());
            tokio::select! {
                biased;
                answered = &mut handle.rx => break answered,
                () = self.life().ended() => return Err(closed()),
                far = following.next() => {
                    patience.heard();
                    on_progress(&far);
                }
                () = standing.changed() => {}
                error = patience.ends() => {
                    self.doubt();
                    return Err(error);
                }
            }
        };
        abandoned.not_any_more();
        let answered = answered.map_err(|_| closed())?;
        answered.map_err(|error| self.failure(error))
    }

    /// What a server wants before it goes on.
    async fn give(&self, wanted: InputRequests) -> Result<InputResponses, CallError> {
        let mut given = InputResponses::new();
        for (key, request) in wanted {
            let answer = match request {
                InputRequest::Elicitation(request) => {
                    serde_json::to_value(self.handler().elicit(request.params).await).ok()
                }
                InputRequest::CreateMessage(request) => {
                    let sampled = self.handler().sample(request.params).await;
                    let sampled =
                        sampled.map_err(|error| self.failure(ServiceError::McpError(error)))?;
                    serde_json::to_value(sampled).ok()
                }
                InputRequest::ListRoots(_) => serde_json::to_value(self.handler().roots()).ok(),
                _ => None,
            };
            let Some(answer) = answer else {
                let why = "the server asks for something that it was not offered";
                return Err(CallError::Unexpected(why.to_owned()));
            };
            given.insert(key, answer);
        }
        Ok(given)
    }
}

/// What is sent to call `tool` with `input`.
pub(crate) fn params(tool: &str, input: Map<String, Value>) -> CallToolRequestParams {
    CallToolRequestParams::new(tool.to_owned()).with_arguments(input)
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
        let reason = "its result is no longer needed".to_owned();
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
