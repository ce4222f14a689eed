//! Following a session without a lock, beside its writer.
//!
//! A [`Reader`] remembers the boundary it has reached and nothing else; each call reads the file
//! anew from there, so that it never trusts bytes which a recovery has cut since. Any other place
//! is found by halving the file: every line begins with its number, so the log is its own index,
//! which is never missing, stale or wrong. What halving finds is a hint. Events are served only if
//! they pass their checksum one after the other from the first one asked for, and none from an
//! event on that opening the session in this process found damaged. Damage further back than the
//! first one asked for is found by whoever opens, verifies or reads that part.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use domain::EventSeq;
use domain::event::Text;
use domain::limits::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX};

use crate::partial::PartialReader;
use crate::record::Record;
use crate::scan::{Place, Scanner, Step};
use crate::storage::{Access, CHUNK_BYTES, StoredFile, read_full_at};
use crate::store::SessionDir;
use crate::{Raw, StoreError, Stored, blobs, partial, record};

/// A stretch of log short enough to be walked record by record instead of halved again.
const WALK_BYTES_MAX: u64 = 4 * CHUNK_BYTES as u64;

/// Reads a session's events and texts.
pub struct Reader {
    dir: SessionDir,
    events: Arc<dyn StoredFile>,
    place: Place,
    partial: Option<PartialReader>,
    /// The blob whose content was last found to match its name.
    checked_blob: Mutex<Option<String>>,
}

