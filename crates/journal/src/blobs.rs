//! Strings too long for a line: how they leave it, where they live, and how they come back.
//!
//! In a line `{"$blob":"<sha256>"}` stands for the string in `blobs/<sha256>`; a real key `$blob`
//! gains a `$` when written and loses it when read. [`extract`] and [`resolve`] do that on JSON
//! text, [`BlobDir`] keeps the files.

use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use domain::limits::{BLOB_BYTES_MIN, RECORD_BYTES_MAX};
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::storage::{
    Access, CHUNK_BYTES, Storage, StoredFile, gone_is_fine, read_full_at, write_all_at,
};

/// A text from which on storing it is no matter of a moment. It is taken in pieces, with pauses, so
/// that a session that floods does not hold up the others whenever one of its messages ends.
const LONG_BYTES: u64 = 1024 * 1024;

/// The pause after each piece of a long text: as long as the piece takes, or a little longer.
const LONG_PAUSE: Duration = Duration::from_micros(500);

/// Bytes of a long text after which it is synced: all of it at once would keep the disk busy.
const LONG_SYNC_BYTES: u64 = 4 * 1024 * 1024;

/// A string that left its line and must be stored before the line is.
pub(crate) struct NewBlob {
    pub(crate) sha256: String,
    pub(crate) text: String,
}

impl NewBlob {
    pub(crate) fn new(text: String) -> Self {
        let sha256 = hex(Sha256::digest(text.as_bytes()).as_slice());
        Self { sha256, text }
    }
}

/// Where the strings that lines name are read from.
pub(crate) trait BlobSource {
    /// The whole string; [`StoreError::DamagedText`] if it is missing or not what was stored,
    /// [`StoreError::NotFound`] if the session was deleted.
    fn read(&self, sha256: &str) -> Result<String, StoreError>;
}

/// The directory `blobs` of one session.
pub(crate) struct BlobDir<'a> {
    pub(crate) storage: &'a dyn Storage,
    /// The session's directory.
    pub(crate) session: &'a str,
}

impl BlobDir<'_> {
    /// Stores a string, durable but for its name: call [`Self::sync`] before anything names it.
    pub(crate) fn store(&self, blob: &NewBlob) -> io::Result<()> {
        let file = self.begin()?;
        write_all_at(&*file, blob.text.as_bytes(), 0)?;
        self.finish(&*file, &blob.sha256)
    }

    /// Stores the first `len` bytes of `source`, as [`Self::store`] does, and names them.
    ///
    /// # Errors
    /// What made reading or writing fail; `source` may end too early or say that it is damaged.
    pub(crate) fn store_text(&self, source: &mut dyn Read, len: u64) -> io::Result<String> {
        let file = self.begin()?;
        let mut digest = Sha256::new();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut copied = 0;
        while copied < len {
            let wanted = usize::try_from(len - copied).map_or(CHUNK_BYTES, |n| n.min(CHUNK_BYTES));
            let piece = &mut buffer[..wanted];
            source.read_exact(piece)?;
            digest.update(&*piece);
            write_all_at(&*file, piece, copied)?;
            copied += wanted as u64;
            if len > LONG_BYTES {
                // Other sessions need this processor and this disk as well.
                std::thread::sleep(LONG_PAUSE);
                if copied.is_multiple_of(LONG_SYNC_BYTES) {
                    file.sync()?;
                }
            }
        }
        let sha256 = hex(digest.finalize().as_slice());
        self.finish(&*file, &sha256)?;
        Ok(sha256)
    }

    /// Makes the names of all stored blobs durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.storage.sync_dir(&self.dir())?;
        // The directory itself may be new, or left unsynced by a process that died.
        self.storage.sync_dir(self.session)
    }

    /// Opens a blob to be read piece by piece.
    pub(crate) fn open(&self, sha256: &str) -> Result<Arc<dyn StoredFile>, StoreError> {
        // The name comes from a file that others may have touched; it must not lead elsewhere.
        if !is_sha256(sha256.as_bytes()) {
            return Err(StoreError::DamagedText);
        }
        let path = format!("{}/{sha256}", self.dir());
        let opened = self.storage.open(&path, Access::Read);
        match opened.map_err(StoreError::from) {
            // Whoever still reads a session that is being deleted has not found damage.
            Err(StoreError::NotFound) if !self.storage.exists(self.session)? => {
                Err(StoreError::NotFound)
            }
            Err(StoreError::NotFound | StoreError::NotPlain) => Err(StoreError::DamagedText),
            other => other,
        }
    }

    /// Always a new file, even where the name exists: what is there may be damaged.
    fn begin(&self) -> io::Result<Arc<dyn StoredFile>> {
        let dir = self.dir();
        if !self.storage.exists(&dir)? {
            self.storage.create_dir(&dir)?;
        }
        // Not written over: a power loss may have left a stored blob under this name too.
        gone_is_fine(self.storage.remove_file(&self.unfinished()))?;
        self.storage.open(&self.unfinished(), Access::Create)
    }

    fn finish(&self, file: &dyn StoredFile, sha256: &str) -> io::Result<()> {
        file.sync()?;
        self.storage
            .rename(&self.unfinished(), &format!("{}/{sha256}", self.dir()))
    }

    fn dir(&self) -> String {
        format!("{}/blobs", self.session)
    }

    /// One name is enough: a session has one writer.
    fn unfinished(&self) -> String {
        format!("{}/blobs/new", self.session)
    }
}

