//! A new session from the first events of another.
//!
//! The log is copied byte by byte, so that what this version does not understand survives; the
//! copy is then read as any log is, and the blobs that it names are copied after it. Not linked:
//! a file with a second name is refused everywhere else, because somebody may have planted it.

use std::io;
use std::sync::Arc;

use domain::EventSeq;

use crate::blobs::{self, BlobDir, BlobSource};
use crate::scan::{Place, Scanner, Step};
use crate::storage::{Access, CHUNK_BYTES, StoredFile, Stream, read_full_at, write_all_at};
use crate::store::SessionDir;
use crate::{StoreError, record};

/// Where a fork of `source` at `at` ends its copy: after `at`, or, if that lies inside a turn,
/// after the last finished turn before it.
///
/// # Errors
/// [`StoreError::NoFork`] if nothing is left, or there is no such event yet.
pub(crate) fn find_end(source: &SessionDir, at: EventSeq) -> Result<Place, StoreError> {
    let events = source.open("events.jsonl", Access::Read)?;
    let mut scanner = Scanner::new(events, Place::START)?;
    let mut turns = Turns::default();
    let mut place = Place::START;
    while place.next <= at {
        match scanner.next()? {
            Step::Record(record) => {
                record::check_format(&record)?;
                let kind = record.kind.into_owned();
                turns.pass(&kind, scanner.place());
            }
            Step::End | Step::Torn => return Err(StoreError::NoFork { at }),
            Step::Hole if !source.is_same_boot() => return Err(StoreError::NoFork { at }),
            Step::Hole | Step::Damaged => return Err(StoreError::Damaged { at: place.next }),
        }
        place = scanner.place();
    }
    // A prompt stands before the `turn.started` it belongs to.
    if let Step::Record(record) = scanner.next()?
        && turns.prompted
    {
        turns.open |= record.kind == "turn.started";
    }
    let end = match turns.open || turns.message_open {
        false => place,
        true => turns.last_end.or(turns.last_quiet).unwrap_or(Place::START),
    };
    if end == Place::START {
        return Err(StoreError::NoFork { at });
    }
    Ok(end)
}

/// Fills the new log `to` of the session `into` with what `from` holds up to `end`, and copies the
/// blobs that it names. Nothing is synced but the blobs; returns the length of the log.
pub(crate) fn copy(
    from: &SessionDir,
    end: Place,
    into: &SessionDir,
    to: &Arc<dyn StoredFile>,
) -> Result<u64, StoreError> {
    let len = copy_bytes(&*from.open("events.jsonl", Access::Read)?, end, &**to)?;
    let copied = Copied {
        from: from.blobs(),
        into: into.blobs(),
    };
    let mut scanner = Scanner::new(Arc::clone(to), Place::START)?;
    let mut named = false;
    loop {
        let at = scanner.place().next;
        match scanner.next()? {
            Step::Record(record) => {
                named |= record.line.contains("$blob\"");
                match blobs::resolve(record.line, &copied) {
                    Err(StoreError::DamagedText) => return Err(StoreError::Damaged { at }),
                    other => other?,
                };
            }
            Step::End if at == end.next => break,
            // Somebody cut the source while it was read.
            Step::End | Step::Torn | Step::Hole | Step::Damaged => {
                return Err(StoreError::Damaged { at });
            }
        }
    }
    if named && into.storage().exists(&into.path("blobs"))? {
        into.blobs().sync()?;
    }
    Ok(len)
}

/// What of the turns must be known to find the end of one.
#[derive(Default)]
struct Turns {
    open: bool,
    message_open: bool,
    /// The last event was a prompt.
    prompted: bool,
    /// After the last finished turn.
    last_end: Option<Place>,
    /// After the last event that stands outside of any turn.
    last_quiet: Option<Place>,
}

impl Turns {
    /// Takes the event of type `kind` into account, after which the log is at `place`.
    fn pass(&mut self, kind: &str, place: Place) {
        match kind {
            "turn.started" => self.open = true,
            "message.started" => self.message_open = true,
            "assistant.message" | "assistant.thought" => self.message_open = false,
            "result" | "turn.interrupted" => self.open = false,
            _ => {}
        }
        self.prompted = kind == "user.message";
        if self.open || self.message_open {
            return;
        }
        if matches!(kind, "result" | "turn.interrupted") {
            self.last_end = Some(place);
        }
        if !self.prompted {
            self.last_quiet = Some(place);
        }
    }
}

fn copy_bytes(from: &dyn StoredFile, end: Place, to: &dyn StoredFile) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut copied = 0;
    let mut last = None;
    while copied < end.offset {
        let left = end.offset - copied;
        let wanted = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let count = read_full_at(from, &mut buffer[..wanted], copied)?;
        if count < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_all_at(to, &buffer[..count], copied)?;
        last = buffer[..count].last().copied();
        copied += count as u64;
    }
    // Another tool's last line may lack its newline.
    if last != Some(b'\n') {
        write_all_at(to, b"\n", copied)?;
        copied += 1;
    }
    Ok(copied)
}

/// Copies what a line names into the new session, and checks it on the way.
struct Copied<'a> {
    from: BlobDir<'a>,
    into: BlobDir<'a>,
}

impl BlobSource for Copied<'_> {
    fn read(&self, sha256: &str) -> Result<String, StoreError> {
        let file = self.from.open(sha256)?;
        if self.into.open(sha256).is_err() {
            let len = file.len()?;
            let stored = self.into.store_text(&mut Stream::new(file, 0), len)?;
            if stored != sha256 {
                return Err(StoreError::DamagedText);
            }
        }
        Ok(String::new())
    }
}
