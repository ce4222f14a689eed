//! What the model sees: a fold over the journal.
//!
//! [`Conversation::apply`] takes events in; [`plan`] says what could be left out when it grows too
//! long, and [`fold`] has the rules of how pieces become messages. The journal is never changed by
//! any of this: a compaction is one more event of the fold.

mod fold;
mod hooked;
mod plan;

use std::sync::Arc;

use domain::event::{
    Compaction, CompactionKind, Text, ToolStatus, UsagePurpose, UsageRecorded, UserMessage,
};
use domain::limits::{CONVERSATION_BYTES_KEPT, CONVERSATION_BYTES_MAX};
use domain::{Event, EventSeq};
use llm::{Message, ToolCall, ToolOutcome};
use serde_json::Value;

use fold::{Mark, Piece, append};
pub use plan::{Cut, Plan, Prune};

use crate::command::Command;
use crate::report::Context;

/// What stands in for the output of an old tool call.
const PRUNED: &str =
    "[This output was left out to save space. Call the tool again if you need it.]";

/// Longest part of an instruction that is kept word for word when the rest is summarised.
const VERBATIM_BYTES_MAX: usize = 8 * 1024;

/// The conversation so far. The same events give the same conversation, live or after a restart.
#[derive(Debug, Default)]
pub struct Conversation {
    messages: Arc<Vec<Message>>,
    /// Where each message comes from.
    marks: Vec<Mark>,
    /// What came while `messages` was lent out: adding to it then would copy all of it.
    waiting: Vec<(EventSeq, Piece)>,
    /// Bytes that a model reads.
    bytes: usize,
    /// What the person asked for first and last, and where.
    first_prompt: Option<(EventSeq, String)>,
    last_prompt: Option<(EventSeq, String)>,
    counted: Option<Counted>,
}

/// What the provider counted, and how long the conversation was then.
#[derive(Clone, Copy, Debug)]
struct Counted {
    tokens: u64,
    bytes: usize,
}

impl Conversation {
    /// Takes in the event stored at `seq`.
    ///
    /// `read` gives the text of a long message from its file; it is asked only for those.
    pub fn apply(&mut self, seq: EventSeq, event: &Event, read: impl FnOnce(&Text) -> String) {
        match event {
            Event::UserMessage(user) => self.prompted(seq, user),
            Event::AssistantMessage(message) => {
                let text = match &message.text {
                    Text::Inline(text) => text.clone(),
                    blob @ Text::Blob { .. } => read(blob),
                };
                if !text.is_empty() {
                    self.add(seq, Piece::Said(text));
                }
            }
            Event::ToolUse(used) => {
                let call = ToolCall {
                    id: used.call_id.clone(),
                    name: used.name.clone(),
                    input: used.input.clone(),
                };
                self.add(seq, Piece::Called(call));
            }
            Event::ToolResult(result) => {
                let outcome = ToolOutcome {
                    call: result.call_id.clone(),
                    // The call knows it.
                    name: String::new(),
                    text: shown_result(result.status, &result.text),
                    failed: result.status != ToolStatus::Completed,
                    images: images(&result.blocks),
                };
                self.add(seq, Piece::Ended(outcome));
            }
            Event::PromptExpanded(expanded) => self.reword(&expanded.text),
            Event::HookRan(ran) => self.hooked(seq, ran),
            Event::UsageRecorded(recorded) => self.count(recorded),
            Event::Compaction(compaction) => self.compact(compaction),
            Event::SessionCreated(_)
            | Event::SessionUpdated(_)
            | Event::PromptQueued(_)
            | Event::PromptDropped(_)
            | Event::TurnStarted(_)
            | Event::MessageStarted(_)
            | Event::AssistantThought(_)
            | Event::PermissionAsked(_)
            | Event::PermissionAnswered(_)
            | Event::QuestionAsked(_)
            | Event::QuestionAnswered(_)
            | Event::PlanUpdated(_)
            | Event::ModeChanged(_)
            | Event::TurnResult(_)
            | Event::TurnInterrupted(_)
            | Event::SessionRecovered(_)
            // Whoever folds leaves out what was rewound; the rewinding itself says nothing.
            | Event::SessionRewound(_)
            | Event::SessionForked(_)
            | Event::ChildLinked(_)
            | Event::SessionClosed(_)
            | Event::Notice(_)
            | Event::Unknown(_) => {}
        }
    }

