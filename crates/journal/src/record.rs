//! One line of `events.jsonl`: how an event is written, checked and read.
//!
//! `{"seq":1,"ts":1700000000.5,"type":"…", …fields…,"$batch":2,"crc":"0123abcd"}` and a newline.
//! The checksum is CRC-32C over the bytes before `,"crc"`. `$batch` says how many records before this
//! one were not known to be synced when it was written; left out it is 0. [`encode`] writes a line,
//! [`check`] says whether a line is whole and in its place, and [`decode`] gives the event.

use std::borrow::Cow;

use domain::clock::Timestamp;
use domain::event::Unknown;
use domain::limits::{JSON_DEPTH_MAX, RECORD_BYTES_MAX};
use domain::{Event, EventSeq};
use serde::Deserialize;
use serde_json::Value;

use crate::blobs::{self, BlobSource, NewBlob};
use crate::{StoreError, Stored};

/// The journal's own keys, which an event's fields may not use.
const OWN_KEYS: [&str; 5] = ["seq", "ts", "type", BATCH, "crc"];

/// How many records before this one may have been lost with it.
const BATCH: &str = "$batch";

/// The newest format this version reads. A later one is named in its `session.created`.
const FORMAT: u64 = 1;

/// `,"crc":"xxxxxxxx"}`
const TRAILER_BYTES: usize = 18;

/// Appends the line of `stored` to `out`, and to `new_blobs` the strings too long to stand in it.
///
/// `behind`: how many records before it are written but not known to be synced.
///
/// On an error `out` holds what it held before.
pub(crate) fn encode(
    stored: &Stored,
    behind: u64,
    out: &mut Vec<u8>,
    new_blobs: &mut Vec<NewBlob>,
) -> Result<(), StoreError> {
    let start = out.len();
    let result = encode_unchecked(stored, behind, out, new_blobs);
    if result.is_err() || out.len() - start > RECORD_BYTES_MAX {
        out.truncate(start);
        return Err(StoreError::TooLarge);
    }
    Ok(())
}

fn encode_unchecked(
    stored: &Stored,
    behind: u64,
    out: &mut Vec<u8>,
    new_blobs: &mut Vec<NewBlob>,
) -> Result<(), serde_json::Error> {
    let start = out.len();
    let ts = if stored.ts.0.is_finite() {
        stored.ts.0
    } else {
        0.0
    };
    let fields = fields(&stored.event)?;
    let kind = serde_json::to_string(stored.event.kind())?;
    out.extend_from_slice(format!("{{\"seq\":{},\"ts\":", stored.seq).as_bytes());
    serde_json::to_writer(&mut *out, &ts)?;
    out.extend_from_slice(b",\"type\":");
    blobs::push_escaped(out, &kind);
    let inner = fields.get(1..fields.len() - 1).unwrap_or_default();
    if !inner.is_empty() {
        out.push(b',');
        // In these two the one object with the key `$blob` is the text's own.
        let typed_text = matches!(
            stored.event,
            Event::AssistantMessage(_) | Event::AssistantThought(_)
        );
        let depth = blobs::extract(inner, !typed_text, out, new_blobs);
        if depth + 1 > JSON_DEPTH_MAX {
            return Err(serde::ser::Error::custom("nested too deeply"));
        }
    }
    if behind > 0 {
        out.extend_from_slice(format!(",\"{BATCH}\":{behind}").as_bytes());
    }
    let crc = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
    Ok(())
}

/// The event's fields as JSON, without keys that would collide with the journal's own.
fn fields(event: &Event) -> serde_json::Result<String> {
    if let Event::Unknown(unknown) = event
        && OWN_KEYS.iter().any(|key| unknown.fields.contains_key(*key))
    {
        let mut fields = unknown.fields.clone();
        for key in OWN_KEYS {
            fields.shift_remove(key);
        }
        return Event::Unknown(Unknown {
            kind: unknown.kind.clone(),
            fields,
        })
        .fields_to_string();
    }
    event.fields_to_string()
}

/// A line that is whole and in its place.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) seq: EventSeq,
    pub(crate) ts: Timestamp,
    pub(crate) kind: Cow<'a, str>,
    pub(crate) line: &'a str,
    /// Whether it carries a checksum; lines of other tools and older versions do not.
    pub(crate) has_crc: bool,
    /// How many records before it were not known to be synced when it was written.
    pub(crate) behind: u64,
}

/// Why a line is not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsound {
    /// It is cut, overwritten or not JSON: at the end of the file, a write that did not finish.
    Broken,
    /// It is whole but belongs elsewhere: never the trace of a crash.
    Misplaced,
}

