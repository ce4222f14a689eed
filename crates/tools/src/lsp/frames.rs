//! Messages of the protocol as bytes: a length, an empty line, JSON. Whatever else comes is an
//! error, and nothing takes more memory than its bound.

use domain::limits::{LSP_BODY_BYTES_MAX, LSP_HEADER_BYTES_MAX};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes taken at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// What ends the lines before a body.
const END: &[u8] = b"\r\n\r\n";

/// Why no message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The pipe ended, or broke.
    #[error("it has ended")]
    Ended,
    /// Something else than the protocol.
    #[error("what it writes is not the language server protocol")]
    Garbage,
    /// A message longer than any that is of use.
    #[error("it sent a message of {0} bytes, which is too much")]
    TooLarge(usize),
    /// More than it has any reason to say.
    #[error("it does not stop talking")]
    Flood,
}

/// `body` as it is sent.
#[must_use]
pub(super) fn framed(body: &str) -> Vec<u8> {
    let mut frame = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    frame.extend_from_slice(body.as_bytes());
    frame
}

/// What a server sends, message by message.
pub(super) struct Frames<R> {
    pipe: R,
    buffer: Vec<u8>,
    chunk: Box<[u8]>,
    /// Where the body begins and ends, once that is known.
    body: Option<(usize, usize)>,
    /// Bytes that it may still send.
    room: usize,
    /// Bytes that it has sent.
    heard: u64,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(pipe: R) -> Self {
        Self {
            pipe,
            buffer: Vec::new(),
            chunk: vec![0; CHUNK_BYTES].into_boxed_slice(),
            body: None,
            room: 0,
            heard: 0,
        }
    }

    /// From now on this many bytes are taken.
    pub(super) fn allow(&mut self, bytes: usize) {
        self.room = bytes;
    }

    /// Bytes that have come so far.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// The body of the next message. Cancel safe: what was read stays here.
    ///
    /// # Errors
    /// If there will be none; only [`FrameError::Flood`] can be followed by more.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, FrameError> {
        loop {
            if let Some(body) = self.take()? {
                return Ok(body);
            }
            if self.room == 0 {
                return Err(FrameError::Flood);
            }
            let most = CHUNK_BYTES.min(self.room);
            let read = self.pipe.read(&mut self.chunk[..most]).await;
            let count = read.map_err(|_| FrameError::Ended)?;
            if count == 0 {
                return Err(FrameError::Ended);
            }
            self.room -= count;
            self.heard += count as u64;
            self.buffer.extend_from_slice(&self.chunk[..count]);
        }
    }

    /// A whole message, if it is there.
    fn take(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        if self.body.is_none() {
            let looked_at = &self.buffer[..self.buffer.len().min(LSP_HEADER_BYTES_MAX)];
            let Some(end) = looked_at.windows(END.len()).position(|part| part == END) else {
                return match looked_at.len() < LSP_HEADER_BYTES_MAX {
                    true => Ok(None),
                    false => Err(FrameError::Garbage),
                };
            };
            let length = length(&self.buffer[..end]).ok_or(FrameError::Garbage)?;
            if length > LSP_BODY_BYTES_MAX {
                return Err(FrameError::TooLarge(length));
            }
            let start = end + END.len();
            self.body = Some((start, start + length));
        }
        match self.body {
            Some((start, end)) if self.buffer.len() >= end => {
                self.body = None;
                let rest = self.buffer.split_off(end);
                let mut body = std::mem::replace(&mut self.buffer, rest);
                body.drain(..start);
                Ok(Some(body))
            }
            Some(_) | None => Ok(None),
        }
    }
}

/// The length that the lines before a body tell.
fn length(header: &[u8]) -> Option<usize> {
    let header = std::str::from_utf8(header).ok()?;
    let mut length = None;
    for line in header.split("\r\n") {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse().ok()?);
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use domain::limits::{LSP_BODY_BYTES_MAX, LSP_HEADER_BYTES_MAX};
    use tokio::io::AsyncWriteExt as _;

    use super::{FrameError, Frames, framed};

    /// What is understood of `bytes`, which come `at_once` at a time.
    async fn heard(bytes: &[u8], at_once: usize) -> (Vec<String>, FrameError) {
        let (mut server, pipe) = tokio::io::duplex(at_once);
        let mut frames = Frames::new(pipe);
        frames.allow(1 << 30);
        let sending = async move {
            let _ = server.write_all(bytes).await;
        };
        let hearing = async {
            let mut bodies = Vec::new();
            loop {
                match frames.next().await {
                    Ok(body) => bodies.push(String::from_utf8(body).unwrap()),
                    Err(error) => {
                        drop(frames);
                        return (bodies, error);
                    }
                }
            }
        };
        tokio::join!(sending, hearing).1
    }

    #[tokio::test]
    async fn messages_are_found_however_the_bytes_come() {
        let mut bytes = framed("{}");
        bytes.extend(b"content-type: x\r\ncontent-length:5\r\n\r\nhello");
        bytes.extend(framed(""));
        for at_once in [1, 2, 3, 7, 1000] {
            let (bodies, end) = heard(&bytes, at_once).await;
            assert_eq!(bodies, ["{}", "hello", ""], "{at_once}");
            assert_eq!(end, FrameError::Ended);
        }
    }

    #[tokio::test]
    async fn what_is_not_a_message_is_an_error_and_never_waited_for() {
        let endless = vec![b'a'; LSP_HEADER_BYTES_MAX * 2];
        let large = format!("Content-Length: {}\r\n\r\n", LSP_BODY_BYTES_MAX + 1);
        let table: [(&[u8], FrameError); 8] = [
            (b"hello\r\n\r\n", FrameError::Garbage),
            (b"\r\n\r\n", FrameError::Garbage),
            (b"Content-Length: -1\r\n\r\n", FrameError::Garbage),
            (b"Content-Length: 2x\r\n\r\n{}", FrameError::Garbage),
            (b"Content-Type: 2\r\n\r\n{}", FrameError::Garbage),
            (b"\xff\xfe: 1\r\n\r\n", FrameError::Garbage),
            (&endless, FrameError::Garbage),
            (
                large.as_bytes(),
                FrameError::TooLarge(LSP_BODY_BYTES_MAX + 1),
            ),
        ];
        for (bytes, expected) in table {
            let (bodies, end) = heard(bytes, 64).await;
            assert!(bodies.is_empty());
            assert_eq!(end, expected, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[tokio::test]
    async fn no_more_is_taken_than_was_allowed() {
        let (mut server, pipe) = tokio::io::duplex(1024);
        let mut frames = Frames::new(pipe);
        server.write_all(&framed("{}").repeat(3)).await.unwrap();
        let one = framed("{}").len();
        frames.allow(one + 1);
        assert!(frames.next().await.is_ok());
        assert_eq!(frames.next().await, Err(FrameError::Flood));
        frames.allow(one);
        assert!(frames.next().await.is_ok());
        assert_eq!(frames.next().await, Err(FrameError::Flood));
        assert_eq!(frames.heard(), (2 * one + 1) as u64);
    }
}
