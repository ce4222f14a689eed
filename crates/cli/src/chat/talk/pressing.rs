//! What keys do in a conversation: write, send, stop, leave, and the commands after a slash.

use std::time::Duration;

use domain::EventSeq;
use tokio::time::Instant;

use super::super::asking::{Pressed, Reaction};
use super::super::commands::{self, Typed};
use super::super::complete::Menu;
use super::super::face::Waiting;
use super::super::help;
use super::super::jobs::{self, Job, Wanted};
use super::super::keys::Key;
use super::super::terminal::Terminal;
use super::{Flow, Talk};

/// How long after a first Ctrl-C a second one leaves.
const TWICE: Duration = Duration::from_secs(2);

impl<'a> Talk<'a> {
    pub(super) async fn keys(&mut self, keys: Vec<Key>, now: Instant) -> anyhow::Result<Flow> {
        let is_alone = keys.len() == 1;
        for key in keys {
            let pressed = Pressed {
                is_line_empty: self.face.editor.is_empty(),
                is_alone,
                now,
            };
            let rest = match self.face.asking.press(key, pressed) {
                Reaction::Passed(keys) => keys,
                Reaction::Taken => Vec::new(),
                Reaction::Answered => {
                    self.face.transcript.answered(now);
                    Vec::new()
                }
                Reaction::Refused(why) => {
                    self.face.hint(why, now);
                    Vec::new()
                }
            };
            for key in rest {
                if self.key(key, now).await? == Flow::Over {
                    return Ok(Flow::Over);
                }
            }
        }
        Ok(Flow::On)
    }

    async fn key(&mut self, key: Key, now: Instant) -> anyhow::Result<Flow> {
        let flow = match self.face.press(key) {
            Some(Key::Enter) => self.submit(now).await?,
            Some(Key::Ctrl(letter)) => self.control(letter, now).await?,
            Some(key) => {
                if key == Key::Escape && self.face.running.is_some() {
                    self.cancel().await;
                } else if key == Key::PasteTooLong {
                    self.face.hint("that is too long to paste", now);
                }
                Flow::On
            }
            None => Flow::On,
        };
        self.complete();
        Ok(flow)
    }

    /// A key with Ctrl that means nothing for the text.
    async fn control(&mut self, letter: char, now: Instant) -> anyhow::Result<Flow> {
        match letter {
            'c' => return Ok(self.interrupt(now).await),
            'd' if self.face.editor.is_empty() => return Ok(Flow::Over),
            'l' => self.face.redraw(now)?,
            'o' => self.face.transcript.unfold(),
            'z' => {
                self.face.step_back()?;
                self.terminal.suspend()?;
                self.face.resize(Terminal::size(), now)?;
            }
            _ => {}
        }
        Ok(Flow::On)
    }

    /// The menu follows what is written.
    pub(super) fn complete(&mut self) {
        let written = self.face.editor.before_cursor();
        if written.contains('@') && self.files.is_empty() && self.job.is_none() {
            let cwd = self.settings.cwd.clone();
            self.job = Some(jobs::files(cwd));
        }
        if !self.face.menu.is_for(written) {
            self.face.menu = Menu::of(written, &self.face.status.commands, &self.files);
        }
    }

    /// Ctrl-C: stops the turn, or clears what is written; twice leaves.
    async fn interrupt(&mut self, now: Instant) -> Flow {
        let is_twice = self.interrupted.is_some_and(|first| now - first < TWICE);
        if is_twice {
            return Flow::Over;
        }
        if self.face.running.is_none() && !self.face.editor.is_empty() {
            self.face.editor.clear();
            return Flow::On;
        }
        self.interrupted = Some(now);
        if self.face.running.is_some() {
            self.cancel().await;
            self.face.hint("stopping; Ctrl-C again leaves", now);
        } else {
            self.face.hint("Ctrl-C again leaves", now);
        }
        Flow::On
    }

    async fn cancel(&mut self) {
        self.face.asking.clear();
        if let Some(seat) = &self.seat {
            // If it cannot be sent, the connection is ending, and that is told.
            let _ = self.client.cancel(seat.session).await;
        }
    }

    async fn submit(&mut self, now: Instant) -> anyhow::Result<Flow> {
        if self.face.editor.text().trim().is_empty() {
            return Ok(Flow::On);
        }
        if self.seat.is_none() || self.face.is_entering() {
            self.face.hint("not there yet", now);
            return Ok(Flow::On);
        }
        let text = self.face.editor.take();
        self.face.menu = Menu::default();
        match commands::read(&text, &self.face.status.commands) {
            Typed::Prompt => self.prompt(&text, now).await?,
            Typed::Quit => return Ok(Flow::Over),
            Typed::Help => help::help(&mut self.face),
            Typed::Option(option, None) => help::choices(&mut self.face, option),
            Typed::Unknown(name) => {
                let text = format!("there is no command /{name}; /help shows all");
                self.face.transcript.failed(&text);
            }
            Typed::Mcp => self.mcp(),
            Typed::Option(option, Some(choice)) => self.set(option, choice, now),
            Typed::Sessions => self.start(jobs::list(self.client, self.settings), now),
            Typed::Resume(which) => {
                let wanted = which.map_or(Wanted::Newest, Wanted::Named);
                self.start(jobs::enter(self.client, self.settings, wanted), now);
            }
            Typed::New => {
                self.start(jobs::enter(self.client, self.settings, Wanted::New), now);
            }
            Typed::Undo => self.undo(now),
        }
        Ok(Flow::On)
    }

    async fn prompt(&mut self, text: &str, now: Instant) -> anyhow::Result<()> {
        let Some(seat) = &self.seat else {
            return Ok(());
        };
        let prompt = self.client.prompt_watched(seat.session, text).await?;
        let is_first = self.face.running.is_none() && self.sent.is_empty();
        self.sent.push(prompt.clone());
        if is_first {
            self.face.transcript.prompt(text);
            self.face.running = Some(now);
        } else {
            self.face.wait(Waiting {
                seq: None,
                prompt: Some(prompt),
                text: text.to_owned(),
                is_own: true,
            });
        }
        Ok(())
    }

    fn start(&mut self, job: Job<'a>, now: Instant) {
        match self.job {
            None => self.job = Some(job),
            Some(_) => self.face.hint("busy with what you asked for before", now),
        }
    }

    fn set(&mut self, option: &'static str, choice: String, now: Instant) {
        if let Some(seat) = &self.seat {
            let job = jobs::set(self.client, seat.session, option, choice);
            self.start(job, now);
        }
    }

    fn undo(&mut self, now: Instant) {
        let turns = self
            .seat
            .as_ref()
            .map(|seat| (seat.session, seat.turns.last()));
        match turns {
            Some((session, Some(turn))) if self.face.running.is_none() => {
                let to = EventSeq(turn.0.saturating_sub(1));
                self.start(jobs::undo(self.client, session, to), now);
            }
            Some((_, Some(_))) => self.face.hint("a turn is running; Ctrl-C stops it", now),
            Some((_, None)) | None => self.face.hint("there is nothing to undo", now),
        }
    }

    fn mcp(&mut self) {
        let place = crate::engine::place(self.settings, &self.settings.cwd);
        let (project, _) = agent::project::read(&place);
        help::servers(&mut self.face, &project);
    }
}
