//! What was sent to a reader that may come back for it.
//!
//! Updates are not kept: the journal has them, and the session's pump reads them again
//! ([`Outbox::rewound`]). Everything else exists only once, so the newest of it is kept, each with
//! the place in the stream where it stood, and goes out again at the same place.

use std::collections::VecDeque;

use domain::Cursor;
use domain::limits::{KEPT_BYTES_MAX, KEPT_MESSAGES_MAX};

use super::{Close, Frame, Kind, Outbox, Queue, Queued, Taken};

#[cfg(test)]
mod tests;

/// A place in a stream: what a reader has, if it got as far as this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Which attachment the stream belonged to.
    pub(crate) serial: u64,
    /// The last message that only the record has.
    pub(crate) number: u64,
    /// The last update.
    pub(crate) cursor: Cursor,
}

/// A frame, and the place after it if a reader may come back there.
pub(crate) struct Marked {
    pub(crate) text: String,
    pub(crate) mark: Option<Mark>,
}

/// The stream cannot go on as asked: somebody reads it, or too much was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict;

/// Where a frame stands in its stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    serial: u64,
    /// Its number among those that only the record has; 0 for updates.
    number: u64,
    /// The update before it.
    at: Cursor,
}

/// What was sent, and who reads.
#[derive(Default)]
pub(super) struct Record {
    /// The attachment whose stream this is, and whether it still is.
    serial: u64,
    is_followed: bool,
    /// The reader that counts; an older one ends.
    reader: u64,
    is_read: bool,
    last_number: u64,
    queued_at: Cursor,
    sent: Mark,
    /// Part of an event was handed over after `sent`, and not yet the rest.
    is_between: bool,
    kept: VecDeque<Queued>,
    kept_bytes: usize,
    forgotten: u64,
    replay: Option<Replay>,
    /// Updates after `sent` were to come again, and nobody is left to give them.
    has_gap: bool,
}

/// Updates that are being read again, and what must wait for its place among them.
struct Replay {
    from: Cursor,
    /// The pump has not begun.
    is_wanted: bool,
    held: VecDeque<Queued>,
}

impl Record {
    /// Gives a frame its place; keeps it back, or drops what will be read again.
    pub(super) fn note(&mut self, frame: Frame, is_stream: bool) -> Option<Queued> {
        let mut place = Place {
            serial: self.serial,
            number: 0,
            at: self.queued_at,
        };
        match frame.kind {
            Kind::Once => {
                self.last_number += 1;
                place.number = self.last_number;
            }
            // The pump shows how things stand when it has caught up.
            Kind::Passing if self.replay.is_some() => return None,
            Kind::Passing => {}
            Kind::Update { cursor, more } => {
                if !more && after(cursor, self.queued_at) {
                    self.queued_at = cursor;
                }
                if self.replay.as_ref().is_some_and(|replay| replay.is_wanted) {
                    return None;
                }
            }
        }
        let queued = Queued {
            place,
            ..Queued::new(frame, is_stream)
        };
        match &mut self.replay {
            Some(replay) if place.number > 0 => {
                replay.held.push_back(queued);
                None
            }
            Some(_) | None => Some(queued),
        }
    }

    /// The next frame that was kept back and stands before an update.
    pub(super) fn held_before(&mut self, cursor: Cursor) -> Option<Queued> {
        let held = &mut self.replay.as_mut()?.held;
        let is_due = held
            .front()
            .is_some_and(|held| after(cursor, held.place.at));
        is_due.then(|| held.pop_front()).flatten()
    }

    /// Notes that a frame is handed to the reader.
    fn hand_over(&mut self, queued: Queued) -> Marked {
        let Place { serial, number, at } = queued.place;
        if serial != self.sent.serial {
            (self.sent.serial, self.sent.cursor) = (serial, at);
        }
        if let Kind::Update { more, .. } = queued.frame.kind {
            self.is_between = more;
        }
        let text = match queued.frame.kind {
            Kind::Update { more: true, .. } | Kind::Passing => {
                let text = queued.frame.text;
                return Marked { text, mark: None };
            }
            Kind::Update { cursor, .. } => {
                self.sent.cursor = cursor;
                queued.frame.text
            }
            Kind::Once => {
                self.sent.number = number;
                let text = queued.frame.text.clone();
                self.keep(queued);
                text
            }
        };
        let mark = Some(self.sent);
        Marked { text, mark }
    }

