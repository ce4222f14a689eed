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
use crate::meta::Fold;
use crate::partial::{self, Ending};
use crate::scan::{Place, Scanner, Step};
use crate::storage::{Access, CHUNK_BYTES, StoredFile, read_full_at, write_all_at};
use crate::store::SessionDir;
use crate::{Entry, StoreError, Stored, Writer, record};

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
    let lock = Lock::take(dir.storage(), &dir.name)?;
    let same_boot = lock.is_same_boot(dir.storage());
    let events = dir.open("events.jsonl", Access::Write)?;
    write_doubtful_again(&dir, &*events)?;
    let scanned = scan(&dir, &events, visit)?;
    let cut_bytes = cut_torn(&dir, &*events, &scanned)?;
    let len = end_last_line(&*events, &scanned)?;
    // A dead process may have written without syncing what is about to be shown.
    events.sync()?;
    let new_partial = !dir.storage().exists(&dir.path("partial"))?;
    if new_partial || !lock.was_settled() {
        dir.open("partial", Access::Create)?;
        dir.storage().sync_dir(&dir.name)?;
        dir.storage().sync_dir("")?;
    }
    let found = find_text(&dir, &scanned.fold, same_boot)?;

    let lost = cut_bytes > 0 || found.garbage || (!same_boot && scanned.fold.turn_open);
    let ended_message = found.message.as_ref().map(|message| message.started);
    let void_from = lost.then(|| ended_message.unwrap_or(scanned.end.next));
    let mut entries = Vec::new();
    if let Some(from) = void_from {
        let epoch = scanned.fold.meta.epoch + 1;
        entries.push(Entry::Event(SessionRecovered { epoch, from }.into()));
    }
    if ended_message.is_some() {
        entries.push(Entry::EndMessage { partial: true });
    }
    let mut writer = Writer::new(dir, lock, events, len, scanned.fold.meta);
    writer.adopt(found.message);
    for stored in writer.append(entries, now)? {
        visit(&stored);
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
    /// The last record, of another tool, lacks its newline.
    unterminated: bool,
}

fn scan(
    dir: &SessionDir,
    events: &Arc<dyn StoredFile>,
    visit: &mut dyn FnMut(&Stored),
) -> Result<Scanned, StoreError> {
    let mut fold = Fold::new(dir.id);
    let mut scanner = Scanner::new(Arc::clone(events), Place::START)?;
    let torn = loop {
        let at = scanner.place().next;
        match scanner.next()? {
            Step::Record(record) => {
                let stored = record::decode(&record, &dir.blobs())?;
                fold.apply(&stored);
                visit(&stored);
            }
            Step::End => break false,
            Step::Torn => break true,
            Step::Damaged => return Err(StoreError::Damaged { at }),
        }
    };
    Ok(Scanned {
        fold,
        end: scanner.place(),
        torn,
        unterminated: scanner.is_unterminated(),
    })
}

/// Writes bytes whose sync failed once more, so that the kernel owes them to the disk again.
fn write_doubtful_again(dir: &SessionDir, events: &dyn StoredFile) -> io::Result<()> {
    let Some(mut offset) = dir.doubtful() else {
        return Ok(());
    };
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let count = read_full_at(events, &mut buffer, offset)?;
        if count == 0 {
            return Ok(());
        }
        write_all_at(events, &buffer[..count], offset)?;
        offset += count as u64;
    }
}

/// Moves what stands after the last whole record to `events.torn`; returns how many bytes.
fn cut_torn(dir: &SessionDir, events: &dyn StoredFile, scanned: &Scanned) -> io::Result<u64> {
    if !scanned.torn {
        return Ok(0);
    }
    let torn = dir.open("events.torn", Access::Create)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut from, mut to) = (scanned.end.offset, torn.len()?);
    loop {
        let count = read_full_at(events, &mut buffer, from)?;
        if count == 0 {
            break;
        }
        write_all_at(&*torn, &buffer[..count], to)?;
        from += count as u64;
        to += count as u64;
    }
    torn.sync()?;
    // The cached meta may cover what is cut.
    match dir.storage().remove_file(&dir.path("meta.json")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    dir.storage().sync_dir(&dir.name)?;
    events.truncate(scanned.end.offset)?;
    let cut_bytes = from - scanned.end.offset;
    tracing::warn!(
        session = %dir.id,
        cut_bytes,
        next = %scanned.end.next,
        "the journal ended in an unfinished write; it was cut and kept in events.torn"
    );
    Ok(cut_bytes)
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
struct Found {
    message: Option<OpenMessage>,
    /// The text ended in bytes that are no text, and is cut before them.
    garbage: bool,
}

/// Finds the text of the open message. A `partial` that belongs to no open message is emptied.
fn find_text(dir: &SessionDir, fold: &Fold, same_boot: bool) -> io::Result<Found> {
    let file = dir.open("partial", Access::Write)?;
    let header = partial::read_header(&*file)?;
    let open = fold.message.as_ref();
    let header = header.filter(|(seq, _)| open.is_some_and(|open| open.seq == *seq));
    if header.is_none() && file.len()? > 0 {
        file.truncate(0)?;
        // Its number may be given again; after a power loss the old text must not come back.
        file.sync()?;
    }
    let Some(open) = open else {
        return Ok(Found {
            message: None,
            garbage: false,
        });
    };
    let (bytes, ending) = match header {
        Some((_, header_bytes)) => partial::whole_characters(&*file, header_bytes)?,
        None => (0, Ending::Whole),
    };
    let header_bytes = header.map_or(0, |(_, len)| len);
    // After a power loss a file may end in zeros that nobody wrote.
    let bytes = match same_boot {
        true => bytes,
        false => without_zeros(&*file, header_bytes, bytes)?,
    };
    Ok(Found {
        message: Some(OpenMessage::found(open, file, header_bytes, bytes)),
        garbage: ending == Ending::Garbage,
    })
}

/// How many of `len` bytes from `from` on remain when the zeros at their end are left out.
fn without_zeros(file: &dyn StoredFile, from: u64, mut len: u64) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK_BYTES];
    while len > 0 {
        let count = usize::try_from(len).map_or(CHUNK_BYTES, |len| len.min(CHUNK_BYTES));
        let piece = &mut buffer[..count];
        let start = len - count as u64;
        read_full_at(file, piece, from + start)?;
        if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        len = start;
    }
    Ok(0)
}
