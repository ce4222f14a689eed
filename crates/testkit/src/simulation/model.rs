//! The model of a simulation: what it says follows from the number in the prompt alone.
//!
//! It speaks at odd milliseconds. Clients act at even ones, so that what happens at one moment of
//! paused time is known to all before anybody looks; races are made on purpose, not by chance.

use std::collections::VecDeque;
use std::time::Duration;

use domain::CallId;
use domain::event::Usage;
use futures_util::stream;
use journal::chance::Chance;
use llm::{
    Chunk, ChunkStream, Message, Model, ModelError, ModelRequest, ModelStop, Provider, ToolCall,
};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

/// Model calls of the longest plan.
const CALLS_MAX: u64 = 4;

/// The prompt that asks for plan `number`: mostly a few words, sometimes several blocks, and of these
/// some that are longer than what goes into one update.
pub(super) fn prompt_of(number: u64) -> Vec<String> {
    let mut blocks = vec![format!("plan {number}")];
    if number.is_multiple_of(3) {
        blocks.push("beside it, ".to_owned());
        blocks.push("żółw".repeat(3));
    }
    if number.is_multiple_of(24) {
        blocks.push(LETTERS.repeat(LONG_BYTES / 4 / LETTERS.len()));
    }
    blocks
}

/// Letters of two to four bytes, of which no piece of a round length is whole.
const LETTERS: &str = "ż世🦀";

/// A message of so many bytes stands in a file beside the journal, and a quarter of it is more than
/// what goes into one update.
const LONG_BYTES: usize = 280 * 1024;

/// One plan in so many begins with such a message.
const LONG_EVERY: u64 = 23;
const LONG_PLAN: u64 = 5;

/// A plan that begins with a message of that length.
pub(super) fn long_winded(number: u64) -> u64 {
    number * LONG_EVERY + LONG_PLAN
}

/// Chunks of such a message.
const LONG_CHUNKS: u64 = 12;

/// Gives every session of one process its model.
pub(super) struct Speaker {
    /// When the process began.
    pub(super) began: Instant,
}

impl Provider for Speaker {
    fn label(&self) -> &'static str {
        "simulated"
    }

    fn open(&self) -> Box<dyn Model> {
        let began = self.began;
        Box::new(Self { began })
    }
}

impl Model for Speaker {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        let (number, call) = place(&request.messages);
        let steps = plan(number, call);
        let state = (steps, self.began, number, 0_u64);
        Box::pin(stream::unfold(state, |state| async move {
            let (mut steps, began, number, said) = state;
            let (delay_ms, step) = match steps.pop_front() {
                Some(step) => step,
                // One that never ends: it talks until it is told to stop.
                None if is_endless(number) => (700, Step::Say(format!("…{said} "))),
                None => return None,
            };
            sleep_until(odd(began, delay_ms)).await;
            let chunk = match step {
                Step::Say(text) => Ok(Chunk::Text(text)),
                Step::Think(text) => Ok(Chunk::Thought(text)),
                Step::Use(name, input) => Ok(Chunk::ToolCall(ToolCall {
                    id: CallId::new(format!("call-{number}-{said}-{}", call_salt())),
                    name: name.to_owned(),
                    input,
                })),
                Step::Count => Ok(Chunk::Usage(Usage::default())),
                Step::Stop(stop) => Ok(Chunk::Stop(stop)),
                Step::Fail => Err(ModelError::Failed {
                    status: Some(529),
                    message: "overloaded".to_owned(),
                }),
            };
            Some((chunk, (steps, began, number, said + 1)))
        }))
    }
}

/// One thing a model does.
enum Step {
    Say(String),
    Think(String),
    Use(&'static str, serde_json::Value),
    Count,
    Stop(ModelStop),
    Fail,
}

/// Whether plan `number` talks until it is cancelled.
pub(super) fn is_endless(number: u64) -> bool {
    number % 11 == 7
}

/// What plan `number` does in its model call `call`, each after some milliseconds.
fn plan(number: u64, call: u64) -> VecDeque<(u64, Step)> {
    let mut chance = Chance::new(number.wrapping_mul(31).wrapping_add(call));
    let mut steps = VecDeque::new();
    let mut said = 0;
    if chance.one_in(3) {
        for _ in 0..=chance.below(4) {
            said += 1;
            steps.push_back((chance.below(60), Step::Think(word(number, call, said))));
        }
    }
    for _ in 0..chance.below(24) {
        said += 1;
        // Many at once now and then, as models do; else one by one.
        let delay_ms = chance.below(5) * chance.below(40);
        steps.push_back((delay_ms, Step::Say(word(number, call, said))));
    }
    if number % LONG_EVERY == LONG_PLAN && call == 0 {
        for _ in 0..LONG_CHUNKS {
            said += 1;
            let letters = LETTERS.repeat(LONG_BYTES / LETTERS.len() / LONG_CHUNKS as usize);
            let text = word(number, call, said) + &letters;
            // Slowly, so that many come and go in the middle of it.
            steps.push_back((80 + chance.below(120), Step::Say(text)));
        }
    }
    if is_endless(number) && call > 0 {
        return steps;
    }
    if chance.one_in(12) {
        steps.push_back((chance.below(50), Step::Fail));
        return steps;
    }
    if chance.one_in(2) {
        steps.push_back((0, Step::Count));
    }
    let works = call + 1 < CALLS_MAX && (is_endless(number) || chance.one_in(2));
    if works {
        for _ in 0..=chance.below(2) {
            let step = if chance.one_in(2) {
                Step::Use("read", json!({"path": "notes.txt"}))
            } else {
                let content = format!("{number}");
                Step::Use("write", json!({"path": "written.txt", "content": content}))
            };
            steps.push_back((chance.below(30), step));
        }
        steps.push_back((0, Step::Stop(ModelStop::ToolUse)));
    } else {
        let stop = [ModelStop::EndTurn, ModelStop::EndTurn, ModelStop::MaxTokens];
        steps.push_back((chance.below(30), Step::Stop(stop[chance.index(3)])));
    }
    steps
}

/// Letters of every length in bytes, and a place that makes each word the only one of its kind.
fn word(number: u64, call: u64, said: u64) -> String {
    let letter = ["a", "ż", "世", "🦀", "\n", "\u{2028}"][usize::try_from(said % 6).unwrap_or(0)];
    format!("{letter}{number}.{call}.{said} ")
}

/// Calls need names that are unique in their session, also after a restart.
fn call_salt() -> String {
    domain::MessageId::random().to_string()
}

/// Which plan a conversation asks for, and how often the model was asked since.
fn place(messages: &[Message]) -> (u64, u64) {
    let mut calls = 0;
    for message in messages.iter().rev() {
        match message {
            Message::User { text, .. } => {
                let number = text.strip_prefix("plan ").unwrap_or_default();
                let digits = number.split(|letter: char| !letter.is_ascii_digit()).next();
                let number = digits.and_then(|digits| digits.parse().ok());
                return (number.unwrap_or(0), calls);
            }
            Message::Assistant { .. } => calls += 1,
            Message::ToolResults(_) => {}
        }
    }
    (0, calls)
}

/// The odd millisecond that is at least `delay_ms` away.
fn odd(began: Instant, delay_ms: u64) -> Instant {
    let at = Instant::now() + Duration::from_millis(delay_ms);
    let since_ms = u64::try_from(at.duration_since(began).as_millis()).unwrap_or(u64::MAX);
    began + Duration::from_millis(since_ms | 1)
}
