//! What one write will hold: the lines and blobs of all appends that share a sync.

use std::sync::Arc;

use domain::clock::Timestamp;
use domain::event::{AssistantMessage, AssistantThought, Text};
use domain::limits::BLOB_BYTES_MIN;
use domain::{Event, EventSeq};

use crate::blobs::{BlobDir, NewBlob};
use crate::message::OpenMessage;
use crate::{Entry, StoreError, Stored, record};

/// Appends being put together; nothing of them is on disk but the blob of a long streamed message.
pub(crate) struct Batch {
    pub(crate) lines: Vec<u8>,
    pub(crate) new_blobs: Vec<NewBlob>,
    pub(crate) stored: Vec<Arc<Stored>>,
    /// Whether the open message is ended by it.
    pub(crate) ends_message: bool,
    head: EventSeq,
    /// Records before it that no sync has confirmed; `None` in a session that is being made, which
    /// has its name only when all of it is on disk.
    behind: Option<u64>,
    message_open: bool,
}

impl Batch {
    /// A batch after event `head`, of which the last `behind` are not known to be synced.
    pub(crate) fn after(head: EventSeq, behind: u64, message_open: bool) -> Self {
        Self {
            lines: Vec::new(),
            new_blobs: Vec::new(),
            stored: Vec::new(),
            ends_message: false,
            head,
            behind: Some(behind),
            message_open,
        }
    }

    /// The last batch of a session that is being made.
    pub(crate) fn born(head: EventSeq) -> Self {
        Self {
            behind: None,
            ..Self::after(head, 0, false)
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Adds one append, whole or not at all. `open` is the message being streamed.
    pub(crate) fn stage(
        &mut self,
        entries: Vec<Entry>,
        now: Timestamp,
        open: Option<&OpenMessage>,
        blobs: &BlobDir<'_>,
    ) -> Result<Vec<Arc<Stored>>, StoreError> {
        self.admit(&entries)?;
        let before = (self.lines.len(), self.new_blobs.len(), self.stored.len());
        let (lines, new_blobs, stored) = before;
        for entry in entries {
            if let Err(error) = self.stage_entry(entry, now, open, blobs) {
                self.lines.truncate(lines);
                self.new_blobs.truncate(new_blobs);
                self.stored.truncate(stored);
                return Err(error);
            }
        }
        let added = self.stored[stored..].to_vec();
        let ends = |stored: &Arc<Stored>| is_end(&stored.event);
        if self.message_open && added.iter().any(ends) {
            self.message_open = false;
            self.ends_message = true;
        }
        Ok(added)
    }

    fn admit(&self, entries: &[Entry]) -> Result<(), StoreError> {
        // A session that is being made may be a copy of another.
        if self.behind.is_none() {
            return Ok(());
        }
        let mut open = self.message_open;
        let mut entries = entries.iter();
        while let Some(entry) = entries.next() {
            match entry {
                Entry::Event(Event::MessageStarted(_)) if open => {
                    return Err(StoreError::MessageOpen);
                }
                Entry::Event(Event::MessageStarted(started)) => {
                    // A message that is whole needs no `partial`.
                    let is_end = |entry: &Entry| matches!(entry, Entry::Event(end) if started.is_ended_by(end));
                    if !entries.next().is_some_and(is_end) {
                        return Err(StoreError::StartedBare);
                    }
                }
                Entry::Event(event) if open && is_end(event) => {
                    return Err(StoreError::MessageOpen);
                }
                Entry::Event(_) => {}
                Entry::EndMessage { .. } if open => open = false,
                Entry::EndMessage { .. } => return Err(StoreError::NoMessage),
            }
        }
        Ok(())
    }

    fn stage_entry(
        &mut self,
        entry: Entry,
        now: Timestamp,
        open: Option<&OpenMessage>,
        blobs: &BlobDir<'_>,
    ) -> Result<(), StoreError> {
        let staged = self.stored.len() as u64;
        let event = match entry {
            Entry::Event(event) => shorten(event, &mut self.new_blobs),
            Entry::EndMessage { partial } => {
                open.ok_or(StoreError::NoMessage)?.end(partial, blobs)?
            }
        };
        let stored = Stored {
            seq: EventSeq(self.head.0 + staged + 1),
            ts: now,
            event,
        };
        let behind = self.behind.map_or(0, |behind| behind + staged);
        record::encode(&stored, behind, &mut self.lines, &mut self.new_blobs)?;
        self.stored.push(Arc::new(stored));
        Ok(())
    }
}

fn is_end(event: &Event) -> bool {
    matches!(
        event,
        Event::AssistantMessage(_) | Event::AssistantThought(_)
    )
}

/// Moves the text of a finished message out of the event if it is long.
fn shorten(mut event: Event, new_blobs: &mut Vec<NewBlob>) -> Event {
    if let Event::AssistantMessage(AssistantMessage { text, .. })
    | Event::AssistantThought(AssistantThought { text, .. }) = &mut event
        && let Text::Inline(long) = text
        && long.len() > BLOB_BYTES_MIN
    {
        let blob = NewBlob::new(std::mem::take(long));
        *text = Text::Blob {
            sha256: blob.sha256.clone(),
        };
        new_blobs.push(blob);
    }
    event
}
