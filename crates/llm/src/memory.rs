//! What a session's model remembers from call to call: sealed thoughts, and how long its tokens are.
//!
//! Providers seal a model's thinking and want to see it again, unchanged, with the results of the
//! tool calls it led to. It is of no use to anybody else and never needed after a restart, because
//! a turn that was interrupted does not go on. So it stays here and not in the journal.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::CallId;
use domain::limits::MODEL_MEMORY_BYTES_MAX;
use serde_json::Value;

use crate::model::{BYTES_PER_TOKEN, ToolCall};

/// One part of an answer, in the order in which the model gave them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// Something in the provider's own words, to be given back as it is.
    Sealed(Value),
    /// Text of the answer.
    Text(String),
    /// A tool call, which the conversation knows by this name.
    Call(CallId),
}

/// One session's memory, shared with the call that is under way.
#[derive(Clone, Default)]
pub(crate) struct SharedMemory(Arc<Mutex<Memory>>);

/// What is remembered.
#[derive(Default)]
pub(crate) struct Memory {
    /// Answers with sealed parts and tool calls, the oldest first.
    answers: VecDeque<Vec<Piece>>,
    bytes: usize,
    /// Weight and tokens of the last request that the provider counted.
    counted: Option<(u64, u64)>,
}

impl SharedMemory {
    /// The memory, for a moment: nothing is awaited while it is held.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// The answer that proposed exactly `calls`, if it had sealed parts.
    pub(crate) fn recall(&self, calls: &[ToolCall]) -> Option<&[Piece]> {
        let first = calls.first()?;
        let answer = self.answers.iter().rev().find(|answer| {
            let mut ids = answer.iter().filter_map(call_of);
            ids.next() == Some(&first.id)
        })?;
        let ids = answer.iter().filter_map(call_of);
        ids.eq(calls.iter().map(|call| &call.id))
            .then_some(answer.as_slice())
    }

    /// Remembers an answer if it must be given back; the oldest ones make room.
    pub(crate) fn remember(&mut self, answer: Vec<Piece>) {
        let is_sealed = answer.iter().any(|piece| matches!(piece, Piece::Sealed(_)));
        let has_calls = answer.iter().any(|piece| call_of(piece).is_some());
        let bytes = bytes(&answer);
        if !is_sealed || !has_calls || bytes > MODEL_MEMORY_BYTES_MAX {
            return;
        }
        self.bytes += bytes;
        self.answers.push_back(answer);
        while self.bytes > MODEL_MEMORY_BYTES_MAX {
            let Some(oldest) = self.answers.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(self::bytes(&oldest));
        }
    }

    /// The provider counted a request of this weight.
    pub(crate) fn count(&mut self, weight: u64, tokens: u64) {
        // Short requests are mostly what the provider adds itself.
        if tokens > 0 && weight >= 1_000 {
            self.counted = Some((weight, tokens));
        }
    }

    /// About how many tokens a request of this weight is.
    pub(crate) fn tokens(&self, weight: u64) -> u64 {
        match self.counted {
            Some((counted, tokens)) => {
                let scaled = u128::from(weight) * u128::from(tokens) / u128::from(counted.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
            None => weight / BYTES_PER_TOKEN,
        }
    }
}

fn call_of(piece: &Piece) -> Option<&CallId> {
    match piece {
        Piece::Call(id) => Some(id),
        Piece::Sealed(_) | Piece::Text(_) => None,
    }
}

fn bytes(answer: &[Piece]) -> usize {
    let bytes = answer.iter().map(|piece| match piece {
        Piece::Sealed(value) => value.to_string().len(),
        Piece::Text(text) => text.len(),
        Piece::Call(id) => id.as_str().len(),
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use domain::CallId;
    use domain::limits::MODEL_MEMORY_BYTES_MAX;
    use serde_json::{Value, json};

    use super::{Memory, Piece};
    use crate::model::ToolCall;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: CallId::new(id),
            name: "read".to_owned(),
            input: json!({}),
        }
    }

    fn answer(sealed: &str, ids: &[&str]) -> Vec<Piece> {
        let sealed = Piece::Sealed(Value::from(sealed));
        let calls = ids.iter().map(|id| Piece::Call(CallId::new(*id)));
        std::iter::once(sealed).chain(calls).collect()
    }

    #[test]
    fn an_answer_is_recalled_by_exactly_its_calls() {
        let mut memory = Memory::default();
        memory.remember(answer("s", &["a", "b"]));
        let whole = memory.recall(&[call("a"), call("b")]);
        assert_eq!(whole, Some(answer("s", &["a", "b"]).as_slice()));
        assert_eq!(memory.recall(&[call("a")]), None);
        assert_eq!(memory.recall(&[call("b"), call("a")]), None);
        assert_eq!(memory.recall(&[]), None);
    }

    #[test]
    fn only_sealed_answers_with_calls_are_kept_and_the_oldest_make_room() {
        let mut memory = Memory::default();
        memory.remember(vec![Piece::Text("x".into()), Piece::Call(CallId::new("a"))]);
        memory.remember(answer("s", &[]));
        assert_eq!(memory.recall(&[call("a")]), None);
        let large = "x".repeat(MODEL_MEMORY_BYTES_MAX / 3);
        for id in ["b", "c", "d"] {
            memory.remember(answer(&large, &[id]));
        }
        assert_eq!(memory.recall(&[call("b")]), None);
        assert!(memory.recall(&[call("c")]).is_some());
        assert!(memory.recall(&[call("d")]).is_some());
        assert!(memory.bytes <= MODEL_MEMORY_BYTES_MAX);
    }

    #[test]
    fn tokens_are_estimated_from_what_was_counted() {
        let mut memory = Memory::default();
        assert_eq!(memory.tokens(4_000), 1_000);
        memory.count(10_000, 5_000);
        assert_eq!(memory.tokens(4_000), 2_000);
        memory.count(10, 900);
        assert_eq!(memory.tokens(4_000), 2_000);
    }
}
