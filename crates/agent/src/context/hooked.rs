//! What hooks and commands change about what the model reads. The journal keeps what was typed.

use domain::EventSeq;
use domain::event::{HookPoint, HookRan};
use llm::Message;
use serde_json::{Value, json};

use super::fold::Piece;
use super::{Conversation, VERBATIM_BYTES_MAX, head_of};

impl Conversation {
    /// Takes in what a hook did, at `seq`.
    pub(super) fn hooked(&mut self, seq: EventSeq, ran: &HookRan) {
        let guards = matches!(
            ran.event,
            HookPoint::SessionStart | HookPoint::UserPromptSubmit
        );
        if guards && ran.stopped {
            return self.refuse(seq);
        }
        if let Some(prompt) = &ran.prompt {
            self.reword(seq, prompt);
        }
        if let Some(context) = &ran.context {
            self.add(seq, Piece::Remarked(context.clone()));
        }
    }

    /// Has the model read `text` in place of the newest prompt.
    pub(super) fn reword(&mut self, seq: EventSeq, text: &str) {
        let verbatim = head_of(text, VERBATIM_BYTES_MAX);
        let newest = self.last_prompt.take();
        if newest.as_ref().map(|(_, typed)| typed) == self.first_prompt.as_ref() {
            self.first_prompt = Some(verbatim.clone());
        }
        let at = newest.map_or(seq, |(at, _)| at);
        self.last_prompt = Some((at, verbatim));
        self.add(seq, Piece::Reworded(text.to_owned()));
    }

    /// The newest prompt is kept from the model, with all that was said since.
    fn refuse(&mut self, seq: EventSeq) {
        let newest = self.last_prompt.take();
        if newest.map(|(_, typed)| typed) == self.first_prompt {
            self.first_prompt = None;
        }
        self.add(seq, Piece::Refused);
    }
}

/// Rewords the newest prompt; images and files in it stay.
pub(super) fn reword(messages: &mut [Message], reworded: &str) {
    let prompts = messages.iter_mut().filter_map(|message| match message {
        Message::User { text, blocks } => Some((text, blocks)),
        Message::Assistant { .. } | Message::ToolResults(_) => None,
    });
    if let Some((text, blocks)) = prompts.last() {
        reworded.clone_into(text);
        blocks.retain(|block| block["type"] != "text");
        blocks.insert(0, text_block(reworded));
    }
}

/// Adds a remark to a prompt that is the last word.
pub(super) fn remark(text: &mut String, blocks: &mut Vec<Value>, remark: &str) {
    let remark = marked(remark);
    text.push_str("\n\n");
    text.push_str(&remark);
    blocks.push(text_block(&remark));
}

/// A remark that stands alone.
pub(super) fn remarked(remark: &str) -> Message {
    let text = marked(remark);
    Message::User {
        blocks: vec![text_block(&text)],
        text,
    }
}

/// Forgets the newest prompt and what came after it.
pub(super) fn forget(messages: &mut Vec<Message>) {
    let is_prompt = |message: &Message| matches!(message, Message::User { .. });
    let newest = messages.iter().rposition(is_prompt);
    messages.truncate(newest.unwrap_or(messages.len()));
}

fn marked(remark: &str) -> String {
    format!("[from a hook]\n{remark}")
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
