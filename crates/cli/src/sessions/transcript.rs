//! What an event means to a reader, and which event allowed which tool run.
//!
//! A [`Transcript`] follows the events in order; each becomes a [`Piece`] that a terminal, a
//! document or a page puts into its own words.

use std::collections::HashMap;

use domain::event::{
    AnswerOutcome, ChildLinked, GroundRule, Grounds, HookOutcome, HookRan, PermissionAsked,
    PermissionOption, PermissionOptionKind, PlanEntry, PlanStatus, PromptDropped, QuestionAnswered,
    QuestionAsked, QuestionOutcome, StopReason, Text, ToolStatus, TurnResult, Usage,
};
use domain::{CallId, Event, EventSeq};
use journal::Stored;
use serde_json::Value;

use super::list::shorten;
use crate::render::one_line;

/// Characters of a queued prompt that are repeated when it did not run.
const QUEUED_CHARACTERS_MAX: usize = 80;

/// Questions and calls that were begun and not ended yet.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    calls: HashMap<CallId, Call>,
    /// Open questions: about which call, and which answers allow for good.
    questions: HashMap<String, (CallId, Vec<PermissionOption>)>,
    /// Tools that an answer allowed for the rest of the session.
    always: HashMap<String, EventSeq>,
    /// How the prompts begin that were queued, by their event.
    queued: HashMap<EventSeq, String>,
}

/// A tool call that was proposed.
#[derive(Debug)]
struct Call {
    name: String,
    proposed: EventSeq,
    /// Why it ran unasked, if the event says so; older ones do not.
    grounds: Option<Box<Grounds>>,
    /// Whether a person was asked.
    is_asked: bool,
    answered: Option<Allowed>,
}

/// What an event means to a reader.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    /// Somebody said something.
    Message {
        who: Who,
        text: Words<'a>,
        /// Whether it was cut short.
        is_cut: bool,
    },
    /// The model wants a tool to run.
    Call {
        name: &'a str,
        title: &'a str,
        input: &'a Value,
    },
    /// How a tool call ended.
    Outcome {
        name: String,
        status: ToolStatus,
        text: &'a str,
        allowed: Option<Allowed>,
    },
    /// Something worth a line.
    Line { text: String, tone: Tone },
    /// Nothing that a reader misses.
    Silent,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The person.
    You,
    /// The person, while a turn was running.
    Queued,
    /// The model.
    Assistant,
    /// The model, thinking.
    Thought,
    /// The server itself.
    Server,
}

/// Words in place or in the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Words<'a> {
    /// In the event.
    Plain(&'a str),
    /// In the event, or in a blob.
    Stored(&'a Text),
}

/// How prominent a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// As the rest.
    Plain,
    /// Something went well.
    Good,
    /// Something went wrong.
    Bad,
}

/// Why a tool was allowed to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// A person's answer, stored as this event, and whose it was.
    Answer(EventSeq, Option<String>),
    /// An earlier answer that covers the whole session.
    Always(EventSeq),
    /// These rules, when the call was stored as this event.
    Rules(EventSeq, Vec<GroundRule>),
    /// The mode, when the call was stored as this event.
    Mode(EventSeq, String),
    /// Something that an older version did not write down.
    Unsaid(EventSeq),
}

impl Who {
    /// As it is shown.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Queued => "you (queued)",
            Self::Assistant => "assistant",
            Self::Thought => "thought",
            Self::Server => "fastness",
        }
    }
}

impl Allowed {
    /// As it is shown.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Answer(seq, None) => format!("allowed by event {seq}"),
            Self::Answer(seq, Some(by)) => format!("allowed by {} in event {seq}", one_line(by)),
            Self::Always(seq) => format!("allowed for the session by event {seq}"),
            Self::Rules(seq, rules) => {
                let rule = |rule: &GroundRule| format!("{} ({})", rule.rule, rule.from);
                let rules: Vec<_> = rules.iter().map(rule).collect();
                let rules = one_line(&rules.join(", "));
                format!("allowed by the rule {rules} at event {seq}")
            }
            Self::Mode(seq, mode) => format!("allowed by mode {} at event {seq}", one_line(mode)),
            Self::Unsaid(seq) => format!("allowed by the rules at event {seq}"),
        }
    }
}

/// How a tool call ended, as it is shown.
pub(super) fn status_name(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Completed => "completed",
        ToolStatus::Failed => "failed",
        ToolStatus::Denied => "denied",
        ToolStatus::Cancelled => "cancelled",
        ToolStatus::NotRun => "did not run",
        ToolStatus::Unknown => "may have run: the process died",
    }
}