impl BlobSource for BlobDir<'_> {
    fn read(&self, sha256: &str) -> Result<String, StoreError> {
        let file = self.open(sha256)?;
        let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        if len > RECORD_BYTES_MAX {
            return Err(StoreError::DamagedText);
        }
        let mut bytes = vec![0; len];
        let read = read_full_at(&*file, &mut bytes, 0)?;
        bytes.truncate(read);
        if hex(Sha256::digest(&bytes).as_slice()) != sha256 {
            return Err(StoreError::DamagedText);
        }
        String::from_utf8(bytes).map_err(|_| StoreError::DamagedText)
    }
}

/// Reads a blob through and says whether it is what its name promises.
pub(crate) fn is_whole(file: &dyn StoredFile, sha256: &str) -> io::Result<bool> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let count = read_full_at(file, &mut buffer, offset)?;
        digest.update(&buffer[..count]);
        offset += count as u64;
        if count < CHUNK_BYTES {
            return Ok(hex(digest.finalize().as_slice()) == sha256);
        }
    }
}

/// Copies compact JSON `json` to `out` with long strings moved to `new_blobs`, real `$blob` keys
/// marked (if `mark_keys`) and characters that break lines escaped. Returns the deepest nesting.
pub(crate) fn extract(
    json: &str,
    mark_keys: bool,
    out: &mut Vec<u8>,
    new_blobs: &mut Vec<NewBlob>,
) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for token in tokens(json) {
        match token {
            Token::Key(key) if mark_keys && is_blob_key(key) => {
                out.extend_from_slice(b"\"$");
                out.extend_from_slice(&key.as_bytes()[1..]);
            }
            Token::Text(text) if text.len() > BLOB_BYTES_MIN => match long_string(text) {
                Some(long) => {
                    let blob = NewBlob::new(long);
                    out.extend_from_slice(format!("{{\"$blob\":\"{}\"}}", blob.sha256).as_bytes());
                    new_blobs.push(blob);
                    deepest = deepest.max(depth + 1);
                }
                None => push_escaped(out, text),
            },
            Token::Key(string) | Token::Text(string) => push_escaped(out, string),
            Token::Other(other) => {
                for byte in other.bytes() {
                    match byte {
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    deepest = deepest.max(depth);
                }
                out.extend_from_slice(other.as_bytes());
            }
        }
    }
    deepest
}

