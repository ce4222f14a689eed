//! What became of prompts that are too old for the session's memory: the journal forgets none.

use std::ops::ControlFlow;

use domain::{EventSeq, FailureKind, PromptId};

use super::SessionActor;
use crate::state::{Fate, SessionState};
use crate::store_task::{blocking, failure_kind};

impl SessionActor {
    /// What became of the prompt `id`, if only the journal can say. Usually nothing is read: neither
    /// while the session has few prompts nor, nearly always, for one that is new.
    pub(super) async fn recall(
        &mut self,
        id: Option<&PromptId>,
    ) -> Result<Option<Fate>, FailureKind> {
        let state = self.open.as_ref().map(|open| &open.state);
        let is_forgotten = |id: &&PromptId| state.is_some_and(|state| state.may_have_forgotten(id));
        let Some(prompt) = id.filter(is_forgotten).cloned() else {
            return Ok(None);
        };
        let (store, session) = (self.engine.store.clone(), self.id);
        let read = blocking(move || {
            let (mut state, mut fate) = (SessionState::default(), None);
            let mut reader = store.reader(session)?;
            reader.for_each(EventSeq(0), &mut |stored| {
                state.apply(stored.seq, &stored.event);
                fate = state.fate(&prompt).cloned().or_else(|| fate.take());
                ControlFlow::Continue(())
            })?;
            Ok(fate)
        });
        read.await.map_err(|error| failure_kind(&error))
    }
}
