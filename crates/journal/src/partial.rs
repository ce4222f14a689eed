//! The file `partial`: the text of the message being streamed.
//!
//! The line `{"seq":N,"crc32c":"xxxxxxxx"}` names the `message.started` it belongs to and carries
//! the checksum of N; frames of text with checksums follow (see `frames`). Files of earlier versions have the line
//! `{"seq":N}` and the bare text after it; they are read, not written. The file is only ever truncated and begun
//! anew, with a higher N, so a reader who finds the same line before and after reading has read that message's text.

mod frames;
mod reader;

use std::io::{self, Read};
use std::sync::Arc;

use domain::EventSeq;

use crate::StoreError;
use crate::storage::{CHUNK_BYTES, StoredFile, Stream, read_full_at};

use frames::FramedText;
pub(crate) use frames::{FramePlace, FrameReader, FrameStep};
pub(crate) use reader::PartialReader;

/// Room for the first line with the longest number.
const HEADER_BYTES_MAX: usize = 64;

/// The first line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The `message.started` that the text belongs to.
    pub(crate) seq: EventSeq,
    /// Its length, newline included.
    pub(crate) bytes: u64,
    pub(crate) layout: Layout,
}

/// How the text is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As bare bytes, by earlier versions.
    Bare,
    /// In frames, whose chain begins with this checksum.
    Framed {
        /// The checksum of the message's number.
        check: u32,
    },
}

/// What stands at the front of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// A header.
    Header(Header),
    /// Nothing, or the front of a header whose write did not finish.
    Unwritten,
    /// Bytes that are no header.
    Damaged,
}

impl Header {
    /// The header of the message that event `started` opened.
    pub(crate) fn new(started: EventSeq) -> Self {
        let check = check_of(started);
        Self {
            seq: started,
            bytes: line(started, check).len() as u64,
            layout: Layout::Framed { check },
        }
    }

    /// The line as it is written.
    pub(crate) fn line(&self) -> String {
        line(self.seq, check_of(self.seq))
    }

    /// Where the text begins.
    pub(crate) fn start(&self) -> FramePlace {
        FramePlace {
            offset: self.bytes,
            text_bytes: 0,
            check: match self.layout {
                Layout::Bare => 0,
                Layout::Framed { check } => check,
            },
        }
    }

    /// The text after this header, up to byte `end` of the file, as a stream.
    pub(crate) fn text(&self, file: &Arc<dyn StoredFile>, end: u64) -> Box<dyn Read> {
        let ahead = end.saturating_sub(self.bytes);
        let file = Arc::clone(file);
        match self.layout {
            Layout::Bare => Box::new(Stream::new(file, self.bytes)),
            Layout::Framed { .. } => {
                Box::new(FramedText::new(FrameReader::new(file, self.start(), ahead)))
            }
        }
    }
}

fn check_of(seq: EventSeq) -> u32 {
    crc32c::crc32c(seq.to_string().as_bytes())
}

fn line(seq: EventSeq, check: u32) -> String {
    format!("{{\"seq\":{seq},\"crc32c\":\"{check:08x}\"}}\n")
}

/// Reads the first line.
pub(crate) fn read_front(file: &dyn StoredFile) -> io::Result<Front> {
    let mut buffer = [0; HEADER_BYTES_MAX];
    let count = read_full_at(file, &mut buffer, 0)?;
    let bytes = &buffer[..count];
    Ok(match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => parse(&bytes[..end]).map_or(Front::Damaged, Front::Header),
        None if is_front_of_header(bytes) => Front::Unwritten,
        None => Front::Damaged,
    })
}

/// The header in the file, if there is a sound one.
pub(crate) fn read_header(file: &dyn StoredFile) -> io::Result<Option<Header>> {
    Ok(match read_front(file)? {
        Front::Header(header) => Some(header),
        Front::Unwritten | Front::Damaged => None,
    })
}

