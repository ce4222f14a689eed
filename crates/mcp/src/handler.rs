//! What we answer when a server speaks first.
#![expect(deprecated, reason = "servers of older eras want roots and the model")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData, FormElicitationCapability,
    Implementation, ListRootsResult, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    Root, RootsCapabilities, SamplingCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::{Notify, watch};
use tools::asks::PersonAnswer;
use tools::roots::Roots;

use crate::callers::{Callers, OnBehalf};
use crate::elicit::{self, Form};
use crate::error::quoted;
use crate::{roots, sampling};

/// The client's side of one connection. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handler {
    /// What the server is called.
    server: Arc<str>,
    /// Who can be asked.
    callers: Callers,
    /// The session's directories.
    roots: Arc<[String]>,
    /// Where calls hear how far they are.
    progress: Arc<Mutex<HashMap<ProgressToken, watch::Sender<String>>>>,
    /// Rings when the server's tools or prompts have changed.
    changed: Arc<Notify>,
}

impl Handler {
    /// The client's side of a connection to `server` for a session with these `roots`.
    pub(crate) fn new(server: &str, roots: &Roots) -> Self {
        Self {
            server: server.into(),
            roots: roots::addresses(roots).into(),
            ..Self::default()
        }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn callers(&self) -> &Callers {
        &self.callers
    }

    /// Has the person answer the server, if a call is under way and there is somebody to ask.
    pub(crate) async fn elicit(&self, params: ElicitRequestParams) -> ElicitResult {
        let (Some(form), Some(caller)) = (Form::read(params), self.callers.newest()) else {
            return elicit::declined();
        };
        let OnBehalf { call, asks } = &caller.on_behalf;
        let _open = caller.asking();
        let answering = asks.person(form.question(&self.server, call.clone()));
        let answer = tokio::select! {
            answer = answering => answer,
            () = caller.over.cancelled() => PersonAnswer::Cancelled,
        };
        form.told(answer)
    }

    /// Has the session's model answer the server, if a call is under way and the person allows it.
    ///
    /// # Errors
    /// What the server is told otherwise.
    pub(crate) async fn sample(
        &self,
        params: CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, ErrorData> {
        let caller = self.callers.newest().ok_or_else(sampling::refused)?;
        let OnBehalf { call, asks } = &caller.on_behalf;
        let wish = sampling::wish(&self.server, call.clone(), params)?;
        let _open = caller.asking();
        tokio::select! {
            sampled = asks.model(wish) => sampling::told(sampled),
            () = caller.over.cancelled() => Err(sampling::refused()),
        }
    }

    /// The session's directories.
    pub(crate) fn roots(&self) -> ListRootsResult {
        ListRootsResult::new(self.roots.iter().map(Root::new).collect())
    }

    /// Waits until the server says that its tools or prompts have changed. Cancel safe.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Follows the call with this token, until what is given is dropped.
    pub(crate) fn follow(&self, token: &ProgressToken) -> Following {
        let (sender, newest) = watch::channel(String::new());
        self.calls().insert(token.clone(), sender);
        Following {
            handler: self.clone(),
            token: token.clone(),
            newest,
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, watch::Sender<String>>> {
        // Whole at every step, so a panic elsewhere does not spoil it.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The progress of one call.
pub(crate) struct Following {
    handler: Handler,
    token: ProgressToken,
    newest: watch::Receiver<String>,
}

impl Following {
    /// The next news of it. Cancel safe.
    pub(crate) async fn next(&mut self) -> String {
        match self.newest.changed().await {
            Ok(()) => self.newest.borrow_and_update().clone(),
            // Its sender goes with this.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.handler.calls().remove(&self.token);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("fastness", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        let forms = FormElicitationCapability::default();
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(forms));
        capabilities.sampling = Some(SamplingCapability::default());
        // They stay the same for as long as a connection lasts.
        capabilities.roots = Some(RootsCapabilities::default());
        let config = ClientConfig::new(capabilities, us);
        config.with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tokio::select! {
            told = self.elicit(request) => Ok(told),
            // The server wants no answer any more; what is told here is not sent.
            () = context.ct.cancelled() => Ok(elicit::declined()),
        }
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        tokio::select! {
            told = self.sample(params) => told,
            () = context.ct.cancelled() => Err(sampling::refused()),
        }
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots())
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Some(call) = self.calls().get(&params.progress_token) {
            call.send_replace(words(&params));
        }
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// How far a call is, in one line.
fn words(params: &ProgressNotificationParam) -> String {
    let far = match params.total {
        Some(total) => format!("{} of {total}", params.progress),
        None => params.progress.to_string(),
    };
    match &params.message {
        Some(message) => quoted(&format!("{message} ({far})")),
        None => far,
    }
}
