//! A WebSocket whose frames are made by hand.

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{HttpAnswer, UPGRADE, address, connect, read_answer};
use crate::program::{DEADLINE, Program};

/// Longest frame that is read.
const FRAME_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What kind of frame it is.
pub mod opcode {
    /// The rest of a message.
    pub const CONTINUATION: u8 = 0;
    /// A message, or its beginning.
    pub const TEXT: u8 = 1;
    /// A message that is not text.
    pub const BINARY: u8 = 2;
    /// The end.
    pub const CLOSE: u8 = 8;
    /// A question whether the other still lives.
    pub const PING: u8 = 9;
    /// The answer to it.
    pub const PONG: u8 = 10;
}

/// A frame as a client sends it, by the rules or against them.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The bits of the first byte beside the opcode: `0x80` for the last frame of a message.
    pub flags: u8,
    /// See [`opcode`].
    pub opcode: u8,
    /// Clients must mask what they send.
    pub is_masked: bool,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The only or last frame of a message, or a control frame.
    #[must_use]
    pub fn last(opcode: u8, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            flags: 0x80,
            opcode,
            is_masked: true,
            payload: payload.into(),
        }
    }

    /// A frame that more will follow.
    #[must_use]
    pub fn more(opcode: u8, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            flags: 0,
            ..Self::last(opcode, payload)
        }
    }

    /// The frame on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
        let mut bytes = self.header(self.payload.len() as u64);
        if !self.is_masked {
            bytes.extend_from_slice(&self.payload);
            return bytes;
        }
        bytes.extend_from_slice(&MASK);
        let masked = self.payload.iter().zip(MASK.iter().cycle());
        bytes.extend(masked.map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// What stands before the mask, of a frame that says it is `length` bytes long.
    #[must_use]
    pub fn header(&self, length: u64) -> Vec<u8> {
        let mask = if self.is_masked { 0x80 } else { 0 };
        let mut bytes = vec![self.flags | self.opcode];
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(short @ ..=125), _) => bytes.push(mask | short),
            (_, Ok(medium)) => {
                bytes.push(mask | 126);
                bytes.extend_from_slice(&medium.to_be_bytes());
            }
            _ => {
                bytes.push(mask | 127);
                bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
        bytes
    }
}

/// What the server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A frame that is neither of the next two.
    Frame {
        /// See [`opcode`].
        opcode: u8,
        /// What it carries.
        payload: Vec<u8>,
    },
    /// A whole message.
    Text(String),
    /// A close frame, with its code if it has one.
    Close(Option<u16>),
    /// The end of the connection.
    End,
}

/// An upgraded connection to a server.
pub struct RawSocket {
    stream: TcpStream,
    /// The answer to the upgrade.
    pub answer: HttpAnswer,
}

impl RawSocket {
    /// Opens a WebSocket with the default token and says nothing yet.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn open(server: &Program) -> Self {
        Self::open_with(server, "").await
    }

    /// As [`RawSocket::open`], with more headers (each with its line end).
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn open_with(server: &Program, headers: &str) -> Self {
        Self::open_as(server, server.token(), headers).await
    }

    /// As [`RawSocket::open_with`], with another token.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn open_as(server: &Program, token: &str, headers: &str) -> Self {
        let stream = connect(server).await;
        let opening = Self::try_open(stream, address(server), token, headers);
        match timeout(DEADLINE, opening).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => panic!("no WebSocket: {error}"),
            Err(_) => panic!("no WebSocket in time"),
        }
    }

    /// Upgrades a connection, which may lead there through others, to the server at `host`.
    ///
    /// # Errors
    /// If the connection ends before, or the server refuses.
    pub async fn try_open(
        mut stream: TcpStream,
        host: &str,
        token: &str,
        headers: &str,
    ) -> io::Result<Self> {
        let request = format!(
            "GET /acp HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n{UPGRADE}{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let answer = read_answer(&mut stream).await?;
        if answer.status != 101 {
            return Err(io::Error::other(format!("refused: {answer}")));
        }
        Ok(Self { stream, answer })
    }

    /// Opens a WebSocket and initializes.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn initialized(server: &Program) -> Self {
        let mut socket = Self::open(server).await;
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let answer = socket.call("initialize", hello).await;
        assert!(answer["result"].is_object(), "{answer}");
        socket
    }

    /// Sends bytes as they stand; `false` if the server takes no more.
    pub async fn bytes(&mut self, bytes: &[u8]) -> bool {
        let sent = timeout(DEADLINE, self.stream.write_all(bytes)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Sends one frame; `false` if the server takes no more.
    pub async fn send(&mut self, frame: &Frame) -> bool {
        self.bytes(&frame.to_bytes()).await
    }

    /// Sends one text message.
    pub async fn text(&mut self, text: &str) -> bool {
        self.send(&Frame::last(opcode::TEXT, text)).await
    }

    /// Sends a request with the id `"raw"` and gives the message that answers it.
    ///
    /// # Panics
    /// If none comes in time.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": "raw", "method": method, "params": params});
        self.text(&request.to_string()).await;
        loop {
            let message = self.message().await;
            if message["id"] == "raw" && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The next message; frames that are none are passed over.
    ///
    /// # Panics
    /// If the connection ends first, or nothing comes in time.
    pub async fn message(&mut self) -> Value {
        loop {
            match self.hear().await {
                Heard::Text(text) => match serde_json::from_str(&text) {
                    Ok(message) => return message,
                    Err(error) => panic!("{error} in {text}"),
                },
                Heard::Frame { .. } => {}
                ending @ (Heard::Close(_) | Heard::End) => {
                    panic!("{ending:?} instead of a message")
                }
            }
        }
    }

    /// The code that the server closes with; `None` if it just goes.
    ///
    /// # Panics
    /// If neither happens in time.
    pub async fn close_code(&mut self) -> Option<u16> {
        loop {
            match self.hear().await {
                Heard::Close(code) => return code,
                Heard::End => return None,
                Heard::Text(_) | Heard::Frame { .. } => {}
            }
        }
    }

    /// What the server sends next.
    ///
    /// # Panics
    /// If it sends nothing in time.
    pub async fn hear(&mut self) -> Heard {
        match timeout(DEADLINE, self.read_frame()).await {
            Ok(Ok(heard)) => heard,
            Ok(Err(_)) => Heard::End,
            Err(_) => panic!("the server sent nothing in time"),
        }
    }

    /// The connection itself, for a client that reads and writes at the same time.
    #[must_use]
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Ends the connection as a machine does that loses power after a crash: with a reset.
    pub fn reset(self) {
        // If the option cannot be set the connection is already gone.
        let _ = self.stream.set_zero_linger();
    }

    async fn read_frame(&mut self) -> io::Result<Heard> {
        let first = self.stream.read_u8().await?;
        let length = match self.stream.read_u8().await? & 0x7f {
            126 => u64::from(self.stream.read_u16().await?),
            127 => self.stream.read_u64().await?,
            short => u64::from(short),
        };
        if length > FRAME_BYTES_MAX {
            return Err(io::Error::other("a frame without end"));
        }
        let mut payload = vec![0; usize::try_from(length).unwrap_or(0)];
        self.stream.read_exact(&mut payload).await?;
        Ok(match first & 0x0f {
            opcode::TEXT => Heard::Text(String::from_utf8_lossy(&payload).into_owned()),
            opcode::CLOSE => {
                let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                Heard::Close(code)
            }
            opcode => Heard::Frame { opcode, payload },
        })
    }
}
