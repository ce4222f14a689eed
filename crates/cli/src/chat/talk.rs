//! The conversation: it reacts to what the session tells, what the person types, and how the
//! connection stands, one thing at a time.
//!
//! [`Talk::step`] is all that it waits for. What takes an answer of the server is a [`Job`], so that
//! the session goes on being read meanwhile.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use anyhow::Context as _;
use client::{Attached, Client, ClientError, LinkState, PromptEnd, Update, Watch, WatchEvent};
use domain::{EventSeq, PromptId, SessionId};
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use wire::acp::{TurnNotice, TurnState};

use super::commands::Typed;
use super::complete::Menu;
use super::face::{Face, SPIN_EVERY};
use super::jobs::{self, Done, Job, Wanted};
use super::keys::{Decoder, Key};
use super::terminal::{self, Terminal};
use super::{commands, help};
use crate::ask::questions;
use crate::render::Exit;
use crate::settings::Settings;
use crate::signals;

/// How long the bytes of a key may take to come; an Escape alone is one after that.
const ESCAPE_TIME: Duration = Duration::from_millis(40);
/// How often the screen is drawn at most.
const FRAME_EVERY: Duration = Duration::from_millis(25);
/// How long after a first Ctrl-C a second one leaves.
const TWICE: Duration = Duration::from_secs(2);
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

