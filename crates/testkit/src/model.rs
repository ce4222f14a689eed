//! A model server on loopback that speaks a provider's wire format and remembers what it was asked.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::home::Home;

mod speech;

pub use speech::{End, Say, Speech, text};

/// Longest request it takes: the tests' are far shorter.
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Answers the Nth request with what was prepared for it, and with `answer N` after that.
pub struct RecordingModel {
    url: String,
    speech: Speech,
    seen: Arc<Seen>,
    connections: Arc<AtomicUsize>,
}

/// What a model does with one request.
#[derive(Clone, Debug)]
pub enum ModelReply {
    /// A whole answer.
    Says(Vec<Say>),
    /// The beginning of an answer, and then nothing: the connection stays open.
    Hangs(Vec<Say>),
    /// The beginning of an answer, and then the connection is lost.
    BreaksOff(Vec<Say>),
    /// The beginning of an answer, and then bytes that are none.
    Babbles(Vec<Say>),
    /// Another status, with headers (each ended by `\r\n`) and a body.
    Refuses(u16, &'static str, &'static str),
    /// The head of an answer, and then this, piece by piece.
    Pieces(Vec<Piece>),
    /// The connection is reset without an answer.
    Resets,
}

/// A part of how an answer comes.
#[derive(Clone, Debug)]
pub enum Piece {
    /// These bytes, in a packet of their own.
    Bytes(Vec<u8>),
    /// Nothing until the test lets it go on.
    Waits(Gate),
    /// Nothing more: the connection stays open.
    Hangs,
    /// The connection is reset.
    Resets,
}

impl Piece {
    /// These words.
    #[must_use]
    pub fn of(text: impl AsRef<str>) -> Self {
        Self::Bytes(text.as_ref().as_bytes().to_vec())
    }
}

/// What a test lets a model pass through, once each time.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl Gate {
    /// Lets the model go on, now or when it gets there.
    pub fn open(&self) {
        self.0.add_permits(1);
    }

    async fn pass(&self) {
        // It is never closed.
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
    }
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Value>>,
    replies: Mutex<VecDeque<ModelReply>>,
    left: AtomicUsize,
}