impl Transcript {
    /// Takes the next event.
    pub(super) fn read<'a>(&mut self, stored: &'a Stored) -> Piece<'a> {
        let said = |who, text| Piece::Message {
            who,
            text,
            is_cut: false,
        };
        match &stored.event {
            Event::UserMessage(event) => said(Who::You, Words::Plain(&event.text)),
            Event::PromptQueued(event) => {
                let text = shorten(&one_line(&event.text), QUEUED_CHARACTERS_MAX);
                self.queued.insert(stored.seq, text);
                said(Who::Queued, Words::Plain(&event.text))
            }
            Event::PromptDropped(event) => self.dropped(event),
            Event::Notice(event) => said(Who::Server, Words::Plain(&event.text)),
            Event::AssistantMessage(event) => Piece::Message {
                who: Who::Assistant,
                text: Words::Stored(&event.text),
                is_cut: event.partial,
            },
            Event::AssistantThought(event) => Piece::Message {
                who: Who::Thought,
                text: Words::Stored(&event.text),
                is_cut: event.partial,
            },
            Event::ToolUse(_)
            | Event::ToolResult(_)
            | Event::PermissionAsked(_)
            | Event::PermissionAnswered(_)
            | Event::QuestionAsked(_)
            | Event::QuestionAnswered(_) => self.read_call(stored),
            Event::TurnStarted(event) => {
                event.queued.map(|queued| self.queued.remove(&queued));
                Piece::Silent
            }
            Event::SessionCreated(_) | Event::MessageStarted(_) | Event::UsageRecorded(_) => {
                Piece::Silent
            }
            Event::SessionUpdated(_)
            | Event::PromptExpanded(_)
            | Event::HookRan(_)
            | Event::ModeChanged(_)
            | Event::TurnResult(_)
            | Event::TurnInterrupted(_)
            | Event::SessionRecovered(_)
            | Event::SessionRewound(_)
            | Event::SessionForked(_)
            | Event::ChildLinked(_)
            | Event::PlanUpdated(_)
            | Event::Compaction(_)
            | Event::SessionClosed(_)
            | Event::Unknown(_) => line(&stored.event),
        }
    }

    /// An event about a tool call.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others are told apart before"
    )]
    fn read_call<'a>(&mut self, stored: &'a Stored) -> Piece<'a> {
        match &stored.event {
            Event::ToolUse(event) => {
                let call = Call {
                    name: event.name.clone(),
                    proposed: stored.seq,
                    grounds: event.allowed_by.clone(),
                    is_asked: false,
                    answered: None,
                };
                self.calls.insert(event.call_id.clone(), call);
                Piece::Call {
                    name: &event.name,
                    title: &event.title,
                    input: &event.input,
                }
            }
            Event::PermissionAsked(PermissionAsked {
                asker: Some(asker),
                title,
                ..
            }) => {
                // It is about a call of another journal, and says nothing of the one here.
                let text = format!("the agent {} asks: {title}", asker.agent);
                plain(one_line(&text))
            }
            Event::PermissionAsked(event) => {
                let options: Vec<_> = event.options.iter().map(|o| o.option_id.as_str()).collect();
                let text = format!(
                    "may {} run? {}",
                    self.tool(&event.call_id),
                    one_line(&options.join(", "))
                );
                if let Some(call) = self.calls.get_mut(&event.call_id) {
                    call.is_asked = true;
                }
                let question = (event.call_id.clone(), event.options.clone());
                self.questions.insert(event.id.to_string(), question);
                plain(text)
            }
            Event::PermissionAnswered(event) => {
                let question = self.questions.remove(event.id.as_str());
                let option = event.option_id.as_deref();
                if event.outcome == AnswerOutcome::Allowed
                    && let Some((call, options)) = question
                {
                    let by = Allowed::Answer(stored.seq, event.by.clone());
                    self.allow(&call, stored.seq, by, option, &options);
                }
                let by = event.by.as_deref().map(|by| format!(" by {by}"));
                let option = option.map(|option| format!(" ({option})"));
                let (by, option) = (by.unwrap_or_default(), option.unwrap_or_default());
                let (word, tone) = outcome(event.outcome);
                Piece::Line {
                    text: one_line(&format!("{word}{by}{option}")),
                    tone,
                }
            }
            Event::QuestionAsked(event) => self.question(event),
            Event::QuestionAnswered(event) => question_end(event),
            Event::ToolResult(event) => {
                let call = self.calls.remove(&event.call_id);
                let allowed = call.as_ref().and_then(|call| self.why(call, event.status));
                Piece::Outcome {
                    name: call.map_or_else(|| "tool".to_owned(), |call| one_line(&call.name)),
                    status: event.status,
                    text: &event.text,
                    allowed,
                }
            }
            other => line(other),
        }
    }

    fn dropped(&mut self, dropped: &PromptDropped) -> Piece<'static> {
        let queued = self.queued.remove(&dropped.queued);
        let text = queued.map_or_else(String::new, |text| format!(": {text}"));
        let why = match dropped.interrupted {
            true => "did not run, for the server stopped before its turn",
            false => "was dropped",
        };
        Piece::Line {
            text: format!("the prompt of event {} {why}{text}", dropped.queued),
            tone: Tone::Bad,
        }
    }

    fn question(&mut self, asked: &QuestionAsked) -> Piece<'static> {
        // What a tool server asks is not about its call, which was allowed.
        if let (Some(call), None) = (self.calls.get_mut(&asked.call_id), &asked.server) {
            call.is_asked = true;
        }
        let server = asked.server.as_deref().map(|server| format!("{server} "));
        let server = server.unwrap_or_default();
        let offered = match asked.options.is_empty() {
            true => String::new(),
            false => format!(" ({})", asked.options.join(" / ")),
        };
        plain(one_line(&format!(
            "{server}asks: {}{offered}",
            asked.question
        )))
    }

    fn allow(
        &mut self,
        call: &CallId,
        seq: EventSeq,
        by: Allowed,
        option: Option<&str>,
        options: &[PermissionOption],
    ) {
        let Some(call) = self.calls.get_mut(call) else {
            return;
        };
        call.answered = Some(by);
        let chosen = options
            .iter()
            .find(|o| Some(o.option_id.as_str()) == option);
        if chosen.is_some_and(|chosen| chosen.kind == PermissionOptionKind::AllowAlways) {
            self.always.insert(call.name.clone(), seq);
        }
    }

    /// Which event let the call run, if it may have run.
    fn why(&self, call: &Call, status: ToolStatus) -> Option<Allowed> {
        if matches!(status, ToolStatus::Denied | ToolStatus::NotRun) {
            return None;
        }
        if let Some(grounds) = &call.grounds {
            let seq = call.proposed;
            return Some(match (&grounds.mode, grounds.event) {
                (_, Some(answer)) => Allowed::Always(answer),
                (Some(mode), None) => Allowed::Mode(seq, mode.clone()),
                (None, None) => Allowed::Rules(seq, grounds.rules.clone()),
            });
        }
        match (&call.answered, self.always.get(&call.name)) {
            (Some(answer), _) => Some(answer.clone()),
            (None, _) if call.is_asked => None,
            (None, Some(always)) => Some(Allowed::Always(*always)),
            (None, None) => Some(Allowed::Unsaid(call.proposed)),
        }
    }

    fn tool(&self, call: &CallId) -> String {
        let call = self.calls.get(call);
        call.map_or_else(|| "a tool".to_owned(), |call| one_line(&call.name))
    }
}

