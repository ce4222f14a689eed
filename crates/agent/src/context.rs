//! What the model sees: a fold over the journal.

mod hooked;

use std::sync::Arc;

use domain::Event;
use domain::event::{HookRan, Text, ToolStatus};
use llm::{Message, ToolCall, ToolOutcome};

/// The conversation so far. The same events give the same conversation, live or after a restart.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    messages: Arc<Vec<Message>>,
    bytes: usize,
}

impl Conversation {
    /// Takes in one stored event.
    ///
    /// `read` gives the text of a long message from its file; it is asked only for those.
    pub fn apply(&mut self, event: &Event, read: impl FnOnce(&Text) -> String) {
        match event {
            Event::UserMessage(user) => {
                self.bytes += user.text.len();
                self.push(Message::User {
                    text: user.text.clone(),
                    blocks: user.blocks.clone(),
                });
            }
            Event::AssistantMessage(message) => self.say(match &message.text {
                Text::Inline(text) => text.clone(),
                blob @ Text::Blob { .. } => read(blob),
            }),
            Event::ToolUse(used) => {
                let call = ToolCall {
                    id: used.call_id.clone(),
                    name: used.name.clone(),
                    input: used.input.clone(),
                };
                self.bytes += used.name.len() + 64;
                self.call(call);
            }
            Event::ToolResult(result) => {
                self.bytes += result.text.len();
                let failed = result.status != ToolStatus::Completed;
                let text = shown_result(result.status, &result.text);
                let name = self.name_of(&result.call_id);
                self.outcome(ToolOutcome {
                    call: result.call_id.clone(),
                    name,
                    text,
                    failed,
                });
            }
            Event::PromptExpanded(expanded) => self.reword(&expanded.text),
            Event::HookRan(ran) => self.hooked(ran),
            Event::SessionCreated(_)
            | Event::SessionUpdated(_)
            | Event::PromptQueued(_)
            | Event::PromptDropped(_)
            | Event::TurnStarted(_)
            | Event::MessageStarted(_)
            | Event::AssistantThought(_)
            | Event::PermissionAsked(_)
            | Event::PermissionAnswered(_)
            | Event::ModeChanged(_)
            | Event::UsageRecorded(_)
            | Event::TurnResult(_)
            | Event::TurnInterrupted(_)
            | Event::SessionRecovered(_)
            | Event::SessionForked(_)
            | Event::SessionClosed(_)
            | Event::Notice(_)
            | Event::Unknown(_) => {}
        }
    }

    /// The messages, shared: applying further events does not change what was handed out.
    #[must_use]
    pub fn messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// About how much memory it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn hooked(&mut self, ran: &HookRan) {
        if hooked::is_refused(ran) {
            return hooked::forget(Arc::make_mut(&mut self.messages));
        }
        if let Some(prompt) = &ran.prompt {
            self.reword(prompt);
        }
        if let Some(context) = &ran.context {
            self.bytes += context.len();
            hooked::remark(Arc::make_mut(&mut self.messages), context);
        }
    }

    fn reword(&mut self, text: &str) {
        self.bytes += text.len();
        let messages: &mut Vec<Message> = Arc::make_mut(&mut self.messages);
        hooked::reword(messages, text);
    }

    fn push(&mut self, message: Message) {
        Arc::make_mut(&mut self.messages).push(message);
    }

    fn say(&mut self, said: String) {
        if said.is_empty() {
            return;
        }
        self.bytes += said.len();
        match Arc::make_mut(&mut self.messages).last_mut() {
            Some(Message::Assistant { text, calls }) if calls.is_empty() => text.push_str(&said),
            _ => self.push(Message::Assistant {
                text: said,
                calls: Vec::new(),
            }),
        }
    }

    fn call(&mut self, call: ToolCall) {
        match Arc::make_mut(&mut self.messages).last_mut() {
            Some(Message::Assistant { calls, .. }) => calls.push(call),
            _ => self.push(Message::Assistant {
                text: String::new(),
                calls: vec![call],
            }),
        }
    }

    fn outcome(&mut self, outcome: ToolOutcome) {
        match Arc::make_mut(&mut self.messages).last_mut() {
            Some(Message::ToolResults(outcomes)) => outcomes.push(outcome),
            _ => self.push(Message::ToolResults(vec![outcome])),
        }
    }

    /// The tool that `call` used, from the newest call of that name.
    fn name_of(&self, call: &domain::CallId) -> String {
        let calls = self
            .messages
            .iter()
            .rev()
            .filter_map(|message| match message {
                Message::Assistant { calls, .. } => Some(calls),
                Message::User { .. } | Message::ToolResults(_) => None,
            });
        let found = calls.flatten().find(|candidate| candidate.id == *call);
        found.map(|found| found.name.clone()).unwrap_or_default()
    }
}

/// A result as the model reads it: one that did not run says so.
fn shown_result(status: ToolStatus, text: &str) -> String {
    let note = match status {
        ToolStatus::Completed | ToolStatus::Failed => return text.to_owned(),
        // Who said no says why.
        ToolStatus::Denied if !text.is_empty() => "This call was not allowed, and was not run.",
        ToolStatus::Denied => "The person did not allow this call. It was not run.",
        ToolStatus::Cancelled => "The turn was cancelled before this call ended.",
        ToolStatus::NotRun => "This call was not run.",
        ToolStatus::Unknown => "It is unknown whether this call ran. Check before you repeat it.",
    };
    if text.is_empty() {
        note.to_owned()
    } else {
        format!("{note}\n{text}")
    }
}

#[cfg(test)]
mod tests;