    fn keep(&mut self, queued: Queued) {
        self.kept_bytes += queued.frame.text.len();
        // It has been counted as waiting once; if it goes out again, it is part of the stream.
        self.kept.push_back(Queued {
            is_stream: true,
            ..queued
        });
        while self.kept.len() > KEPT_MESSAGES_MAX || self.kept_bytes > KEPT_BYTES_MAX {
            let Some(oldest) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes -= oldest.frame.text.len();
            self.forgotten = oldest.place.number;
        }
    }

    /// What was sent after `mark` and only the record has, to be sent again.
    fn kept_after(&mut self, mark: Mark) -> VecDeque<Queued> {
        let known = self
            .kept
            .partition_point(|kept| kept.place.number <= mark.number);
        let again = self.kept.split_off(known);
        let bytes = again.iter().map(|kept| kept.frame.text.len());
        self.kept_bytes -= bytes.sum::<usize>();
        again
    }

    /// Whether a reader that has everything up to `mark` needs updates again. Parts of an event that
    /// were sent without their last are not part of any mark, so they are.
    fn reads_again(&self, mark: Mark) -> bool {
        self.replay.is_some() || self.is_between || mark.cursor != self.sent.cursor
    }

    /// Whether a reader that has everything up to `mark` can go on.
    fn reaches(&self, mark: Mark) -> bool {
        mark.serial == self.serial
            && mark.serial == self.sent.serial
            && (self.forgotten..=self.sent.number).contains(&mark.number)
            && !after(mark.cursor, self.sent.cursor)
            && !self.has_gap
            && (self.is_followed || !self.reads_again(mark))
    }
}

impl Queue {
    /// Has the stream go on after `mark`.
    fn rewind(&mut self, mark: Mark) -> Result<(), Conflict> {
        let record = self.record.as_mut().ok_or(Conflict)?;
        if !record.reaches(mark) {
            return Err(Conflict);
        }
        let mut again = record.kept_after(mark);
        let reads_again = record.reads_again(mark);
        (record.sent, record.is_between) = (mark, false);
        if !reads_again {
            again
                .iter()
                .for_each(|queued| self.stream_bytes += queued.frame.text.len());
            again.append(&mut self.frames);
            self.frames = again;
            return Ok(());
        }
        for queued in self.frames.drain(..) {
            if queued.is_stream {
                self.stream_bytes -= queued.frame.text.len();
            }
            if queued.frame.kind == Kind::Once {
                again.push_back(queued);
            }
        }
        if let Some(replay) = &mut record.replay {
            again.append(&mut replay.held);
        }
        record.replay = Some(Replay {
            from: mark.cursor,
            is_wanted: true,
            held: again,
        });
        Ok(())
    }
}

impl Outbox {
    /// An attachment's stream begins here, after `cursor`.
    pub(crate) fn begin(&self, serial: u64, cursor: Cursor) {
        let mut queue = self.queue();
        queue.end_replay();
        if let Some(record) = &mut queue.record {
            (record.serial, record.is_followed, record.queued_at) = (serial, true, cursor);
            record.has_gap = false;
        }
    }

    /// The attachment `serial` has no more to say. Who wanted updates again gets what else there
    /// is, and cannot come back for them.
    pub(crate) fn end(&self, serial: u64) {
        self.queue().end(serial);
        self.inner.filled.notify_one();
    }

    /// As [`Self::end`], but `false` and no end if a reader is there that waits for updates again,
    /// which only this attachment can give.
    pub(crate) fn end_if_read(&self, serial: u64) -> bool {
        let mut queue = self.queue();
        let is_owed = queue.record.as_deref().is_some_and(|record| {
            record.serial == serial && record.is_read && record.replay.is_some()
        });
        if !is_owed {
            queue.end(serial);
        }
        drop(queue);
        self.inner.filled.notify_one();
        !is_owed
    }