/// Turns that can be undone one after the other; older ones by their number elsewhere.
const TURNS_MAX: usize = 1_000;

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
                format!("continue with: fastness chat --resume {}", seat.session)
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
                self.face.asking.withdraw();
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
                if let Update::Other { kind } = &update {
                    self.face.status.update(kind, &raw);
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

    fn turn(&mut self, notice: &TurnNotice, now: Instant) {
        match notice.state {
            TurnState::Running | TurnState::Waiting => {
                self.face.running.get_or_insert(now);
                let turns = self.seat.as_mut().map(|seat| &mut seat.turns);
                if let (Some(turns), TurnState::Running) = (turns, notice.state)
                    && turns.len() < TURNS_MAX
                {
                    turns.push(notice.seq);
                }
                self.face.show_queued(notice.prompt_id.as_ref());
            }
            TurnState::Idle => {
                self.face.running = None;
                self.face.transcript.turn_ended();
            }
        }
    }

    fn ended(&mut self, prompt: &PromptId, end: Result<PromptEnd, ClientError>) {
        self.sent.retain(|sent| sent != prompt);
        if self.sent.is_empty() {
            self.face.running = None;
        }
        let dropped = self.face.take_queued(prompt);
        self.face.transcript.turn_ended();
        match (dropped, end) {
            (Some(text), _) => {
                let text = crate::render::one_line(&text);
                self.face.transcript.warn(&format!("not sent: {text}"));
            }
            (None, Ok(end)) => match end.stop_reason.as_str() {
                "end_turn" => {}
                "cancelled" => self.face.transcript.failed("cancelled"),
                reason => self
                    .face
                    .transcript
                    .warn(&format!("the answer was cut: {reason}")),
            },
            (None, Err(error)) => self.face.transcript.failed(&told(&error)),
        }
    }

    async fn keys(&mut self, keys: Vec<Key>, now: Instant) -> anyhow::Result<Flow> {
        for key in keys {
            if self.key(key, now).await? == Flow::Over {
                return Ok(Flow::Over);
            }
        }
        Ok(Flow::On)
    }

    async fn key(&mut self, key: Key, now: Instant) -> anyhow::Result<Flow> {
        let Some(key) = self.face.asking.press(key, now) else {
            return Ok(Flow::On);
        };
        if let Some(key) = self.face.press(key) {
            match key {
                Key::Enter => return self.submit(now).await,
                Key::Ctrl('c') => return Ok(self.interrupt(now).await),
                Key::Ctrl('d') if self.face.editor.is_empty() => return Ok(Flow::Over),
                Key::Escape if self.face.running.is_some() => self.cancel().await,
                Key::Ctrl('l') => self.face.redraw(now)?,
                Key::Ctrl('o') => self.face.transcript.unfold(),
                Key::Ctrl('z') => {
                    self.face.leave("")?;
                    self.terminal.suspend()?;
                    self.face.resize(Terminal::size(), now)?;
                }
                Key::PasteTooLong => self.face.hint("that is too long to paste", now),
                _ => {}
            }
        }
        self.complete();
        Ok(Flow::On)
    }

    /// The menu follows what is written.
    fn complete(&mut self) {
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
        self.sent.push(prompt.clone());
        if self.face.running.is_none() {
            self.face.transcript.prompt(text);
            self.face.running = Some(now);
        } else {
            self.face.queued.push_back((prompt, text.to_owned()));
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

    async fn done(&mut self, done: Done, now: Instant) -> anyhow::Result<()> {
        match done {
            Done::Found(Ok((session, cwd))) => self.load(session, cwd).await?,
            Done::Found(Err(error)) if self.seat.is_none() => return Err(error),
            Done::Found(Err(error)) => self.face.transcript.failed(&format!("{error:#}")),
            Done::Began(Ok((attached, watch))) => {
                self.take_seat(&attached, watch);
                self.entered(&attached, now);
            }
            Done::Began(Err(error)) | Done::Loaded(Err(error)) => {
                if self.sent.is_empty() && self.face.place.is_empty() {
                    return Err(error.into());
                }
                self.face.replayed(now)?;
                self.face.transcript.failed(&told(&error));
            }
            Done::Loaded(Ok(attached)) => {
                self.face.replayed(now)?;
                self.entered(&attached, now);
            }
            Done::Listed(Ok(page)) => help::sessions(&mut self.face, &page),
            Done::Set(Ok((options, text))) => {
                self.face.status.options(&options);
                self.face.transcript.good(&text);
            }
            Done::Undone(Ok(())) => {
                if let Some(seat) = &mut self.seat {
                    seat.turns.pop();
                }
                self.face
                    .transcript
                    .good("the last turn is undone; files stay as they are");
            }
            Done::Listed(Err(error)) | Done::Set(Err(error)) | Done::Undone(Err(error)) => {
                self.face.transcript.failed(&told(&error));
            }
            Done::Files(files) => {
                self.files = files;
                self.face.menu = Menu::default();
                self.complete();
            }
        }
        Ok(())
    }

    /// Listens first and then has the session told, so that nothing is missed.
    async fn load(&mut self, session: SessionId, cwd: PathBuf) -> anyhow::Result<()> {
        let watch = self.client.watch(session).await?;
        self.face.draw(Instant::now())?;
        self.face.replay();
        let attached = Attached {
            session,
            turn: wire::acp::TurnStatus::default(),
            options: Value::Null,
        };
        self.take_seat(&attached, watch);
        self.job = Some(jobs::load(self.client, session, cwd));
        Ok(())
    }

    fn take_seat(&mut self, attached: &Attached, watch: Watch) {
        self.face.transcript.start_over();
        self.face.asking.clear();
        self.face.queued.clear();
        self.face.running = None;
        self.sent.clear();
        self.seat = Some(Seat {
            session: attached.session,
            watch,
            turns: Vec::new(),
        });
    }

    fn entered(&mut self, attached: &Attached, now: Instant) {
        self.face.status.options(&attached.options);
        let id = attached.session.to_string();
        self.face.place = id.chars().take(8).collect();
        self.face.running = match attached.turn.state {
            TurnState::Running | TurnState::Waiting => Some(now),
            TurnState::Idle => None,
        };
        self.face
            .transcript
            .note(&format!("session {id} · /help shows what you can do"));
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

/// An error as the person reads it: the server's sentence without the numbers around it.
fn told(error: &ClientError) -> String {
    match error {
        ClientError::Refused { message, data, .. } => match data["kind"].as_str() {
            Some("interrupted") => "interrupted: the server that ran this turn is gone".to_owned(),
            Some(_) | None => message.clone(),
        },
        ClientError::Connect(_)
        | ClientError::Timeout { .. }
        | ClientError::Lost { .. }
        | ClientError::BadAnswer { .. }
        | ClientError::StillAnswering { .. }
        | ClientError::TooManyWaiting { .. } => error.to_string(),
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
