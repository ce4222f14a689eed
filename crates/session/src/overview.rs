//! Looking at sessions without entering them: what lists, scripts and pages need.
//!
//! A session in memory shows itself as of its newest commit ([`Glance`]); of any other the store
//! tells. Whoever asks sees only what they may enter, and "not yours" is "not there".

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use auth::Principal;
use domain::clock::Timestamp;
use domain::event::{Text, Usage};
use domain::limits::{MERGED_CHUNK_BYTES_MAX, PAGE_EVENTS_BYTES_MAX};
use domain::{Event, EventSeq, FailureKind, PromptId, SessionId, TurnId};
use journal::{Meta, Raw, Reader, Row, StoreError};

use crate::directory::Sessions;
use crate::handle::{AttachError, SessionHandle, TurnPhase};
use crate::state::{Asked, Question, TurnOutcome, outcome_of};
use crate::store_task::{blocking, failure_kind};

/// A session in memory as it was after its newest commit; `None` while its files are not open.
pub(crate) type Shown = Arc<Mutex<Option<Glance>>>;

/// A session as somebody sees it who does not enter.
#[derive(Clone, Debug)]
pub struct Glance {
    /// What lists show.
    pub meta: Meta,
    /// What people are being asked.
    pub questions: Vec<Question>,
    /// What its newest turn is doing.
    pub phase: TurnPhase,
}

impl Glance {
    /// A session that is on disk only: nothing of it runs, whatever it was doing.
    pub(crate) fn at_rest(meta: Meta) -> Self {
        Self {
            meta,
            questions: Vec::new(),
            phase: TurnPhase::Idle,
        }
    }
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// In this directory only.
    pub cwd: Option<String>,
    /// From the one after this on.
    pub after: Option<SessionId>,
    /// So many at most.
    pub count_max: usize,
}

/// One page of a list of sessions, newest first.
#[derive(Clone, Debug)]
pub struct Page {
    /// The sessions.
    pub sessions: Vec<Glance>,
    /// Where the next page starts.
    pub next: Option<SessionId>,
}

/// Some events of a session as they are stored.
#[derive(Clone, Debug)]
pub struct Events {
    /// Each one as JSON.
    pub events: Vec<String>,
    /// The newest event there is.
    pub head: EventSeq,
    /// The journal's epoch.
    pub epoch: u64,
}

/// A turn, by its number or by its client's name for its prompt.
#[derive(Clone, Debug)]
pub enum Which {
    /// This one.
    Turn(TurnId),
    /// The one that this prompt started.
    Prompt(PromptId),
}

/// A turn as the journal has it.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its number.
    pub turn: TurnId,
    /// What the assistant said in it.
    pub text: String,
    /// How it ended, if it has.
    pub outcome: Option<TurnOutcome>,
    /// What it used.
    pub usage: Option<Usage>,
}

/// Why a session could not be copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// It cannot be entered.
    #[error(transparent)]
    Source(#[from] AttachError),
    /// There is nothing finished at or before that event.
    #[error("the session has nothing finished at or before that event")]
    NoFork,
}

impl Sessions {
    /// The session `id` at a glance.
    ///
    /// # Errors
    /// If it is not there, not the principal's, or cannot be read.
    pub async fn glance(
        &self,
        principal: &Principal,
        id: SessionId,
    ) -> Result<Glance, AttachError> {
        let live = self.live(Some(id)).await.remove(&id);
        let glance = match live {
            Some(glance) => glance,
            None => {
                let store = self.store.clone();
                let meta = blocking(move || store.meta(id)).await;
                Glance::at_rest(meta.map_err(|error| unreadable(principal, &error))?)
            }
        };
        let may_enter = principal.may_enter(id, &glance.meta.owner);
        may_enter.then_some(glance).ok_or(AttachError::NotFound)
    }

    /// Whether there is such a session, whoever's it is.
    pub async fn exists(&self, id: SessionId) -> bool {
        let store = self.store.clone();
        // What cannot be looked at may well be there.
        let looking = blocking(move || Ok(!matches!(store.meta(id), Err(StoreError::NotFound))));
        looking.await.unwrap_or(true)
    }

