//! Permission requests and questions of the agent: shown one at a time, answered in two steps.
//!
//! A key only highlights an option: an arrow, or the option's letter or digit while the input line is
//! empty. Enter confirms the highlighted option, alone and with an empty line. Everything else that is
//! typed or pasted is text. So no printable key answers anything, and no text does.

use std::collections::VecDeque;
use std::time::Duration;

use client::Ask;
use domain::event::{PermissionOption, PermissionOptionKind};
use tokio::time::Instant;

use super::keys::Key;
use super::text::{Line, Style};

/// How long no key was pressed before one highlights an option: a user who is typing when the request
/// appears has not read it.
const SETTLED: Duration = Duration::from_millis(400);
/// An Enter that follows the highlighting key more closely than this came from a paste that the
/// terminal did not mark, or from a key that bounced.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);
/// Requests that wait; a turn asks one after the other, sub-agents a few at a time.
const REQUESTS_MAX: usize = 64;

/// The requests that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Asking {
    waiting: VecDeque<Request>,
    /// The letter that highlighted an option. It begins a message if more text follows, also when the
    /// request has gone meanwhile.
    letter: Option<char>,
    /// Until when that still counts, after an Enter that came too fast.
    letter_until: Option<Instant>,
}

#[derive(Debug)]
struct Request {
    ask: Ask,
    is_choice: bool,
    /// From when on a key highlights an option.
    armed: Instant,
    /// Belongs to this request, so that an Enter meant for another one finds none.
    highlight: Option<Highlight>,
}

/// The option that Enter would confirm.
#[derive(Clone, Copy, Debug)]
struct Highlight {
    option: usize,
    since: Instant,
}

/// Under which circumstances a key was pressed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressed {
    /// Whether nothing is written in the input line.
    pub(super) is_line_empty: bool,
    /// Whether the terminal sent it alone. Several keys at once are a paste, or typing that was held up.
    pub(super) is_alone: bool,
    pub(super) now: Instant,
}

/// What a key did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// It is not for the request: these keys go on to the text, in this order.
    Passed(Vec<Key>),
    /// It chose, or took the choice back.
    Taken,
    /// It answered the request.
    Answered,
    /// It answered nothing, for this reason.
    Refused(&'static str),
}

impl Asking {
    /// Takes a request. One too many is not answered, so that other clients may.
    pub(super) fn add(&mut self, ask: Ask, is_choice: bool, now: Instant) {
        if self.waiting.len() < REQUESTS_MAX {
            self.waiting.push_back(Request {
                ask,
                is_choice,
                armed: now + SETTLED,
                highlight: None,
            });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the request that is shown begins to listen.
    pub(super) fn arms_at(&self) -> Option<Instant> {
        self.waiting.front().map(|request| request.armed)
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: Key, pressed: Pressed) -> Reaction {
        let until = self.letter_until.take();
        let is_fresh = until.is_none_or(|until| pressed.now < until);
        let letter = self.letter.take().filter(|_| is_fresh);
        let Some(request) = self.waiting.front_mut() else {
            // It was meant for a request that has gone.
            if letter.is_some() && matches!(key, Key::Enter) {
                return Reaction::Taken;
            }
            if is_text(&key) {
                return Reaction::Passed(after(letter, key));
            }
            return Reaction::Passed(vec![key]);
        };
        let Pressed {
            is_line_empty,
            is_alone,
            now,
        } = pressed;
        let listens = is_line_empty && now >= request.armed;
        let has_choice = letter.is_some() || request.highlight.is_some();
        let may_choose = listens && is_alone && letter.is_none();
        if listens && matches!(key, Key::Up | Key::Left) {
            request.turn(-1, now);
        } else if listens && matches!(key, Key::Down | Key::Right) {
            request.turn(1, now);
        } else if is_line_empty && matches!(key, Key::Enter) {
            return self.enter(letter, is_alone, now);
        } else if has_choice && matches!(key, Key::Escape | Key::Backspace) {
            request.highlight = None;
        } else if let (Key::Char(c), true) = (&key, may_choose) {
            let Some(option) = request.option_of(*c) else {
                return Reaction::Passed(request.write(None, key, now));
            };
            request.highlight = Some(Highlight { option, since: now });
            self.letter = Some(*c);
        } else if is_text(&key) {
            return Reaction::Passed(request.write(letter, key, now));
        } else {
            self.letter = letter;
            return Reaction::Passed(vec![key]);
        }
        Reaction::Taken
    }

    /// Enter was pressed with an empty line.
    fn enter(&mut self, letter: Option<char>, is_alone: bool, now: Instant) -> Reaction {
        let Some(request) = self.waiting.front_mut() else {
            return Reaction::Passed(vec![Key::Enter]);
        };
        let Some(highlight) = request.highlight.take() else {
            let why = "nothing is chosen: choose with the arrows or a key, then press Enter";
            return Reaction::Refused(why);
        };
        if !is_alone || now < highlight.since + CONFIRM_AFTER {
            request.armed = now + SETTLED;
            // If this is a paste, the letter is its beginning.
            (self.letter, self.letter_until) = (letter, Some(now + SETTLED));
            let why = "nothing was answered: Enter came too fast after the key";
            return Reaction::Refused(why);
        }
        let option = request.ask.options.get(highlight.option);
        let Some(option) = option.map(|option| option.option_id.clone()) else {
            return Reaction::Taken;
        };
        if let Some(request) = self.waiting.pop_front() {
            request.ask.answer(&option);
        }
        // The next one has not been read yet.
        if let Some(next) = self.waiting.front_mut() {
            next.armed = now + SETTLED;
        }
        Reaction::Answered
    }

    /// The request that is shown was answered elsewhere, or the turn ended.
    pub(super) fn withdraw(&mut self, now: Instant) {
        self.waiting.pop_front();
        if let Some(next) = self.waiting.front_mut() {
            next.armed = now + SETTLED;
        }
    }

    /// Drops all of them, which answers none.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.letter = None;
    }

    /// Waits until the request that is shown need not be answered any more.
    pub(super) async fn withdrawn(&mut self) {
        match self.waiting.front_mut() {
            Some(request) => request.ask.withdrawn().await,
            None => std::future::pending().await,
        }
    }

    /// The options, and how to answer.
    pub(super) fn live(&self, is_line_empty: bool, now: Instant) -> Vec<Line> {
        let Some(request) = self.waiting.front() else {
            return Vec::new();
        };
        let mut lines = request.lines(is_line_empty && now >= request.armed);
        let how = match (is_line_empty, request.highlighted()) {
            (false, _) => "Enter sends your message; empty the line to answer".to_owned(),
            (true, None) => "choose with the arrows or a key, then press Enter".to_owned(),
            (true, Some(_)) => "Enter confirms, Escape takes it back".to_owned(),
        };
        let more = match self.waiting.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more after this one)"),
        };
        lines.push(Line::of(Style::Dim, &(how + &more)));
        lines
    }
}