/// Checks a line (without its newline) that should be event `expected`.
///
/// `crc_required`: an earlier line had a checksum, so this one must have one as well.
pub(crate) fn check(
    line: &[u8],
    expected: EventSeq,
    crc_required: bool,
) -> Result<Record<'_>, Unsound> {
    let (has_crc, line) = match check_crc(line) {
        Crc::Right => (true, line),
        Crc::Missing if !crc_required => (false, line),
        Crc::Missing | Crc::Wrong => return Err(Unsound::Broken),
    };
    let line = std::str::from_utf8(line).map_err(|_| Unsound::Broken)?;
    // Without a checksum only a whole parse tells a finished line from one that was cut.
    let peeked = if has_crc { peek(line) } else { None };
    let (seq, ts, kind) = match peeked {
        Some(head) => head,
        None => parse_head(line).ok_or(Unsound::Broken)?,
    };
    // Other tools may number by position only.
    let seq = match seq {
        Some(seq) => EventSeq(seq),
        None if !has_crc => expected,
        None => return Err(Unsound::Misplaced),
    };
    if seq != expected {
        return Err(Unsound::Misplaced);
    }
    Ok(Record {
        seq,
        ts: Timestamp(ts),
        kind,
        line,
        has_crc,
        behind: if has_crc { behind(line) } else { 0 },
    })
}

/// Whether a broken line begins with a whole record and goes on: its newline was overwritten.
///
/// No crash does that, and the record may have been acknowledged, so it is not to be cut.
pub(crate) fn swallows_a_record(line: &[u8]) -> bool {
    let trailers = line
        .windows(TRAILER_BYTES + 1)
        .enumerate()
        .filter(|(_, trailer)| trailer.starts_with(b",\"crc\":\"") && trailer[TRAILER_BYTES] != 0);
    trailers
        .map(|(at, _)| &line[..at + TRAILER_BYTES])
        .any(|record| matches!(check_crc(record), Crc::Right))
}

/// Of a whole record at any place: its number, and how many before it may be lost with it.
pub(crate) fn written_with(line: &[u8]) -> Option<(EventSeq, u64)> {
    if !matches!(check_crc(line), Crc::Right) {
        return None;
    }
    let line = std::str::from_utf8(line).ok()?;
    let (seq, _, _) = peek(line).or_else(|| parse_head(line))?;
    Some((EventSeq(seq?), behind(line)))
}

/// Refuses a session that a later version wrote in a way this one would misread.
///
/// # Errors
/// [`StoreError::NewerFormat`].
pub(crate) fn check_format(record: &Record<'_>) -> Result<(), StoreError> {
    #[derive(Deserialize)]
    struct Created {
        format: Option<u64>,
    }
    if record.seq != EventSeq(1) || record.kind != "session.created" {
        return Ok(());
    }
    match serde_json::from_str(record.line) {
        Ok(Created {
            format: Some(format),
        }) if format > FORMAT => Err(StoreError::NewerFormat { format }),
        _ => Ok(()),
    }
}

/// Reads the event of a checked line.
///
/// # Errors
/// [`StoreError::Damaged`] if it is not an object, or names a blob that is missing or wrong;
/// [`StoreError::NewerFormat`] at the first event of a later version.
pub(crate) fn decode(
    record: &Record<'_>,
    blob_source: &dyn BlobSource,
) -> Result<Stored, StoreError> {
    let stored = |event| Stored {
        seq: record.seq,
        ts: record.ts,
        event,
    };
    check_format(record)?;
    let damaged = StoreError::Damaged { at: record.seq };
    if !record.line.contains("$blob\"") {
        return parse_event(&record.kind, record.line)
            .map(stored)
            .ok_or(damaged);
    }
    // The text of a finished message stays a name; whoever shows it reads the blob in pieces.
    if let "assistant.message" | "assistant.thought" = &*record.kind
        && let Some(event @ (Event::AssistantMessage(_) | Event::AssistantThought(_))) =
            parse_event(&record.kind, record.line)
    {
        return Ok(stored(event));
    }
    match blobs::resolve(record.line, blob_source) {
        Ok(line) => parse_event(&record.kind, &line).map(stored).ok_or(damaged),
        Err(StoreError::DamagedText) => Err(damaged),
        Err(error) => Err(error),
    }
}

