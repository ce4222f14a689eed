//! What became of prompts that carry a client's own id, so that sending one twice runs it once.

use std::collections::{HashMap, VecDeque};

use domain::limits::PROMPT_IDS_REMEMBERED_MAX;
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
}

impl PromptLog {
    pub(super) fn get(&self, id: &PromptId) -> Option<&Fate> {
        self.fates.get(id)
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
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::PromptId;
    use domain::limits::PROMPT_IDS_REMEMBERED_MAX;

    use super::{Fate, PromptLog};

    #[test]
    fn the_newest_ids_are_remembered_and_no_more() {
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
    }
}
