//! The conversation: it reacts to what the session tells, what the person types, and how the
//! connection stands, one thing at a time.
//!
//! [`Talk::step`] is all that it waits for; [`pressing`] is what keys do, [`entering`] how sessions
//! are entered, [`turns`] how turns end. What takes an answer of the server is a [`Job`], so that
//! the session goes on being read meanwhile.

mod entering;
mod pressing;
mod turns;

use std::io;
use std::pin::Pin;
use std::time::Duration;

use anyhow::Context as _;
use client::{Client, LinkState, Update, Watch, WatchEvent};
use domain::{EventSeq, PromptId, SessionId};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use self::turns::Turns;
use super::complete::Menu;
use super::face::{Face, SPIN_EVERY};
use super::jobs::{self, Done, Job, Wanted};
use super::keys::Decoder;
use super::terminal::{self, Terminal};
use crate::ask::questions;
use crate::render::Exit;
use crate::settings::Settings;
use crate::signals;

/// How long the bytes of a key may take to come; an Escape alone is one after that.
const ESCAPE_TIME: Duration = Duration::from_millis(40);
/// How often the screen is drawn at most.
const FRAME_EVERY: Duration = Duration::from_millis(25);
/// Events of the session that are taken in before the person's keys are looked at again.
const BATCH_MAX: usize = 256;

/// A conversation.
pub(super) struct Talk<'a> {
    client: &'a Client,
    settings: &'a Settings,
    link: Option<watch::Receiver<LinkState>>,
    terminal: Terminal,
    face: Face,
    typed: mpsc::Receiver<Vec<u8>>,
    decoder: Decoder,
    escape_at: Option<Instant>,
    seat: Option<Seat>,
    job: Option<Job<'a>>,
    /// Prompts of ours that have no answer yet.
    sent: Vec<PromptId>,
    turns: Turns,
    /// When Ctrl-C was pressed.
    interrupted: Option<Instant>,
    files: Vec<String>,
    drawn: Instant,
    is_stale: bool,
    signals: Signals,
}

/// The session that we are in.
struct Seat {
    session: SessionId,
    watch: Watch,
    /// Where turns began, newest last.
    turns: Vec<EventSeq>,
}

struct Signals {
    resized: Signal,
    hung_up: Signal,
    stop: signals::Stop,
}

/// What to react to.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Step {
    Event(Option<WatchEvent>),
    Typed(Option<Vec<u8>>),
    EscapeOver,
    Done(Done),
    Link,
    Resized,
    Withdrawn,
    Draw,
    Leave,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Over,
}

