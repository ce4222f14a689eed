//! The message being streamed, as its writer sees it: begun, added to, ended.
//!
//! Its text is in the file `partial` only; `partial.rs` has the format.

use std::io::{self, Read};
use std::sync::Arc;

use domain::event::{MessageKind, MessageStarted, Text};
use domain::limits::BLOB_BYTES_MIN;
use domain::{Event, EventSeq, MessageId};

use crate::StoreError;
use crate::blobs::BlobDir;
use crate::meta::Started;
use crate::partial::{FramePlace, Header};
use crate::storage::{StoredFile, write_all_at};

/// Room for frames that a message keeps from one piece of text to the next.
const KEPT_BYTES_MAX: usize = 4096;

/// The message being streamed.
pub(crate) struct OpenMessage {
    pub(crate) started: EventSeq,
    message_id: MessageId,
    kind: MessageKind,
    file: Arc<dyn StoredFile>,
    header: Header,
    /// The end of what is written.
    place: FramePlace,
    /// Frames being written, kept for the next time.
    frames: Vec<u8>,
    /// Bytes of text that a sync was asked for; `None` before the first.
    handed: Option<u64>,
}

impl OpenMessage {
    /// The message `started`, whose text follows `header` in `file` and ends at `place`.
    pub(crate) fn found(
        started: &Started,
        file: Arc<dyn StoredFile>,
        header: Header,
        place: FramePlace,
    ) -> Self {
        Self {
            started: started.seq,
            message_id: started.id.clone(),
            kind: started.kind,
            file,
            header,
            place,
            frames: Vec::new(),
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
        let header = Header::new(started.seq);
        write_all_at(&*file, header.line().as_bytes(), 0)?;
        let place = header.start();
        Ok(Self::found(started, file, header, place))
    }

    /// Bytes of text so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.place.text_bytes
    }

    /// Adds to the text; returns its bytes so far.
    pub(crate) fn push(&mut self, text: &str) -> Result<u64, StoreError> {
        self.frames.clear();
        let after = self.place.encode(text, &mut self.frames);
        if let Err(error) = write_all_at(&*self.file, &self.frames, self.place.offset) {
            // As with events: no client has seen them.
            let _ = self.file.truncate(self.place.offset);
            return Err(error.into());
        }
        self.place = after;
        // One long piece must not keep its memory for as long as the message is open.
        self.frames.shrink_to(KEPT_BYTES_MAX);
        Ok(self.bytes())
    }

    /// The event that ends the message, its text in place or, if long, in a blob.
    pub(crate) fn end(&self, partial: bool, blobs: &BlobDir<'_>) -> Result<Event, StoreError> {
        let text = match usize::try_from(self.bytes()) {
            Ok(bytes) if bytes <= BLOB_BYTES_MIN => Text::Inline(self.read(bytes)?),
            _ => {
                let sha256 = blobs.store_text(&mut *self.text(), self.bytes())?;
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
        if self.handed == Some(self.bytes()) {
            return None;
        }
        self.handed = Some(self.bytes());
        Some(Arc::clone(&self.file))
    }

    fn text(&self) -> Box<dyn Read> {
        self.header.text(&self.file, self.place.offset)
    }

    fn read(&self, bytes: usize) -> io::Result<String> {
        let mut text = vec![0; bytes];
        self.text().read_exact(&mut text)?;
        String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}