    /// For the pump: returns when a reader wants updates again, with the place after which.
    pub(crate) async fn rewound(&self) -> Cursor {
        loop {
            let rung = self.inner.rewind.notified();
            if let Some(from) = self.begin_replay() {
                return from;
            }
            rung.await;
        }
    }

    fn begin_replay(&self) -> Option<Cursor> {
        let mut queue = self.queue();
        let replay = queue.record.as_mut()?.replay.as_mut()?;
        std::mem::take(&mut replay.is_wanted).then_some(replay.from)
    }

    /// For the pump: what was to be read again has been.
    pub(crate) fn caught_up(&self) {
        let mut queue = self.queue();
        let is_wanted = |record: &Record| record.replay.as_ref().is_some_and(|r| r.is_wanted);
        if !queue.record.as_deref().is_some_and(is_wanted) {
            queue.end_replay();
        }
        drop(queue);
        self.inner.filled.notify_one();
    }

    /// Begins to read: where the last reader stopped, or after `mark`, taking the stream over.
    ///
    /// # Errors
    /// If somebody reads, or what comes after `mark` is not to be had any more.
    pub(crate) fn read_after(&self, mark: Option<Mark>) -> Result<Reader, Conflict> {
        let mut queue = self.queue();
        let is_read = queue.record.as_ref().is_none_or(|record| record.is_read);
        match mark {
            Some(mark) => queue.rewind(mark)?,
            None if is_read => return Err(Conflict),
            None => {}
        }
        let record = queue.record.as_mut().ok_or(Conflict)?;
        record.reader += 1;
        record.is_read = true;
        let reader = Reader {
            outbox: self.clone(),
            number: record.reader,
        };
        drop(queue);
        // The former reader sees that it was replaced, and the pump that it has to read again.
        self.inner.filled.notify_waiters();
        self.inner.drained.notify_waiters();
        self.inner.rewind.notify_one();
        Ok(reader)
    }

    /// Whether an attachment fills it.
    pub(crate) fn is_followed(&self) -> bool {
        self.queue()
            .record
            .as_ref()
            .is_some_and(|record| record.is_followed)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue().frames.is_empty()
    }

    /// Whether somebody reads.
    pub(crate) fn is_read(&self) -> bool {
        self.queue()
            .record
            .as_ref()
            .is_some_and(|record| record.is_read)
    }
}

impl Queue {
    fn end(&mut self, serial: u64) {
        let Some(record) = &mut self.record else {
            return;
        };
        if record.serial == serial {
            record.is_followed = false;
            record.has_gap |= record.replay.is_some();
            self.end_replay();
        }
    }

    fn end_replay(&mut self) {
        let replay = self.record.as_mut().and_then(|record| record.replay.take());
        for held in replay.into_iter().flat_map(|replay| replay.held) {
            self.enqueue(held);
        }
    }
}

/// Whoever reads a recording outbox. One at a time; a newer one ends it.
pub(crate) struct Reader {
    outbox: Outbox,
    number: u64,
}

impl Reader {
    /// What to send next, waiting for it; `None` when another reads or nothing more will come.
    pub(crate) async fn next(&self) -> Option<Vec<Marked>> {
        let inner = &self.outbox.inner;
        loop {
            let filled = inner.filled.notified();
            if !self.counts() {
                // The bell may have been meant for the other one.
                inner.filled.notify_one();
                return None;
            }
            let mut frames = Vec::new();
            let taken = self.outbox.take(|queue, queued| {
                frames.extend(queue.record.as_mut().map(|record| record.hand_over(queued)));
            });
            match taken {
                Taken::Some => return Some(frames),
                Taken::Closed(Close::Gone | Close::After(_)) => return None,
                Taken::None => filled.await,
            }
        }
    }

    fn counts(&self) -> bool {
        let queue = self.outbox.queue();
        queue
            .record
            .as_ref()
            .is_some_and(|record| record.reader == self.number)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut queue = self.outbox.queue();
        if let Some(record) = &mut queue.record
            && record.reader == self.number
        {
            record.is_read = false;
        }
    }
}

/// Whether a cursor stands behind another. Epochs do not matter: a stream has one.
fn after(cursor: Cursor, other: Cursor) -> bool {
    (cursor.seq, cursor.offset) > (other.seq, other.offset)
}
