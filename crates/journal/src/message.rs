//! The message being streamed, as its writer sees it: begun, added to, ended.
//!
//! Its text is in the file `partial` only; `partial.rs` has the format.

use std::io;
use std::sync::Arc;

use domain::event::{MessageKind, MessageStarted, Text};
use domain::limits::BLOB_BYTES_MIN;
use domain::{Event, EventSeq, MessageId};

use crate::blobs::BlobDir;
use crate::meta::Started;
use crate::storage::{StoredFile, read_full_at, write_all_at};
use crate::{StoreError, partial};

/// The message being streamed.
pub(crate) struct OpenMessage {
    pub(crate) started: EventSeq,
    message_id: MessageId,
    kind: MessageKind,
    file: Arc<dyn StoredFile>,
    header_bytes: u64,
    /// Bytes of text in the file.
    bytes: u64,
    /// Bytes of text that a sync was asked for; `None` before the first.
    handed: Option<u64>,
}

impl OpenMessage {
    /// The message `started`, whose text is the `bytes` after `header_bytes` in `file`.
    pub(crate) fn found(
        started: &Started,
        file: Arc<dyn StoredFile>,
        header_bytes: u64,
        bytes: u64,
    ) -> Self {
        Self {
            started: started.seq,
            message_id: started.id.clone(),
            kind: started.kind,
            file,
            header_bytes,
            bytes,
            handed: None,
        }
    }

    /// Empties `file` and begins with the message in it.
    pub(crate) fn begin_anew(started: &Started, file: Arc<dyn StoredFile>) -> io::Result<Self> {
        // Nearly always it is: cutting nothing off costs as much as cutting.
        if file.len()? > 0 {
            file.truncate(0)?;
        }
        Self::begin(started, file)
    }

    /// Writes the line that says whose text will follow into a `file` that is empty.
    pub(crate) fn begin(started: &Started, file: Arc<dyn StoredFile>) -> io::Result<Self> {
        let header = partial::header(started.seq);
        write_all_at(&*file, header.as_bytes(), 0)?;
        Ok(Self::found(started, file, header.len() as u64, 0))
    }

    /// Bytes of text so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds to the text; returns its bytes so far.
    pub(crate) fn push(&mut self, text: &str) -> Result<u64, StoreError> {
        let end = self.header_bytes + self.bytes;
        if let Err(error) = write_all_at(&*self.file, text.as_bytes(), end) {
            // As with events: nobody has seen them.
            let _ = self.file.truncate(end);
            return Err(error.into());
        }
        self.bytes += text.len() as u64;
        Ok(self.bytes)
    }

    /// The event that ends the message, its text in place or, if long, in a blob.
    pub(crate) fn end(&self, partial: bool, blobs: &BlobDir<'_>) -> Result<Event, StoreError> {
        let text = match usize::try_from(self.bytes) {
            Ok(bytes) if bytes <= BLOB_BYTES_MIN => Text::Inline(self.read(bytes)?),
            _ => {
                let sha256 = blobs.store_range(&*self.file, self.header_bytes, self.bytes)?;
                blobs.sync()?;
                Text::Blob { sha256 }
            }
        };
        let started = MessageStarted {
            message_id: self.message_id.clone(),
            kind: self.kind,
        };
        Ok(started.ended(text, partial))
    }

    /// Empties the file, whose text is stored now, and gives it back.
    pub(crate) fn clear(self) -> io::Result<Arc<dyn StoredFile>> {
        self.file.truncate(0)?;
        Ok(self.file)
    }

    /// The file, if it has text that no sync was asked for.
    pub(crate) fn unsynced(&mut self) -> Option<Arc<dyn StoredFile>> {
        if self.handed == Some(self.bytes) {
            return None;
        }
        self.handed = Some(self.bytes);
        Some(Arc::clone(&self.file))
    }

    fn read(&self, bytes: usize) -> io::Result<String> {
        let mut text = vec![0; bytes];
        if read_full_at(&*self.file, &mut text, self.header_bytes)? < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}
