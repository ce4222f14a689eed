//! A queued prompt as clients are shown it.

use serde::{Deserialize, Serialize};

use crate::limits::QUEUED_PROMPT_SHOWN_BYTES_MAX;
use crate::{EventSeq, PromptId};

/// A prompt that waits for the running turn to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedPrompt {
    /// The event that queued it; its name from then on.
    pub seq: EventSeq,
    /// The client's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<PromptId>,
    /// Its text, or the beginning of a long one.
    pub text: String,
    /// Whether `text` is only the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl QueuedPrompt {
    /// The prompt as clients are shown it.
    #[must_use]
    pub fn new(seq: EventSeq, prompt_id: Option<&PromptId>, text: &str) -> Self {
        let end = text.floor_char_boundary(QUEUED_PROMPT_SHOWN_BYTES_MAX);
        Self {
            seq,
            prompt_id: prompt_id.cloned(),
            text: text[..end].to_owned(),
            cut: end < text.len(),
        }
    }
}
