//! Telling HTTP/2 by prior knowledge from HTTP/1.1 by the first bytes of a connection.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// How every HTTP/2 connection begins; no HTTP/1.1 request does.
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes that were read to find out, and that the protocol still has to see.
#[derive(Debug, Default)]
pub(super) struct Sniffed {
    bytes: [u8; PREFACE.len()],
    filled: usize,
    given: usize,
}

impl Sniffed {
    /// What was read and not given on.
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.given..self.filled]
    }

    /// Gives on what fits; whether anything was left to give.
    pub(super) fn give(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let fits = self.bytes().len().min(buffer.remaining());
        buffer.put_slice(&self.bytes()[..fits]);
        self.given += fits;
        fits > 0
    }
}

/// Reads until it is clear what is spoken; `None` if the client left before.
pub(super) async fn sniff(
    socket: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<(Protocol, Sniffed)>> {
    let mut sniffed = Sniffed::default();
    loop {
        let read = socket.read(&mut sniffed.bytes[sniffed.filled..]).await?;
        if read == 0 {
            return Ok(None);
        }
        sniffed.filled += read;
        if sniffed.bytes() != &PREFACE[..sniffed.filled] {
            return Ok(Some((Protocol::Http1, sniffed)));
        }
        if sniffed.filled == PREFACE.len() {
            return Ok(Some((Protocol::Http2, sniffed)));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, ReadBuf};

    use super::{PREFACE, Protocol, sniff};

    async fn heard(pieces: &[&[u8]]) -> Option<(Protocol, Vec<u8>)> {
        let (mut ours, mut theirs) = tokio::io::duplex(1);
        let said = async move {
            for piece in pieces {
                // Whoever knows enough stops reading.
                let _ = theirs.write_all(piece).await;
            }
        };
        let (sniffed, ()) = tokio::join!(
            async move {
                let sniffed = sniff(&mut ours).await;
                drop(ours);
                sniffed
            },
            said
        );
        let (protocol, mut sniffed) = sniffed.unwrap()?;
        // Given on in small pieces, it is still all there.
        let mut seen = Vec::new();
        let mut room = [0; 5];
        let mut buffer = ReadBuf::new(&mut room);
        while sniffed.give(&mut buffer) {
            seen.extend_from_slice(buffer.filled());
            buffer.clear();
        }
        Some((protocol, seen))
    }

    #[tokio::test]
    async fn the_preface_alone_is_http_2_however_it_arrives() {
        assert_eq!(
            heard(&[PREFACE, b"rest"]).await,
            Some((Protocol::Http2, PREFACE.to_vec()))
        );
        for request in [
            &b"GET / HTTP/1.1"[..],
            b"PRINT / HTTP/1.1",
            b"PRI * HTTP/1.1\r\n",
        ] {
            let (protocol, seen) = heard(&[request]).await.unwrap();
            assert_eq!(protocol, Protocol::Http1);
            assert!(request.starts_with(&seen), "{seen:?}");
        }
    }

    #[tokio::test]
    async fn who_leaves_before_it_is_clear_has_said_nothing() {
        assert_eq!(heard(&[]).await, None);
        assert_eq!(heard(&[b"PRI * HT"]).await, None);
    }
}
