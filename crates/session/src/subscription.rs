//! Following a session: a cursor, a doorbell, and one loop for catching up and for live.

use std::collections::VecDeque;
use std::sync::Arc;

use agent::progress::{Board, Live};
use domain::event::{MessageKind, Text};
use domain::limits::{
    BATCH_BYTES_MAX, BATCH_EVENTS_MAX, MERGED_CHUNK_BYTES_MAX, OPEN_FILES_RETRY_EVERY,
    OPEN_FILES_WAIT_MAX,
};
use domain::{Cursor, Event, EventSeq, FailureKind, MessageId, SessionId};
use journal::{FileStore, Reader, StoreError, Stored};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::feed::{Feed, Head, OpenText};
use crate::state::Rewind;
use crate::store_task::blocking;

#[cfg(feature = "test-support")]
pub mod sabotage;

/// Something to show a client, and where it stands once it has been shown.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The whole cursor after it.
    pub cursor: Cursor,
    /// Whether a message is open at that point, so that its offset means something.
    pub in_message: bool,
    /// What to show.
    pub item: Item,
}

/// What can be shown.
#[derive(Clone, Debug)]
pub enum Item {
    /// A stored event. The text of messages comes as [`Item::Text`] before their end event.
    Event(Arc<Stored>),
    /// Text of a message.
    Text {
        /// Whose.
        message: MessageId,
        /// Answer or thought.
        kind: MessageKind,
        /// The next piece of it.
        text: Arc<str>,
    },
    /// A call under way, as it stands: no part of the history, so the cursor stays.
    Progress(Live),
    /// The store failed; a running turn ended with it.
    Failed(FailureKind),
}

/// One follower of one session.
pub struct Subscription {
    id: SessionId,
    store: FileStore,
    feed: Arc<Feed>,
    head: watch::Receiver<Head>,
    progress: watch::Receiver<Board>,
    /// How much of the progress was handed over.
    progress_seen: u64,
    reader: Option<Box<Reader>>,
    cursor: Cursor,
    /// A message is open at the cursor; its end event has not been passed.
    in_message: bool,
    fetched: VecDeque<Arc<Stored>>,
    failures_seen: u64,
    /// What was undone before this follower came.
    rewinds: Arc<[Rewind]>,
}

impl Subscription {
    pub(crate) fn new(id: SessionId, store: FileStore, feed: Arc<Feed>, cursor: Cursor) -> Self {
        #[cfg(feature = "test-support")]
        let cursor = sabotage::forget(cursor);
        let head = feed.follow();
        let progress = feed.progress().follow();
        let failures_seen = feed.head().failures;
        let in_message = cursor.offset > 0;
        let fetched = VecDeque::new();
        Self {
            id,
            store,
            feed,
            head,
            progress,
            progress_seen: 0,
            reader: None,
            cursor,
            in_message,
            fetched,
            failures_seen,
            rewinds: Arc::new([]),
        }
    }

    /// The same, without what these have undone.
    pub(crate) fn passing_over(self, rewinds: Arc<[Rewind]>) -> Self {
        Self { rewinds, ..self }
    }

    /// Where it stands.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The same stream again, from what comes after `cursor`.
    #[must_use]
    pub fn again_after(&self, cursor: Cursor) -> Self {
        let (store, feed) = (self.store.clone(), Arc::clone(&self.feed));
        Self {
            failures_seen: self.failures_seen,
            rewinds: Arc::clone(&self.rewinds),
            ..Self::new(self.id, store, feed, cursor)
        }
    }

