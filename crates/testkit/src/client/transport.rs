//! How a test client reaches an agent: a WebSocket, single HTTP requests, or lines through a pipe.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::streamable::Streamable;

/// How long an agent that was told to end may take before it is killed.
const FAREWELL: Duration = Duration::from_secs(20);

/// Whole messages in both directions.
pub(super) enum Transport {
    Socket(Box<WebSocketStream<MaybeTlsStream<TcpStream>>>),
    Pipe(Box<Pipe>),
    Http(Box<Streamable>),
}

/// Messages as lines, and the process at the other end if there is one.
pub(super) struct Pipe {
    reader: Lines<Box<dyn AsyncBufRead + Send + Unpin>>,
    writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    process: Option<Child>,
}

/// What came from the agent.
pub(super) enum Received {
    Message(String),
    /// The connection has ended, with the close code if there was one.
    End(Option<u16>),
}

impl Pipe {
    pub(super) fn new(
        reader: impl tokio::io::AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        process: Option<Child>,
    ) -> Self {
        let reader: Box<dyn AsyncBufRead + Send + Unpin> = Box::new(BufReader::new(reader));
        Self {
            reader: reader.lines(),
            writer: Some(Box::new(writer)),
            process,
        }
    }
}

impl Transport {
    /// Sends one message; `false` if the agent no longer listens.
    pub(super) async fn send(&mut self, text: &str) -> bool {
        match self {
            Self::Socket(socket) => socket.send(Message::text(text)).await.is_ok(),
            Self::Pipe(pipe) => {
                let Some(writer) = &mut pipe.writer else {
                    return false;
                };
                let line = format!("{text}\n");
                writer.write_all(line.as_bytes()).await.is_ok() && writer.flush().await.is_ok()
            }
            Self::Http(http) => http.send(text).await,
        }
    }

    /// The next message. Cancel safe: nothing is lost when the wait is given up.
    pub(super) async fn receive(&mut self) -> Received {
        match self {
            Self::Socket(socket) => loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Received::Message(text.as_str().to_owned());
                    }
                    Some(Ok(Message::Close(frame))) => {
                        let code = frame.map(|CloseFrame { code, .. }| u16::from(code));
                        return Received::End(code);
                    }
                    // Pings are answered by the library; nothing else carries a message.
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Received::End(None),
                }
            },
            Self::Pipe(pipe) => match pipe.reader.next_line().await {
                Ok(Some(line)) => Received::Message(line),
                Ok(None) | Err(_) => Received::End(None),
            },
            Self::Http(http) => http.receive().await,
        }
    }

    /// Ends the connection as a client does that leaves, and waits for the agent's process.
    pub(super) async fn leave(mut self) {
        match &mut self {
            // The agent may be gone already, which is as good.
            Self::Socket(socket) => drop((**socket).close(None).await),
            Self::Http(http) => http.leave().await,
            Self::Pipe(pipe) => {
                pipe.writer = None;
                if let Some(process) = &mut pipe.process {
                    let ended = tokio::time::timeout(FAREWELL, process.wait()).await;
                    assert!(ended.is_ok(), "the agent did not end with its input");
                }
            }
        }
    }
}
