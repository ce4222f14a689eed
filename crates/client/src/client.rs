//! The handle by which callers use a connection: one method per request of the protocol.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::limits::{CLIENT_UPDATES_MAX, CLOSE_WAIT, REQUESTS_IN_FLIGHT_MAX};
use domain::{Cursor, EventSeq, Limits, PromptId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use wire::acp::{ConfigValue, FastnessMeta, ListSessions, PROTOCOL_VERSION, TurnStatus, requests};
use wire::rpc::RequestId;

use crate::connection::{Command, Connection, Deadline, Reply, Request};
use crate::error::{ClientError, TransportError};
use crate::message::{meta, session_at, text_at};
use crate::prompt::{Item, PROMPT, PromptStream};
use crate::transport::Transport;
use crate::writer;

/// A connection to an agent that has shaken hands. Dropping it closes the connection.
#[derive(Debug)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    agent: AgentInfo,
    request_timeout: Duration,
    /// Why the connection ended, once it has.
    cause: Arc<OnceLock<TransportError>>,
}

/// What a client says about itself, and how long it waits.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// `client_request` bounds each request, `stall` each write.
    pub limits: Limits,
    /// The program's name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// Who answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentInfo {
    /// The agent's name, if it says.
    pub name: Option<String>,
    /// Its version, if it says.
    pub version: Option<String>,
    /// The largest message it takes, if it says.
    pub message_bytes_max: Option<u64>,
}

/// A session that this connection may act on now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The session.
    pub session: SessionId,
    /// The turn that runs in it, or the last one.
    pub turn: TurnStatus,
    /// What can be set in it, as ACP's list of options; null if the server does not say.
    pub options: Value,
}

/// Some of the sessions that the server has for us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions, newest first.
    pub sessions: Vec<SessionSummary>,
    /// What to ask for the next page with; `None` on the last one.
    pub next: Option<String>,
}

/// One line in the list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// The session.
    pub session: SessionId,
    /// Its working directory.
    pub cwd: String,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// When something happened in it last, in RFC 3339.
    pub updated_at: Option<String>,
}

impl Client {
    /// Shakes hands with the agent at the other end of `transport`.
    ///
    /// # Errors
    /// If the agent does not answer `initialize` in time, or speaks another protocol.
    pub async fn connect(
        transport: Transport,
        settings: ClientSettings,
    ) -> Result<Self, ClientError> {
        let Transport {
            frames_in,
            frames_out,
            heartbeat,
        } = transport;
        let (commands, orders) = mpsc::channel(REQUESTS_IN_FLIGHT_MAX);
        let (outgoing, queue) = mpsc::channel(REQUESTS_IN_FLIGHT_MAX);
        let ping = heartbeat.map(|heartbeat| heartbeat.ping);
        let stall = settings.limits.stall;
        let writer = tokio::spawn(writer::write(frames_out, queue, ping, stall));
        let cause = Arc::new(OnceLock::new());
        let connection =
            Connection::new(orders, frames_in, outgoing, heartbeat, Arc::clone(&cause));
        // The connection joins the writer, and `close` waits until the connection dropped its end.
        tokio::spawn(connection.run(writer));
        let mut client = Self {
            commands,
            agent: AgentInfo::default(),
            request_timeout: settings.limits.client_request,
            cause,
        };
        client.initialize(&settings).await?;
        Ok(client)
    }

    /// Who answers.
    #[must_use]
    pub fn agent(&self) -> &AgentInfo {
        &self.agent
    }

    /// Starts a session that works in `cwd`.
    ///
    /// # Errors
    /// See [`ClientError`]; likewise for all that follow.
    pub async fn new_session(&self, cwd: &Path) -> Result<Attached, ClientError> {
        let (id, answer) = self
            .request("session/new", |id| requests::new_session(id, &said(cwd)))
            .await?;
        let session = session_at(&answer).ok_or(ClientError::BadAnswer {
            method: "session/new",
            id,
            problem: "has no usable session id",
        })?;
        Ok(attached(session, &answer))
    }

    /// Attaches to a session and has all of it replayed to its listener; without one, to nobody.
    pub async fn load_session(
        &self,
        session: SessionId,
        cwd: &Path,
    ) -> Result<Attached, ClientError> {
        let meta = FastnessMeta::default();
        let (_, answer) = self
            .request("session/load", |id| {
                requests::load_session(id, session, &said(cwd), &meta)
            })
            .await?;
        Ok(attached(session, &answer))
    }

