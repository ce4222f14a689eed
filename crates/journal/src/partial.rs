//! The file `partial`: the text of the message being streamed.
//!
//! One line `{"seq":N}` names the `message.started` it belongs to; the raw text follows. It is
//! only ever truncated and begun anew, with a higher N, so a reader who finds the same line before
//! and after reading has read that message's text.

use std::io;

use domain::EventSeq;

use crate::StoreError;
use crate::storage::{CHUNK_BYTES, StoredFile, read_full_at};

/// The first line for the message that event `started` opened.
pub(crate) fn header(started: EventSeq) -> String {
    format!("{{\"seq\":{started}}}\n")
}

/// Which message the file belongs to, and how long its first line is.
pub(crate) fn read_header(file: &dyn StoredFile) -> io::Result<Option<(EventSeq, u64)>> {
    // Room for the line with the longest number.
    let mut buffer = [0; 32];
    let count = read_full_at(file, &mut buffer, 0)?;
    let bytes = &buffer[..count];
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return Ok(None);
    };
    let seq = std::str::from_utf8(&bytes[..end]).ok().and_then(|line| {
        line.strip_prefix("{\"seq\":")?
            .strip_suffix('}')?
            .parse()
            .ok()
    });
    Ok(seq.map(|seq| (EventSeq(seq), end as u64 + 1)))
}

/// Reads at most `max` bytes from `from` on, cut at the last whole character.
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

/// How many bytes from `from` on are whole characters, and whether all that was left out is one
/// character cut short, as a write that did not finish leaves it.
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
    /// With a whole character.
    Whole,
    /// In the middle of a character: its write did not finish, so nobody saw it.
    Cut,
    /// With bytes that are no text.
    Garbage,
}
