//! A file's bytes: as everybody sees them, and as they would be after a power loss.

use crate::chance::Chance;

/// The least that a disk writes at once.
const SECTOR_BYTES: usize = 512;

/// The bytes of a file.
#[derive(Default)]
pub(super) struct Content {
    pub(super) seen: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// How many of the unsynced changes the last sync was asked for.
    asked: usize,
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>, mut keeps: impl FnMut(usize) -> bool) {
        match self {
            Self::Truncate(len) => content.resize(*len, 0),
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                let mut at = *offset;
                while at < end {
                    let sector = at / SECTOR_BYTES;
                    let to = end.min((sector + 1) * SECTOR_BYTES);
                    if keeps(sector) {
                        content[at..to].copy_from_slice(&bytes[at - offset..to - offset]);
                    }
                    at = to;
                }
            }
        }
    }
}

impl Content {
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64, chance: &mut Chance) -> usize {
        let from = usize::try_from(offset).map_or(self.seen.len(), |at| at.min(self.seen.len()));
        let rest = &self.seen[from..];
        let mut count = rest.len().min(buffer.len());
        if count > 1 && chance.one_in(100) {
            count = 1 + chance.index(count - 1);
        }
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        self.change(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
    }

    pub(super) fn truncate(&mut self, len: u64) {
        self.change(Change::Truncate(usize::try_from(len).unwrap_or(usize::MAX)));
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.durable, |_| true);
        }
        self.asked = 0;
    }

    /// Reaches only as far as the sync before was asked for.
    pub(super) fn sync_late(&mut self) {
        let asked = self.asked.min(self.unsynced.len());
        for change in self.unsynced.drain(..asked) {
            change.apply(&mut self.durable, |_| true);
        }
        self.asked = self.unsynced.len();
    }

    /// As Linux does it: the pages count as clean from now on though they never reached the disk,
    /// and a later sync that succeeds says nothing of them.
    pub(super) fn fail_sync(&mut self, chance: &mut Chance) {
        let mut lost = std::mem::take(&mut self.unsynced);
        for change in lost.drain(..) {
            match change {
                // The size is kept by the file system, not with the data.
                Change::Truncate(_) => change.apply(&mut self.durable, |_| true),
                Change::Write { .. } => change.apply(&mut self.durable, |_| chance.one_in(2)),
            }
        }
        self.asked = 0;
    }

    /// Keeps what was synced, and of the later changes some sectors of the first few.
    ///
    /// Sizes change in order. A sector holds what it held at some time: never a later write
    /// without an earlier one.
    pub(super) fn lose_power(&mut self, chance: &mut Chance) {
        let changes = std::mem::take(&mut self.unsynced);
        let sized = match chance.below(3) {
            0 => 0,
            1 => changes.len(),
            _ => chance.index(changes.len() + 1),
        };
        let mut written = std::collections::BTreeMap::new();
        for (at, change) in changes.iter().take(sized).enumerate() {
            change.apply(&mut self.durable, |sector| {
                let until = written
                    .entry(sector)
                    .or_insert_with(|| match chance.below(4) {
                        0 => 0,
                        1 => chance.index(sized + 1),
                        _ => sized,
                    });
                at < *until
            });
        }
        self.asked = 0;
        self.seen.clone_from(&self.durable);
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen, |_| true);
        self.unsynced.push(change);
    }
}
