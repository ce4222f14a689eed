//! What the person sees and writes: the transcript, the questions, the text being written and the
//! state, put together into what the canvas draws.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use client::LinkState;
use domain::{EventSeq, PromptId};
use tokio::time::Instant;

use super::asking::Asking;
use super::canvas::{Canvas, Live, Size};
use super::complete::Menu;
use super::editor::Editor;
use super::keys::Key;
use super::status::Status;
use super::terminal::Terminal;
use super::text::{Line, Style};
use super::transcript::Transcript;
use crate::render::one_line;

/// What turns while something runs.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// How often it turns.
pub(super) const SPIN_EVERY: Duration = Duration::from_millis(120);
/// Lines of an earlier conversation that are shown when it is taken up again.
const REPLAYED_LINES_MAX: usize = 200;
/// Prompts that are shown as waiting: more than a server queues, with those that it does not know yet.
const WAITING_MAX: usize = 64;
/// How long a hint stands.
const HINT_TIME: Duration = Duration::from_secs(2);

/// Everything on the screen.
pub(super) struct Face {
    pub(super) transcript: Transcript,
    pub(super) editor: Editor,
    pub(super) status: Status,
    pub(super) asking: Asking,
    pub(super) menu: Menu,
    canvas: Canvas,
    /// Prompts that wait behind a turn: ours, and those of other clients.
    pub(super) queued: VecDeque<Waiting>,
    /// Whether a turn runs, and since when.
    pub(super) running: Option<Instant>,
    pub(super) link: Link,
    hint: Option<(String, Instant)>,
    /// Where the session is, in a few words.
    pub(super) place: String,
    is_replaying: bool,
    /// From when on the spinner turns.
    began: Instant,
}

/// A prompt that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The event that says so, once the server has said it.
    pub(super) seq: Option<EventSeq>,
    pub(super) prompt: Option<PromptId>,
    pub(super) text: String,
    /// Whether it was sent from here: then the server does not repeat it when its turn begins.
    pub(super) is_own: bool,
}

/// How the connection stands, as far as the person must know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Link {
    #[default]
    Well,
    Lost {
        attempt: u32,
        until: Instant,
    },
}

impl Face {
    pub(super) fn new(canvas: Canvas, editor: Editor) -> Self {
        Self {
            transcript: Transcript::default(),
            editor,
            status: Status::default(),
            asking: Asking::default(),
            menu: Menu::default(),
            canvas,
            queued: VecDeque::new(),
            running: None,
            link: Link::Well,
            hint: None,
            place: String::new(),
            is_replaying: false,
            began: Instant::now(),
        }
    }