/// The JSON of a record without what the journal keeps for itself, and with its number.
pub(crate) fn without_own_keys<'a>(record: &Record<'a>) -> Cow<'a, str> {
    if record.has_crc {
        let (fields, _) = split_batch(record.line);
        return Cow::Owned(format!("{fields}}}"));
    }
    // Other tools may number by position only.
    match parse_head(record.line) {
        Some((None, ..)) => {
            let (seq, line) = (record.seq, record.line.trim_start());
            // An object with any key has a colon.
            let comma = if line.contains(':') { "," } else { "" };
            let fields = line.strip_prefix('{').unwrap_or(line);
            Cow::Owned(format!("{{\"seq\":{seq}{comma}{fields}"))
        }
        _ => Cow::Borrowed(record.line),
    }
}

/// How many records before it were not known to be synced when a line with checksum was written.
fn behind(line: &str) -> u64 {
    split_batch(line).1
}

/// A line with checksum without its end: what stands before `$batch`, and its number.
fn split_batch(line: &str) -> (&str, u64) {
    let body = line.get(..line.len().saturating_sub(TRAILER_BYTES));
    let body = body.unwrap_or_default();
    let key = body.trim_end_matches(|c: char| c.is_ascii_digit());
    match key.strip_suffix(",\"$batch\":") {
        Some(fields) => (fields, body[key.len()..].parse().unwrap_or(0)),
        None => (body, 0),
    }
}

fn parse_event(kind: &str, line: &str) -> Option<Event> {
    let mut event = Event::from_json(kind, line)
        .or_else(|_| Event::from_json(kind, &replace_lone_surrogates(line)))
        .ok()?;
    if let Event::Unknown(unknown) = &mut event {
        unknown.fields.shift_remove(BATCH);
    }
    Some(event)
}

enum Crc {
    Right,
    Wrong,
    Missing,
}

fn check_crc(line: &[u8]) -> Crc {
    let Some(at) = line.len().checked_sub(TRAILER_BYTES) else {
        return Crc::Missing;
    };
    let (body, trailer) = line.split_at(at);
    let wanted = format!(",\"crc\":\"{:08x}\"}}", crc32c::crc32c(body));
    if trailer == wanted.as_bytes() {
        return Crc::Right;
    }
    // A flipped bit in the trailer must not make the line pass for one without a checksum.
    let fixed = (0..8).chain(16..18);
    let alike = fixed
        .filter(|&i| trailer[i] == wanted.as_bytes()[i])
        .count();
    if alike >= 8 { Crc::Wrong } else { Crc::Missing }
}

type Head<'a> = (Option<u64>, f64, Cow<'a, str>);

/// Takes `seq`, `ts` and `type` from the front of a line that we wrote, without parsing the rest.
fn peek(line: &str) -> Option<Head<'_>> {
    let rest = line.strip_prefix("{\"seq\":")?;
    let (seq, rest) = rest.split_once(",\"ts\":")?;
    let (ts, rest) = rest.split_once(",\"type\":\"")?;
    let (kind, rest) = rest.split_once('"')?;
    if kind.contains('\\') || !matches!(rest.as_bytes().first(), Some(b',' | b'}')) {
        return None;
    }
    Some((
        Some(seq.parse().ok()?),
        ts.parse().ok()?,
        Cow::Borrowed(kind),
    ))
}

/// The same from any JSON object, however its keys are ordered and whatever else it holds.
fn parse_head(line: &str) -> Option<Head<'static>> {
    #[derive(Deserialize)]
    struct Loose {
        seq: Option<Value>,
        ts: Option<Value>,
        #[serde(rename = "type")]
        kind: Option<Value>,
    }
    let head: Loose = serde_json::from_str(line)
        .or_else(|_| serde_json::from_str(&replace_lone_surrogates(line)))
        .ok()?;
    let seq = match head.seq {
        Some(value) => Some(value.as_u64()?),
        None => None,
    };
    let ts = head.ts.and_then(|ts| ts.as_f64()).unwrap_or_default();
    let kind = head.kind.and_then(|kind| kind.as_str().map(str::to_owned));
    Some((seq, ts, Cow::Owned(kind.unwrap_or_default())))
}

/// Turns each escaped half of a surrogate pair that stands alone into U+FFFD.
///
/// Other tools write such escapes; no Rust string can hold them. The file keeps what it has.
pub(crate) fn replace_lone_surrogates(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let keep = match escaped_unit(rest) {
            Some(0xD800..=0xDBFF)
                if matches!(rest.get(6..).and_then(escaped_unit), Some(0xDC00..=0xDFFF)) =>
            {
                12
            }
            Some(0xD800..=0xDFFF) => {
                out.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            Some(_) => 6,
            // A backslash and the character it escapes, which may be a backslash.
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..keep]);
        rest = &rest[keep..];
    }
    out.push_str(rest);
    out
}

/// The code unit of a `\uXXXX` at the start of `text`.
fn escaped_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests;
