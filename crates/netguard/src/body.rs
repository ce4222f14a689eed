//! A body while it is read: decompressed piece by piece, and measured after decompression.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};

use crate::answer::End;
use crate::error::FetchError;

/// What servers are asked for. Both are one small decoder; more would be weight, not reach.
pub(crate) const ACCEPTED: &str = "gzip, deflate";

/// Memory set aside before anything has come, at most; a server that announces more is not
/// believed.
const FIRST_BYTES_MAX: usize = 2 << 20;

/// One content encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Deflate,
}

/// The one encoding of a response.
///
/// # Errors
/// If it is unknown, or there are several: honest servers do not compress twice.
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding, FetchError> {
    let mut named = Vec::new();
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        let names = value.split(',').map(|name| name.trim().to_owned());
        named.extend(names.filter(|name| !name.is_empty() && name != "identity"));
    }
    match named.as_slice() {
        [] => Ok(Encoding::Identity),
        [one] if one == "gzip" || one == "x-gzip" => Ok(Encoding::Gzip),
        [one] if one == "deflate" => Ok(Encoding::Deflate),
        many => {
            let shown: String = many.join(", ").chars().take(60).collect();
            Err(FetchError::Encoding(shown.escape_debug().to_string()))
        }
    }
}

/// Whether more can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Left,
    None,
}

/// Takes a body as it comes over the wire.
pub(crate) struct Decoder {
    state: State,
    encoded_bytes: usize,
    bytes_max: usize,
}

enum State {
    Plain(Capped),
    Gzip(Box<MultiGzDecoder<Capped>>),
    /// Before its first two bytes tell which of the two forms `deflate` has here.
    Sniffing(Vec<u8>, Capped),
    Zlib(Box<ZlibDecoder<Capped>>),
    Raw(Box<DeflateDecoder<Capped>>),
}

impl Decoder {
    /// For a body of which the server announced so many bytes.
    pub(crate) fn new(encoding: Encoding, announced: Option<u64>, bytes_max: usize) -> Self {
        let announced = announced.and_then(|bytes| usize::try_from(bytes).ok());
        let first = announced.unwrap_or(0).min(FIRST_BYTES_MAX).min(bytes_max);
        let capped = Capped {
            bytes: Vec::with_capacity(first),
            bytes_max,
            is_full: false,
        };
        let state = match encoding {
            Encoding::Identity => State::Plain(capped),
            Encoding::Gzip => State::Gzip(Box::new(MultiGzDecoder::new(capped))),
            Encoding::Deflate => State::Sniffing(Vec::new(), capped),
        };
        Self {
            state,
            encoded_bytes: 0,
            bytes_max,
        }
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// If it is not what the encoding promises.
    pub(crate) fn push(&mut self, piece: &[u8]) -> io::Result<Room> {
        // Compressed data that decompresses to nothing must not go on for ever either.
        self.encoded_bytes = self.encoded_bytes.saturating_add(piece.len());
        let written = match &mut self.state {
            State::Plain(capped) => capped.write_all(piece),
            State::Gzip(decoder) => decoder.write_all(piece),
            State::Zlib(decoder) => decoder.write_all(piece),
            State::Raw(decoder) => decoder.write_all(piece),
            State::Sniffing(first, capped) => {
                first.extend_from_slice(piece);
                if let [head, flags, ..] = first[..] {
                    let first = std::mem::take(first);
                    let capped = std::mem::take(capped);
                    self.state = sniffed(head, flags, capped);
                    self.encoded_bytes -= piece.len();
                    return self.push(&first);
                }
                Ok(())
            }
        };
        match written {
            _ if self.capped().is_full => Ok(Room::None),
            Ok(()) if self.encoded_bytes > self.bytes_max => Ok(Room::None),
            Ok(()) => Ok(Room::Left),
            Err(error) => Err(error),
        }
    }

    /// The end of the body.
    ///
    /// # Errors
    /// If compressed data stops in the middle.
    pub(crate) fn finish(&mut self) -> io::Result<End> {
        // A compressed nothing may also be nothing at all, as in the answer to HEAD.
        let finished = match &mut self.state {
            _ if self.encoded_bytes == 0 => Ok(()),
            State::Plain(_) => Ok(()),
            State::Gzip(decoder) => decoder.try_finish(),
            State::Zlib(decoder) => decoder.try_finish(),
            State::Raw(decoder) => decoder.try_finish(),
            State::Sniffing(..) => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        if self.capped().is_full {
            return Ok(End::CutAtLimit);
        }
        finished.map(|()| End::Whole)
    }

    /// Bytes after decompression.
    pub(crate) fn len(&self) -> usize {
        self.capped().bytes.len()
    }

    pub(crate) fn into_bytes(mut self) -> Bytes {
        let capped = match &mut self.state {
            State::Plain(capped) | State::Sniffing(_, capped) => capped,
            State::Gzip(decoder) => decoder.get_mut(),
            State::Zlib(decoder) => decoder.get_mut(),
            State::Raw(decoder) => decoder.get_mut(),
        };
        std::mem::take(&mut capped.bytes).into()
    }

    fn capped(&self) -> &Capped {
        match &self.state {
            State::Plain(capped) | State::Sniffing(_, capped) => capped,
            State::Gzip(decoder) => decoder.get_ref(),
            State::Zlib(decoder) => decoder.get_ref(),
            State::Raw(decoder) => decoder.get_ref(),
        }
    }
}

/// `deflate` means zlib data, but some servers send it without its frame.
fn sniffed(head: u8, flags: u8, capped: Capped) -> State {
    let is_zlib = head & 0x0f == 8 && (u16::from(head) << 8 | u16::from(flags)) % 31 == 0;
    if is_zlib {
        State::Zlib(Box::new(ZlibDecoder::new(capped)))
    } else {
        State::Raw(Box::new(DeflateDecoder::new(capped)))
    }
}

/// Memory that takes so much and no more.
#[derive(Default)]
struct Capped {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_full: bool,
}

impl Write for Capped {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = self.bytes_max - self.bytes.len();
        let taken = piece.get(..room).unwrap_or(piece);
        self.bytes.extend_from_slice(taken);
        if taken.len() < piece.len() {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
