//! What is said and done in a session, as lines: those that are finished, and those that may still
//! change. Pure, so that stories can be told to it.

use client::{ToolCall, Update};
use serde_json::Value;
use tokio::time::Instant;

use super::calls::Calls;
use super::markdown::Markdown;
use super::text::{Line, Style};
use crate::render::one_line;

/// Entries of a plan that are shown.
const PLAN_ROWS_MAX: usize = 8;
/// Lines of a message of the person that are shown.
const PROMPT_LINES_MAX: usize = 12;

/// The state of what is shown.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    finished: Vec<Line>,
    said: Said,
    calls: Calls,
    plan: Vec<Line>,
    /// What was shown last; kinds are set apart by an empty line.
    last: Option<Block>,
    /// Whether what was taken ended with one.
    is_apart: bool,
}

/// A message that is being told.
#[derive(Debug, Default)]
enum Said {
    #[default]
    Nothing,
    Text(Markdown),
    Thought(Markdown),
    /// A person's words, from another client or an earlier time.
    Prompt(String),
}

/// What lines belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Prompt,
    Text,
    Thought,
    Calls,
    Note,
}

impl Transcript {
    /// Takes an update of the session.
    pub(super) fn update(&mut self, update: Update, raw: &Value, now: Instant) {
        match update {
            Update::Text {
                greeting: true,
                text,
                ..
            } => self.note(text.trim()),
            Update::Text { text, .. } => self.text(&text),
            Update::Thought { text } => self.thought(&text),
            Update::ToolCall(call) => {
                self.end_message();
                self.calls.started(call, raw, now);
            }
            Update::ToolUpdate(part) => self.call_changed(&part, raw, now),
            Update::Notice { text } => self.warn(&text),
            Update::Turn(_) => {}
            Update::Other { kind } => self.other(&kind, raw),
        }
    }

    /// The person said this, here.
    pub(super) fn prompt(&mut self, text: &str) {
        self.end_message();
        self.begin(Block::Prompt);
        let count = text.lines().count();
        for (index, line) in text.lines().take(PROMPT_LINES_MAX).enumerate() {
            let mark = if index == 0 { "❯ " } else { "  " };
            let line = Line::of(Style::Accent, mark).with(Style::Bold, line);
            self.finished.push(line.hanging(2));
        }
        if let Some(left @ 1..) = count.checked_sub(PROMPT_LINES_MAX) {
            let more = format!("  … and {left} lines more");
            self.finished.push(Line::of(Style::Dim, &more));
        }
    }

    /// A remark of ours.
    pub(super) fn note(&mut self, text: &str) {
        self.line(Line::of(Style::Dim, &one_line(text)));
    }

    /// A remark that matters.
    pub(super) fn warn(&mut self, text: &str) {
        self.line(
            Line::of(Style::Warning, "! ")
                .with(Style::Plain, &one_line(text))
                .hanging(2),
        );
    }

    /// A failure.
    pub(super) fn failed(&mut self, text: &str) {
        self.line(
            Line::of(Style::Bad, "✗ ")
                .with(Style::Plain, &one_line(text))
                .hanging(2),
        );
    }

    /// Something good.
    pub(super) fn good(&mut self, text: &str) {
        self.line(
            Line::of(Style::Good, "✓ ")
                .with(Style::Plain, &one_line(text))
                .hanging(2),
        );
    }

    /// A line of ours as it is.
    pub(super) fn line(&mut self, line: Line) {
        self.end_message();
        self.begin(Block::Note);
        self.finished.push(line);
    }

    /// What a person should see before they answer a question.
    pub(super) fn asked(&mut self, call: &ToolCall, raw: &Value) {
        self.end_message();
        self.begin(Block::Calls);
        let lines = self.calls.asked(call, raw);
        self.finished.extend(lines);
    }

    /// A question was answered, here or elsewhere.
    pub(super) fn answered(&mut self, now: Instant) {
        self.calls.answered(now);
    }

    /// All that is known of a call.
    pub(super) fn whole(&self, part: &ToolCall) -> ToolCall {
        self.calls.whole(part)
    }

    /// The turn is over.
    pub(super) fn turn_ended(&mut self) {
        self.end_message();
        self.calls.forget();
        if !self.plan.is_empty() {
            self.begin(Block::Note);
            self.finished.append(&mut self.plan);
        }
    }

    /// Shows in full what was folded last.
    pub(super) fn unfold(&mut self) {
        match self.calls.unfolded() {
            Some(lines) => {
                self.end_message();
                self.begin(Block::Calls);
                self.finished.extend(lines);
            }
            None => self.note("there is nothing folded"),
        }
    }

    /// Another session begins here.
    pub(super) fn start_over(&mut self) {
        self.end_message();
        self.calls = Calls::default();
        self.plan.clear();
    }

