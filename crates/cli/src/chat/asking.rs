//! Questions to the person: shown one at a time, answered with one key.

use std::collections::VecDeque;
use std::time::Duration;

use client::Ask;
use domain::event::{PermissionOption, PermissionOptionKind};
use tokio::time::Instant;

use super::keys::Key;
use super::text::{Line, Style};

/// How long no key was pressed before one counts as an answer: whoever is typing when the question
/// appears has not read it.
const SETTLED: Duration = Duration::from_millis(400);
/// Questions that wait; a turn asks one after the other, sub-agents a few at a time.
const QUESTIONS_MAX: usize = 64;

/// The questions that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Asking {
    waiting: VecDeque<Question>,
}

#[derive(Debug)]
struct Question {
    ask: Ask,
    is_choice: bool,
    /// From when on a key is an answer.
    armed: Instant,
}

impl Asking {
    /// Takes a question. One too many is not answered, so that others may.
    pub(super) fn add(&mut self, ask: Ask, is_choice: bool, now: Instant) {
        if self.waiting.len() < QUESTIONS_MAX {
            self.waiting.push_back(Question {
                ask,
                is_choice,
                armed: now + SETTLED,
            });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the question that is shown begins to listen.
    pub(super) fn arms_at(&self) -> Option<Instant> {
        self.waiting.front().map(|question| question.armed)
    }

    /// A key was pressed: `None` if it answered, else it is given back.
    pub(super) fn press(&mut self, key: Key, now: Instant) -> Option<Key> {
        let Some(question) = self.waiting.front_mut() else {
            return Some(key);
        };
        if now < question.armed {
            question.armed = now + SETTLED;
            return Some(key);
        }
        let Some(option) = question.chosen(&key).map(str::to_owned) else {
            question.armed = now + SETTLED;
            return Some(key);
        };
        if let Some(question) = self.waiting.pop_front() {
            question.ask.answer(&option);
        }
        // The next one has not been read yet.
        if let Some(next) = self.waiting.front_mut() {
            next.armed = now + SETTLED;
        }
        None
    }

    /// The question that is shown was answered elsewhere, or the turn ended.
    pub(super) fn withdraw(&mut self) {
        self.waiting.pop_front();
    }

    /// Drops all of them, which answers none.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Waits until the question that is shown need not be answered any more.
    pub(super) async fn withdrawn(&mut self) {
        match self.waiting.front_mut() {
            Some(question) => question.ask.withdrawn().await,
            None => std::future::pending().await,
        }
    }

    /// How to answer.
    pub(super) fn live(&self, now: Instant) -> Vec<Line> {
        let Some(question) = self.waiting.front() else {
            return Vec::new();
        };
        let mut lines = question.lines(now >= question.armed);
        if let more @ 1.. = self.waiting.len() - 1 {
            lines.push(Line::of(
                Style::Dim,
                &format!("({more} more after this one)"),
            ));
        }
        lines
    }
}

impl Question {
    fn lines(&self, is_armed: bool) -> Vec<Line> {
        let key = |key: &str| match is_armed {
            true => Line::of(Style::Accent, &format!("[{key}] ")),
            false => Line::of(Style::Dim, &format!(" {key}  ")),
        };
        let options = self.ask.options.iter();
        if self.is_choice {
            let lines = options.enumerate().map(|(index, option)| {
                let line = key(&(index + 1).to_string());
                line.with(Style::Plain, &option.name).hanging(4)
            });
            return lines.collect();
        }
        let mut line = Line::of(Style::Warning, "allow it? ");
        for option in options {
            let shown = key(&letter(option.kind).to_string()).plain();
            let style = if is_armed { Style::Accent } else { Style::Dim };
            line.push(style, &shown);
            line.push(Style::Plain, &format!("{}  ", word(option.kind)));
        }
        vec![line]
    }

    /// The option that a key means.
    fn chosen(&self, key: &Key) -> Option<&str> {
        let is_it = |(index, option): &(usize, &PermissionOption)| {
            let Key::Char(c) = key else {
                return *key == Key::Escape && is_rejection(option.kind);
            };
            if self.is_choice {
                c.to_digit(10) == u32::try_from(index + 1).ok()
            } else {
                *c == letter(option.kind)
            }
        };
        let found = self.ask.options.iter().enumerate().find(is_it);
        found.map(|(_, option)| option.option_id.as_str())
    }
}

fn is_rejection(kind: PermissionOptionKind) -> bool {
    match kind {
        PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways => true,
        PermissionOptionKind::AllowOnce | PermissionOptionKind::AllowAlways => false,
    }
}

fn letter(kind: PermissionOptionKind) -> char {
    match kind {
        PermissionOptionKind::AllowOnce => 'y',
        PermissionOptionKind::AllowAlways => 'a',
        PermissionOptionKind::RejectOnce => 'n',
        PermissionOptionKind::RejectAlways => 'd',
    }
}

fn word(kind: PermissionOptionKind) -> &'static str {
    match kind {
        PermissionOptionKind::AllowOnce => "yes",
        PermissionOptionKind::AllowAlways => "always",
        PermissionOptionKind::RejectOnce => "no",
        PermissionOptionKind::RejectAlways => "never",
    }
}