    /// Draws what has changed.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) fn draw(&mut self, now: Instant) -> io::Result<()> {
        if self.is_replaying {
            return Ok(());
        }
        let width = self.canvas.size().columns;
        let lines = self.transcript.take_finished(width);
        let live = self.live(now);
        Terminal::write(&self.canvas.frame(lines, &live))
    }

    /// Draws for another size.
    pub(super) fn resize(&mut self, size: Size, now: Instant) -> io::Result<()> {
        // The editor and the messages are laid out for the new width.
        let live = self.live_for(size.columns, now);
        Terminal::write(&self.canvas.resized(size, &live))
    }

    /// Draws the whole screen.
    pub(super) fn redraw(&mut self, now: Instant) -> io::Result<()> {
        let live = self.live(now);
        Terminal::write(&self.canvas.redrawn(&live))
    }

    /// Finishes what is told and takes the live rows away; `words` are the last.
    pub(super) fn leave(&mut self, words: &str) -> io::Result<()> {
        self.transcript.turn_ended();
        if !words.is_empty() {
            self.transcript.note(words);
        }
        self.step_back()
    }

    /// Takes the live rows away for a while.
    pub(super) fn step_back(&mut self) -> io::Result<()> {
        let width = self.canvas.size().columns;
        let lines = self.transcript.take_finished(width);
        let mut bytes = self.canvas.frame(lines, &Live::default());
        bytes.push_str(&self.canvas.left());
        Terminal::write(&bytes)
    }

    /// An earlier conversation is told; it is shown once all of it is there.
    pub(super) fn replay(&mut self) {
        self.is_replaying = true;
    }

    /// All of it is there: its end is shown.
    pub(super) fn replayed(&mut self, now: Instant) -> io::Result<()> {
        self.is_replaying = false;
        let width = self.canvas.size().columns;
        let mut lines = self.transcript.take_finished(width);
        let left = lines.len().saturating_sub(REPLAYED_LINES_MAX);
        if left > 0 {
            lines.drain(..left);
            let earlier = format!("… {left} earlier lines; `fastness sessions show` has them");
            let earlier = crate::render::advise(&earlier);
            lines.insert(0, Line::of(Style::Dim, &earlier));
        }
        let live = self.live(now);
        Terminal::write(&self.canvas.frame(lines, &live))
    }

    /// Keeps what is not shown yet bounded while an earlier conversation is told.
    pub(super) fn forget_old(&mut self) {
        if self.is_replaying {
            self.transcript.keep_last(4 * REPLAYED_LINES_MAX);
        }
    }

    /// A key that is not an answer: for the menu, else for the text; gives back what is for neither.
    pub(super) fn press(&mut self, key: Key) -> Option<Key> {
        if self.menu.is_empty() {
            return self.editor.press(key);
        }
        if key == Key::Tab {
            if let Some((from, text)) = self.menu.taken() {
                self.editor.replace_before_cursor(from, text);
            }
        } else if key == Key::Up {
            self.menu.turn(-1);
        } else if key == Key::Down {
            self.menu.turn(1);
        } else {
            return self.editor.press(key);
        }
        None
    }

    /// A prompt waits, or the server confirms that one of ours does.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        let mut known = self.queued.iter_mut();
        let is_it = |one: &&mut Waiting| one.prompt.is_some() && one.prompt == waiting.prompt;
        if let Some(one) = known.find(is_it) {
            one.seq = waiting.seq;
        } else if self.queued.len() < WAITING_MAX {
            self.queued.push_back(waiting);
        }
    }

    /// A prompt that waited waits no longer; it is named by its event or by its client.
    pub(super) fn take_queued(
        &mut self,
        seq: Option<EventSeq>,
        prompt: Option<&PromptId>,
    ) -> Option<Waiting> {
        let is_it = |one: &Waiting| {
            let same_seq = seq.is_some() && one.seq == seq;
            let same_prompt = prompt.is_some() && one.prompt.as_ref() == prompt;
            same_seq || same_prompt
        };
        let at = self.queued.iter().position(is_it)?;
        self.queued.remove(at)
    }

    /// Shows a few words for a moment.
    pub(super) fn hint(&mut self, text: &str, now: Instant) {
        self.hint = Some((text.to_owned(), now + HINT_TIME));
    }

    /// How the connection stands now; what the person must know is said.
    pub(super) fn link_changed(&mut self, state: &LinkState, now: Instant) {
        match state {
            LinkState::Waiting | LinkState::Ended => {}
            LinkState::Connected => {
                if self.link != Link::Well {
                    self.transcript.good("connected again");
                }
                self.link = Link::Well;
            }
            LinkState::Reconnecting {
                attempt,
                wait,
                cause,
            } => {
                if self.link == Link::Well {
                    self.transcript.warn(&format!("connection lost: {cause}"));
                }
                self.link = Link::Lost {
                    attempt: *attempt,
                    until: now + *wait,
                };
            }
        }
    }

    /// Whether there is no session yet, or not all of it.
    pub(super) fn is_entering(&self) -> bool {
        self.place.is_empty() || self.is_replaying
    }

    /// Whether something moves on the screen by itself.
    pub(super) fn is_moving(&self) -> bool {
        self.running.is_some()
            || self.link != Link::Well
            || self.hint.is_some()
            || self.asking.arms_at().is_some()
    }

    fn live(&mut self, now: Instant) -> Live {
        let width = self.canvas.size().columns;
        self.live_for(width, now)
    }

    fn live_for(&mut self, width: usize, now: Instant) -> Live {
        if self.hint.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.hint = None;
        }
        let spinner = self.spinner(now);
        let mut above = self.transcript.live(width, spinner, now);
        for waiting in &self.queued {
            let text = one_line(&waiting.text);
            above.push(Line::of(Style::Dim, "⧗ ").with(Style::Dim, &text));
        }
        let asking = self.asking.live(self.editor.is_empty(), now);
        above.extend(asking.iter().flat_map(|line| {
            let rows = line.rows(width.saturating_sub(1).max(1));
            rows.into_iter().map(|row| row.line)
        }));
        if !above.is_empty() {
            above.insert(0, Line::default());
        }
        above.push(Line::default());
        let shown = self.editor.shown(width.saturating_sub(1).max(3));
        let mut below = shown.rows;
        below.extend(self.menu.live());
        below.push(self.state(spinner, now));
        Live {
            above,
            below,
            cursor: shown.cursor,
        }
    }

    fn state(&self, spinner: char, now: Instant) -> Line {
        let doing = match (&self.link, self.running, &self.hint) {
            (_, _, Some((hint, _))) => Line::of(Style::Warning, hint),
            (Link::Lost { attempt, until }, _, None) => {
                let seconds = until.saturating_duration_since(now).as_secs_f32().ceil();
                let text = format!("{spinner} reconnecting: try {attempt} in {seconds} s");
                Line::of(Style::Warning, &text)
            }
            (Link::Well, _, None) if !self.asking.is_empty() => {
                Line::of(Style::Warning, "waits for you")
            }
            (Link::Well, Some(since), None) => {
                let seconds = now.saturating_duration_since(since).as_secs();
                Line::of(Style::Accent, &format!("{spinner} working {seconds} s"))
            }
            (Link::Well, None, None) if self.is_entering() => Line::of(Style::Dim, "starting"),
            (Link::Well, None, None) => Line::of(Style::Good, "ready"),
        };
        self.status.line(doing, &self.place)
    }

    fn spinner(&self, now: Instant) -> char {
        let elapsed = now.saturating_duration_since(self.began).as_millis();
        let turns = elapsed / SPIN_EVERY.as_millis();
        let index = usize::try_from(turns).unwrap_or_default() % SPINNER.len();
        SPINNER[index]
    }
}