    /// Takes the lines that are finished at `width` columns.
    pub(super) fn take_finished(&mut self, width: usize) -> Vec<Line> {
        let settled = match &mut self.said {
            Said::Text(text) => text.settle(width),
            Said::Thought(thought) => dimmed(thought.settle(width)),
            Said::Nothing | Said::Prompt(_) => Vec::new(),
        };
        self.finished.extend(settled);
        if let Some(last) = self.finished.last() {
            self.is_apart = last.len() == 0;
        }
        std::mem::take(&mut self.finished)
    }

    /// Drops all but the last `lines_max` lines that are finished.
    pub(super) fn keep_last(&mut self, lines_max: usize) {
        let over = self.finished.len().saturating_sub(2 * lines_max);
        if over > 0 {
            self.finished.drain(..over + lines_max);
        }
    }

    /// The lines that may still change.
    pub(super) fn live(&self, width: usize, spinner: char, now: Instant) -> Vec<Line> {
        let mut lines = match &self.said {
            Said::Text(text) => text.live(width),
            Said::Thought(thought) => dimmed(thought.live(width)),
            Said::Nothing | Said::Prompt(_) => Vec::new(),
        };
        lines.extend(self.calls.live(spinner, now));
        lines.extend(self.plan.iter().cloned());
        lines
    }

    fn text(&mut self, text: &str) {
        if !matches!(self.said, Said::Text(_)) {
            self.end_message();
            self.begin(Block::Text);
            self.said = Said::Text(Markdown::default());
        }
        if let Said::Text(markdown) = &mut self.said {
            self.finished.extend(markdown.push(text));
        }
    }

    fn thought(&mut self, text: &str) {
        if !matches!(self.said, Said::Thought(_)) {
            self.end_message();
            self.begin(Block::Thought);
            self.said = Said::Thought(Markdown::default());
        }
        if let Said::Thought(markdown) = &mut self.said {
            self.finished.extend(dimmed(markdown.push(text)));
        }
    }

    fn call_changed(&mut self, part: &ToolCall, raw: &Value, now: Instant) {
        let lines = self.calls.changed(part, raw, now);
        if !lines.is_empty() {
            self.end_message();
            self.begin(Block::Calls);
            self.finished.extend(lines);
        }
    }

    fn other(&mut self, kind: &str, raw: &Value) {
        match kind {
            "user_message_chunk" => {
                let text = raw["content"]["text"].as_str().unwrap_or("(an attachment)");
                if let Said::Prompt(prompt) = &mut self.said {
                    prompt.push_str(text);
                } else {
                    self.end_message();
                    self.said = Said::Prompt(text.to_owned());
                }
            }
            "plan" => self.plan = plan(raw),
            _ => {}
        }
    }

    fn end_message(&mut self) {
        match std::mem::take(&mut self.said) {
            Said::Nothing => {}
            Said::Text(mut text) => self.finished.extend(text.end()),
            Said::Thought(mut thought) => self.finished.extend(dimmed(thought.end())),
            Said::Prompt(text) => self.prompt(&text),
        }
    }

    fn begin(&mut self, block: Block) {
        let goes_apart = self.last != Some(block) || block == Block::Prompt;
        let last = self.finished.last().map(|line| line.len() == 0);
        let is_apart = last.unwrap_or(self.is_apart);
        if goes_apart && !is_apart && self.last.is_some() {
            self.finished.push(Line::default());
        }
        self.last = Some(block);
    }
}

fn dimmed(lines: Vec<Line>) -> Vec<Line> {
    let dim = |line: &Line| Line::of(Style::Dim, &line.plain());
    lines.iter().map(dim).collect()
}

fn plan(raw: &Value) -> Vec<Line> {
    let entries = raw["entries"].as_array().map(Vec::as_slice);
    let entries = entries.unwrap_or_default();
    let mut lines: Vec<Line> = entries.iter().take(PLAN_ROWS_MAX).map(plan_entry).collect();
    if let Some(left @ 1..) = entries.len().checked_sub(PLAN_ROWS_MAX) {
        lines.push(Line::of(Style::Dim, &format!("  … and {left} more")));
    }
    lines
}

fn plan_entry(entry: &Value) -> Line {
    let content = entry["content"].as_str().unwrap_or_default();
    match entry["status"].as_str() {
        Some("completed") => Line::of(Style::Good, "☑ ").with(Style::Dim, content),
        Some("in_progress") => Line::of(Style::Accent, "▸ ").with(Style::Bold, content),
        _ => Line::of(Style::Dim, "☐ ").with(Style::Plain, content),
    }
    .hanging(2)
}

#[cfg(test)]
mod tests;
