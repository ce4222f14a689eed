//! A plain ACP client for tests: it sends what it is told, answers as it is told, hides nothing.
//!
//! It reads only while a test waits for something, so a test decides how fast it is. Every wait
//! ends at [`DEADLINE`] and fails with what was said so far; every message from the agent goes
//! before the [`Oracle`]. [`connect`] has the ways in, [`talk`] the conversations that most tests
//! are made of.

mod connect;
mod replies;
mod streamable;
mod talk;
#[cfg(test)]
mod tests;
mod transcript;
mod transport;
mod update;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use self::replies::Replies;
use self::transcript::{Speaker, Transcript};
use self::transport::{Received, Transport};
use crate::oracle::Oracle;
use crate::program::{DEADLINE, Output};

pub use self::connect::DialError;
pub use self::replies::{AgentRequest, Choice, Reply, Responder};
pub use self::update::{Answer, Update, text_of};

/// A connection to an agent.
pub struct AcpClient {
    transport: Transport,
    cwd: PathBuf,
    oracle: Option<&'static Oracle>,
    ids_used: u64,
    /// The method of each request that waits for its answer, by the id's JSON text.
    pending: HashMap<String, String>,
    answers: HashMap<String, Result<Value, RpcError>>,
    answered: HashSet<String>,
    strays: VecDeque<Value>,
    notifications: VecDeque<(String, Value)>,
    requests: Vec<AgentRequest>,
    held: VecDeque<AgentRequest>,
    replies: Replies,
    transcript: Transcript,
    ended: Option<Option<u16>>,
    stderr: Output,
    connection_id: Option<String>,
}

/// A request that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Value);

impl RequestId {
    /// The id as it was sent.
    #[must_use]
    pub fn as_json(&self) -> &Value {
        &self.0
    }
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// Its sentence.
    pub message: String,
    /// Its data, or null.
    pub data: Value,
}

impl RpcError {
    /// An error without data.
    #[must_use]
    pub fn new(code: i64, message: &str) -> Self {
        Self {
            code,
            message: message.to_owned(),
            data: Value::Null,
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.code, self.message, self.data)
    }
}

impl AcpClient {
    /// Lets new sessions work in `cwd`.
    #[must_use]
    pub fn in_directory(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// The directory that new sessions work in.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.cwd
    }

    /// Stops judging what the agent sends; only for tests about something that is not ACP v1.
    #[must_use]
    pub fn without_oracle(mut self) -> Self {
        self.oracle = None;
        self
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// The agent's error.
    ///
    /// # Panics
    /// If no answer comes in time.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let id = self.start(method, params).await;
        self.wait(&id).await
    }

    /// Sends a request; [`AcpClient::wait`] takes its answer.
    pub async fn start(&mut self, method: &str, params: Value) -> RequestId {
        self.ids_used += 1;
        self.start_as(json!(self.ids_used), method, params).await
    }

    /// Sends a request with an id of the test's choice.
    pub async fn start_as(&mut self, id: Value, method: &str, params: Value) -> RequestId {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.raw(&request.to_string()).await;
        RequestId(id)
    }

    /// Waits for the answer to a request.
    ///
    /// # Errors
    /// The agent's error.
    ///
    /// # Panics
    /// If it does not come in time.
    pub async fn wait(&mut self, id: &RequestId) -> Result<Value, RpcError> {
        let key = id.0.to_string();
        let what = format!("the answer to request {key}");
        self.until(&what, |client| client.answers.remove(&key))
            .await
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.raw(&message.to_string()).await;
    }

    /// Sends any text as one message.
    ///
    /// A write to an agent that has gone is not an error here: the next wait will say so.
    ///
    /// # Panics
    /// If the agent does not take it in time.
    pub async fn raw(&mut self, text: &str) {
        self.transcript.add(Speaker::Client, text);
        self.expect_answer(text);
        if timeout(DEADLINE, self.transport.send(text)).await.is_err() {
            self.fail("the agent takes no more input");
        }
    }

    /// Waits for the next notification of `method`; others stay where they are.
    ///
    /// # Panics
    /// If none comes in time.
    pub async fn next_notification(&mut self, method: &str) -> Value {
        let what = format!("a notification {method}");
        self.until(&what, |client| {
            let place = client
                .notifications
                .iter()
                .position(|(name, _)| name == method)?;
            client.notifications.remove(place).map(|(_, params)| params)
        })
        .await
    }

    /// Waits for a message that answers nothing that was asked, as the answer to a broken frame.
    ///
    /// # Panics
    /// If none comes in time.
    pub async fn next_stray(&mut self) -> Value {
        self.until("an answer to no request", |client| {
            client.strays.pop_front()
        })
        .await
    }

    /// Waits for a request of the agent that the test wants to answer itself ([`Reply::Hold`]).
    ///
    /// # Panics
    /// If none comes in time.
    pub async fn next_request(&mut self) -> AgentRequest {
        self.until("a request to hold", |client| client.held.pop_front())
            .await
    }

