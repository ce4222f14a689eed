//! Opening a session after whatever happened to it.
//!
//! [`open`] reads the whole log once, cuts a torn end, ends the message that was being streamed,
//! and raises the epoch when clients may have seen what is lost. The session has its [`Writer`]
//! only when all of that is on disk.

use std::io;
use std::sync::Arc;

use domain::EventSeq;
use domain::clock::Timestamp;
use domain::event::SessionRecovered;

use crate::lock::Lock;
use crate::message::OpenMessage;
use crate::meta::{Fold, Started};
use crate::partial::{self, Ending, FramePlace, FrameReader, FrameStep, Front, Header, Layout};
use crate::scan::{Place, Scanner, Step};
use crate::storage::{Access, CHUNK_BYTES, StoredFile, read_full_at, write_all_at};
use crate::store::SessionDir;
use crate::{Entry, StoreError, Stored, Writer, cut, record};

/// The least that a disk writes at once, so that what it lost ends at a multiple of this.
const SECTOR_BYTES: u64 = 512;

/// What opening a session found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of an unfinished write that were moved to `events.torn`.
    pub cut_bytes: u64,
    /// Set when the epoch was raised: cursors at or past this event are void.
    pub void_from: Option<EventSeq>,
    /// The `message.started` of a message that recovery ended.
    pub ended_message: Option<EventSeq>,
}

/// See [`crate::FileStore::open_session`].
pub(crate) fn open(
    dir: SessionDir,
    now: Timestamp,
    visit: &mut dyn FnMut(&Stored),
) -> Result<(Writer, Recovery), StoreError> {
    let lock = Lock::take(dir.storage(), &dir.name, Access::Write)?;
    let same_boot = lock.is_same_boot(dir.storage());
    let events = Arc::clone(lock.events());
    let scanned = scan(&dir, &events, same_boot, visit)?;
    let epoch = scanned.fold.meta.epoch;
    // Of an earlier opening that did not get to its end.
    let cut_before = cut::is_untold(&dir, epoch)?;
    let cut_bytes = match scanned.torn {
        true => cut::cut(&dir, &*events, scanned.end, epoch + 1)?,
        false => 0,
    };
    let len = end_last_line(&*events, &scanned)?;
    write_again(&*events, scanned.last_batch, len)?;
    // A dead process may have written without syncing what is about to be shown.
    events.sync()?;
    let new_partial = !dir.storage().exists(&dir.path("partial"))?;
    if new_partial || !lock.was_settled() {
        dir.open("partial", Access::Create)?;
        dir.storage().sync_dir(&dir.name)?;
        dir.storage().sync_dir("")?;
    }
    let found = find_text(&dir, &scanned.fold, same_boot)?;

    let ended_message = found.message.as_ref().map(|message| message.started);
    let was_busy = scanned.fold.turn_open || ended_message.is_some();
    let cut = cut_bytes > 0 || cut_before;
    let lost = cut || found.garbage || (!same_boot && was_busy);
    let void_from = lost.then(|| ended_message.unwrap_or(scanned.end.next));
    let mut entries = Vec::new();
    if let Some(from) = void_from {
        let epoch = epoch + 1;
        // First, so that no part of what follows can be there without it.
        entries.push(Entry::Event(SessionRecovered { epoch, from }.into()));
    }
    if ended_message.is_some() {
        entries.push(Entry::EndMessage { partial: true });
    }
    let mut writer = Writer::new(dir, lock, len, scanned.fold.meta);
    writer.adopt(found.message);
    for stored in writer.append(entries, now)? {
        visit(&stored);
    }
    if cut {
        cut::told(writer.dir());
    }
    writer.settle();
    let recovery = Recovery {
        cut_bytes,
        void_from,
        ended_message,
    };
    Ok((writer, recovery))
}

/// The log as read to its last whole record.
struct Scanned {
    fold: Fold,
    end: Place,
    torn: bool,
    /// Where the records begin that may not have been synced.
    last_batch: u64,
    /// The last record, of another tool, lacks its newline.
    unterminated: bool,
}

fn scan(
    dir: &SessionDir,
    events: &Arc<dyn StoredFile>,
    same_boot: bool,
    visit: &mut dyn FnMut(&Stored),
) -> Result<Scanned, StoreError> {
    let damaged = |at| {
        dir.note_damage(at);
        StoreError::Damaged { at }
    };
    // What a failed sync left in doubt was never acknowledged.
    let doubtful = dir.doubtful().unwrap_or(u64::MAX);
    let mut fold = Fold::new(dir.id);
    let mut scanner = Scanner::new(Arc::clone(events), Place::START)?;
    let mut last_batch = 0;
    let torn = loop {
        let Place { offset, next, .. } = scanner.place();
        match scanner.next()? {
            Step::Record(record) => {
                let stored = match record::decode(&record, &dir.blobs()) {
                    Err(StoreError::Damaged { at }) => return Err(damaged(at)),
                    decoded => decoded?,
                };
                if record.behind == 0 {
                    last_batch = offset;
                }
                fold.apply(&stored);
                visit(&stored);
            }
            Step::End => break false,
            Step::Torn => break true,
            Step::Hole if !same_boot || offset >= doubtful => break true,
            Step::Hole | Step::Damaged => return Err(damaged(next)),
        }
    };
    dir.note_sound();
    Ok(Scanned {
        fold,
        end: scanner.place(),
        torn,
        last_batch,
        unterminated: scanner.is_unterminated(),
    })
}

