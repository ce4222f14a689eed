//! ACP over single HTTP requests by hand: what is posted, and streams read as slowly as one likes.

use std::collections::VecDeque;
use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use wire::sse::{SseEvent, SseParser};

use super::{HttpAnswer, address, connect, read_answer, request};
use crate::program::{DEADLINE, Program};

/// Longest event that is read.
const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest piece of a stream that is read.
const PIECE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a reader's socket takes in that is meant to be slow.
const SMALL_WINDOW_BYTES: u32 = 4_096;

/// A client between its requests: a connection's id, and who may use it.
#[derive(Clone, Debug)]
pub struct RawRemote {
    /// `Acp-Connection-Id`.
    pub connection: String,
    token: String,
}

impl RawRemote {
    /// Opens a connection with the default token.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn open(server: &Program) -> Self {
        Self::open_as(server, server.token()).await
    }

    /// Opens a connection with another token.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn open_as(server: &Program, token: &str) -> Self {
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
        let headers = "content-type: application/json\r\n";
        let opened = ask(server, (token, "POST"), headers, &hello.to_string()).await;
        let Some(connection) = opened.header("acp-connection-id") else {
            panic!("no connection: {opened}");
        };
        Self {
            connection: connection.to_owned(),
            token: token.to_owned(),
        }
    }

    /// Asks something about the connection; headers each with their line end.
    pub async fn ask(&self, server: &Program, method: &str, headers: &str) -> HttpAnswer {
        let headers = format!("{}{headers}", self.named());
        ask(server, (&self.token, method), &headers, "").await
    }

    /// Posts one message, with more headers.
    pub async fn post(&self, server: &Program, headers: &str, message: &Value) -> HttpAnswer {
        let headers = format!(
            "{}content-type: application/json\r\n{headers}",
            self.named()
        );
        let body = message.to_string();
        ask(server, (&self.token, "POST"), &headers, &body).await
    }

    /// Opens the connection's stream, or with `Acp-Session-Id` among `headers` a session's.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn stream(&self, server: &Program, headers: &str) -> EventStream {
        self.read(connect(server).await, server, headers).await
    }

    /// As [`RawRemote::stream`], on a socket that takes in little at a time.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn narrow_stream(&self, server: &Program, headers: &str) -> EventStream {
        match narrow(server).await {
            Ok(stream) => self.read(stream, server, headers).await,
            Err(error) => panic!("no connection: {error}"),
        }
    }

    async fn read(&self, stream: TcpStream, server: &Program, headers: &str) -> EventStream {
        let headers = format!("{}{headers}", self.named());
        EventStream::begin(stream, server, (&self.token, "/acp"), &headers).await
    }

    fn named(&self) -> String {
        format!("acp-connection-id: {}\r\n", self.connection)
    }
}

/// Sends one request to `/acp` with a token and a body.
async fn ask(
    server: &Program,
    (token, method): (&str, &str),
    headers: &str,
    body: &str,
) -> HttpAnswer {
    let (host, length) = (address(server), body.len());
    let asked = format!(
        "{method} /acp HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
         {headers}content-length: {length}\r\n\r\n{body}"
    );
    request(server, asked).await
}

async fn narrow(server: &Program) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(SMALL_WINDOW_BYTES)?;
    let address = address(server).parse().map_err(io::Error::other)?;
    socket.connect(address).await
}

/// A stream of events that is read only when the test asks for more.
pub struct EventStream {
    stream: TcpStream,
    /// The answer that it is the body of.
    pub answer: HttpAnswer,
    parser: SseParser,
    events: VecDeque<SseEvent>,
}

impl EventStream {
    /// Opens the stream at `path` with a token and more headers.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn open(server: &Program, place: (&str, &str), headers: &str) -> Self {
        Self::begin(connect(server).await, server, place, headers).await
    }

    /// As [`EventStream::open`], on a socket that takes in little at a time.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn open_narrow(server: &Program, place: (&str, &str), headers: &str) -> Self {
        match narrow(server).await {
            Ok(stream) => Self::begin(stream, server, place, headers).await,
            Err(error) => panic!("no connection: {error}"),
        }
    }

    async fn begin(
        mut stream: TcpStream,
        server: &Program,
        (token, path): (&str, &str),
        headers: &str,
    ) -> Self {
        let host = address(server);
        let asked = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
             accept: text/event-stream\r\n{headers}\r\n"
        );
        let opening = async {
            stream.write_all(asked.as_bytes()).await?;
            read_answer(&mut stream).await
        };
        match timeout(DEADLINE, opening).await {
            Ok(Ok(answer)) => Self {
                stream,
                answer,
                parser: SseParser::new(EVENT_BYTES_MAX),
                events: VecDeque::new(),
            },
            Ok(Err(error)) => panic!("no stream: {error}"),
            Err(_) => panic!("no stream in time"),
        }
    }

    /// The next message; `None` when the server has ended the stream.
    ///
    /// # Panics
    /// If neither comes in time, or the message is not JSON.
    pub async fn next(&mut self) -> Option<Value> {
        let event = self.next_event().await?;
        match serde_json::from_str(&event.data) {
            Ok(message) => Some(message),
            Err(error) => panic!("{error} in {}", event.data),
        }
    }

    /// The next event; `None` when the server has ended the stream.
    ///
    /// # Panics
    /// If neither comes in time, or the stream was refused.
    pub async fn next_event(&mut self) -> Option<SseEvent> {
        assert_eq!(self.answer.status, 200, "no stream: {}", self.answer);
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let piece = match timeout(DEADLINE, self.piece()).await {
                Ok(piece) => piece.ok().filter(|piece| !piece.is_empty())?,
                Err(_) => panic!("the stream neither goes on nor ends"),
            };
            self.events
                .extend(self.parser.push(&piece).unwrap_or_default());
        }
    }

    /// Waits for a message that `is_wanted`, passing over others.
    ///
    /// # Panics
    /// If the stream ends first.
    pub async fn until(&mut self, mut is_wanted: impl FnMut(&Value) -> bool) -> Value {
        loop {
            match self.next().await {
                Some(message) if is_wanted(&message) => return message,
                Some(_) => {}
                None => panic!("the stream ended before the message that was waited for"),
            }
        }
    }

    /// Ends the connection with a reset.
    pub fn reset(self) {
        // If the option cannot be set the connection is already gone.
        let _ = self.stream.set_zero_linger();
    }

    /// One chunk of the body; the last one is empty.
    async fn piece(&mut self) -> io::Result<Vec<u8>> {
        let mut size = String::new();
        while !size.ends_with("\r\n") {
            size.push(char::from(self.stream.read_u8().await?));
        }
        let length = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        if length > PIECE_BYTES_MAX {
            return Err(io::Error::other("a piece without end"));
        }
        let mut piece = vec![0; length + 2];
        self.stream.read_exact(&mut piece).await?;
        piece.truncate(length);
        Ok(piece)
    }
}