    /// Attaches to a session and goes on after `cursor`; without one nothing is replayed.
    pub async fn resume_session(
        &self,
        session: SessionId,
        cwd: &Path,
        cursor: Option<Cursor>,
    ) -> Result<Attached, ClientError> {
        let meta = cursor.map(FastnessMeta::after).unwrap_or_default();
        let (_, answer) = self
            .request("session/resume", |id| {
                requests::resume_session(id, session, &said(cwd), &meta)
            })
            .await?;
        Ok(attached(session, &answer))
    }

    /// Sends a prompt; the stream tells what it leads to. One at a time for each session.
    pub async fn prompt(
        &self,
        session: SessionId,
        text: &str,
    ) -> Result<PromptStream, ClientError> {
        self.prompt_with(session, text, FastnessMeta::default())
            .await
    }

    /// Sends the only prompt of a session: its turn waits for MCP servers as long as they may take to
    /// start, because no later one would have their tools.
    ///
    /// # Errors
    /// As [`Client::prompt`].
    pub async fn prompt_once(
        &self,
        session: SessionId,
        text: &str,
    ) -> Result<PromptStream, ClientError> {
        let meta = FastnessMeta {
            wait_for_servers: true,
            ..FastnessMeta::default()
        };
        self.prompt_with(session, text, meta).await
    }

    async fn prompt_with(
        &self,
        session: SessionId,
        text: &str,
        meta: FastnessMeta,
    ) -> Result<PromptStream, ClientError> {
        let request = new_id();
        let id = RequestId::string(request.as_str());
        // A name of its own, so that sending it again after a lost connection runs it once.
        let meta = FastnessMeta {
            prompt_id: Some(PromptId::random()),
            ..meta
        };
        let blocks = [json!({"type": "text", "text": text})];
        let (reply, end) = oneshot::channel();
        let (listener, items) = mpsc::channel(CLIENT_UPDATES_MAX);
        let command = Command::Request(Request {
            id: request.clone(),
            method: PROMPT,
            frame: requests::prompt(&id, session, &blocks, &meta),
            deadline: None,
            reply: Reply::Asker(reply),
            listener: Some((session, listener)),
        });
        self.hand_over(PROMPT, &request, command, self.deadline())
            .await?;
        Ok(PromptStream {
            request,
            items,
            end: Some(end),
            cursor: None,
        })
    }

    /// Asks the session to stop what it does. The prompt then ends with `cancelled`.
    pub async fn cancel(&self, session: SessionId) -> Result<(), ClientError> {
        let method = "session/cancel";
        let command = Command::Notify {
            frame: requests::cancel(session),
        };
        self.hand_over(method, "none", command, self.deadline())
            .await
    }

    /// One page of the sessions that we may see, in `cwd` if given.
    pub async fn list_sessions(
        &self,
        cwd: Option<&Path>,
        page: Option<&str>,
    ) -> Result<SessionPage, ClientError> {
        let page = ListSessions {
            cwd: cwd.map(|cwd| said(cwd).into_owned()),
            cursor: page.map(str::to_owned),
        };
        let (_, answer) = self
            .request("session/list", |id| requests::list_sessions(id, &page))
            .await?;
        let sessions = answer["sessions"].as_array().map(Vec::as_slice);
        Ok(SessionPage {
            sessions: sessions
                .unwrap_or_default()
                .iter()
                .filter_map(summary)
                .collect(),
            next: text_at(&answer, "nextCursor"),
        })
    }

    /// Sets the mode in which the session asks for permissions.
    pub async fn set_mode(&self, session: SessionId, mode: &str) -> Result<(), ClientError> {
        let frame = |id: &RequestId| requests::set_mode(id, session, mode);
        self.request("session/set_mode", frame).await.map(drop)
    }

    /// Sets one of the session's options, such as `model`; gives all of them as they are then.
    pub async fn set_option(
        &self,
        session: SessionId,
        option: &str,
        choice: &str,
    ) -> Result<Value, ClientError> {
        let value = ConfigValue::Choice(choice.to_owned());
        let frame = |id: &RequestId| requests::set_config_option(id, session, option, &value);
        let (_, answer) = self.request("session/set_config_option", frame).await?;
        Ok(answer["configOptions"].clone())
    }