impl Reader {
    /// Events with a number in (`after`, `up_to`], at most `max_events` and about `max_bytes`; one
    /// larger event still passes alone. Fewer if the file does not hold them yet.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the next event cannot be read; those before it are given first.
    pub fn read_after(
        &mut self,
        after: EventSeq,
        up_to: EventSeq,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Stored>>, StoreError> {
        let want = Want {
            after,
            up_to,
            max_events,
            max_bytes,
        };
        self.read(want, |record, dir| {
            record::decode(record, &dir.blobs()).map(Arc::new)
        })
    }

    /// Events after `after` as they are stored, bounded as by [`Self::read_after`].
    ///
    /// # Errors
    /// As [`Self::read_after`]; that a long string is damaged is found by [`Self::raw_pieces`].
    pub fn raw_after(
        &mut self,
        after: EventSeq,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<Vec<Raw>, StoreError> {
        let want = Want {
            after,
            up_to: EventSeq(u64::MAX),
            max_events,
            max_bytes,
        };
        self.read(want, |record, _| Raw::of(record))
    }

    /// Calls `visit` for every event after `after`, in batches that bound memory, until it says
    /// stop or the log ends. A torn end is the end.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] at the first event that cannot be read, after all before it were
    /// visited; or what made reading fail.
    pub fn for_each(
        &mut self,
        after: EventSeq,
        visit: &mut dyn FnMut(&Stored) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut after = after;
        loop {
            let batch =
                self.read_after(after, EventSeq(u64::MAX), BATCH_EVENTS_MAX, BATCH_BYTES_MAX)?;
            let Some(last) = batch.last() else {
                return Ok(());
            };
            after = last.seq;
            for stored in &batch {
                if visit(stored).is_break() {
                    return Ok(());
                }
            }
        }
    }

    /// Text of the open message that event `started` began, from byte `offset`, at most `max`
    /// bytes of whole characters. `None` once the message has ended: read the event instead.
    ///
    /// # Errors
    /// [`StoreError::InsideCharacter`], [`StoreError::DamagedText`], or what made reading fail.
    pub fn read_partial(
        &mut self,
        started: EventSeq,
        offset: u64,
        max: usize,
    ) -> Result<Option<String>, StoreError> {
        if self.partial.is_none() {
            match self.dir.open("partial", Access::Read) {
                Ok(file) => self.partial = Some(PartialReader::new(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(partial) = self.partial.as_mut() else {
            return Ok(None);
        };
        partial.read(started, offset, max)
    }

    /// A piece of a finished message's text from byte `offset`, at most `max` bytes of whole
    /// characters; empty at the end.
    ///
    /// # Errors
    /// [`StoreError::InsideCharacter`], [`StoreError::DamagedText`], or what made reading fail.
    pub fn read_text(&self, text: &Text, offset: u64, max: usize) -> Result<String, StoreError> {
        match text {
            Text::Inline(text) => {
                let from = usize::try_from(offset).map_or(text.len(), |from| from.min(text.len()));
                let rest = text.get(from..).ok_or(StoreError::InsideCharacter)?;
                Ok(rest[..partial::cut_len(rest, max)].to_owned())
            }
            Text::Blob { sha256 } => {
                let file = self.dir.blobs().open(sha256)?;
                self.check_blob(&*file, sha256)?;
                partial::read_piece(&*file, offset, max)
            }
        }
    }

    /// The number of the newest whole event.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if an event before the end cannot be read.
    pub fn head(&mut self) -> Result<EventSeq, StoreError> {
        let place = self.remembered()?;
        match self.walk_to_end(place) {
            Err(StoreError::Damaged { .. }) if place != Place::START => {
                self.walk_to_end(Place::START)
            }
            other => other,
        }
    }

    pub(crate) fn open(dir: SessionDir) -> Result<Self, StoreError> {
        let events = dir.open("events.jsonl", Access::Read)?;
        Ok(Self {
            dir,
            events,
            place: Place::START,
            partial: None,
            checked_blob: Mutex::default(),
        })
    }

    pub(crate) fn blob(&self, sha256: &str) -> Result<Arc<dyn StoredFile>, StoreError> {
        self.dir.blobs().open(sha256)
    }

    fn read<T>(
        &mut self,
        mut want: Want,
        decode: impl Fn(&Record<'_>, &SessionDir) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        if want.up_to <= want.after || want.max_events == 0 {
            return Ok(Vec::new());
        }
        let first = want.after.next();
        if let Some(at) = self.dir.known_damage() {
            if at <= first {
                return Err(StoreError::Damaged { at });
            }
            want.up_to = want.up_to.min(EventSeq(at.0 - 1));
        }
        let place = self.locate(first)?;
        match self.collect(place, &want, &decode) {
            // What was remembered or guessed may be out of date; the start never is.
            Err(StoreError::Damaged { .. }) if place != Place::START => {
                self.collect(Place::START, &want, &decode)
            }
            other => other,
        }
    }

    fn collect<T>(
        &mut self,
        from: Place,
        want: &Want,
        decode: impl Fn(&Record<'_>, &SessionDir) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut scanner = Scanner::new(Arc::clone(&self.events), from)?;
        let mut found = Vec::new();
        let mut bytes = 0;
        while found.len() < want.max_events {
            let place = scanner.place();
            if place.next > want.up_to {
                break;
            }
            let event = match scanner.next()? {
                Step::Record(record) if record.seq <= want.after => continue,
                Step::Record(record) => {
                    bytes += record.line.len();
                    if !found.is_empty() && bytes > want.max_bytes {
                        self.place = place;
                        return Ok(found);
                    }
                    decode(&record, &self.dir)
                }
                Step::End | Step::Torn => break,
                Step::Hole if !self.dir.is_same_boot() => break,
                Step::Hole | Step::Damaged => Err(StoreError::Damaged { at: place.next }),
            };
            match event {
                Ok(event) => found.push(event),
                Err(_) if !found.is_empty() => {
                    self.place = place;
                    return Ok(found);
                }
                Err(error) => return Err(error),
            }
        }
        self.place = scanner.place();
        Ok(found)
    }

    fn walk_to_end(&mut self, from: Place) -> Result<EventSeq, StoreError> {
        let mut scanner = Scanner::new(Arc::clone(&self.events), from)?;
        loop {
            let at = scanner.place().next;
            match scanner.next()? {
                Step::Record(_) => {}
                Step::End | Step::Torn => {
                    self.place = scanner.place();
                    return Ok(EventSeq(at.0 - 1));
                }
                Step::Hole if !self.dir.is_same_boot() => return Ok(EventSeq(at.0 - 1)),
                Step::Hole | Step::Damaged => return Err(StoreError::Damaged { at }),
            }
        }
    }

    /// The boundary reached last, if it still is one.
    fn remembered(&self) -> io::Result<Place> {
        if self.place.is_boundary(&*self.events)? {
            return Ok(self.place);
        }
        Ok(Place::START)
    }

    /// A boundary at or shortly before event `first`, found by halving: each line says its number.
    fn locate(&self, first: EventSeq) -> io::Result<Place> {
        let remembered = self.remembered()?;
        let mut low = match remembered.next <= first {
            true => remembered,
            false => Place::START,
        };
        if low.next == first {
            return Ok(low);
        }
        let mut high = self.events.len()?;
        let mut buffer = Vec::new();
        while high.saturating_sub(low.offset) > WALK_BYTES_MAX {
            let middle = low.offset + (high - low.offset) / 2;
            buffer.resize(CHUNK_BYTES, 0);
            let count = read_full_at(&*self.events, &mut buffer, middle)?;
            // A line too long to show its end here, or a strange one: walk from where we are.
            let Some((at, seq)) = next_line(&buffer[..count]) else {
                break;
            };
            if seq <= first {
                low = Place {
                    offset: middle + at,
                    next: seq,
                    crc_required: false,
                };
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Reads a blob through before its first piece is given.
    fn check_blob(&self, file: &dyn StoredFile, sha256: &str) -> Result<(), StoreError> {
        let mut checked = self
            .checked_blob
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if checked.as_deref() == Some(sha256) {
            return Ok(());
        }
        if !blobs::is_whole(file, sha256)? {
            return Err(StoreError::DamagedText);
        }
        *checked = Some(sha256.to_owned());
        Ok(())
    }
}

/// Which events a call asks for.
struct Want {
    after: EventSeq,
    up_to: EventSeq,
    max_events: usize,
    max_bytes: usize,
}

/// Where the first line begins that starts within `bytes`, and its number.
fn next_line(bytes: &[u8]) -> Option<(u64, EventSeq)> {
    let at = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let digits = bytes[at..].strip_prefix(b"{\"seq\":")?;
    let end = digits.iter().position(|byte| *byte == b',')?;
    let seq = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    Some((at as u64, EventSeq(seq)))
}
