//! The conversations that most tests are made of: sessions, prompts, permissions.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{AcpClient, Answer, Choice, RequestId, RpcError, Update};
use crate::program::DEADLINE;

impl AcpClient {
    /// Introduces a client that offers nothing, so that tools run on the server.
    ///
    /// # Panics
    /// If the agent refuses.
    pub async fn initialize(&mut self) -> Value {
        self.initialize_with(json!({})).await
    }

    /// Introduces a client with these `clientCapabilities`.
    ///
    /// # Panics
    /// If the agent refuses.
    pub async fn initialize_with(&mut self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": capabilities,
            "clientInfo": {"name": "testkit", "version": "1"},
        });
        let result = self.call("initialize", params).await;
        self.must("initialize", result)
    }

    /// Makes a session in the client's directory; gives its id.
    ///
    /// # Panics
    /// If the agent refuses.
    pub async fn new_session(&mut self) -> String {
        let cwd = self.cwd.clone();
        let result = self.new_session_in(&cwd).await;
        let result = self.must("session/new", result);
        result["sessionId"].as_str().unwrap_or_default().to_owned()
    }

    /// Asks for a session in `cwd`.
    ///
    /// # Errors
    /// The agent's error.
    pub async fn new_session_in(&mut self, cwd: &Path) -> Result<Value, RpcError> {
        self.call("session/new", json!({"cwd": cwd, "mcpServers": []}))
            .await
    }

    /// Loads a session; gives what was replayed before the answer.
    ///
    /// # Errors
    /// The agent's error.
    pub async fn load_session(&mut self, session: &str) -> Result<Vec<Update>, RpcError> {
        let params = json!({"sessionId": session, "cwd": self.cwd, "mcpServers": []});
        self.call("session/load", params).await?;
        Ok(self.take_updates(session))
    }

    /// Resumes a session after `cursor`, the `_meta.fastness` of the newest update seen; gives
    /// the result.
    ///
    /// # Errors
    /// The agent's error.
    pub async fn resume_session(
        &mut self,
        session: &str,
        cursor: Value,
    ) -> Result<Value, RpcError> {
        let params = json!({"sessionId": session, "cwd": self.cwd, "mcpServers": [],
            "_meta": {"fastness": cursor}});
        self.call("session/resume", params).await
    }

    /// Prompts and waits for the end of the turn.
    ///
    /// # Panics
    /// If the turn ends by an error, or does not end in time.
    pub async fn prompt(&mut self, session: &str, text: &str) -> Answer {
        let answer = self.try_prompt(session, text).await;
        self.must("session/prompt", answer)
    }

    /// Prompts and waits for the end of the turn.
    ///
    /// # Errors
    /// The agent's error.
    pub async fn try_prompt(&mut self, session: &str, text: &str) -> Result<Answer, RpcError> {
        let id = self.start_prompt(session, text).await;
        self.finish_prompt(session, &id).await
    }

    /// Prompts and does not wait.
    pub async fn start_prompt(&mut self, session: &str, text: &str) -> RequestId {
        let blocks = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": session, "prompt": blocks});
        self.start("session/prompt", params).await
    }

    /// Waits for the end of a turn that [`AcpClient::start_prompt`] began.
    ///
    /// # Errors
    /// The agent's error.
    pub async fn finish_prompt(
        &mut self,
        session: &str,
        id: &RequestId,
    ) -> Result<Answer, RpcError> {
        let result = self.wait(id).await?;
        Ok(Answer::new(self.take_updates(session), result))
    }

    /// Waits for the answer to a request; `None` if the connection ends first.
    ///
    /// # Panics
    /// If neither comes in time.
    pub async fn wait_or_end(&mut self, id: &RequestId) -> Option<Result<Value, RpcError>> {
        let key = id.as_json().to_string();
        let deadline = Instant::now() + DEADLINE;
        while self.ended.is_none() && !self.answers.contains_key(&key) {
            self.pump(deadline, &format!("the answer to request {key}"))
                .await;
        }
        self.answers.remove(&key)
    }

    /// Cancels the session's running turn.
    pub async fn cancel(&mut self, session: &str) {
        self.notify("session/cancel", json!({"sessionId": session}))
            .await;
    }

    /// Says how permission questions are answered from now on.
    pub fn on_permission(&mut self, choice: Choice) {
        self.on_request("session/request_permission", choice.into());
    }

    /// Waits for the next update of any session.
    ///
    /// # Panics
    /// If none comes in time.
    pub async fn next_update(&mut self) -> Update {
        let params = self.next_notification("session/update").await;
        Update::new(&params)
    }

    /// Waits until an update is `last`; gives all up to it.
    ///
    /// # Panics
    /// If it does not come in time.
    pub async fn updates_until(&mut self, mut last: impl FnMut(&Update) -> bool) -> Vec<Update> {
        let mut updates = Vec::new();
        loop {
            let update = self.next_update().await;
            let is_last = last(&update);
            updates.push(update);
            if is_last {
                return updates;
            }
        }
    }

    /// The updates of `session` that have come and were not taken yet.
    pub fn take_updates(&mut self, session: &str) -> Vec<Update> {
        let is_wanted = |method: &str, params: &Value| {
            method == "session/update" && params["sessionId"] == session
        };
        let (taken, kept): (VecDeque<_>, _) = std::mem::take(&mut self.notifications)
            .into_iter()
            .partition(|(method, params)| is_wanted(method, params));
        self.notifications = kept;
        taken
            .iter()
            .map(|(_, params)| Update::new(params))
            .collect()
    }

    fn must<T>(&self, method: &str, result: Result<T, RpcError>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => self.fail(&format!("{method} answered {error}")),
        }
    }
}