    /// Undoes everything after the turn that ended at event `to`, or last before it.
    pub async fn rewind(&self, session: SessionId, to: EventSeq) -> Result<(), ClientError> {
        let frame = |id: &RequestId| requests::rewind(id, session, to);
        let asked = self.request("_fastness/session/rewind", frame).await;
        asked.map(drop)
    }

    /// Ends the session's life in memory; its journal stays.
    pub async fn close_session(&self, session: SessionId) -> Result<(), ClientError> {
        let frame = |id: &RequestId| requests::close_session(id, session);
        self.request("session/close", frame).await.map(drop)
    }

    /// Closes the connection: what waits for an answer ends with an error. Again is harmless.
    pub async fn close(&self) {
        let closing = async {
            // An error means that it has ended already.
            let _ = self.commands.send(Command::Close).await;
            self.commands.closed().await;
        };
        let _ = timeout(CLOSE_WAIT * 2, closing).await;
    }

    async fn initialize(&mut self, settings: &ClientSettings) -> Result<(), ClientError> {
        let method = "initialize";
        let (name, version) = (settings.name, settings.version);
        let (id, answer) = self
            .request(method, |id| requests::initialize(id, name, version))
            .await?;
        if answer["protocolVersion"].as_u64() != Some(PROTOCOL_VERSION.into()) {
            return Err(ClientError::BadAnswer {
                method,
                id,
                problem: "names a protocol version other than 1",
            });
        }
        let info = &answer["agentInfo"];
        self.agent = AgentInfo {
            name: text_at(info, "name"),
            version: text_at(info, "version"),
            message_bytes_max: meta(&answer)["maxMessageBytes"].as_u64(),
        };
        Ok(())
    }

    /// Sends a request and waits for its answer, at most as long as the settings say.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        frame: impl FnOnce(&RequestId) -> String,
    ) -> Result<(String, Value), ClientError> {
        self.request_entering(method, frame, None).await
    }

    /// The same; what happens in the session that the answer names goes to `listener` from then on.
    pub(crate) async fn request_entering(
        &self,
        method: &'static str,
        frame: impl FnOnce(&RequestId) -> String,
        listener: Option<mpsc::Sender<Item>>,
    ) -> Result<(String, Value), ClientError> {
        let id = new_id();
        let frame = frame(&RequestId::string(id.as_str()));
        let deadline = self.deadline();
        let (reply, answer) = oneshot::channel();
        let command = Command::Request(Request {
            id: id.clone(),
            method,
            frame,
            deadline: Some(deadline),
            reply: match listener {
                Some(listener) => Reply::Entering(reply, listener),
                None => Reply::Asker(reply),
            },
            listener: None,
        });
        self.hand_over(method, &id, command, deadline).await?;
        match answer.await {
            Ok(answer) => Ok((id, answer?)),
            Err(_) => Err(self.gone(method, &id)),
        }
    }

    /// Gives the connection a command; waits until `deadline` at most for room in its queue.
    pub(crate) async fn hand_over(
        &self,
        method: &'static str,
        id: &str,
        command: Command,
        deadline: Deadline,
    ) -> Result<(), ClientError> {
        match timeout_at(deadline.at, self.commands.send(command)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.gone(method, id)),
            Err(_) => Err(ClientError::Timeout {
                method,
                id: id.to_owned(),
                seconds: deadline.seconds,
            }),
        }
    }

    pub(crate) fn gone(&self, method: &'static str, id: &str) -> ClientError {
        ClientError::Lost {
            method,
            id: id.to_owned(),
            cause: self
                .cause
                .get()
                .cloned()
                .unwrap_or(TransportError::ClosedHere),
        }
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline {
            at: Instant::now() + self.request_timeout,
            seconds: self.request_timeout.as_secs_f64(),
        }
    }
}

/// A name for a request that no other has: nobody can guess the id of another's.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A path as JSON can say it. What is not UTF-8 cannot be said; the server will not find the rest.
pub(crate) fn said(path: &Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

pub(crate) fn attached(session: SessionId, answer: &Value) -> Attached {
    Attached {
        session,
        turn: TurnStatus::deserialize(&meta(answer)["turn"]).unwrap_or_default(),
        options: answer["configOptions"].clone(),
    }
}

fn summary(value: &Value) -> Option<SessionSummary> {
    Some(SessionSummary {
        session: session_at(value)?,
        cwd: text_at(value, "cwd").unwrap_or_default(),
        title: text_at(value, "title"),
        updated_at: text_at(value, "updatedAt"),
    })
}
