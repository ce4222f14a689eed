//! Reading a session from front to back in bounded memory, beside its writer.

use std::sync::Arc;

use domain::event::Text;
use domain::limits::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX};
use domain::{EventSeq, SessionId};
use journal::{FileStore, Reader, StoreError, Stored};

/// Bytes of a long text read at once.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// A place in a session, and the way on.
pub(super) struct Walk {
    reader: Reader,
    after: EventSeq,
}

/// How a walk to the end of a session went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Every event was read.
    Whole,
    /// This event, and all after it, cannot be believed.
    Damaged(EventSeq),
}

impl Walk {
    /// A walk that begins with the event after `after`.
    pub(super) fn after(
        store: &FileStore,
        id: SessionId,
        after: EventSeq,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            reader: store.reader(id)?,
            after,
        })
    }

    /// The next events; none if there are no more yet.
    pub(super) fn next(&mut self) -> Result<Vec<Arc<Stored>>, StoreError> {
        let everything = EventSeq(u64::MAX);
        let (events, bytes) = (BATCH_EVENTS_MAX, BATCH_BYTES_MAX);
        let batch = self
            .reader
            .read_after(self.after, everything, events, bytes)?;
        if let Some(last) = batch.last() {
            self.after = last.seq;
        }
        Ok(batch)
    }

    /// Visits every event up to the end, or up to the damage.
    ///
    /// # Errors
    /// If the disk fails, or `visit` does for another reason than damage.
    pub(super) fn visit_rest(
        &mut self,
        mut visit: impl FnMut(&mut Reader, &Stored) -> anyhow::Result<()>,
    ) -> anyhow::Result<End> {
        loop {
            let batch = match self.next() {
                Ok(batch) if batch.is_empty() => return Ok(End::Whole),
                Ok(batch) => batch,
                Err(StoreError::Damaged { at }) => return Ok(End::Damaged(at)),
                Err(error) => return Err(error.into()),
            };
            for stored in batch {
                match visit(&mut self.reader, &stored) {
                    Err(error) if is_damaged_text(&error) => return Ok(End::Damaged(stored.seq)),
                    visited => visited?,
                }
            }
        }
    }

    /// The reader, for the texts of events.
    pub(super) fn reader(&mut self) -> &mut Reader {
        &mut self.reader
    }
}

/// Hands out a message's text from byte `from` on, piece by piece.
///
/// # Errors
/// [`StoreError::DamagedText`] if it is missing or wrong, [`StoreError::NotFound`] if the session
/// was deleted, or what `take` fails with.
pub(super) fn text(
    reader: &Reader,
    text: &Text,
    from: u64,
    mut take: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut offset = from;
    loop {
        let piece = reader.read_text(text, offset, PIECE_BYTES_MAX)?;
        if piece.is_empty() {
            return Ok(());
        }
        take(&piece)?;
        offset += piece.len() as u64;
    }
}

/// Makes sure that a message's text is what was stored.
///
/// # Errors
/// [`StoreError::DamagedText`] if it is not, [`StoreError::NotFound`] if the session was deleted.
pub(super) fn check(reader: &Reader, text: &Text) -> Result<(), StoreError> {
    match text {
        Text::Inline(_) => Ok(()),
        Text::Blob { .. } => reader.read_text(text, 0, PIECE_BYTES_MAX).map(drop),
    }
}

fn is_damaged_text(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(StoreError::DamagedText | StoreError::Damaged { .. })
    )
}
