//! What became of prompts that carry a client's own id, so that sending one twice runs it once.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use domain::limits::{PROMPT_IDS_FILTER_BITS, PROMPT_IDS_REMEMBERED_MAX};
use domain::{EventSeq, FailureKind, PromptId, TurnId};

use super::TurnOutcome;

/// What became of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It waits at this event.
    Queued(EventSeq),
    /// Its turn runs.
    Running(TurnId),
    /// Its turn ended.
    Ended(TurnOutcome),
    /// It was dropped from the queue.
    Dropped,
}

impl Fate {
    /// The fate of a turn that the process did not live to finish.
    #[must_use]
    pub fn interrupted() -> Self {
        Self::Ended(Err(FailureKind::Interrupted.into()))
    }
}

/// The newest prompt ids and their fates.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptLog {
    fates: HashMap<PromptId, Fate>,
    order: VecDeque<PromptId>,
    /// Those that are in the journal only.
    forgotten: Option<Box<Filter>>,
}

impl PromptLog {
    pub(super) fn get(&self, id: &PromptId) -> Option<&Fate> {
        self.fates.get(id)
    }

    /// Whether `id` may be one of those that only the journal has. Never wrong when it says no.
    pub(super) fn may_have_forgotten(&self, id: &PromptId) -> bool {
        let is_known = self.fates.contains_key(id);
        let forgotten = self.forgotten.as_ref();
        !is_known && forgotten.is_some_and(|forgotten| forgotten.may_hold(id))
    }

    pub(super) fn set(&mut self, id: &PromptId, fate: Fate) {
        if self.fates.insert(id.clone(), fate).is_some() {
            return;
        }
        self.order.push_back(id.clone());
        if self.order.len() > PROMPT_IDS_REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.fates.remove(&oldest);
            let forgotten = self.forgotten.get_or_insert_default();
            forgotten.add(&oldest);
        }
    }
}

/// A set that may take what it does not hold for something that it does (a Bloom filter): however
/// many ids there were, it takes the same room.
#[derive(Clone, Debug)]
struct Filter([u64; PROMPT_IDS_FILTER_BITS / 64]);

impl Default for Filter {
    fn default() -> Self {
        Self([0; PROMPT_IDS_FILTER_BITS / 64])
    }
}

impl Filter {
    fn add(&mut self, id: &PromptId) {
        for place in places(id) {
            self.0[place / 64] |= 1 << (place % 64);
        }
    }

    fn may_hold(&self, id: &PromptId) -> bool {
        let mut places = places(id).into_iter();
        places.all(|place| self.0[place / 64] & 1 << (place % 64) != 0)
    }
}

/// The bits that stand for `id`: different parts of one hash.
fn places(id: &PromptId) -> [usize; 3] {
    let mut hasher = DefaultHasher::new();
    id.as_str().hash(&mut hasher);
    let hash = hasher.finish();
    [0, 20, 40].map(|shift| (hash >> shift) as usize % PROMPT_IDS_FILTER_BITS)
}

#[cfg(test)]
mod tests {
    use domain::PromptId;
    use domain::limits::PROMPT_IDS_REMEMBERED_MAX;

    use super::{Fate, PromptLog};

    #[test]
    fn the_newest_ids_are_remembered_and_of_older_ones_that_they_were_there() {
        let id = |number: usize| PromptId::new(format!("prompt-{number}"));
        let mut log = PromptLog::default();
        for number in 0..=PROMPT_IDS_REMEMBERED_MAX {
            log.set(&id(number), Fate::Dropped);
            log.set(&id(number), Fate::interrupted());
        }
        assert_eq!(log.get(&id(0)), None);
        for number in [1, PROMPT_IDS_REMEMBERED_MAX] {
            assert_eq!(log.get(&id(number)), Some(&Fate::interrupted()));
        }
        assert_eq!(log.fates.len(), PROMPT_IDS_REMEMBERED_MAX);
        assert!(log.may_have_forgotten(&id(0)));
        assert!(!log.may_have_forgotten(&id(1)), "it is here");
        let new = PROMPT_IDS_REMEMBERED_MAX + 1;
        assert!(!log.may_have_forgotten(&id(new)), "it never was");
    }
}