    /// The sessions the principal may enter, newest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list(&self, principal: &Principal, wanted: Wanted) -> Result<Page, StoreError> {
        let mut live = self.live(None).await;
        let (store, principal) = (self.store.clone(), principal.clone());
        blocking(move || {
            let ids = store.newest_first(|rows| matching(rows, &live, &principal, &wanted))?;
            let named = |after| ids.iter().position(|id| *id == after);
            let start = wanted.after.and_then(named).map_or(0, |at| at + 1);
            let mut sessions = Vec::new();
            let mut rest = ids.into_iter().skip(start);
            for id in rest.by_ref() {
                let on_disk = || store.meta(id).ok().map(Glance::at_rest);
                // One that is damaged or just being deleted must not hide the others.
                let glance = live.remove(&id).or_else(on_disk);
                // Rows only say where to look; the journal says whose it is.
                let may_enter = |glance: &Glance| principal.may_enter(id, &glance.meta.owner);
                sessions.extend(glance.filter(may_enter));
                if sessions.len() >= wanted.count_max {
                    break;
                }
            }
            let last = sessions.last().map(|glance| glance.meta.id);
            Ok(Page {
                next: last.filter(|_| rest.next().is_some()),
                sessions,
            })
        })
        .await
    }

    /// Brings the list of sessions up to date ahead of the first request for it.
    pub async fn check_list(&self) {
        let store = self.store.clone();
        if let Err(error) = blocking(move || store.check_catalogue()).await {
            tracing::debug!(%error, "the list of sessions could not be checked");
        }
    }

    /// What people are being asked in the sessions that the principal may enter, oldest first.
    pub async fn questions(&self, principal: &Principal) -> Vec<(SessionId, Asked)> {
        let live = self.live(None).await;
        let mut sessions: Vec<_> = live
            .into_iter()
            .filter(|(id, glance)| {
                // A sub-agent's are asked by the session that it works for.
                glance.meta.parent.is_none() && principal.may_enter(*id, &glance.meta.owner)
            })
            .collect();
        sessions.sort_by(|(_, a), (_, b)| a.meta.updated_at.0.total_cmp(&b.meta.updated_at.0));
        let asked = |(id, glance): (SessionId, Glance)| {
            let questions = glance.questions.into_iter();
            questions.map(move |question| (id, question.asked))
        };
        sessions.into_iter().flat_map(asked).collect()
    }

    /// Events of the session `id` after `after`: at most `count_max`, and fewer if they are large.
    ///
    /// # Errors
    /// As [`Sessions::glance`].
    pub async fn events(
        &self,
        principal: &Principal,
        id: SessionId,
        (after, count_max): (EventSeq, usize),
    ) -> Result<Events, AttachError> {
        let meta = self.glance(principal, id).await?.meta;
        let (store, head) = (self.store.clone(), meta.head);
        let read = blocking(move || {
            let mut reader = store.reader(id)?;
            let raw = reader.raw_after(after, count_max, PAGE_EVENTS_BYTES_MAX)?;
            // What is written and not yet stored for certain is nobody's to see.
            let shown = raw.iter().take_while(|raw| raw.seq() <= head);
            whole_events(&reader, shown)
        });
        Ok(Events {
            events: read.await.map_err(|error| failed(&error))?,
            head,
            epoch: meta.epoch,
        })
    }

    /// Copies the session `id` up to `at`, or up to the end of the last turn that was finished by
    /// then, into a new one that belongs to `principal`.
    ///
    /// # Errors
    /// If it is not the principal's to look at, there is nothing to copy, or nothing can be stored.
    pub async fn fork(
        &self,
        principal: &Principal,
        id: SessionId,
        at: EventSeq,
    ) -> Result<Glance, ForkError> {
        let source = self.glance(principal, id).await?;
        self.check_ready().await.map_err(AttachError::Failed)?;
        if at > source.meta.head {
            return Err(ForkError::NoFork);
        }
        let (store, owner, to) = (
            self.store.clone(),
            principal.id().clone(),
            SessionId::random(),
        );
        let forked = blocking(move || store.fork(id, at, to, &owner, Timestamp::now())).await;
        match forked {
            Ok(meta) => {
                let glance = Glance::at_rest(meta);
                let shown = Arc::new(Mutex::new(Some(glance.clone())));
                self.board().changed(&glance.meta, &shown);
                Ok(glance)
            }
            Err(StoreError::NoFork { .. }) => Err(ForkError::NoFork),
            Err(error) => Err(failed(&error).into()),
        }
    }

    /// A turn of the session that `handle` opens, looked for after `after`.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn told(
        &self,
        handle: &SessionHandle,
        which: Which,
        after: EventSeq,
    ) -> Result<Option<Told>, FailureKind> {
        let (store, id) = (self.store.clone(), handle.id());
        let told = blocking(move || tell(&mut store.reader(id)?, &which, after));
        told.await.map_err(|error| failure_kind(&error))
    }
}

