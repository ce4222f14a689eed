//! Checking a whole session, blobs included, without a lock and beside a running writer.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use domain::EventSeq;

use crate::blobs::{self, BlobDir, BlobSource};
use crate::partial::{Ending, FrameReader, FrameStep, Front, Layout};
use crate::scan::{Place, Scanner, Step};
use crate::storage::{Access, StoredFile};
use crate::store::SessionDir;
use crate::{StoreError, partial, record};

/// Times an end is looked at before it is believed to be torn or damaged: its writer may be just
/// finishing it, or a recovery cutting it.
const LOOKS_MAX: usize = 4;

/// What checking a session found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Whole events, up to the damage if there is any.
    pub events: u64,
    /// Bytes in the log.
    pub bytes: u64,
    /// Long strings beside the log that were compared with their names, once per event.
    pub blobs: u64,
    /// Bytes in them.
    pub blob_bytes: u64,
    /// Bytes of a write that did not finish. Not damage: opening the session cuts them.
    pub torn_bytes: u64,
    /// The first event that cannot be read, or whose long string is missing or wrong.
    pub damaged_at: Option<EventSeq>,
    /// The text of a message that was being streamed is not what was written.
    pub is_text_damaged: bool,
}

/// See [`crate::FileStore::verify`].
pub(crate) fn verify(dir: &SessionDir) -> Result<Verified, StoreError> {
    let events = dir.open("events.jsonl", Access::Read)?;
    let mut verified = Verified::default();
    let mut place = Place::START;
    for _ in 0..LOOKS_MAX {
        place = walk(dir, &events, place, &mut verified)?;
        if verified.torn_bytes == 0 && verified.damaged_at.is_none() {
            break;
        }
        std::thread::yield_now();
    }
    verified.bytes = events.len()?;
    verified.is_text_damaged = is_text_damaged(dir)?;
    Ok(verified)
}

/// Whether `partial` holds bytes that were not written so. The end of an unfinished write is not.
fn is_text_damaged(dir: &SessionDir) -> Result<bool, StoreError> {
    let file = match dir.open("partial", Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    for _ in 0..LOOKS_MAX {
        let damaged = match partial::read_front(&*file)? {
            Front::Unwritten => false,
            Front::Damaged => true,
            Front::Header(header) => match header.layout {
                Layout::Bare => {
                    partial::whole_characters(&*file, header.bytes)?.1 == Ending::Garbage
                }
                Layout::Framed { .. } => {
                    let ahead = file.len()?;
                    let mut frames = FrameReader::new(Arc::clone(&file), header.start(), ahead);
                    frames.walk_to_end()? == FrameStep::Damaged
                }
            },
        };
        if !damaged {
            return Ok(false);
        }
        std::thread::yield_now();
    }
    Ok(true)
}

/// Checks from `from` on; returns how far all is well.
fn walk(
    dir: &SessionDir,
    events: &Arc<dyn StoredFile>,
    from: Place,
    verified: &mut Verified,
) -> Result<Place, StoreError> {
    let mut scanner = Scanner::new(Arc::clone(events), from)?;
    let blobs = Checked {
        blobs: dir.blobs(),
        count: Cell::new(0),
        bytes: Cell::new(0),
    };
    verified.torn_bytes = 0;
    let mut place = from;
    let damaged = loop {
        match scanner.next()? {
            Step::Record(record) => {
                record::check_format(&record)?;
                match blobs::resolve(record.line, &blobs) {
                    Err(StoreError::DamagedText) => break true,
                    checked => checked?,
                };
                verified.events += 1;
            }
            Step::End => break false,
            Step::Torn => {
                verified.torn_bytes = events.len()?.saturating_sub(place.offset);
                break false;
            }
            Step::Hole if !dir.is_same_boot() => {
                verified.torn_bytes = events.len()?.saturating_sub(place.offset);
                break false;
            }
            Step::Hole | Step::Damaged => break true,
        }
        place = scanner.place();
    };
    verified.damaged_at = damaged.then_some(place.next);
    verified.blobs += blobs.count.get();
    verified.blob_bytes += blobs.bytes.get();
    Ok(place)
}

/// Reads what a line names piece by piece, and keeps nothing of it.
struct Checked<'a> {
    blobs: BlobDir<'a>,
    count: Cell<u64>,
    bytes: Cell<u64>,
}

impl BlobSource for Checked<'_> {
    fn read(&self, sha256: &str) -> Result<String, StoreError> {
        let file = self.blobs.open(sha256)?;
        if !blobs::is_whole(&*file, sha256)? {
            return Err(StoreError::DamagedText);
        }
        self.count.set(self.count.get() + 1);
        self.bytes.set(self.bytes.get() + file.len()?);
        Ok(String::new())
    }
}