impl RecordingModel {
    /// Starts to listen, speaking chat completions.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start() -> Self {
        Self::speaking(Speech::OpenAiChat, Vec::new()).await
    }

    /// Starts to listen, speaking `speech`; the first requests get `replies`.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn speaking(speech: Speech, replies: Vec<ModelReply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen: {error}"));
        let address = listener.local_addr();
        let address = address.unwrap_or_else(|error| panic!("no address: {error}"));
        let seen = Arc::new(Seen {
            replies: Mutex::new(replies.into()),
            ..Seen::default()
        });
        let shared = Arc::clone(&seen);
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(answer_all(socket, speech, Arc::clone(&shared)));
            }
        });
        Self {
            url: format!("http://{address}"),
            speech,
            seen,
            connections,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many connections were made to it so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// How often whoever had asked left while the model hung.
    #[must_use]
    pub fn left(&self) -> usize {
        self.seen.left.load(Ordering::Relaxed)
    }

    /// A home whose programs use this model.
    #[must_use]
    pub fn home(&self, binary: impl Into<PathBuf>) -> Home {
        self.beside(Home::new(binary, json!([])).model(self.speech.model()))
    }

    /// A home whose programs can use this model besides their own.
    #[must_use]
    pub fn beside(&self, home: Home) -> Home {
        match self.speech {
            Speech::Anthropic => home
                .env("ANTHROPIC_BASE_URL", &self.url)
                .env("ANTHROPIC_API_KEY", "none"),
            Speech::OpenAi | Speech::OpenAiChat => home
                .env("OPENAI_BASE_URL", format!("{}/v1", self.url))
                .env("OPENAI_API_KEY", "none"),
            Speech::Ollama => home.env("OLLAMA_HOST", &self.url),
        }
    }

    /// The bodies of all requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let requests = self.seen.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves one connection until it ends; a broken one simply ends.
async fn answer_all(socket: TcpStream, speech: Speech, seen: Arc<Seen>) {
    // Each piece goes as it is written.
    let _ = socket.set_nodelay(true);
    let mut socket = BufReader::new(socket);
    while let Some(body) = read_request(&mut socket).await {
        let number = {
            let requests = seen.requests.lock();
            let mut requests = requests.unwrap_or_else(PoisonError::into_inner);
            requests.push(serde_json::from_slice(&body).unwrap_or_default());
            requests.len()
        };
        let reply = {
            let replies = seen.replies.lock();
            let mut replies = replies.unwrap_or_else(PoisonError::into_inner);
            replies.pop_front()
        };
        let reply =
            reply.unwrap_or_else(|| ModelReply::Says(vec![Say::Text(format!("answer {number}"))]));
        if carry_out(&mut socket, speech, reply, &seen).await.is_none() {
            return;
        }
    }
}

/// Answers one request; `None` if the connection has ended.
async fn carry_out(
    socket: &mut BufReader<TcpStream>,
    speech: Speech,
    reply: ModelReply,
    seen: &Seen,
) -> Option<()> {
    let stream = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n",
        speech.content_type()
    );
    let begun = |said: &[Say]| format!("{stream}{}", chunk(&speech.said(said)));
    match reply {
        ModelReply::Says(said) => {
            let has_calls = said.iter().any(|say| matches!(say, Say::Tool(..)));
            let end = if has_calls { End::Calls } else { End::Turn };
            let end = chunk(&speech.end(end));
            let answer = format!("{}{end}0\r\n\r\n", begun(&said));
            socket.write_all(answer.as_bytes()).await.ok()
        }
        ModelReply::Hangs(said) => {
            let answer = if said.is_empty() {
                String::new()
            } else {
                begun(&said)
            };
            socket.write_all(answer.as_bytes()).await.ok()?;
            hang(socket, seen).await;
            None
        }
        ModelReply::BreaksOff(said) => {
            socket.write_all(begun(&said).as_bytes()).await.ok()?;
            None
        }
        ModelReply::Babbles(said) => {
            let noise = chunk("data: \u{fffd}]]{{\n\n\u{1}\u{2}{\n");
            let answer = format!("{}{noise}0\r\n\r\n", begun(&said));
            socket.write_all(answer.as_bytes()).await.ok()
        }
        ModelReply::Refuses(status, headers, body) => {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} No\r\n{headers}content-length: {length}\r\n\r\n");
            socket.write_all((head + body).as_bytes()).await.ok()
        }
        ModelReply::Pieces(pieces) => {
            socket.write_all(stream.as_bytes()).await.ok()?;
            for piece in pieces {
                carry_out_piece(socket, piece, seen).await?;
            }
            socket.write_all(b"0\r\n\r\n").await.ok()
        }
        ModelReply::Resets => carry_out_piece(socket, Piece::Resets, seen).await,
    }
}

async fn carry_out_piece(
    socket: &mut BufReader<TcpStream>,
    piece: Piece,
    seen: &Seen,
) -> Option<()> {
    match piece {
        Piece::Bytes(bytes) if bytes.is_empty() => {}
        Piece::Bytes(bytes) => {
            let mut packet = format!("{:x}\r\n", bytes.len()).into_bytes();
            packet.extend(bytes);
            packet.extend(b"\r\n");
            socket.write_all(&packet).await.ok()?;
        }
        Piece::Waits(gate) => gate.pass().await,
        Piece::Hangs => {
            hang(socket, seen).await;
            return None;
        }
        Piece::Resets => {
            socket.get_ref().set_zero_linger().ok()?;
            return None;
        }
    }
    Some(())
}

/// Does nothing until whoever asked has left: whatever comes next is that.
async fn hang(socket: &mut BufReader<TcpStream>, seen: &Seen) {
    let _ = socket.read(&mut [0; 16]).await;
    seen.left.fetch_add(1, Ordering::Relaxed);
}

/// Some bytes of a chunked body.
fn chunk(bytes: &str) -> String {
    if bytes.is_empty() {
        return String::new();
    }
    format!("{:x}\r\n{bytes}\r\n", bytes.len())
}

/// The body of the next request that asks the model something.
async fn read_request(socket: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        // Whoever only looks which models there are finds none.
        if line.starts_with("get ") {
            let none = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            socket.write_all(none.as_bytes()).await.ok()?;
            return None;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value
                .trim()
                .parse()
                .ok()
                .filter(|length| *length <= REQUEST_BYTES_MAX)?;
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some(body)
}