/// The sessions that are wanted and may be entered, newest first: those in memory as they show
/// themselves, the others by their rows.
fn matching(rows: &[Row], live: &Live, principal: &Principal, wanted: &Wanted) -> Vec<SessionId> {
    let is_wanted = |cwd: &str| wanted.cwd.as_ref().is_none_or(|wanted| wanted == cwd);
    let on_disk = rows.iter().filter(|row| {
        // Sub-agents' are found by the session that they worked for.
        row.is_readable
            && !row.is_child
            && principal.may_enter(row.id, &row.owner)
            && is_wanted(&row.cwd)
            && !live.contains_key(&row.id)
    });
    let in_memory = live.values().map(|glance| &glance.meta).filter(|meta| {
        meta.parent.is_none() && principal.may_enter(meta.id, &meta.owner) && is_wanted(&meta.cwd)
    });
    let in_memory = in_memory.map(|meta| (meta.updated_at.0, meta.id));
    let mut all: Vec<(f64, SessionId)> = on_disk.map(|row| (row.updated_at.0, row.id)).collect();
    all.extend(in_memory);
    // Rows come sorted, so this costs little more than looking.
    all.sort_by(|(a_time, a), (b_time, b)| b_time.total_cmp(a_time).then(a.cmp(b)));
    all.into_iter().map(|(_, id)| id).collect()
}

/// The events with their long strings in place, until there is enough; the first always is.
fn whole_events<'a>(
    reader: &Reader,
    raw: impl Iterator<Item = &'a Raw>,
) -> Result<Vec<String>, StoreError> {
    let (mut events, mut bytes) = (Vec::new(), 0);
    for raw in raw {
        if bytes >= PAGE_EVENTS_BYTES_MAX {
            break;
        }
        let mut event = String::new();
        reader.raw_pieces(raw, |piece| {
            event.push_str(piece);
            Ok::<_, StoreError>(())
        })?;
        bytes += event.len();
        events.push(event);
    }
    Ok(events)
}

fn tell(reader: &mut Reader, which: &Which, after: EventSeq) -> Result<Option<Told>, StoreError> {
    let mut told: Option<Told> = None;
    let mut texts: Vec<Text> = Vec::new();
    reader.for_each(after, &mut |stored| {
        let Some(told) = &mut told else {
            told = begun(&stored.event, which);
            return ControlFlow::Continue(());
        };
        if let Event::AssistantMessage(message) = &stored.event {
            texts.push(message.text.clone());
        } else if let Event::TurnResult(result) = &stored.event {
            (told.outcome, told.usage) = (Some(outcome_of(result)), result.usage);
            return ControlFlow::Break(());
        } else if let Event::TurnInterrupted(_) = &stored.event {
            told.outcome = Some(Err(FailureKind::Interrupted.into()));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    let Some(mut told) = told else {
        return Ok(None);
    };
    for text in &texts {
        push_text(reader, text, &mut told.text)?;
    }
    Ok(Some(told))
}

/// The turn that was looked for, if `event` begins it.
fn begun(event: &Event, which: &Which) -> Option<Told> {
    let Event::TurnStarted(started) = event else {
        return None;
    };
    let is_it = match which {
        Which::Turn(turn) => started.turn == *turn,
        Which::Prompt(prompt) => started.prompt_id.as_ref() == Some(prompt),
    };
    is_it.then(|| Told {
        turn: started.turn,
        text: String::new(),
        outcome: None,
        usage: None,
    })
}

fn push_text(reader: &Reader, text: &Text, into: &mut String) -> Result<(), StoreError> {
    let mut offset = 0;
    loop {
        let piece = reader.read_text(text, offset, MERGED_CHUNK_BYTES_MAX)?;
        if piece.is_empty() {
            return Ok(());
        }
        offset += piece.len() as u64;
        into.push_str(&piece);
    }
}

/// What is told of a session whose owner cannot be read: that it is there is for the person at
/// this machine to know.
fn unreadable(principal: &Principal, error: &StoreError) -> AttachError {
    match principal.is_local() {
        true => failed(error),
        false => AttachError::NotFound,
    }
}

fn failed(error: &StoreError) -> AttachError {
    match matches!(error, StoreError::NotFound) {
        true => AttachError::NotFound,
        false => AttachError::Failed(failure_kind(error)),
    }
}

/// All sessions in memory.
pub(crate) type Live = HashMap<SessionId, Glance>;
