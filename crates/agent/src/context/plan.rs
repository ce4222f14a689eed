//! What could be left out of a conversation that grows too long.

use domain::EventSeq;
use domain::limits::{PRUNE_PROTECTED_TOKENS, PRUNE_TOKENS_MIN};
use llm::Message;

use super::fold::{message_bytes, outcome_bytes};
use super::{Conversation, PRUNED, tokens_in};

/// The ways to make a conversation shorter, as far as there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Leave out old output of tools.
    pub prune: Option<Prune>,
    /// Summarise the older part.
    pub cut: Option<Cut>,
}

/// Old output of tools that is worth leaving out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Everything up to here.
    pub up_to: EventSeq,
    /// About how many tokens that frees.
    pub frees: u64,
}

/// Where a summary would end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The newest event in it.
    pub up_to: EventSeq,
    /// How many messages it stands for.
    pub messages: usize,
    /// About how many tokens they are.
    pub tokens: u64,
}

impl Conversation {
    /// What could be left out. A summary leaves the newest messages as they are, as many as fit
    /// `keep_tokens`, and never more than a quarter.
    #[must_use]
    pub fn plan(&mut self, keep_tokens: u64) -> Plan {
        self.settle();
        Plan {
            prune: self.prunable(),
            cut: self.cut(keep_tokens),
        }
    }

    /// The newest output is protected; pruning for little is not worth losing the prompt cache.
    fn prunable(&self) -> Option<Prune> {
        let mut outputs = self.outputs();
        outputs.sort_unstable_by_key(|(seq, _)| std::cmp::Reverse(*seq));
        let mut newest = 0;
        let last_protected = outputs.iter().position(|(_, bytes)| {
            newest += tokens_in(*bytes);
            newest >= PRUNE_PROTECTED_TOKENS
        })?;
        let old = &outputs[last_protected + 1..];
        let (up_to, _) = *old.first()?;
        let freed = old
            .iter()
            .map(|(_, bytes)| bytes.saturating_sub(PRUNED.len()));
        let frees = tokens_in(freed.sum());
        (frees >= PRUNE_TOKENS_MIN).then_some(Prune { up_to, frees })
    }

    fn outputs(&self) -> Vec<(EventSeq, usize)> {
        let mut outputs = Vec::new();
        for (message, mark) in self.messages.iter().zip(&self.marks) {
            if let Message::ToolResults(outcomes) = message {
                let lengths = outcomes.iter().map(outcome_bytes);
                outputs.extend(mark.outcomes.iter().copied().zip(lengths));
            }
        }
        outputs
    }

    /// The earliest place before a prompt or an answer after which at most `keep_tokens` remain.
    fn cut(&self, keep_tokens: u64) -> Option<Cut> {
        // Whatever we think of its length: somebody thinks that it is too long.
        let keep_tokens = keep_tokens.min(tokens_in(self.bytes) / 4);
        let mut kept = 0;
        let mut messages = self.messages.len();
        for (at, message) in self.messages.iter().enumerate().rev() {
            kept += message_bytes(message);
            if tokens_in(kept) > keep_tokens {
                break;
            }
            match message {
                Message::User { .. } | Message::Assistant { .. } => messages = at,
                // Results stay with the answer that asked for them.
                Message::ToolResults(_) => {}
            }
        }
        // One message is not worth a summary: it may be one.
        let worth_it = messages >= 2;
        let mark = self.marks.get(messages.checked_sub(1)?)?;
        let up_to = mark.end;
        let bytes = self.messages[..messages].iter().map(message_bytes).sum();
        let tokens = tokens_in(bytes);
        worth_it.then_some(Cut {
            up_to,
            messages,
            tokens,
        })
    }
}
