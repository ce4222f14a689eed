//! A model server that speaks the OpenAI chat format on loopback and remembers what it was asked.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::home::Home;

/// Longest request it takes: the tests' are far shorter.
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Answers the Nth request with `answer N`.
pub struct RecordingModel {
    url: String,
    requests: Requests,
    connections: Arc<AtomicUsize>,
}

type Requests = Arc<Mutex<Vec<Value>>>;

impl RecordingModel {
    /// Starts to listen.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen: {error}"));
        let address = listener.local_addr();
        let address = address.unwrap_or_else(|error| panic!("no address: {error}"));
        let requests = Requests::default();
        let seen = Arc::clone(&requests);
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(answer_all(socket, Arc::clone(&seen)));
            }
        });
        Self {
            url: format!("http://{address}/v1"),
            requests,
            connections,
        }
    }

    /// How many connections were made to it so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// A home whose programs use this model.
    #[must_use]
    pub fn home(&self, binary: impl Into<PathBuf>) -> Home {
        Home::new(binary, json!([]))
            .model("openai-chat:recording")
            .env("OPENAI_BASE_URL", &self.url)
            .env("OPENAI_API_KEY", "none")
    }

    /// The bodies of all requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Serves one connection until it ends; a broken one simply ends.
async fn answer_all(socket: TcpStream, seen: Requests) {
    let mut socket = BufReader::new(socket);
    while let Some(body) = read_request(&mut socket).await {
        let number = {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(serde_json::from_slice(&body).unwrap_or_default());
            seen.len()
        };
        let chunk = |delta: Value, finish: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            format!(
                "data: {}\n\n",
                json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})
            )
        };
        let body = [
            chunk(
                json!({"role": "assistant", "content": format!("answer {number}")}),
                Value::Null,
            ),
            chunk(json!({}), json!("stop")),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if socket.write_all((head + &body).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The body of the next request.
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
