//! The steps of a run that add to a session.

use domain::Event;
use domain::clock::Timestamp;
use domain::event::{
    MessageKind, MessageStarted, Notice, StopReason, Text, TurnResult, TurnStarted,
};
use domain::{MessageId, TurnId};

use super::{Run, Session};
use crate::{Entry, StoreError};

impl Run {
    pub(super) fn write(&mut self) -> Result<(), String> {
        let Some(at) = self.pick() else { return Ok(()) };
        if self.sessions[at].writer.is_none() {
            self.open(at)?;
        }
        let is_open = self.sessions[at].expected.open.is_some();
        match (self.chance.below(10), is_open) {
            (0..=1, false) => self.start_message(at),
            (2, false) => self.say_whole(at),
            (0..=3, true) => self.push_text(at),
            (4, true) => self.flush(at),
            (5, true) => self.append(at, true),
            (6, _) => self.save_meta(at),
            _ => self.append(at, false),
        }
    }

    pub(super) fn append(&mut self, at: usize, ends: bool) -> Result<(), String> {
        let mut entries = Vec::new();
        if ends {
            entries.push(Entry::EndMessage { partial: false });
        }
        for _ in 0..=self.chance.below(5) {
            let event = match self.chance.below(8) {
                0 => turn_started(),
                1 => turn_ended(),
                _ => self.notice(),
            };
            entries.push(Entry::Event(event));
        }
        self.append_entries(at, entries)
    }

    pub(super) fn append_text(&mut self, at: usize, text: &str) -> Result<(), String> {
        let notice = Notice {
            kind: "soak".into(),
            message_id: None,
            text: text.to_owned(),
        };
        self.append_entries(at, vec![Entry::Event(notice.into())])
    }

    pub(super) fn append_entries(&mut self, at: usize, entries: Vec<Entry>) -> Result<(), String> {
        let now = self.now();
        let Session { expected, writer } = &mut self.sessions[at];
        let Some(open) = writer else { return Ok(()) };
        expected.tried(&entries);
        match open.append(entries, now) {
            Ok(stored) => expected.stored(stored.iter().map(|stored| (**stored).clone()).collect()),
            Err(error) => self.failed(at, &error, "append"),
        }
    }

    pub(super) fn start_message(&mut self, at: usize) -> Result<(), String> {
        self.words += 1;
        let kind = match self.chance.one_in(3) {
            true => MessageKind::Thought,
            false => MessageKind::Text,
        };
        let started = MessageStarted {
            message_id: MessageId::new(format!("m{}", self.words)),
            kind,
        };
        let now = self.now();
        let Session { expected, writer } = &mut self.sessions[at];
        let Some(open) = writer else { return Ok(()) };
        expected.tried(&[Entry::Event(started.clone().into())]);
        match open.start_message(started, now) {
            Ok(stored) => {
                expected.started(&stored);
                Ok(())
            }
            Err(error) => self.failed(at, &error, "start"),
        }
    }

    /// A message that is started and ended with one append.
    pub(super) fn say_whole(&mut self, at: usize) -> Result<(), String> {
        self.words += 1;
        let message = MessageStarted {
            message_id: MessageId::new(format!("m{}", self.words)),
            kind: MessageKind::Text,
        };
        let text = Text::Inline(self.text(1_500));
        let end = message.clone().ended(text, false);
        self.append_entries(at, vec![Entry::Event(message.into()), Entry::Event(end)])
    }

    pub(super) fn push_text(&mut self, at: usize) -> Result<(), String> {
        let most = if self.chance.one_in(800) {
            300_000
        } else {
            1_500
        };
        // In streamed text a NUL at a sector's end cannot be told from what a power loss left.
        let text = self.text(most).replace('\0', "0");
        let Session { expected, writer } = &mut self.sessions[at];
        let Some(open) = writer else { return Ok(()) };
        match open.push_text(&text) {
            Ok(_) => {
                expected.showed(&text);
                Ok(())
            }
            Err(error) => {
                expected.perhaps_showed(&text);
                self.failed(at, &error, "push")
            }
        }
    }

    pub(super) fn flush(&mut self, at: usize) -> Result<(), String> {
        let Session { expected, writer } = &mut self.sessions[at];
        let Some(open) = writer else { return Ok(()) };
        let Some(job) = open.unsynced() else {
            return Ok(());
        };
        match job.run() {
            Ok(()) => {
                expected.flushed();
                Ok(())
            }
            Err(error) => {
                open.fence();
                self.failed(at, &error, "flush")
            }
        }
    }

    pub(super) fn save_meta(&mut self, at: usize) -> Result<(), String> {
        let Session { expected, writer } = &mut self.sessions[at];
        let Some(open) = writer else { return Ok(()) };
        match open.save_meta() {
            Ok(()) => {
                expected.synced_events();
                Ok(())
            }
            Err(error) => self.failed(at, &error, "save"),
        }
    }

    /// A write failed: the session is opened anew, by this process or by the next.
    fn failed(&mut self, at: usize, error: &StoreError, what: &str) -> Result<(), String> {
        self.excuse(error, what)?;
        let session = &mut self.sessions[at];
        if let Some(mut writer) = session.writer.take()
            && !self.storage.is_dead()
            && what != "save"
        {
            let again = writer.append(vec![Entry::Event(turn_ended())], Timestamp(0.0));
            if !matches!(again, Err(StoreError::Fenced)) {
                return Err(format!("after a failed {what} the writer went on"));
            }
        }
        if self.chance.one_in(2) {
            return self.open(at);
        }
        Ok(())
    }
}

fn turn_started() -> Event {
    TurnStarted {
        turn: TurnId(1),
        prompt_id: None,
        queued: None,
    }
    .into()
}

fn turn_ended() -> Event {
    TurnResult {
        turn: TurnId(1),
        stop_reason: Some(StopReason::EndTurn),
        error: None,
        usage: None,
    }
    .into()
}
