//! How pieces become messages: texts run together, calls join the text before them, results stand
//! in the order of their calls.

use domain::{CallId, EventSeq};
use llm::{Message, ToolCall, ToolOutcome};
use serde_json::Value;

/// What a message of a call costs besides its words.
const CALL_BYTES: usize = 64;

/// What an image costs a model, whatever its file's size: about 1,500 tokens.
const IMAGE_BYTES: usize = 6 * 1024;

/// Something that was said or done.
#[derive(Debug)]
pub(super) enum Piece {
    /// By the person.
    Prompted { text: String, blocks: Vec<Value> },
    /// By the model; never empty.
    Said(String),
    /// A tool was called.
    Called(ToolCall),
    /// A call ended.
    Ended(ToolOutcome),
}

impl Piece {
    /// Bytes of it that a model reads.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Prompted { text, blocks } => prompt_bytes(text, blocks),
            Self::Said(text) => text.len(),
            Self::Called(call) => call_bytes(call),
            Self::Ended(outcome) => outcome_bytes(outcome),
        }
    }
}

/// Where a message comes from.
#[derive(Debug)]
pub(super) struct Mark {
    /// The newest event in it.
    pub(super) end: EventSeq,
    /// The events of its results, in the same order as they.
    pub(super) outcomes: Vec<EventSeq>,
}

impl Mark {
    /// A message without results that ends with the event at `end`.
    pub(super) fn at(end: EventSeq) -> Self {
        let outcomes = Vec::new();
        Self { end, outcomes }
    }
}

/// Adds `piece`, from the event at `seq`, to the end of a conversation.
pub(super) fn append(
    messages: &mut Vec<Message>,
    marks: &mut Vec<Mark>,
    seq: EventSeq,
    piece: Piece,
) {
    let message = match (messages.last_mut(), piece) {
        (Some(Message::Assistant { text, calls }), Piece::Said(said)) if calls.is_empty() => {
            text.push_str(&said);
            return reaches(marks, seq);
        }
        (Some(Message::Assistant { calls, .. }), Piece::Called(call)) => {
            calls.push(call);
            return reaches(marks, seq);
        }
        (_, Piece::Ended(outcome)) => return end_call(messages, marks, seq, outcome),
        (_, Piece::Prompted { text, blocks }) => Message::User { text, blocks },
        (_, Piece::Said(text)) => Message::Assistant {
            text,
            calls: Vec::new(),
        },
        (_, Piece::Called(call)) => Message::Assistant {
            text: String::new(),
            calls: vec![call],
        },
    };
    messages.push(message);
    marks.push(Mark::at(seq));
}

/// The last message now reaches as far as `seq`.
fn reaches(marks: &mut [Mark], seq: EventSeq) {
    if let Some(mark) = marks.last_mut() {
        mark.end = seq;
    }
}

/// Puts a result where its call stands among the calls of the answer before it.
fn end_call(
    messages: &mut Vec<Message>,
    marks: &mut Vec<Mark>,
    seq: EventSeq,
    mut outcome: ToolOutcome,
) {
    if !matches!(messages.last(), Some(Message::ToolResults(_))) {
        messages.push(Message::ToolResults(Vec::new()));
        marks.push(Mark::at(seq));
    }
    let Some((results, before)) = messages.split_last_mut() else {
        return;
    };
    let calls: &[ToolCall] = match before.last() {
        Some(Message::Assistant { calls, .. }) => calls,
        Some(Message::User { .. } | Message::ToolResults(_)) | None => &[],
    };
    let place = |id: &CallId| calls.iter().position(|call| call.id == *id);
    let at = place(&outcome.call);
    outcome.name = at.map(|at| calls[at].name.clone()).unwrap_or_default();
    let (Message::ToolResults(outcomes), Some(mark)) = (results, marks.last_mut()) else {
        return;
    };
    // One whose call is not known goes last.
    let comes_before = |other: &ToolOutcome| at.is_none() || place(&other.call) <= at;
    let to = outcomes.iter().take_while(|other| comes_before(other));
    let to = to.count();
    outcomes.insert(to, outcome);
    mark.outcomes.insert(to, seq);
    mark.end = seq;
}

/// Bytes of a message that a model reads.
pub(super) fn message_bytes(message: &Message) -> usize {
    match message {
        Message::User { text, blocks } => prompt_bytes(text, blocks),
        Message::Assistant { text, calls } => {
            text.len() + calls.iter().map(call_bytes).sum::<usize>()
        }
        Message::ToolResults(outcomes) => outcomes.iter().map(outcome_bytes).sum(),
    }
}

/// Bytes of a result that a model reads.
pub(super) fn outcome_bytes(outcome: &ToolOutcome) -> usize {
    outcome.text.len() + IMAGE_BYTES * outcome.images.len()
}

fn prompt_bytes(text: &str, blocks: &[Value]) -> usize {
    let is_image = |block: &&Value| block["type"] == "image";
    text.len() + IMAGE_BYTES * blocks.iter().filter(is_image).count()
}

fn call_bytes(call: &ToolCall) -> usize {
    CALL_BYTES + call.name.len() + value_bytes(&call.input)
}

/// About how long a value is as JSON.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => 2 + text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(k, v)| 4 + k.len() + value_bytes(v))
            .sum(),
    }
}