impl<'a> Talk<'a> {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn begin(
        client: &'a Client,
        settings: &'a Settings,
        link: Option<watch::Receiver<LinkState>>,
        face: Face,
    ) -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("signals cannot be received");
        let signals = Signals {
            resized: listen(SignalKind::window_change())?,
            hung_up: listen(SignalKind::hangup())?,
            stop: signals::Stop::listen()?,
        };
        Ok(Self {
            client,
            settings,
            link,
            terminal: Terminal::enter().context("the terminal cannot be used")?,
            face,
            typed: terminal::typed(),
            decoder: Decoder::default(),
            escape_at: None,
            seat: None,
            job: None,
            sent: Vec::new(),
            turns: Turns::default(),
            interrupted: None,
            files: Vec::new(),
            drawn: Instant::now(),
            is_stale: true,
            signals,
        })
    }

    /// Talks until the person leaves.
    ///
    /// # Errors
    /// If the connection or the terminal is gone for good, or the session cannot be entered.
    pub(super) async fn run(mut self, wanted: Wanted) -> anyhow::Result<Exit> {
        self.job = Some(jobs::enter(self.client, self.settings, wanted));
        let outcome = loop {
            match self.react().await {
                Ok(Flow::On) => {}
                Ok(Flow::Over) => break Ok(Exit::Success),
                Err(error) => break Err(error),
            }
        };
        let words = match &self.seat {
            Some(seat) if !self.face.is_entering() => {
                let resume = format!("fastness chat --resume {}", seat.session);
                format!("continue with: {}", crate::render::advice::command(&resume))
            }
            Some(_) | None => String::new(),
        };
        let left = self.face.leave(&words);
        drop(self.terminal);
        outcome.and_then(|exit| left.map(|()| exit).or(Ok(Exit::Failure)))
    }

    async fn react(&mut self) -> anyhow::Result<Flow> {
        let step = self.step().await;
        let now = Instant::now();
        self.is_stale |= !matches!(step, Step::Draw);
        match step {
            Step::Event(Some(event)) => {
                self.event(event, now);
                self.more_events(now).await;
            }
            Step::Event(None) => return Err(self.lost().await),
            Step::Typed(None) | Step::Leave => return Ok(Flow::Over),
            Step::Typed(Some(bytes)) => {
                let keys = self.decoder.feed(&bytes);
                self.escape_at = self.decoder.is_waiting().then(|| now + ESCAPE_TIME);
                return self.keys(keys, now).await;
            }
            Step::EscapeOver => {
                self.escape_at = None;
                let keys = self.decoder.give_up();
                return self.keys(keys, now).await;
            }
            Step::Done(done) => {
                self.job = None;
                self.done(done, now).await?;
            }
            Step::Link => {
                let state = self
                    .link
                    .as_mut()
                    .map(|link| link.borrow_and_update().clone());
                if let Some(state) = state {
                    self.face.link_changed(&state, now);
                }
            }
            Step::Resized => self.face.resize(Terminal::size(), now)?,
            Step::Withdrawn => {
                self.face.asking.withdraw(now);
                self.face.transcript.answered(now);
                self.face.hint("answered elsewhere", now);
            }
            Step::Draw => {
                self.is_stale = false;
                self.drawn = now;
                self.face.draw(now)?;
            }
        }
        Ok(Flow::On)
    }

    /// Waits for the next thing to react to. Cancel safe, as all it waits for is.
    async fn step(&mut self) -> Step {
        let draw_at = match (self.is_stale, self.face.is_moving()) {
            (true, _) => Some(self.drawn + FRAME_EVERY),
            (false, true) => Some(self.drawn + SPIN_EVERY),
            (false, false) => None,
        };
        tokio::select! {
            event = next(&mut self.seat) => Step::Event(event),
            typed = self.typed.recv() => Step::Typed(typed),
            () = at(self.escape_at) => Step::EscapeOver,
            done = work(&mut self.job) => Step::Done(done),
            () = changed(&mut self.link) => Step::Link,
            _ = self.signals.resized.recv() => Step::Resized,
            _ = self.signals.hung_up.recv() => Step::Leave,
            () = self.signals.stop.asked() => Step::Leave,
            () = self.face.asking.withdrawn() => Step::Withdrawn,
            () = at(draw_at) => Step::Draw,
        }
    }

    /// Takes in what has come already, so that a flood is drawn as one.
    async fn more_events(&mut self, now: Instant) {
        for _ in 0..BATCH_MAX {
            let ready = tokio::time::timeout(Duration::ZERO, next(&mut self.seat)).await;
            match ready {
                Ok(Some(event)) => self.event(event, now),
                // The end is found again by the next step.
                Ok(None) | Err(_) => break,
            }
        }
        self.face.forget_old();
    }

    fn event(&mut self, event: WatchEvent, now: Instant) {
        match event {
            WatchEvent::Update {
                update: Update::Turn(notice),
                ..
            } => self.turn(&notice, now),
            WatchEvent::Update { update, raw } => {
                self.turns.heard(&update);
                if let Update::Other { kind } = &update {
                    self.face.status.update(kind, &raw);
                    if kind == "queue" {
                        self.queue_changed(&raw);
                    }
                    // What is being written may be the beginning of a command that is new.
                    if kind == "available_commands_update" {
                        self.face.menu = Menu::default();
                        self.complete();
                    }
                }
                self.face.transcript.update(update, &raw, now);
            }
            WatchEvent::Ask(mut ask) => {
                ask.call = self.face.transcript.whole(&ask.call);
                let is_choice = questions::is_question(&ask.call);
                self.face.transcript.asked(&ask.call, &ask.raw);
                self.face.asking.add(ask, is_choice, now);
            }
            WatchEvent::Ended { prompt, end } => self.ended(&prompt, end),
        }
    }

    /// Why the connection is gone.
    async fn lost(&self) -> anyhow::Error {
        let session = self.seat.as_ref().map(|seat| seat.session);
        let cancelled = match session {
            Some(session) => self.client.cancel(session).await,
            None => Ok(()),
        };
        match cancelled {
            Err(error) => error.into(),
            Ok(()) => io::Error::other("the connection ended").into(),
        }
    }
}

async fn next(seat: &mut Option<Seat>) -> Option<WatchEvent> {
    match seat {
        Some(seat) => seat.watch.next().await,
        None => std::future::pending().await,
    }
}

async fn work(job: &mut Option<Job<'_>>) -> Done {
    match job {
        Some(job) => Pin::new(job).await,
        None => std::future::pending().await,
    }
}

async fn changed(link: &mut Option<watch::Receiver<LinkState>>) {
    let changed = match link {
        Some(link) => link.changed().await,
        None => std::future::pending().await,
    };
    if changed.is_err() {
        // It will never change again.
        *link = None;
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