fn parse(bytes: &[u8]) -> Option<Header> {
    let line = std::str::from_utf8(bytes).ok()?;
    let rest = line.strip_prefix("{\"seq\":")?.strip_suffix('}')?;
    let seq = EventSeq(rest.split(',').next()?.parse().ok()?);
    let header = Header::new(seq);
    // To the letter: any other line with a checksum is not what was written.
    if header.line().trim_end() == line {
        return Some(header);
    }
    let is_bare = rest.bytes().all(|byte| byte.is_ascii_digit());
    is_bare.then_some(Header {
        bytes: line.len() as u64 + 1,
        layout: Layout::Bare,
        ..header
    })
}

/// Whether `bytes` may be the front of a header: all that a write that did not finish leaves.
fn is_front_of_header(bytes: &[u8]) -> bool {
    let open = b"{\"seq\":";
    let (fixed, rest) = bytes.split_at(bytes.len().min(open.len()));
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let middle = b",\"crc32c\":\"";
    let (fixed_too, check) = rest[digits..].split_at((rest.len() - digits).min(middle.len()));
    let is_check = |byte: &u8| byte.is_ascii_hexdigit() || b"\"}".contains(byte);
    open.starts_with(fixed) && middle.starts_with(fixed_too) && check.iter().all(is_check)
}

/// Reads at most `max` bytes of bare text from `from` on, cut at the last whole character.
///
/// A `max` shorter than the first character still gives that character: a caller who asks for too
/// little must not wait for ever.
///
/// # Errors
/// [`StoreError::InsideCharacter`] if `from` is no character's start, and
/// [`StoreError::DamagedText`] if the bytes are not text.
pub(crate) fn read_piece(
    file: &dyn StoredFile,
    from: u64,
    max: usize,
) -> Result<String, StoreError> {
    let ahead = usize::try_from(file.len()?.saturating_sub(from)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; max.max(4).min(ahead)];
    let count = read_full_at(file, &mut bytes, from)?;
    bytes.truncate(count);
    cut_text(bytes, max)
}

/// The whole characters of `bytes`, at most `max` bytes of them; see [`read_piece`].
pub(crate) fn cut_text(mut bytes: Vec<u8>, max: usize) -> Result<String, StoreError> {
    if bytes.first().is_some_and(|byte| byte & 0xC0 == 0x80) {
        return Err(StoreError::InsideCharacter);
    }
    let whole = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return Err(StoreError::DamagedText),
    };
    bytes.truncate(whole);
    let mut text = String::from_utf8(bytes).map_err(|_| StoreError::DamagedText)?;
    text.truncate(cut_len(&text, max));
    Ok(text)
}

/// How much of `text` is at most `max` bytes and whole characters, and at least one character.
pub(crate) fn cut_len(text: &str, max: usize) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    text.floor_char_boundary(max).max(first)
}

/// How many bytes of bare text from `from` on are whole characters, and whether all that was left
/// out is one character cut short, as a write that did not finish leaves it.
pub(crate) fn whole_characters(file: &dyn StoredFile, from: u64) -> io::Result<(u64, Ending)> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut offset, mut carried) = (from, 0);
    loop {
        let count = carried + read_full_at(file, &mut buffer[carried..], offset)?;
        let whole = match std::str::from_utf8(&buffer[..count]) {
            Ok(_) => count,
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(error) => {
                let whole = offset - carried as u64 + error.valid_up_to() as u64;
                return Ok((whole - from, Ending::Garbage));
            }
        };
        offset += (count - carried) as u64;
        if count < buffer.len() {
            let left = count - whole;
            let ending = if left == 0 {
                Ending::Whole
            } else {
                Ending::Cut
            };
            return Ok((offset - left as u64 - from, ending));
        }
        buffer.copy_within(whole..count, 0);
        carried = count - whole;
    }
}

/// How the text in the file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a whole character or frame.
    Whole,
    /// In the middle of a character or frame: its write did not finish, so no client saw it.
    Cut,
    /// With bytes that are not what was written.
    Garbage,
}
