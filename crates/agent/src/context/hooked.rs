//! What hooks and commands change about what the model reads. The journal keeps what was typed.

use domain::event::{HookPoint, HookRan};
use llm::Message;
use serde_json::{Value, json};

/// Has the model read `text` in place of the newest prompt; images and files in it stay.
pub(super) fn reword(messages: &mut [Message], reworded: &str) {
    let newest = messages.iter_mut().rev();
    let prompt = newest.filter_map(|message| match message {
        Message::User { text, blocks } => Some((text, blocks)),
        Message::Assistant { .. } | Message::ToolResults(_) => None,
    });
    if let Some((text, blocks)) = { prompt }.next() {
        reworded.clone_into(text);
        blocks.retain(|block| block["type"] != "text");
        blocks.insert(0, text_block(reworded));
    }
}

/// Has the model read `remark` besides: with the prompt if that is the last word, else after it.
pub(super) fn remark(messages: &mut Vec<Message>, remark: &str) {
    let remark = format!("[from a hook]\n{remark}");
    if let Some(Message::User { text, blocks }) = messages.last_mut() {
        text.push_str("\n\n");
        text.push_str(&remark);
        blocks.push(text_block(&remark));
        return;
    }
    messages.push(Message::User {
        blocks: vec![text_block(&remark)],
        text: remark,
    });
}

/// Forgets the newest prompt and what came after it.
pub(super) fn forget(messages: &mut Vec<Message>) {
    let is_prompt = |message: &Message| matches!(message, Message::User { .. });
    let kept = messages.iter().rposition(is_prompt);
    messages.truncate(kept.unwrap_or(messages.len()));
}

/// Whether the prompt was kept from the model.
pub(super) fn is_refused(ran: &HookRan) -> bool {
    let guards = matches!(
        ran.event,
        HookPoint::SessionStart | HookPoint::UserPromptSubmit
    );
    guards && ran.stopped
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
