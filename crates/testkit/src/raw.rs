//! HTTP/1.1 and WebSocket by hand: every byte is the test's own, also the wrong ones.
//!
//! [`request`] sends any bytes and reads one answer; [`RawSocket`] sends any frame, whole, cut or
//! malformed, and answers nothing by itself, not even a ping; [`RawRemote`] posts and reads streams.

mod remote;
mod socket;

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::program::{DEADLINE, Program};

pub use self::remote::{EventStream, RawRemote};
pub use self::socket::{Frame, Heard, RawSocket, opcode};

/// Longest answer that is read: the tests' are far shorter.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// One HTTP answer.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// Its headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body, as far as it came.
    pub body: String,
}

impl HttpAnswer {
    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Some(Self {
            status,
            headers,
            body: String::new(),
        })
    }
}

impl fmt::Display for HttpAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.status, self.headers, self.body)
    }
}

/// `127.0.0.1:PORT` of a server.
#[must_use]
pub fn address(server: &Program) -> &str {
    server.url().trim_start_matches("http://")
}

/// A request with the right Host and token: method, path, more headers (each with its line end).
#[must_use]
pub fn authorized(server: &Program, method: &str, path: &str, headers: &str) -> String {
    let (host, token) = (address(server), server.token());
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n{headers}\r\n"
    )
}

/// The headers that ask for a WebSocket.
pub const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Sends `request` as it stands on a connection of its own; gives the answer to it.
///
/// # Panics
/// If no whole answer comes in time.
pub async fn request(server: &Program, request: impl AsRef<[u8]>) -> HttpAnswer {
    let mut stream = connect(server).await;
    // A server that has heard enough may close while the rest is still being sent.
    let _ = stream.write_all(request.as_ref()).await;
    match timeout(DEADLINE, read_answer(&mut stream)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => panic!(
            "no HTTP answer ({error}); the server said:\n{}",
            server.stderr()
        ),
        Err(_) => panic!(
            "no HTTP answer in time; the server said:\n{}",
            server.stderr()
        ),
    }
}

/// A plain connection to the server.
///
/// # Panics
/// If there is none.
pub async fn connect(server: &Program) -> TcpStream {
    match timeout(DEADLINE, TcpStream::connect(address(server))).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => panic!("no connection: {error}"),
        Err(_) => panic!("no connection in time"),
    }
}

/// Waits for the end of a connection, whatever comes before it; gives how long that took.
///
/// # Panics
/// If it does not end in time.
pub async fn ended(stream: &mut TcpStream) -> Duration {
    let started = tokio::time::Instant::now();
    let mut sink = vec![0; 16 * 1024];
    let reading = async { while let Ok(1..) = stream.read(&mut sink).await {} };
    assert!(
        timeout(DEADLINE, reading).await.is_ok(),
        "the connection did not end in time"
    );
    started.elapsed()
}

/// Reads one answer and not a byte more, so that a WebSocket can go on after it.
///
/// # Errors
/// If the connection ends before it, or it is not HTTP.
pub async fn read_answer(stream: &mut TcpStream) -> io::Result<HttpAnswer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
        if head.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("an answer without end"));
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut answer =
        HttpAnswer::parse(&head).ok_or_else(|| io::Error::other(format!("not HTTP: {head}")))?;
    let length = answer.header("content-length");
    let length = length.and_then(|length| length.parse::<usize>().ok());
    let length = length.unwrap_or(0).min(ANSWER_BYTES_MAX) as u64;
    let mut body = Vec::new();
    // The answer to HEAD tells the length of a body that does not come.
    stream.take(length).read_to_end(&mut body).await?;
    answer.body = String::from_utf8_lossy(&body).into_owned();
    Ok(answer)
}
