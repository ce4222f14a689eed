//! Frames: pieces of streamed text in `partial`, each with its checksum.
//!
//! A frame is `length`, `head check`, `text check` (32 bits each, little endian) and the text. The
//! checks are CRC-32C and form a chain that begins with the header's check: the head check covers
//! everything before and the length, the text check covers that and the text. So a frame that was
//! changed, moved, or left over from an earlier message does not fit. The head check tells a write
//! that did not finish (the length is right and the file ends early) from a damaged length.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use crate::StoreError;
use crate::storage::{CHUNK_BYTES, StoredFile, Stream};

/// Bytes before the text of a frame.
const HEAD_BYTES: usize = 12;

/// Most text in one frame; bounds what a reader of frames holds.
const FRAME_TEXT_BYTES_MAX: usize = CHUNK_BYTES;

/// Least room for reading ahead: short messages are read at once.
const CAPACITY_BYTES_MIN: usize = 512;

/// A boundary between two frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FramePlace {
    /// Bytes of the file before it.
    pub(crate) offset: u64,
    /// Bytes of text before it.
    pub(crate) text_bytes: u64,
    /// The checksum of everything before it.
    pub(crate) check: u32,
}

impl FramePlace {
    /// Appends `text` to `out` as frames that follow this place; returns the place after them.
    pub(crate) fn encode(self, text: &str, out: &mut Vec<u8>) -> Self {
        let mut place = self;
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(super::cut_len(rest, FRAME_TEXT_BYTES_MAX));
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX).to_le_bytes();
            let head_check = crc32c::crc32c_append(place.check, &length);
            let text_check = crc32c::crc32c_append(head_check, piece.as_bytes());
            out.extend_from_slice(&length);
            out.extend_from_slice(&head_check.to_le_bytes());
            out.extend_from_slice(&text_check.to_le_bytes());
            out.extend_from_slice(piece.as_bytes());
            place = Self {
                offset: place.offset + (HEAD_BYTES + piece.len()) as u64,
                text_bytes: place.text_bytes + piece.len() as u64,
                check: text_check,
            };
            rest = after;
        }
        place
    }
}

/// What comes next in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameStep {
    /// A whole frame.
    Frame,
    /// The file ends at a boundary.
    End,
    /// The front of a frame whose write did not finish.
    Torn,
    /// Bytes that are not what was written.
    Damaged,
}

/// Reads frames from a place on. Holds the text of one frame.
pub(crate) struct FrameReader {
    input: BufReader<Stream>,
    place: FramePlace,
    text: Vec<u8>,
}

impl FrameReader {
    /// A reader of about `ahead` bytes.
    pub(crate) fn new(file: Arc<dyn StoredFile>, place: FramePlace, ahead: u64) -> Self {
        let stream = Stream::new(file, place.offset);
        let capacity = usize::try_from(ahead).unwrap_or(CHUNK_BYTES);
        Self {
            input: BufReader::with_capacity(
                capacity.clamp(CAPACITY_BYTES_MIN, CHUNK_BYTES),
                stream,
            ),
            place,
            text: Vec::new(),
        }
    }

    /// The boundary after the last whole frame.
    pub(crate) fn place(&self) -> FramePlace {
        self.place
    }

    pub(crate) fn next(&mut self) -> io::Result<FrameStep> {
        let mut head = [0; HEAD_BYTES];
        match fill(&mut self.input, &mut head)? {
            0 => return Ok(FrameStep::End),
            HEAD_BYTES => {}
            _ => return Ok(FrameStep::Torn),
        }
        let [a, b, c, d, e, f, g, h, i, j, k, l] = head;
        let length = [a, b, c, d];
        let head_check = crc32c::crc32c_append(self.place.check, &length);
        let text_bytes = u32::from_le_bytes(length) as usize;
        let is_length_right = head_check == u32::from_le_bytes([e, f, g, h]);
        if !is_length_right || text_bytes == 0 || text_bytes > FRAME_TEXT_BYTES_MAX {
            return Ok(FrameStep::Damaged);
        }
        self.text.resize(text_bytes, 0);
        if fill(&mut self.input, &mut self.text)? < text_bytes {
            return Ok(FrameStep::Torn);
        }
        let text_check = crc32c::crc32c_append(head_check, &self.text);
        if text_check != u32::from_le_bytes([i, j, k, l]) {
            return Ok(FrameStep::Damaged);
        }
        self.place = FramePlace {
            offset: self.place.offset + (HEAD_BYTES + text_bytes) as u64,
            text_bytes: self.place.text_bytes + text_bytes as u64,
            check: text_check,
        };
        Ok(FrameStep::Frame)
    }

    /// Walks to the last whole frame; returns what stands after it.
    pub(crate) fn walk_to_end(&mut self) -> io::Result<FrameStep> {
        loop {
            let step = self.next()?;
            if step != FrameStep::Frame {
                return Ok(step);
            }
        }
    }

    /// At most about `max` bytes of text from text byte `from` on, which is at or after the place.
    /// Moves to the boundary before the last frame that was used.
    ///
    /// # Errors
    /// [`StoreError::DamagedText`] if a damaged frame comes before the first byte asked for.
    pub(crate) fn read_text(
        &mut self,
        from: u64,
        max: usize,
    ) -> Result<(Vec<u8>, FramePlace), StoreError> {
        let mut bytes = Vec::new();
        loop {
            let before = self.place;
            let step = self.next()?;
            if step == FrameStep::Damaged && bytes.is_empty() {
                return Err(StoreError::DamagedText);
            }
            if step != FrameStep::Frame {
                return Ok((bytes, before));
            }
            if self.place.text_bytes <= from {
                continue;
            }
            let skip = usize::try_from(from.saturating_sub(before.text_bytes)).unwrap_or(0);
            bytes.extend_from_slice(self.text.get(skip..).unwrap_or_default());
            // Four more than asked for: the longest character, which is cut later if need be.
            if bytes.len() >= max.saturating_add(4) {
                return Ok((bytes, before));
            }
        }
    }
}

/// The text of a framed `partial` as a stream; ends with an error where a frame is not whole.
pub(crate) struct FramedText {
    frames: FrameReader,
    used: usize,
}

impl FramedText {
    pub(crate) fn new(frames: FrameReader) -> Self {
        Self { frames, used: 0 }
    }
}

impl Read for FramedText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.frames.text.len() {
            self.frames.text.clear();
            self.used = 0;
            match self.frames.next()? {
                FrameStep::Frame => {}
                FrameStep::End => return Ok(0),
                FrameStep::Torn => return Err(io::ErrorKind::UnexpectedEof.into()),
                FrameStep::Damaged => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        let rest = &self.frames.text[self.used..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.used += count;
        Ok(count)
    }
}

/// Fills `buffer` as far as the input goes; returns how far that was.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
