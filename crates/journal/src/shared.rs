//! One writer for many threads: appends that wait while a sync runs share the next one.
//!
//! Whoever finds the writer free takes it and all appends that wait, writes and syncs them as one
//! batch, hands out the outcomes and gives the writer back. There is no thread of its own.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use domain::clock::Timestamp;
use domain::limits::GROUP_APPENDS_MAX;

use crate::{Entry, StoreError, Stored, Writer};

type Outcome = Result<Vec<Arc<Stored>>, StoreError>;

/// A [`Writer`] that any number of threads may append through. Cheap to clone.
#[derive(Clone)]
pub struct SharedWriter {
    desk: Arc<Desk>,
}

impl SharedWriter {
    /// Shares `writer`.
    #[must_use]
    pub fn new(writer: Writer) -> Self {
        let counter = Counter {
            writer: Some(writer),
            lost: false,
            waiting: Vec::new(),
            outcomes: HashMap::new(),
            tickets: 0,
        };
        Self {
            desk: Arc::new(Desk {
                counter: Mutex::new(counter),
                rung: Condvar::new(),
            }),
        }
    }

    /// As [`Writer::append`]; blocks until it is on disk, which other appends may share.
    ///
    /// # Errors
    /// As [`Writer::append`]. When a shared write fails, every append in it fails.
    pub fn append(&self, entries: Vec<Entry>, now: Timestamp) -> Outcome {
        let mut counter = self.desk.counter();
        let ticket = counter.tickets;
        counter.tickets += 1;
        counter.waiting.push((ticket, entries, now));
        loop {
            if let Some(outcome) = counter.outcomes.remove(&ticket) {
                return outcome;
            }
            counter = match counter.writer.take() {
                Some(writer) => self.serve(writer, counter),
                None if counter.lost => return Err(StoreError::Fenced),
                None => self
                    .desk
                    .rung
                    .wait(counter)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// How many appends wait for the next sync.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.desk.counter().waiting.len()
    }

    /// The writer, once no other clone is left.
    #[must_use]
    pub fn into_writer(self) -> Option<Writer> {
        let desk = Arc::into_inner(self.desk)?;
        let counter = desk.counter.into_inner();
        counter.unwrap_or_else(PoisonError::into_inner).writer
    }

    /// Writes what waits, without holding up those who come to wait.
    fn serve<'a>(
        &'a self,
        writer: Writer,
        mut counter: MutexGuard<'a, Counter>,
    ) -> MutexGuard<'a, Counter> {
        let some = counter.waiting.len().min(GROUP_APPENDS_MAX);
        let batch: Vec<_> = counter.waiting.drain(..some).collect();
        drop(counter);
        let mut borrowed = Borrowed {
            desk: &self.desk,
            writer: None,
        };
        let mut writer = writer;
        let (tickets, appends): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|(ticket, entries, now)| (ticket, (entries, now)))
            .unzip();
        let outcomes = writer.append_group(appends);
        borrowed.writer = Some(writer);
        drop(borrowed);
        let mut counter = self.desk.counter();
        counter.outcomes.extend(tickets.into_iter().zip(outcomes));
        self.desk.rung.notify_all();
        counter
    }
}

struct Desk {
    counter: Mutex<Counter>,
    rung: Condvar,
}

impl Desk {
    fn counter(&self) -> MutexGuard<'_, Counter> {
        self.counter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Counter {
    /// `None` while somebody writes.
    writer: Option<Writer>,
    /// Somebody panicked while writing; only recovery knows what is on disk.
    lost: bool,
    /// One for each thread that waits and is not being served.
    waiting: Vec<(u64, Vec<Entry>, Timestamp)>,
    outcomes: HashMap<u64, Outcome>,
    tickets: u64,
}

/// Gives the writer back, also when writing panicked: then there is none, and nobody waits for it.
struct Borrowed<'a> {
    desk: &'a Desk,
    writer: Option<Writer>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut counter = self.desk.counter();
        counter.lost = self.writer.is_none();
        counter.writer = self.writer.take();
        drop(counter);
        self.desk.rung.notify_all();
    }
}
