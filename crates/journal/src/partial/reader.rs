//! Reading the text of the open message beside its writer.

use std::sync::Arc;

use domain::EventSeq;

use super::{FramePlace, FrameReader, Layout, cut_text, read_header, read_piece};
use crate::StoreError;
use crate::storage::StoredFile;

/// Times a frame is read before it counts as damaged: its writer may be just writing it.
const LOOKS_MAX: usize = 4;

/// Reads `partial` and remembers the frame that it reached, so that reading on costs no walk.
pub(crate) struct PartialReader {
    file: Arc<dyn StoredFile>,
    /// The last frame that was read, of this message.
    reached: Option<(EventSeq, FramePlace)>,
}

impl PartialReader {
    pub(crate) fn new(file: Arc<dyn StoredFile>) -> Self {
        Self {
            file,
            reached: None,
        }
    }

    /// See [`crate::Reader::read_partial`].
    pub(crate) fn read(
        &mut self,
        started: EventSeq,
        offset: u64,
        max: usize,
    ) -> Result<Option<String>, StoreError> {
        let mut looks = 0;
        let text = loop {
            let header = read_header(&*self.file)?;
            let Some(header) = header.filter(|header| header.seq == started) else {
                return Ok(None);
            };
            let text = match header.layout {
                Layout::Bare => read_piece(&*self.file, header.bytes.saturating_add(offset), max),
                Layout::Framed { .. } => self.read_framed(started, header.start(), offset, max),
            };
            looks += 1;
            if !matches!(text, Err(StoreError::DamagedText)) || looks == LOOKS_MAX {
                break text;
            }
            std::thread::yield_now();
        };
        // The writer may have begun another message in the meantime; then this is not its text.
        let header = read_header(&*self.file)?;
        if header.is_none_or(|header| header.seq != started) {
            return Ok(None);
        }
        text.map(Some)
    }

    fn read_framed(
        &mut self,
        started: EventSeq,
        start: FramePlace,
        offset: u64,
        max: usize,
    ) -> Result<String, StoreError> {
        let reached = self
            .reached
            .filter(|(seq, place)| *seq == started && place.text_bytes <= offset);
        let place = reached.map_or(start, |(_, place)| place);
        let ahead = self.file.len()?.saturating_sub(place.offset);
        let mut frames = FrameReader::new(Arc::clone(&self.file), place, ahead);
        let (bytes, reached) = frames.read_text(offset, max)?;
        self.reached = Some((started, reached));
        cut_text(bytes, max)
    }
}
