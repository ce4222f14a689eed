//! What comes of jobs: a session is entered, another one is loaded, something is set.

use std::path::PathBuf;

use client::{Attached, Watch};
use domain::SessionId;
use serde_json::Value;
use tokio::time::Instant;
use wire::acp::{TurnState, TurnStatus};

use super::super::complete::Menu;
use super::super::help;
use super::super::jobs::{self, Done};
use super::turns::{Turns, told};
use super::{Seat, Talk};

impl Talk<'_> {
    pub(super) async fn done(&mut self, done: Done, now: Instant) -> anyhow::Result<()> {
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
            turn: TurnStatus::default(),
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
        self.turns = Turns::default();
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
}
