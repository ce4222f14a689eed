//! `sessions tail`: the newest events and, with `-f`, those that come, text as it is written.

use std::io::{BufWriter, Write};
use std::time::Duration;

use anyhow::Context;
use domain::event::{MessageKind, Text};
use domain::limits::MERGED_CHUNK_BYTES_MAX;
use domain::{Event, EventSeq, SessionId};
use journal::{FileStore, StoreError, Stored};
use tokio::signal::unix::{SignalKind, signal};

use super::show::damage;
use super::terminal::{Margin, Terminal};
use super::transcript::Who;
use super::walk::{End, Walk};
use crate::render::{self, Exit, Palette};
use crate::settings::Settings;

/// How often a followed file is looked at: soon enough for a person, and one read each time.
const LOOK_EVERY: Duration = Duration::from_millis(100);

type Screen = Terminal<BufWriter<Box<dyn Write>>>;

/// Prints the newest `count` events.
///
/// # Errors
/// If the store or the output fails.
pub(super) fn newest(
    store: &FileStore,
    id: SessionId,
    count: u64,
    settings: &Settings,
) -> anyhow::Result<Exit> {
    let mut screen = screen(settings);
    let mut walk = Walk::after(store, id, start(store, id, count)?)?;
    let end = walk.visit_rest(|reader, stored| screen.event(reader, stored))?;
    let exit = match end {
        End::Whole => Exit::Success,
        End::Damaged(at) => {
            screen.remark(&damage(at))?;
            Exit::Failure
        }
    };
    screen.flush()?;
    Ok(exit)
}

/// Prints the newest `count` events and then what comes, until Ctrl-C or the session is deleted.
///
/// # Errors
/// If the store or the output fails.
pub(super) async fn follow(
    store: &FileStore,
    id: SessionId,
    count: u64,
    settings: &Settings,
) -> anyhow::Result<Exit> {
    let mut interrupt = signal(SignalKind::interrupt()).context("signals cannot be received")?;
    let mut follower = Follower {
        walk: Walk::after(store, id, start(store, id, count)?)?,
        screen: screen(settings),
        open: None,
    };
    loop {
        match follower.look() {
            Ok(()) => {}
            Err(error) => match error.downcast_ref() {
                Some(StoreError::Damaged { at }) => {
                    follower.screen.remark(&damage(*at))?;
                    follower.screen.flush()?;
                    return Ok(Exit::Failure);
                }
                // Deleted while it was read, which is seen below.
                Some(StoreError::NotFound) => {}
                _ => return Err(error),
            },
        }
        if !store.exists(id) {
            follower.screen.remark("the session was deleted")?;
            follower.screen.flush()?;
            return Ok(Exit::Success);
        }
        tokio::select! {
            _ = interrupt.recv() => return Ok(Exit::Interrupted),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// Shows what is new each time it looks.
struct Follower {
    walk: Walk,
    screen: Screen,
    open: Option<OpenMessage>,
}

/// The message that is being written, as far as it is shown.
struct OpenMessage {
    started: EventSeq,
    bytes: u64,
    margin: Margin,
}

impl Follower {
    fn look(&mut self) -> anyhow::Result<()> {
        loop {
            let batch = self.walk.next()?;
            if batch.is_empty() {
                break;
            }
            for stored in batch {
                self.take(&stored)?;
            }
        }
        self.read_on()?;
        self.screen.flush()
    }

    fn take(&mut self, stored: &Stored) -> anyhow::Result<()> {
        match (&stored.event, self.open.take()) {
            (Event::MessageStarted(started), _) => {
                let who = match started.kind {
                    MessageKind::Text => Who::Assistant,
                    MessageKind::Thought => Who::Thought,
                };
                self.screen.speaker(stored, who)?;
                self.open = Some(OpenMessage {
                    started: stored.seq,
                    bytes: 0,
                    margin: Margin::default(),
                });
                Ok(())
            }
            (Event::AssistantMessage(ended), Some(open)) => self.finish(&open, &ended.text),
            (Event::AssistantThought(ended), Some(open)) => self.finish(&open, &ended.text),
            (_, open) => {
                // An event between two pieces of a text begins a line of its own.
                if let Some(open) = open {
                    self.screen.text(open.margin).end()?;
                    self.open = Some(OpenMessage {
                        margin: Margin::default(),
                        ..open
                    });
                }
                self.screen.event(self.walk.reader(), stored)
            }
        }
    }

    /// What is stored of a finished message beyond what was shown.
    fn finish(&mut self, open: &OpenMessage, text: &Text) -> anyhow::Result<()> {
        let mut shown = self.screen.text(open.margin);
        shown.push_stored(self.walk.reader(), text, open.bytes)?;
        shown.end()
    }

    /// What was written of the open message since we looked last.
    fn read_on(&mut self) -> anyhow::Result<()> {
        while let Some(open) = &mut self.open {
            let reader = self.walk.reader();
            let piece = reader.read_partial(open.started, open.bytes, MERGED_CHUNK_BYTES_MAX)?;
            let Some(piece) = piece.filter(|piece| !piece.is_empty()) else {
                break;
            };
            let mut shown = self.screen.text(open.margin);
            shown.push(&piece)?;
            open.bytes += piece.len() as u64;
            open.margin = shown.margin();
        }
        Ok(())
    }
}

/// The event before the newest `count`.
fn start(store: &FileStore, id: SessionId, count: u64) -> anyhow::Result<EventSeq> {
    let head = match store.meta(id) {
        Ok(meta) => meta.head,
        Err(StoreError::Damaged { at }) => at,
        Err(error) => return Err(error.into()),
    };
    Ok(EventSeq(head.0.saturating_sub(count)))
}

fn screen(settings: &Settings) -> Screen {
    let out = BufWriter::new(Box::new(render::stdout()) as Box<dyn Write>);
    Terminal::new(out, Palette::stdout(&settings.environment))
}
