//! A session as one JSON array of events: as they are stored, with everything that this version does
//! not know, but without checksums and with long texts in place.

use std::io::Write;

use domain::EventSeq;
use domain::limits::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX};
use journal::{Reader, StoreError};

use crate::sessions::walk::End;

/// Writes the array, one event a line, up to the end or up to the damage.
///
/// # Errors
/// If the disk or the output fails.
pub(super) fn write(reader: &mut Reader, out: &mut dyn Write) -> anyhow::Result<End> {
    out.write_all(b"[")?;
    let end = match write_events(reader, out) {
        Ok(()) => End::Whole,
        Err(error) => match error.downcast_ref() {
            Some(StoreError::Damaged { at }) => End::Damaged(*at),
            _ => return Err(error),
        },
    };
    out.write_all(b"\n]\n")?;
    Ok(end)
}

fn write_events(reader: &mut Reader, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut after = EventSeq(0);
    loop {
        let events = reader.raw_after(after, BATCH_EVENTS_MAX, BATCH_BYTES_MAX)?;
        if events.is_empty() {
            return Ok(());
        }
        for event in events {
            // Written with the first piece: an event whose text is damaged has none.
            let mut before: &[u8] = if after.0 == 0 { b"\n" } else { b",\n" };
            after = event.seq();
            reader.raw_pieces(&event, |piece| -> anyhow::Result<()> {
                out.write_all(std::mem::take(&mut before))?;
                Ok(out.write_all(piece.as_bytes())?)
            })?;
        }
    }
}
