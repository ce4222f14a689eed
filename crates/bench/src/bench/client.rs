//! A plain ACP client over stdio or WebSocket: one request at a time, nothing hidden.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client::client_with_config};

use super::because;
use super::program::Server;
use crate::Failure;

/// Longest wait for a frame: a server that is silent for so long has failed the run.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Whole messages in both directions.
pub(super) trait Line {
    fn send(&mut self, message: String) -> Result<(), Failure>;
    fn receive(&mut self) -> Result<String, Failure>;
}

/// A client that speaks ACP over `line`.
#[derive(Debug)]
pub(super) struct Client<L> {
    line: L,
    last_id: u64,
}

/// What came back for one request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) result: Value,
    /// Notifications that came before it.
    pub(super) updates: usize,
}

/// A child's stdin and stdout.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: BufReader<ChildStdout>,
}

/// A WebSocket over plain TCP.
pub(super) type Socket = WebSocket<TcpStream>;

impl<L: Line> Client<L> {
    /// Says hello, as every client must first.
    pub(super) fn initialize(line: L) -> Result<Self, Failure> {
        let mut client = Self { line, last_id: 0 };
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
        client.request("initialize", &hello)?;
        Ok(client)
    }

    /// Listens to somebody who asks for no hello.
    pub(super) fn silent(line: L) -> Self {
        Self { line, last_id: 0 }
    }

    pub(super) fn new_session(&mut self, cwd: &Path) -> Result<String, Failure> {
        let answer = self.request("session/new", &json!({"cwd": cwd, "mcpServers": []}))?;
        let id = answer.result["sessionId"].as_str().map(str::to_owned);
        id.ok_or_else(|| "session/new gave no sessionId".to_owned())
    }

    pub(super) fn prompt(&mut self, session: &str) -> Result<Answer, Failure> {
        self.begin_prompt(session)?;
        self.finish()
    }

    /// Prompts and does not wait.
    pub(super) fn begin_prompt(&mut self, session: &str) -> Result<(), Failure> {
        let prompt = json!([{"type": "text", "text": "Count to five."}]);
        self.begin(
            "session/prompt",
            &json!({"sessionId": session, "prompt": prompt}),
        )
    }

    /// Loads a session; gives how many updates came before the answer.
    pub(super) fn load(&mut self, session: &str, cwd: &Path) -> Result<usize, Failure> {
        self.load_seeing(session, cwd, |_| {})
    }

    /// Loads a session and shows `each` what comes before the answer; gives how much it was.
    pub(super) fn load_seeing(
        &mut self,
        session: &str,
        cwd: &Path,
        each: impl FnMut(&Value),
    ) -> Result<usize, Failure> {
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        self.begin("session/load", &params)?;
        self.each_until_answer(each).map(|answer| answer.updates)
    }

    pub(super) fn request(&mut self, method: &str, params: &Value) -> Result<Answer, Failure> {
        self.begin(method, params)?;
        self.finish()
    }

    /// Waits for the answer to the newest request.
    pub(super) fn finish(&mut self) -> Result<Answer, Failure> {
        self.each_until_answer(|_| {})
    }

    /// Shows `each` what comes before the answer to the newest request.
    pub(super) fn each_until_answer(
        &mut self,
        mut each: impl FnMut(&Value),
    ) -> Result<Answer, Failure> {
        let mut updates = 0;
        loop {
            let mut message = self.receive()?;
            if message["id"] != self.last_id || message.get("method").is_some() {
                updates += 1;
                each(&message);
                continue;
            }
            if let Some(error) = message.get("error") {
                return Err(format!("a request was answered with {error}"));
            }
            let result = message["result"].take();
            return Ok(Answer { result, updates });
        }
    }

    /// Reads messages up to one that is the `last`; gives how many there were.
    pub(super) fn read_until(&mut self, last: impl Fn(&Value) -> bool) -> Result<usize, Failure> {
        let mut messages = 1;
        while !last(&self.receive()?) {
            messages += 1;
        }
        Ok(messages)
    }

    /// Reads updates until they have `bytes` of text; gives them as they came.
    pub(super) fn read_text(&mut self, bytes: usize) -> Result<Vec<String>, Failure> {
        let (mut frames, mut seen) = (Vec::new(), 0);
        while seen < bytes {
            let frame = self.line.receive()?;
            let message: Value =
                serde_json::from_str(&frame).map_err(because("a message is not JSON"))?;
            frames.push(frame);
            if message["params"]["update"]["sessionUpdate"] == "agent_message_chunk" {
                seen += super::stream::text_bytes(&message);
            }
        }
        Ok(frames)
    }

    fn begin(&mut self, method: &str, params: &Value) -> Result<(), Failure> {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line.send(request.to_string())
    }

    fn receive(&mut self) -> Result<Value, Failure> {
        let message = self.line.receive()?;
        serde_json::from_str(&message).map_err(because("a message is not JSON"))
    }
}

impl Line for Pipes {
    fn send(&mut self, message: String) -> Result<(), Failure> {
        let line = message + "\n";
        let written = self.stdin.write_all(line.as_bytes());
        written.map_err(because("cannot write to the program"))
    }

    fn receive(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line);
        match read.map_err(because("cannot read from the program"))? {
            0 => Err("the program ended too early".to_owned()),
            _ => Ok(line),
        }
    }
}

impl Line for Socket {
    fn send(&mut self, message: String) -> Result<(), Failure> {
        Self::send(self, Message::text(message)).map_err(because("cannot send a frame"))
    }

    fn receive(&mut self) -> Result<String, Failure> {
        loop {
            match self.read().map_err(because("cannot receive a frame"))? {
                Message::Text(text) => return Ok(text.as_str().to_owned()),
                Message::Close(frame) => return Err(format!("the server closed: {frame:?}")),
                Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_) => {}
            }
        }
    }
}

/// Opens an authenticated WebSocket to `server`.
pub(super) fn connect(server: &Server) -> Result<Socket, Failure> {
    let stream = TcpStream::connect(&server.address).map_err(because("cannot connect"))?;
    let mut request = request(&format!("ws://{}/acp", server.address))?;
    let token = format!("Bearer {}", server.token);
    let token = token
        .parse()
        .map_err(because("the token is not a header"))?;
    request.headers_mut().insert("authorization", token);
    open(request, stream)
}

/// Opens a WebSocket to a server that asks for no token.
pub(super) fn connect_bare(address: &str) -> Result<Socket, Failure> {
    let stream = TcpStream::connect(address).map_err(because("cannot connect"))?;
    open(request(&format!("ws://{address}/"))?, stream)
}

fn request(url: &str) -> Result<Request, Failure> {
    let request = url.into_client_request();
    request.map_err(because("cannot make the upgrade request"))
}

fn open(request: Request, stream: TcpStream) -> Result<Socket, Failure> {
    let bounded = stream.set_read_timeout(Some(SILENCE_MAX));
    let quick = stream.set_nodelay(true);
    bounded
        .and(quick)
        .map_err(because("cannot set up the socket"))?;
    // Thousands of these live in one process: small buffers.
    let config = WebSocketConfig::default()
        .read_buffer_size(4096)
        .write_buffer_size(0);
    let opened = client_with_config(request, stream, Some(config));
    let (socket, _) = opened.map_err(because("the upgrade was refused"))?;
    Ok(socket)
}