impl Request {
    /// Moves the highlight; the first move goes to the first or the last option.
    fn turn(&mut self, by: isize, now: Instant) {
        let count = self.ask.options.len();
        let option = match self.highlight {
            None if by < 0 => count.checked_sub(1),
            None => (count > 0).then_some(0),
            Some(at) => (at.option + count)
                .checked_add_signed(by)
                .and_then(|at| at.checked_rem(count)),
        };
        self.highlight = option.map(|option| Highlight { option, since: now });
    }

    /// A key that is text: nothing is highlighted any more, and the letter that did begins the text.
    fn write(&mut self, letter: Option<char>, key: Key, now: Instant) -> Vec<Key> {
        self.highlight = None;
        self.armed = now + SETTLED;
        after(letter, key)
    }

    fn highlighted(&self) -> Option<usize> {
        self.highlight.map(|highlight| highlight.option)
    }

    fn lines(&self, is_armed: bool) -> Vec<Line> {
        let shown = |index: usize, key: &str, name: &str| {
            let is_chosen = self.highlighted() == Some(index);
            let (mark, style) = match (is_chosen, is_armed) {
                (true, _) => ("▸", Style::Chosen),
                (false, true) => (" ", Style::Accent),
                (false, false) => (" ", Style::Dim),
            };
            let key = match is_armed || is_chosen {
                true => format!("[{key}] "),
                false => format!(" {key}  "),
            };
            let name_style = if is_chosen { style } else { Style::Plain };
            Line::of(Style::Accent, mark)
                .with(style, &key)
                .with(name_style, name)
        };
        let options = self.ask.options.iter().enumerate();
        if self.is_choice {
            let lines = options.map(|(index, option)| {
                let key = (index + 1).to_string();
                shown(index, &key, &option.name).hanging(5)
            });
            return lines.collect();
        }
        let mut line = Line::of(Style::Warning, "allow it?");
        for (index, option) in options {
            let key = letter(option.kind).to_string();
            line = line.joined(&shown(index, &key, word(option.kind)));
            line.push(Style::Plain, " ");
        }
        vec![line]
    }

    /// The option that a letter or a digit means.
    fn option_of(&self, c: char) -> Option<usize> {
        let is_it = |(index, option): &(usize, &PermissionOption)| match self.is_choice {
            true => c.to_digit(10) == u32::try_from(index + 1).ok(),
            false => c == letter(option.kind),
        };
        let found = self.ask.options.iter().enumerate().find(is_it);
        found.map(|(index, _)| index)
    }
}

/// Whether a key writes something.
fn is_text(key: &Key) -> bool {
    matches!(key, Key::Char(_) | Key::Paste(_) | Key::NewLine)
}

/// The letter that is not in the text yet, and then `key`.
fn after(letter: Option<char>, key: Key) -> Vec<Key> {
    letter.map(Key::Char).into_iter().chain([key]).collect()
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