    /// Answers a request of the agent.
    pub async fn answer(&mut self, request: &AgentRequest, result: Result<Value, RpcError>) {
        let message = match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": request.id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": request.id,
                "error": {"code": error.code, "message": error.message, "data": error.data}}),
        };
        self.raw(&message.to_string()).await;
    }

    /// Says how requests for `method` are answered from now on.
    pub fn on_request(&mut self, method: &str, reply: Reply) {
        self.replies.set(method, reply);
    }

    /// Every request the agent has sent so far.
    #[must_use]
    pub fn requests(&self) -> &[AgentRequest] {
        &self.requests
    }

    /// Every message the agent has sent so far, as text.
    #[must_use]
    pub fn received(&self) -> Vec<&str> {
        self.transcript.of(Speaker::Agent).collect()
    }

    /// What an agent started over stdio has logged so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits for the agent to end the connection; gives the close code, if there was one.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn closed(&mut self) -> Option<u16> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(code) = self.ended {
                return code;
            }
            self.pump(deadline, "the end of the connection").await;
        }
    }

    /// The server's name for this connection, from the answer to the upgrade.
    #[must_use]
    pub fn connection_id(&self) -> Option<&str> {
        self.connection_id.as_deref()
    }

    /// Waits for the end of the connection; gives the updates that came before it.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn drain_updates(&mut self) -> Vec<Update> {
        self.closed().await;
        let notifications = std::mem::take(&mut self.notifications);
        let updates = notifications
            .iter()
            .filter(|(method, _)| method == "session/update");
        updates.map(|(_, params)| Update::new(params)).collect()
    }

    /// Leaves as a client does that goes away, and waits for an agent on stdio to end.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn leave(self) {
        self.transport.leave().await;
    }

    fn new(transport: Transport) -> Self {
        Self {
            transport,
            cwd: std::env::temp_dir(),
            oracle: Some(Oracle::shared()),
            ids_used: 0,
            pending: HashMap::new(),
            answers: HashMap::new(),
            answered: HashSet::new(),
            strays: VecDeque::new(),
            notifications: VecDeque::new(),
            requests: Vec::new(),
            held: VecDeque::new(),
            replies: Replies::default(),
            transcript: Transcript::default(),
            ended: None,
            stderr: Output::default(),
            connection_id: None,
        }
    }

    /// Notes the requests in `text`, so that their answers can be told from strays.
    fn expect_answer(&mut self, text: &str) {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            self.answered.remove(&id.to_string());
            self.pending.insert(id.to_string(), method.to_owned());
        }
    }

    /// Reads messages until `ready` finds what the test waits for.
    async fn until<T>(&mut self, what: &str, mut ready: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(found) = ready(self) {
                return found;
            }
            if let Some(code) = self.ended {
                self.fail(&format!("the connection ended ({code:?}) before {what}"));
            }
            self.pump(deadline, what).await;
        }
    }

    /// Takes one message from the agent.
    async fn pump(&mut self, deadline: Instant, what: &str) {
        match timeout_at(deadline, self.transport.receive()).await {
            Ok(Received::Message(text)) => self.take(&text).await,
            Ok(Received::End(code)) => self.ended = Some(code),
            Err(_) => self.fail(&format!("{what} did not come in time")),
        }
    }

    async fn take(&mut self, text: &str) {
        self.transcript.add(Speaker::Agent, text);
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            self.fail(&format!(
                "the agent sent something that is not JSON: {text}"
            ));
        };
        let key = message["id"].to_string();
        let is_answer = message.get("method").is_none();
        let asked = self.pending.get(&key).filter(|_| is_answer).cloned();
        if is_answer && asked.is_none() && self.answered.contains(&key) {
            self.fail(&format!("request {key} was answered twice"));
        }
        if let Some(Err(violation)) = self
            .oracle
            .map(|oracle| oracle.judge(&message, asked.as_deref()))
        {
            self.fail(&violation.to_string());
        }
        if !is_answer {
            self.take_call(&message).await;
        } else if asked.is_some() {
            self.pending.remove(&key);
            self.answers.insert(key.clone(), outcome(message));
            self.answered.insert(key);
        } else {
            self.strays.push_back(message);
        }
    }

    /// Takes a request or notification.
    async fn take_call(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let params = message["params"].clone();
        let Some(id) = message.get("id").cloned() else {
            self.notifications.push_back((method, params));
            return;
        };
        let request = AgentRequest { id, method, params };
        self.requests.push(request.clone());
        match self.replies.answer(&request) {
            Some(result) => self.answer(&request, result).await,
            None => self.held.push_back(request),
        }
    }

    fn fail(&self, what: &str) -> ! {
        let logged = self.stderr.text();
        let transcript = &self.transcript;
        panic!("{what}\n--- what was said\n{transcript}--- what the agent logged\n{logged}");
    }
}

/// The result or error of an answer.
fn outcome(mut message: Value) -> Result<Value, RpcError> {
    if let Some(error) = message.get("error") {
        return Err(RpcError {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error["data"].clone(),
        });
    }
    Ok(message["result"].take())
}