    /// What the model sees now. Shared: applying further events does not change what was handed
    /// out.
    #[must_use]
    pub fn context(&mut self) -> Context {
        self.settle();
        Context {
            messages: Arc::clone(&self.messages),
            tokens: self.tokens(),
            is_counted: self.counted.is_some(),
        }
    }

    /// About how many tokens a model reads in it: what the provider counted last, and a guess for
    /// what came since. A count that cannot be true is not believed: some servers leave out what
    /// they had in their cache.
    fn tokens(&self) -> u64 {
        let guess = tokens_in(self.bytes);
        self.counted.map_or(guess, |counted| {
            let since = self.bytes.saturating_sub(counted.bytes);
            (counted.tokens + tokens_in(since)).max(guess * 2 / 3)
        })
    }

    /// About how much memory it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn prompted(&mut self, seq: EventSeq, user: &UserMessage) {
        // What is said to the program is not said to the model.
        if Command::parse(&user.text).is_some() {
            return;
        }
        let prompt = (seq, head_of(&user.text, VERBATIM_BYTES_MAX));
        self.first_prompt.get_or_insert_with(|| prompt.clone());
        self.last_prompt = Some(prompt);
        let (text, blocks) = (user.text.clone(), user.blocks.clone());
        self.add(seq, Piece::Prompted { text, blocks });
    }

    fn count(&mut self, recorded: &UsageRecorded) {
        if recorded.purpose == UsagePurpose::Answer && recorded.usage.input_tokens > 0 {
            self.counted = Some(Counted {
                tokens: recorded.usage.input_tokens,
                bytes: self.bytes,
            });
        }
    }

    fn add(&mut self, seq: EventSeq, piece: Piece) {
        self.bytes += piece.bytes();
        if Arc::get_mut(&mut self.messages).is_none() || !self.waiting.is_empty() {
            return self.waiting.push((seq, piece));
        }
        append(
            Arc::make_mut(&mut self.messages),
            &mut self.marks,
            seq,
            piece,
        );
        if self.bytes > CONVERSATION_BYTES_MAX {
            self.leave_out_oldest();
        }
    }

    /// Leaves out the oldest messages, so that a session of any length fits into memory. No model
    /// reads this much: what remains is summarised before it is sent.
    fn leave_out_oldest(&mut self) {
        let messages = Arc::make_mut(&mut self.messages);
        let mut bytes: usize = messages.iter().map(fold::message_bytes).sum();
        let mut gone = 0;
        // Results without the calls before them would mean nothing.
        let is_result = |at: usize| matches!(messages.get(at), Some(Message::ToolResults(_)));
        while gone + 1 < messages.len() && (bytes > CONVERSATION_BYTES_KEPT || is_result(gone)) {
            bytes -= fold::message_bytes(&messages[gone]);
            gone += 1;
        }
        let Some(end) = gone.checked_sub(1).map(|last| self.marks[last].end) else {
            return;
        };
        let first = self.first_prompt.as_ref();
        let first = first.map(|(_, text)| text.as_str()).unwrap_or_default();
        let text = format!(
            "The earlier part of this conversation was too long and was left out.\n\n\
             The user's first instruction was:\n{first}\n"
        );
        let blocks = vec![serde_json::json!({"type": "text", "text": &text})];
        messages.splice(..gone, [Message::User { text, blocks }]);
        self.marks.splice(..gone, [Mark::at(end)]);
        self.bytes = messages.iter().map(fold::message_bytes).sum();
        self.counted = None;
    }

    /// Adds what waits. Copies the conversation only if somebody still holds it.
    fn settle(&mut self) -> &mut Vec<Message> {
        for (seq, piece) in std::mem::take(&mut self.waiting) {
            append(
                Arc::make_mut(&mut self.messages),
                &mut self.marks,
                seq,
                piece,
            );
        }
        if self.bytes > CONVERSATION_BYTES_MAX {
            self.leave_out_oldest();
        }
        Arc::make_mut(&mut self.messages)
    }

    fn compact(&mut self, compaction: &Compaction) {
        self.settle();
        match (compaction.kind, &compaction.text) {
            (CompactionKind::Pruned, _) => self.prune(compaction.up_to),
            (CompactionKind::Summary, Some(text)) => self.summarise(compaction.up_to, text),
            // A summary without its text: nothing can stand in for what it was about.
            (CompactionKind::Summary, None) => {}
        }
    }

    fn prune(&mut self, up_to: EventSeq) {
        let messages = Arc::make_mut(&mut self.messages);
        let mut freed = 0;
        for (message, mark) in messages.iter_mut().zip(&self.marks) {
            let Message::ToolResults(outcomes) = message else {
                continue;
            };
            for (outcome, seq) in outcomes.iter_mut().zip(&mark.outcomes) {
                let bytes = fold::outcome_bytes(outcome);
                if *seq <= up_to && bytes > PRUNED.len() {
                    freed += bytes - PRUNED.len();
                    outcome.text = PRUNED.to_owned();
                    outcome.images.clear();
                }
            }
        }
        self.bytes -= freed;
        if let Some(counted) = &mut self.counted {
            counted.tokens = counted.tokens.saturating_sub(tokens_in(freed));
            counted.bytes = counted.bytes.saturating_sub(freed);
        }
    }

    /// Puts `text` in the place of everything up to `up_to`.
    fn summarise(&mut self, up_to: EventSeq, text: &str) {
        let gone = self.marks.partition_point(|mark| mark.end <= up_to);
        let text = self.summary_message(up_to, text);
        let blocks = vec![serde_json::json!({"type": "text", "text": &text})];
        let messages = Arc::make_mut(&mut self.messages);
        messages.splice(..gone, [Message::User { text, blocks }]);
        self.marks.splice(..gone, [Mark::at(up_to)]);
        self.bytes = messages.iter().map(fold::message_bytes).sum();
        self.counted = None;
    }

    /// The summary as the model reads it: with the words that must not be lost.
    fn summary_message(&self, up_to: EventSeq, summary: &str) -> String {
        let mut text =
            String::from("The earlier part of this conversation was replaced by a summary.\n");
        let first = self.first_prompt.as_ref();
        let first = first.map(|(_, text)| text.as_str()).unwrap_or_default();
        if !first.is_empty() {
            text.push_str(&format!("\nThe user's first instruction was:\n{first}\n"));
        }
        let last = self.last_prompt.as_ref();
        if let Some((_, last)) = last.filter(|(seq, last)| *seq <= up_to && last != first) {
            text.push_str(&format!("\nThe user's latest instruction was:\n{last}\n"));
        }
        text.push_str(&format!("\nSummary:\n{summary}\n"));
        text
    }
}

/// About how many tokens `bytes` of text are.
pub(crate) fn tokens_in(bytes: usize) -> u64 {
    bytes as u64 / 4
}

/// About how many tokens `messages` are.
pub(crate) fn tokens_of(messages: &[Message]) -> u64 {
    tokens_in(messages.iter().map(fold::message_bytes).sum())
}

/// The first `bytes_max` bytes of `text`, with a mark where it was cut.
pub(crate) fn head_of(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{} […]", &text[..text.floor_char_boundary(bytes_max)])
}

/// The images among what a tool showed.
fn images(blocks: &[Value]) -> Vec<Value> {
    let images = blocks.iter().filter(|block| block["type"] == "image");
    images.cloned().collect()
}

/// A result as the model reads it: one that did not run says so.
fn shown_result(status: ToolStatus, text: &str) -> String {
    let note = match status {
        ToolStatus::Completed | ToolStatus::Failed => return text.to_owned(),
        // Who said no says why.
        ToolStatus::Denied if !text.is_empty() => "This call was not allowed, and was not run.",
        ToolStatus::Denied => "The user did not allow this call. It was not run.",
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
