//! The names in a directory: as everybody sees them, and as they would be after a power loss.

use super::BTreeMap;
use crate::chance::Chance;

/// Names and the nodes they lead to.
#[derive(Default)]
pub(super) struct Names {
    pub(super) seen: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    unsynced: Vec<NameOp>,
}

/// A change of names.
#[derive(Clone)]
pub(super) enum NameOp {
    Add(String, usize),
    Remove(String),
    Rename(String, String, usize),
}

impl NameOp {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Add(name, node) => {
                names.insert(name.clone(), *node);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
            Self::Rename(from, to, node) => {
                // One whose source never reached the disk did not either.
                if names.get(from) == Some(node) {
                    names.remove(from);
                    names.insert(to.clone(), *node);
                }
            }
        }
    }
}

impl Names {
    pub(super) fn change(&mut self, op: NameOp) {
        op.apply(&mut self.seen);
        self.unsynced.push(op);
    }

    pub(super) fn last_change(&self) -> Option<&NameOp> {
        self.unsynced.last()
    }

    pub(super) fn sync(&mut self) {
        for op in self.unsynced.drain(..) {
            op.apply(&mut self.durable);
        }
    }

    /// Keeps what was synced, and any of the later changes: no order is promised among them.
    pub(super) fn lose_power(&mut self, chance: &mut Chance) {
        let all_or_none = chance.below(3);
        for op in self.unsynced.drain(..) {
            let kept = match all_or_none {
                0 => false,
                1 => true,
                _ => chance.one_in(2),
            };
            if kept {
                op.apply(&mut self.durable);
            }
        }
        self.seen.clone_from(&self.durable);
    }
}
