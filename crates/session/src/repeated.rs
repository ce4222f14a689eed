//! Whether a prompt that carries a known id is the prompt that had it before.
//!
//! The journal has every prompt as it was sent, so nothing else needs to be stored for this, and it
//! holds across restarts and for sessions of older versions.

use std::ops::ControlFlow;

use domain::{Event, EventSeq, FailureKind, PromptId};
use journal::StoreError;
use serde_json::Value;

use crate::directory::Sessions;
use crate::handle::SessionHandle;
use crate::store_task::{blocking, failure_kind};

impl Sessions {
    /// The content blocks of the prompt that had the id `prompt`; `None` if there is none.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn prompt_blocks(
        &self,
        handle: &SessionHandle,
        prompt: PromptId,
    ) -> Result<Option<Vec<Value>>, FailureKind> {
        let (store, id) = (self.store.clone(), handle.id());
        let looked = blocking(move || {
            let mut found = None;
            store.reader(id)?.for_each(EventSeq(0), &mut |stored| {
                found = blocks_of(&stored.event, &prompt);
                match found {
                    Some(_) => ControlFlow::Break(()),
                    None => ControlFlow::Continue(()),
                }
            })?;
            Ok::<_, StoreError>(found)
        });
        looked.await.map_err(|error| failure_kind(&error))
    }
}

fn blocks_of(event: &Event, prompt: &PromptId) -> Option<Vec<Value>> {
    let (id, blocks) = if let Event::UserMessage(message) = event {
        (&message.prompt_id, &message.blocks)
    } else if let Event::PromptQueued(queued) = event {
        (&queued.prompt_id, &queued.blocks)
    } else {
        return None;
    };
    (id.as_ref() == Some(prompt)).then(|| blocks.clone())
}