    /// What comes next, or `None` once the session has ended here and all of it was handed over,
    /// or was deleted before it could be.
    ///
    /// Cancel safe: the cursor moves only when deliveries are handed over.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn next(&mut self) -> Result<Option<Vec<Delivery>>, StoreError> {
        let began = Instant::now();
        loop {
            match self.advance().await {
                Err(StoreError::NotFound) => return Ok(None),
                // Nothing was handed over, so it can be tried again; the client stays attached.
                Err(StoreError::OpenFilesExhausted) if began.elapsed() < OPEN_FILES_WAIT_MAX => {
                    tokio::time::sleep(OPEN_FILES_RETRY_EVERY).await;
                }
                advanced => return advanced,
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<Vec<Delivery>>, StoreError> {
        loop {
            let head = *self.head.borrow_and_update();
            self.cursor.epoch = head.epoch;
            if self.fetched.is_empty() && self.cursor.seq < head.seq {
                self.fetched = self.fetch(head.seq).await?.into();
            }
            // Nothing is awaited while deliveries are in hand: that is what makes it cancel safe.
            let mut batch = self.take_events().await?;
            if self.fetched.is_empty() {
                self.take_open_text(head.open, &mut batch).await?;
            }
            if head.failures > self.failures_seen && self.cursor.seq >= head.seq {
                self.failures_seen = head.failures;
                batch.extend(head.failure.map(|kind| self.delivery(Item::Failed(kind))));
            }
            // After the head was looked at: a call that still shows something has no result there.
            if self.cursor.seq >= head.seq {
                self.take_progress(&mut batch);
            }
            #[cfg(feature = "test-support")]
            sabotage::spoil(&mut batch);
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
            if self.cursor.seq < head.seq {
                continue;
            }
            if head.ended {
                return Ok(None);
            }
            // Whoever has caught up needs no open file and no room; it may wait for days.
            (self.reader, self.fetched) = (None, VecDeque::new());
            tokio::select! {
                biased;
                rung = self.head.changed() => if rung.is_err() {
                    return Ok(None);
                },
                // The feed has both ends of it, so it stays open as long as this.
                _ = self.progress.changed() => {}
            }
        }
    }

    /// Takes fetched events, with the text of finished messages in pieces before their end.
    async fn take_events(&mut self) -> Result<Vec<Delivery>, StoreError> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(stored) = self.fetched.front().cloned() {
            if batch.len() >= BATCH_EVENTS_MAX || bytes >= BATCH_BYTES_MAX {
                break;
            }
            if self.rewinds.iter().any(|rewind| rewind.undoes(stored.seq)) {
                self.fetched.pop_front();
                self.cursor.seq = stored.seq;
                continue;
            }
            if let Some((message, kind, text)) = finished_message(&stored.event) {
                if matches!(text, Text::Blob { .. }) && !batch.is_empty() {
                    break;
                }
                let piece = self.finished_text(text).await?;
                if !piece.is_empty() {
                    bytes += piece.len();
                    self.in_message = true;
                    self.cursor.offset += piece.len() as u64;
                    let (message, text) = (message.clone(), Arc::from(piece));
                    batch.push(self.delivery(Item::Text {
                        message,
                        kind,
                        text,
                    }));
                    continue;
                }
                (self.in_message, self.cursor.offset) = (false, 0);
            }
            if matches!(stored.event, Event::MessageStarted(_)) {
                (self.in_message, self.cursor.offset) = (true, 0);
            }
            self.fetched.pop_front();
            self.cursor.seq = stored.seq;
            batch.push(self.delivery(Item::Event(stored)));
        }
        Ok(batch)
    }

    /// Takes what the open message has beyond the cursor: chunk by chunk if it is in memory,
    /// merged from the file if this follower lags.
    async fn take_open_text(
        &mut self,
        open: Option<OpenText>,
        batch: &mut Vec<Delivery>,
    ) -> Result<(), StoreError> {
        let Some(open) = open.filter(|open| self.cursor.seq >= open.started) else {
            return Ok(());
        };
        if self.cursor.offset >= open.bytes {
            return Ok(());
        }
        // Gone from the feed means ended: its end event is on the way and has the rest.
        let Some(tail) = self.feed.tail_after(open.started, self.cursor.offset) else {
            return Ok(());
        };
        let chunks = match tail.chunks {
            Some(chunks) => chunks,
            // What is in hand goes first; the file is read the next time.
            None if !batch.is_empty() => return Ok(()),
            None => self
                .partial_text(open.started)
                .await?
                .into_iter()
                .map(Arc::from)
                .collect(),
        };
        self.in_message = true;
        for text in chunks {
            self.cursor.offset += text.len() as u64;
            let item = Item::Text {
                message: tail.message.clone(),
                kind: tail.kind,
                text,
            };
            batch.push(self.delivery(item));
        }
        Ok(())
    }

    /// Takes what running calls show that was not handed over yet.
    fn take_progress(&mut self, batch: &mut Vec<Delivery>) {
        let board = self.progress.borrow_and_update();
        let news = board.news(&mut self.progress_seen, self.cursor.seq);
        drop(board);
        batch.extend(
            news.into_iter()
                .map(|live| self.delivery(Item::Progress(live))),
        );
    }

    fn delivery(&self, item: Item) -> Delivery {
        Delivery {
            cursor: self.cursor,
            in_message: self.in_message,
            item,
        }
    }

    async fn fetch(&mut self, up_to: EventSeq) -> Result<Vec<Arc<Stored>>, StoreError> {
        let after = self.cursor.seq;
        if let Some(recent) = self.feed.recent_after(after, up_to) {
            return Ok(recent);
        }
        self.read(move |reader| reader.read_after(after, up_to, BATCH_EVENTS_MAX, BATCH_BYTES_MAX))
            .await
    }

    /// The next piece of a finished message's text.
    async fn finished_text(&mut self, text: &Text) -> Result<String, StoreError> {
        let offset = self.cursor.offset;
        match text {
            Text::Inline(text) => Ok(piece_of(text, offset).to_owned()),
            blob @ Text::Blob { .. } => {
                let blob = blob.clone();
                self.read(move |reader| reader.read_text(&blob, offset, MERGED_CHUNK_BYTES_MAX))
                    .await
            }
        }
    }

    async fn partial_text(&mut self, started: EventSeq) -> Result<Option<String>, StoreError> {
        let offset = self.cursor.offset;
        let read = self
            .read(move |reader| reader.read_partial(started, offset, MERGED_CHUNK_BYTES_MAX))
            .await?;
        Ok(read.filter(|text| !text.is_empty()))
    }

    /// Uses the file reader on a blocking thread. Dropped half-way, the next call opens a new one.
    async fn read<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (id, store, reader) = (self.id, self.store.clone(), self.reader.take());
        let (reader, done) = blocking(move || {
            let mut reader = match reader {
                Some(reader) => reader,
                None => Box::new(store.reader(id)?),
            };
            let done = work(&mut reader)?;
            Ok((reader, done))
        })
        .await?;
        self.reader = Some(reader);
        Ok(done)
    }
}

/// The message that `event` finishes.
fn finished_message(event: &Event) -> Option<(&MessageId, MessageKind, &Text)> {
    if let Event::AssistantMessage(message) = event {
        return Some((&message.message_id, MessageKind::Text, &message.text));
    }
    if let Event::AssistantThought(thought) = event {
        return Some((&thought.message_id, MessageKind::Thought, &thought.text));
    }
    None
}

/// At most one update's worth of `text` from byte `offset`, cut at a character.
fn piece_of(text: &str, offset: u64) -> &str {
    let from = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(text.len());
    let from = text.floor_char_boundary(from);
    let to = text.floor_char_boundary(from.saturating_add(MERGED_CHUNK_BYTES_MAX));
    &text[from..to]
}
