//! A client over single HTTP requests: one kept connection for POSTs, one more for each stream.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use serde_json::Value;

use super::super::client::Line;
use super::super::program::Server;
use super::{Kept, header};
use crate::Failure;

/// Longest wait for a message: a server that is silent for so long has failed the run.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Messages that streams may have read ahead.
const READ_AHEAD: usize = 4_096;

pub(super) struct Streamable {
    address: String,
    token: String,
    posts: Kept,
    connection: Option<String>,
    has_session: bool,
    heard: SyncSender<String>,
    messages: Receiver<String>,
}

impl Streamable {
    pub(super) fn connect(server: &Server) -> Result<Self, Failure> {
        let (heard, messages) = sync_channel(READ_AHEAD);
        Ok(Self {
            address: server.address.clone(),
            token: server.token.clone(),
            posts: Kept::connect(&server.address, Some(&server.token))?,
            connection: None,
            has_session: false,
            heard,
            messages,
        })
    }

    fn open(&self, session: Option<&str>) -> Result<(), Failure> {
        let mut kept = Kept::connect(&self.address, Some(&self.token))?;
        kept.always(
            "acp-connection-id",
            self.connection.as_deref().unwrap_or_default(),
        );
        if let Some(session) = session {
            kept.always("acp-session-id", session);
        }
        let stream = kept.stream("/acp")?;
        let heard = self.heard.clone();
        std::thread::spawn(move || read(stream, &heard));
        Ok(())
    }
}

impl Line for Streamable {
    fn send(&mut self, message: String) -> Result<(), Failure> {
        let (head, body) = self.posts.post("/acp", &message)?;
        if self.connection.is_some() {
            return match head.starts_with("HTTP/1.1 202") {
                true => Ok(()),
                false => Err(format!("a message was refused: {head}{body}")),
            };
        }
        let id = header(&head, "acp-connection-id").ok_or("initialize gave no connection")?;
        self.posts.always("acp-connection-id", id);
        self.connection = Some(id.to_owned());
        self.open(None)?;
        self.heard
            .send(body)
            .map_err(|_| "nobody listens".to_owned())
    }

    fn receive(&mut self) -> Result<String, Failure> {
        let message = self.messages.recv_timeout(SILENCE_MAX);
        let message = message.map_err(|_| "the server is silent".to_owned())?;
        if !self.has_session {
            let told: Value = serde_json::from_str(&message).unwrap_or_default();
            if let Some(session) = told["result"]["sessionId"].as_str() {
                self.has_session = true;
                self.open(Some(session))?;
            }
        }
        Ok(message)
    }
}

/// Hands on the data of each event. Chunks of the transfer are lines of their own, which are no
/// events and so are skipped.
fn read(mut stream: BufReader<TcpStream>, heard: &SyncSender<String>) {
    let mut line = String::new();
    while matches!(stream.read_line(&mut line), Ok(1..)) {
        if let Some(data) = line.strip_prefix("data: ")
            && heard.send(data.trim_end().to_owned()).is_err()
        {
            return;
        }
        line.clear();
    }
}
