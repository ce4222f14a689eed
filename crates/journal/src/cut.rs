//! Cutting a torn end off the log, so that it is told even if the power fails meanwhile.
//!
//! Between the cut and the `session.recovered` that explains it nothing in the log would say that
//! bytes are missing. So the file `events.cut` names the epoch that must be reached, and is on disk
//! before the first byte is cut; once the log has that epoch it means nothing any more.

use std::io;

use serde::{Deserialize, Serialize};

use crate::scan::Place;
use crate::storage::{Access, CHUNK_BYTES, StoredFile, gone_is_fine, read_full_at, write_all_at};
use crate::store::SessionDir;

/// The file that says that bytes are being cut.
const INTENT: &str = "events.cut";

/// Longest intent worth reading; ours is below 40 bytes.
const INTENT_BYTES_MAX: usize = 64;

#[derive(Serialize, Deserialize)]
struct Intent {
    /// The epoch that the log will have when the cut has been told.
    epoch: u64,
}

/// Moves what stands after `end` to `events.torn`, for which the epoch will be `epoch`; returns how
/// many bytes.
pub(crate) fn cut(
    dir: &SessionDir,
    events: &dyn StoredFile,
    end: Place,
    epoch: u64,
) -> io::Result<u64> {
    let cut_bytes = keep(dir, events, end.offset)?;
    intend(dir, epoch)?;
    // The cached meta may cover what is cut.
    gone_is_fine(dir.storage().remove_file(&dir.path("meta.json")))?;
    dir.storage().sync_dir(&dir.name)?;
    events.truncate(end.offset)?;
    tracing::warn!(
        session = %dir.id,
        cut_bytes,
        next = %end.next,
        "the journal ended in an unfinished write; it was cut and kept in events.torn"
    );
    Ok(cut_bytes)
}

/// Whether bytes were cut, or were about to be, and the log at `epoch` does not say so yet.
pub(crate) fn is_untold(dir: &SessionDir, epoch: u64) -> io::Result<bool> {
    let file = match dir.open(INTENT, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    let mut buffer = [0; INTENT_BYTES_MAX];
    let count = read_full_at(&*file, &mut buffer, 0)?;
    // One that cannot be read was never synced, so nothing was cut: what is torn is still there.
    let intent: Option<Intent> = serde_json::from_slice(&buffer[..count]).ok();
    Ok(intent.is_some_and(|intent| epoch < intent.epoch))
}

/// The log has told of the cut. Not synced: what a power loss brings back names an epoch reached.
pub(crate) fn told(dir: &SessionDir) {
    if let Err(error) = gone_is_fine(dir.storage().remove_file(&dir.path(INTENT))) {
        tracing::debug!(session = %dir.id, %error, "events.cut could not be removed");
    }
}

/// Copies the bytes from `from` on to `events.torn`.
fn keep(dir: &SessionDir, events: &dyn StoredFile, mut from: u64) -> io::Result<u64> {
    let torn = dir.open("events.torn", Access::Create)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let (start, mut to) = (from, torn.len()?);
    loop {
        let count = read_full_at(events, &mut buffer, from)?;
        if count == 0 {
            break;
        }
        write_all_at(&*torn, &buffer[..count], to)?;
        from += count as u64;
        to += count as u64;
    }
    torn.sync()?;
    Ok(from - start)
}

fn intend(dir: &SessionDir, epoch: u64) -> io::Result<()> {
    let json = serde_json::to_vec(&Intent { epoch })?;
    let file = dir.open(INTENT, Access::Create)?;
    file.truncate(0)?;
    write_all_at(&*file, &json, 0)?;
    file.sync()
}
