//! A small HTTP server for tests: each request is answered by the next prepared reply.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the server does once a request has come, step by step.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Write(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Sends nothing more until the client goes away.
    Hang,
    /// Writes the bytes again and again, with a pause, until the client goes away.
    Drip(Vec<u8>, Duration),
}

/// The server and what it has seen.
pub(crate) struct Server {
    /// Its address, without a path.
    pub(crate) base: String,
    seen: Arc<Seen>,
    gone: watch::Receiver<usize>,
}

#[derive(Default)]
struct Seen {
    connections: Mutex<usize>,
    requests: Mutex<Vec<(String, Value)>>,
    replies: Mutex<VecDeque<Vec<Act>>>,
}

impl Server {
    /// Starts a server; the last reply repeats.
    pub(crate) async fn start(replies: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Seen {
            replies: Mutex::new(replies.into()),
            ..Seen::default()
        });
        let (gone_sender, gone) = watch::channel(0);
        let gone_sender = Arc::new(gone_sender);
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                *shared.connections.lock().unwrap() += 1;
                let (seen, gone) = (Arc::clone(&shared), Arc::clone(&gone_sender));
                tokio::spawn(async move {
                    serve(socket, &seen).await;
                    gone.send_modify(|count| *count += 1);
                });
            }
        });
        Self { base, seen, gone }
    }

    pub(crate) fn connections(&self) -> usize {
        *self.seen.connections.lock().unwrap()
    }

    /// Head and body of each request.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Waits until a client has gone away.
    pub(crate) async fn client_gone(&mut self) {
        self.gone.wait_for(|count| *count > 0).await.unwrap();
    }
}

/// A whole answer with a plain body.
pub(crate) fn plain(status: &str, headers: &str, body: &str) -> Vec<Act> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n");
    vec![Act::Write((head + body).into_bytes())]
}

/// The head of a stream.
pub(crate) fn stream_head(kind: &str) -> Act {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
    Act::Write(head.into())
}

/// Some bytes of a chunked body.
pub(crate) fn chunk(bytes: &[u8]) -> Act {
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    Act::Write(framed)
}

/// The end of a chunked body.
pub(crate) fn stream_end() -> Act {
    Act::Write(b"0\r\n\r\n".into())
}

async fn serve(mut socket: TcpStream, seen: &Seen) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut socket, &mut buffer).await {
        seen.requests.lock().unwrap().push(request);
        let reply = {
            let mut replies = seen.replies.lock().unwrap();
            let is_last = replies.len() == 1;
            let first = if is_last {
                replies.front().cloned()
            } else {
                replies.pop_front()
            };
            first.unwrap()
        };
        for act in reply {
            if !carry_out(act, &mut socket).await {
                return;
            }
        }
    }
}

/// Whether the connection goes on.
async fn carry_out(act: Act, socket: &mut TcpStream) -> bool {
    match act {
        Act::Write(bytes) => socket.write_all(&bytes).await.is_ok(),
        Act::Close => false,
        Act::Hang => {
            let _ = socket.read(&mut [0; 64]).await;
            false
        }
        Act::Drip(bytes, pause) => {
            while socket.write_all(&bytes).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
            false
        }
    }
}

async fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Value)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length = head.split("content-length: ").nth(1)?;
            let length: usize = length.lines().next()?.parse().ok()?;
            if buffer.len() >= end + 4 + length {
                let body = serde_json::from_slice(&buffer[end + 4..end + 4 + length]).ok()?;
                buffer.drain(..end + 4 + length);
                return Some((head, body));
            }
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