/// Undoes [`extract`]: puts strings back in place of their names and unmarks real keys.
pub(crate) fn resolve(json: &str, source: &dyn BlobSource) -> Result<String, StoreError> {
    let mut out = String::with_capacity(json.len());
    for part in parts(json) {
        match part {
            Part::Json(json) => out.push_str(&json),
            Part::Name(sha256) => {
                let text = serde_json::to_string(&source.read(sha256)?);
                out.push_str(&text.map_err(|_| StoreError::DamagedText)?);
            }
        }
    }
    Ok(out)
}

/// A piece of what [`extract`] wrote.
pub(crate) enum Part<'a> {
    /// JSON text, real keys unmarked.
    Json(Cow<'a, str>),
    /// The name of a long string, in whose place it stands.
    Name(&'a str),
}

/// The pieces of `json` in order.
pub(crate) fn parts(json: &str) -> impl Iterator<Item = Part<'_>> {
    const OPEN: &str = "{\"$blob\":\"";
    let mut rest = json;
    std::iter::from_fn(move || {
        let name = rest.strip_prefix(OPEN).and_then(|tail| tail.get(..64));
        if let Some(name) = name
            && is_sha256(name.as_bytes())
            && rest[OPEN.len() + 64..].starts_with("\"}")
        {
            rest = &rest[OPEN.len() + 66..];
            return Some(Part::Name(name));
        }
        let (piece, used) = match tokens(rest).next()? {
            Token::Key(key) if key.starts_with("\"$$") && is_blob_key(key) => {
                (format!("\"{}", &key[2..]).into(), key.len())
            }
            // A name opens with the brace that ends this token.
            Token::Other(other) if other.len() > 1 && other.ends_with('{') => {
                (Cow::Borrowed(&other[..other.len() - 1]), other.len() - 1)
            }
            Token::Key(text) | Token::Text(text) | Token::Other(text) => {
                (Cow::Borrowed(text), text.len())
            }
        };
        rest = &rest[used..];
        Some(Part::Json(piece))
    })
}

/// Appends JSON text with DEL, the C1 controls, U+2028 and U+2029 escaped, so that every reader
/// sees one line. What JSON itself must escape is escaped already.
pub(crate) fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let (escape, used) = match (byte, &bytes[at + 1..]) {
            (0x7F, _) => ("\\u007f".to_owned(), 1),
            (0xC2, [low @ 0x80..=0x9F, ..]) => (format!("\\u00{low:02x}"), 2),
            (0xE2, [0x80, low @ (0xA8 | 0xA9), ..]) => (format!("\\u20{:02x}", low - 0x80), 3),
            _ => continue,
        };
        out.extend_from_slice(&bytes[copied..at]);
        out.extend_from_slice(escape.as_bytes());
        copied = at + used;
    }
    out.extend_from_slice(&bytes[copied..]);
}

/// A piece of JSON text; strings keep their quotes.
enum Token<'a> {
    Key(&'a str),
    Text(&'a str),
    /// Everything between two strings.
    Other(&'a str),
}

fn tokens(json: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = json;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = if rest.starts_with('"') {
            string_len(rest)
        } else {
            rest.find('"').unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(len);
        let is_string = token.starts_with('"');
        rest = after;
        Some(match is_string {
            true if after.trim_start().starts_with(':') => Token::Key(token),
            true => Token::Text(token),
            false => Token::Other(token),
        })
    })
}

/// Length of the string literal, quotes included, that `text` starts with.
fn string_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The string that a long literal stands for, if it is itself too long for a line.
fn long_string(literal: &str) -> Option<String> {
    let text: String = serde_json::from_str(literal).ok()?;
    (text.len() > BLOB_BYTES_MIN).then_some(text)
}

/// Whether a key, in its quotes, is `$blob` with any number of further `$` before it.
fn is_blob_key(key: &str) -> bool {
    key.trim_matches('"')
        .strip_suffix("blob")
        .is_some_and(|dollars| !dollars.is_empty() && dollars.bytes().all(|byte| byte == b'$'))
}

fn is_sha256(name: &[u8]) -> bool {
    name.len() == 64
        && name
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}