/// Writes the last batch once more, so that the kernel owes it to the disk again: if its sync
/// failed, in this process or in one that died since, the kernel may call it clean though it never
/// got there.
fn write_again(events: &dyn StoredFile, from: u64, to: u64) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = from;
    while offset < to {
        let left = usize::try_from(to - offset).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let count = read_full_at(events, &mut buffer[..left], offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_all_at(events, &buffer[..count], offset)?;
        offset += count as u64;
    }
    Ok(())
}

/// Gives the last line its newline if another tool left it out; returns the length of the log.
fn end_last_line(events: &dyn StoredFile, scanned: &Scanned) -> io::Result<u64> {
    if !scanned.unterminated {
        return Ok(scanned.end.offset);
    }
    write_all_at(events, b"\n", scanned.end.offset)?;
    Ok(scanned.end.offset + 1)
}

/// What `partial` holds for the message that was open.
#[derive(Default)]
struct Found {
    message: Option<OpenMessage>,
    /// The text ended in bytes that are not what was written, and is cut before them.
    garbage: bool,
}

/// Finds the text of the open message. A `partial` that belongs to no open message is emptied.
fn find_text(dir: &SessionDir, fold: &Fold, same_boot: bool) -> io::Result<Found> {
    let file = dir.open("partial", Access::Write)?;
    let front = partial::read_front(&*file)?;
    let own = |open: &Started| match front {
        Front::Header(header) if header.seq == open.seq => Some(header),
        Front::Header(_) | Front::Unwritten | Front::Damaged => None,
    };
    let header = fold.message.as_ref().and_then(own);
    if header.is_none() && file.len()? > 0 {
        file.truncate(0)?;
        // Its number may be given again; after a power loss the old text must not come back.
        file.sync()?;
    }
    let Some(open) = &fold.message else {
        return Ok(Found::default());
    };
    let Some(header) = header else {
        // Nothing is written before its header, and an older one is a leftover. Otherwise there
        // was text that clients may have seen.
        let is_leftover = matches!(front, Front::Header(header) if header.seq < open.seq);
        let header = Header::new(open.seq);
        let place = header.start();
        return Ok(Found {
            garbage: front != Front::Unwritten && !is_leftover,
            message: Some(OpenMessage::found(open, file, header, place)),
        });
    };
    let (place, ending) = match header.layout {
        Layout::Bare => end_of_bare_text(&*file, header, same_boot)?,
        Layout::Framed { .. } => end_of_frames(&file, header)?,
    };
    Ok(Found {
        message: Some(OpenMessage::found(open, file, header, place)),
        garbage: ending == Ending::Garbage,
    })
}

/// Where the sound frames end, and what stands after them.
fn end_of_frames(file: &Arc<dyn StoredFile>, header: Header) -> io::Result<(FramePlace, Ending)> {
    let mut frames = FrameReader::new(Arc::clone(file), header.start(), file.len()?);
    let ending = match frames.walk_to_end()? {
        FrameStep::Frame | FrameStep::End => Ending::Whole,
        FrameStep::Torn => Ending::Cut,
        FrameStep::Damaged => Ending::Garbage,
    };
    Ok((frames.place(), ending))
}

/// Where the text of an earlier version ends, which has no checksums, and how.
fn end_of_bare_text(
    file: &dyn StoredFile,
    header: Header,
    same_boot: bool,
) -> io::Result<(FramePlace, Ending)> {
    let (bytes, ending) = partial::whole_characters(file, header.bytes)?;
    let text_bytes = if same_boot {
        bytes
    } else {
        without_holes(file, header.bytes, bytes)?
    };
    let start = header.start();
    let place = FramePlace {
        offset: start.offset + text_bytes,
        text_bytes,
        ..start
    };
    Ok((place, ending))
}

/// How many of `len` bytes from `from` on stand before the first hole that a power loss left:
/// zeros up to the end, or up to where a sector of the disk ends. Other zeros are text. (A model's
/// own NUL in such a place is taken for a hole, which costs the text after it.)
fn without_holes(file: &dyn StoredFile, from: u64, len: u64) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut offset, mut zeros_from) = (0, None);
    while offset < len {
        let left = usize::try_from(len - offset).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let count = read_full_at(file, &mut buffer[..left], from + offset)?;
        if count == 0 {
            break;
        }
        for (at, byte) in (offset..).zip(&buffer[..count]) {
            match (byte, zeros_from) {
                (0, None) => zeros_from = Some(at),
                (0, Some(_)) | (_, None) => {}
                (_, Some(start)) if (from + at).is_multiple_of(SECTOR_BYTES) => return Ok(start),
                (_, Some(_)) => zeros_from = None,
            }
        }
        offset += count as u64;
    }
    Ok(zeros_from.unwrap_or(len))
}