/// An event that a line says all about.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the others are told apart before"
)]
fn line(event: &Event) -> Piece<'_> {
    let bad = |text| Piece::Line {
        text,
        tone: Tone::Bad,
    };
    match event {
        Event::TurnResult(result) => turn_end(result),
        Event::TurnInterrupted(event) => bad(format!("turn {} was interrupted", event.turn.0)),
        Event::SessionRecovered(event) => bad(format!(
            "recovered after a crash: what was shown from event {} on may have changed",
            event.from
        )),
        Event::PromptExpanded(event) => plain(format!("/{} was expanded", one_line(&event.name))),
        Event::HookRan(event) => hook(event),
        Event::ModeChanged(event) => plain(format!("mode {}", one_line(&event.mode))),
        Event::SessionRewound(event) => plain(format!(
            "undone: everything after event {} up to here",
            event.to
        )),
        Event::Compaction(event) => plain(format!(
            "compacted up to event {}: about {} tokens became {}",
            event.up_to, event.tokens_before, event.tokens_after
        )),
        Event::PlanUpdated(event) => {
            let is_done = |entry: &&PlanEntry| entry.status == PlanStatus::Completed;
            let done = event.entries.iter().filter(is_done).count();
            plain(format!("plan: {done} of {} done", event.entries.len()))
        }
        Event::SessionForked(event) => plain(format!(
            "forked from {} at event {}",
            one_line(&event.from),
            event.at
        )),
        Event::ChildLinked(event) => child(event),
        Event::SessionClosed(_) => plain("closed".to_owned()),
        Event::SessionUpdated(event) => match &event.title {
            Some(title) => plain(format!("title: {}", one_line(title))),
            None => plain("settings changed".to_owned()),
        },
        other => {
            let fields = other.fields_to_string().unwrap_or_default();
            plain(one_line(&format!("{} {fields}", other.kind())))
        }
    }
}

