//! What hooks and commands change about what the model reads. The journal keeps what was typed.

use domain::EventSeq;
use domain::event::{HookPoint, HookRan};
use llm::Message;
use serde_json::{Value, json};

use super::fold::{Mark, message_bytes};
use super::{Conversation, VERBATIM_BYTES_MAX, head_of};

impl Conversation {
    /// Takes in that a hook ran, at `seq`.
    pub(super) fn hooked(&mut self, seq: EventSeq, ran: &HookRan) {
        if is_refused(ran) {
            return self.forget_prompt();
        }
        if let Some(prompt) = &ran.prompt {
            self.reword(prompt);
        }
        if let Some(context) = &ran.context {
            self.remark(seq, context);
        }
    }

    /// Has the model read `reworded` in place of the newest prompt; images and files in it stay.
    pub(super) fn reword(&mut self, reworded: &str) {
        let newest = self.settle().iter_mut().rev();
        let prompt = newest.filter_map(|message| match message {
            Message::User { text, blocks } => Some((text, blocks)),
            Message::Assistant { .. } | Message::ToolResults(_) => None,
        });
        if let Some((text, blocks)) = { prompt }.next() {
            reworded.clone_into(text);
            blocks.retain(|block| block["type"] != "text");
            blocks.insert(0, text_block(reworded));
        }
        let verbatim = head_of(reworded, VERBATIM_BYTES_MAX);
        if let Some((seq, last)) = &mut self.last_prompt {
            last.clone_from(&verbatim);
            let first = self.first_prompt.as_mut();
            if let Some((_, first)) = first.filter(|(first, _)| first == seq) {
                *first = verbatim;
            }
        }
        self.weigh();
    }

    /// Has the model read `remark` besides: with the prompt if that is the last word, else after it.
    fn remark(&mut self, seq: EventSeq, remark: &str) {
        let remark = format!("[from a hook]\n{remark}");
        let messages = self.settle();
        if let Some(Message::User { text, blocks }) = messages.last_mut() {
            text.push_str("\n\n");
            text.push_str(&remark);
            blocks.push(text_block(&remark));
        } else {
            messages.push(Message::User {
                blocks: vec![text_block(&remark)],
                text: remark,
            });
            self.marks.push(Mark::at(seq));
        }
        self.weigh();
    }

    /// Forgets the newest prompt and what came after it.
    fn forget_prompt(&mut self) {
        let is_prompt = |message: &Message| matches!(message, Message::User { .. });
        let messages = self.settle();
        let kept = messages.iter().rposition(is_prompt);
        let kept = kept.unwrap_or(messages.len());
        messages.truncate(kept);
        self.marks.truncate(kept);
        if self.first_prompt == self.last_prompt {
            self.first_prompt = None;
        }
        self.last_prompt = None;
        self.weigh();
    }

    /// Counts anew how long it is. What the provider counted holds no longer.
    fn weigh(&mut self) {
        self.bytes = self.messages.iter().map(message_bytes).sum();
        self.counted = None;
    }
}

/// Whether the prompt was kept from the model.
fn is_refused(ran: &HookRan) -> bool {
    let guards = matches!(
        ran.event,
        HookPoint::SessionStart | HookPoint::UserPromptSubmit
    );
    guards && ran.stopped
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
