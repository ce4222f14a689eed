//! What became of the turn's tool calls: enough to complete a question and to judge the exit code.

use std::collections::HashMap;

use client::ToolCall;

use crate::render::{Failure, one_line};

/// Calls in flight that are remembered; a turn proposes a handful at a time.
const OPEN_CALLS_MAX: usize = 1_024;

/// The tool calls of one turn.
#[derive(Debug, Default)]
pub(super) struct Tally {
    open: HashMap<String, Open>,
    denied: usize,
    /// The rule that would have permitted the first call that was denied, for the hint.
    wanted_rule: Option<String>,
    /// Why the server denied the first call that it denied: a rule or a hook that `--allow` does not override.
    server_reason: Option<String>,
    /// Calls that ended in any other way.
    others: usize,
}

/// How a call ended, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Done,
    Failed,
    Denied,
    Cancelled,
}

#[derive(Debug)]
struct Open {
    call: ToolCall,
    denial: Denial,
    /// The rule that would have permitted it.
    wanted_rule: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denial {
    None,
    ByRules,
    ByPerson,
}

impl Tally {
    pub(super) fn started(&mut self, call: ToolCall) {
        if self.open.len() < OPEN_CALLS_MAX {
            let open = Open {
                call,
                denial: Denial::None,
                wanted_rule: None,
            };
            self.open.insert(open.call.id.clone(), open);
        }
    }

    /// Takes in a change; if it ended the call, gives all that is known of it and how it ended.
    pub(super) fn changed(&mut self, change: ToolCall) -> Option<(ToolCall, Ending)> {
        let ending = ending(&change)?;
        let call = self.whole(&change);
        let open = self.open.remove(&change.id);
        let (denial, rule) =
            open.map_or((Denial::None, None), |open| (open.denial, open.wanted_rule));
        match (ending, denial) {
            (Ending::Denied, Denial::None) => {
                self.denied += 1;
                let reason = call.denial.clone().unwrap_or_default();
                self.server_reason.get_or_insert(reason);
            }
            (_, Denial::ByRules) => {
                self.denied += 1;
                let rule = rule.or_else(|| call.name.clone());
                self.wanted_rule = self.wanted_rule.take().or(rule);
            }
            (_, Denial::ByPerson | Denial::None) => self.others += 1,
        }
        let ending = if denial == Denial::None {
            ending
        } else {
            Ending::Denied
        };
        Some((call, ending))
    }

    /// `part` with what earlier updates said about the same call.
    pub(super) fn whole(&self, part: &ToolCall) -> ToolCall {
        let mut whole = part.clone();
        if let Some(Open { call, .. }) = self.open.get(&part.id) {
            whole.name = whole.name.or_else(|| call.name.clone());
            whole.title = whole.title.or_else(|| call.title.clone());
            whole.kind = whole.kind.or(call.kind);
            whole.input = whole.input.or_else(|| call.input.clone());
        }
        whole
    }

    /// No rule permitted it; `rule` would have.
    pub(super) fn denied_by_rules(&mut self, call: &ToolCall, rule: Option<&str>) {
        self.deny(call, Denial::ByRules, rule);
    }

    pub(super) fn denied_by_person(&mut self, call: &ToolCall) {
        self.deny(call, Denial::ByPerson, None);
    }

    /// Whether the turn called tools and a rule would have been needed for each of the calls.
    pub(super) fn is_all_denied(&self) -> bool {
        self.denied > 0 && self.others == 0 && self.open.is_empty()
    }

    /// What to say when that is so.
    pub(super) fn refusal(&self) -> Failure {
        if let Some(reason) = &self.server_reason {
            let reason = match one_line(reason) {
                reason if reason.is_empty() => "the server's settings do not allow it".to_owned(),
                reason => reason,
            };
            let hint = "--allow does not override hooks and rules that deny or ask; change them in config.toml or fastness.toml";
            return Failure::refused(format!("every tool call was denied: {reason}")).hint(hint);
        }
        let failure = Failure::refused("every tool call was denied, because no rule allows it");
        match &self.wanted_rule {
            Some(rule) => failure.hint(format!("permit it with --allow {rule}")),
            None => failure.hint("permit tools with --allow RULE"),
        }
    }

    /// Calls that have ended.
    pub(super) fn count(&self) -> usize {
        self.denied + self.others
    }

    fn deny(&mut self, call: &ToolCall, denial: Denial, rule: Option<&str>) {
        self.started(call.clone());
        if let Some(open) = self.open.get_mut(&call.id) {
            open.denial = denial;
            open.wanted_rule = rule.map(str::to_owned);
        }
    }
}

fn ending(change: &ToolCall) -> Option<Ending> {
    match (change.outcome.as_deref(), change.status.as_deref()?) {
        (Some("denied"), "failed") => Some(Ending::Denied),
        (Some("cancelled"), "failed") => Some(Ending::Cancelled),
        (_, "completed") => Some(Ending::Done),
        (_, "failed") => Some(Ending::Failed),
        (_, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use client::ToolCall;

    use super::{Ending, Tally};

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: Some("write".to_owned()),
            ..ToolCall::default()
        }
    }

    fn change(id: &str, status: &str, outcome: Option<&str>) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            status: Some(status.to_owned()),
            outcome: outcome.map(str::to_owned),
            ..ToolCall::default()
        }
    }

    #[test]
    fn only_a_turn_whose_calls_were_all_denied_by_rules_is_refused() {
        let mut tally = Tally::default();
        assert!(!tally.is_all_denied());
        tally.started(call("1"));
        tally.denied_by_rules(&call("1"), None);
        assert!(!tally.is_all_denied(), "it has not ended");
        let (whole, ending) = tally
            .changed(change("1", "failed", Some("denied")))
            .unwrap();
        assert_eq!(
            (whole.name.as_deref(), ending),
            (Some("write"), Ending::Denied)
        );
        assert!(tally.is_all_denied());

        tally.started(call("2"));
        assert_eq!(tally.changed(change("2", "in_progress", None)), None);
        tally.changed(change("2", "completed", None));
        assert!(!tally.is_all_denied(), "another call ran");
    }

    #[test]
    fn a_call_that_a_person_denied_is_no_refusal_by_policy() {
        let mut tally = Tally::default();
        tally.started(call("1"));
        tally.denied_by_person(&call("1"));
        tally.changed(change("1", "failed", Some("denied")));
        assert!(!tally.is_all_denied());
    }

    #[test]
    fn a_denial_by_the_server_counts_and_a_server_that_does_not_say_why_is_understood() {
        let mut tally = Tally::default();
        tally.started(call("1"));
        tally.changed(change("1", "failed", Some("denied")));
        tally.started(call("2"));
        tally.denied_by_rules(&call("2"), None);
        let (_, ending) = tally.changed(change("2", "failed", None)).unwrap();
        assert_eq!(ending, Ending::Denied);
        assert!(tally.is_all_denied());
    }
}