fn question_end(answered: &QuestionAnswered) -> Piece<'static> {
    let (word, tone) = match answered.outcome {
        QuestionOutcome::Answered => ("answered", Tone::Plain),
        QuestionOutcome::Later => ("to be answered in the chat", Tone::Plain),
        QuestionOutcome::Declined => ("not answered", Tone::Bad),
        QuestionOutcome::Cancelled => ("cancelled", Tone::Bad),
        QuestionOutcome::Expired => ("nobody answered in time", Tone::Bad),
    };
    let by = answered.by.as_deref().map(|by| format!(" by {by}"));
    let text = answered.text.as_deref().map(|text| format!(": {text}"));
    let (by, text) = (by.unwrap_or_default(), text.unwrap_or_default());
    Piece::Line {
        text: one_line(&format!("{word}{by}{text}")),
        tone,
    }
}

fn child(linked: &ChildLinked) -> Piece<'static> {
    let agent = one_line(&linked.agent);
    plain(match (linked.child, linked.parent) {
        (Some(child), _) => format!("the agent {agent} works in session {child}"),
        (None, Some(parent)) => format!("the agent {agent} works for session {parent}"),
        (None, None) => format!("the agent {agent} works"),
    })
}

fn hook(ran: &HookRan) -> Piece<'static> {
    let (word, tone) = match ran.outcome {
        HookOutcome::Ok => ("had nothing against it", Tone::Plain),
        HookOutcome::Rewrote => ("changed it", Tone::Plain),
        HookOutcome::Blocked => ("said no", Tone::Bad),
        HookOutcome::Failed => ("failed", Tone::Bad),
        HookOutcome::TimedOut => ("took too long", Tone::Bad),
    };
    let reason = ran.reason.as_deref();
    let reason = reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let text = format!("{} hook {} {word}{reason}", ran.event.name(), ran.command);
    Piece::Line {
        text: one_line(&text),
        tone,
    }
}

fn turn_end(result: &TurnResult) -> Piece<'static> {
    let turn = result.turn.0;
    let (how, tone) = match (&result.error, result.stop_reason) {
        (Some(error), _) => {
            let kind = serde_json::to_value(error.kind).unwrap_or_default();
            let kind = kind.as_str().unwrap_or("error").to_owned();
            (format!("failed: {kind}"), Tone::Bad)
        }
        (None, Some(StopReason::EndTurn)) => ("ended".to_owned(), Tone::Good),
        (None, reason) => {
            let reason = serde_json::to_value(reason).unwrap_or_default();
            let reason = reason.as_str().unwrap_or("unknown").to_owned();
            (format!("ended: {reason}"), Tone::Plain)
        }
    };
    let tokens = result.usage.filter(|usage| *usage != Usage::default());
    let tokens = tokens.map_or_else(String::new, |usage| {
        let (read, written) = (usage.input_tokens, usage.output_tokens);
        let cost = usage.cost_usd();
        let cost = cost.map_or_else(String::new, |dollars| format!(", ${dollars:.4}"));
        format!(", {read} tokens read, {written} written{cost}")
    });
    Piece::Line {
        text: format!("turn {turn} {how}{tokens}"),
        tone,
    }
}

fn outcome(outcome: AnswerOutcome) -> (&'static str, Tone) {
    match outcome {
        AnswerOutcome::Allowed => ("allowed", Tone::Good),
        AnswerOutcome::Denied => ("denied", Tone::Bad),
        AnswerOutcome::Cancelled => ("withdrawn", Tone::Plain),
        AnswerOutcome::Expired => ("not answered in time", Tone::Bad),
    }
}

fn plain(text: String) -> Piece<'static> {
    Piece::Line {
        text,
        tone: Tone::Plain,
    }
}

#[cfg(test)]
mod tests;
