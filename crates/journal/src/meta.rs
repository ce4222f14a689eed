//! What a list of sessions shows: a fold over the events, and its cache `meta.json`.

use std::io;
use std::sync::Arc;

use domain::clock::Timestamp;
use domain::event::MessageKind;
use domain::{Event, EventSeq, MessageId, PrincipalId, SessionId};
use serde::{Deserialize, Serialize};

use crate::record;
use crate::scan::{Place, Scanner, Step};
use crate::storage::{Access, Storage, StoredFile, read_full_at, write_all_at};
use crate::store::SessionDir;
use crate::{StoreError, Stored};

/// Longest `meta.json` worth reading; a longer one is folded from the events instead.
const CACHE_BYTES_MAX: usize = 1024 * 1024;

/// A session at a glance.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    /// Its name.
    pub id: SessionId,
    /// Who made it; `local` where the log does not say.
    pub owner: PrincipalId,
    /// Its working directory; empty where the log does not say.
    pub cwd: String,
    /// Its title, once it has one.
    pub title: Option<String>,
    /// When its first event was written.
    pub created_at: Timestamp,
    /// When its newest event was written.
    pub updated_at: Timestamp,
    /// The number of its newest event.
    pub head: EventSeq,
    /// How often recovery could not keep all that clients may have seen.
    pub epoch: u64,
    /// Whether it was put away.
    pub archived: bool,
    /// The session whose sub-agent it is.
    pub parent: Option<SessionId>,
    /// The model that was chosen for it; `None` while it is whatever the server answers with.
    pub model: Option<String>,
    /// How many turns were started.
    pub turns: u64,
    /// Tokens read and written by all model calls.
    pub tokens: u64,
    /// What they cost in billionths of a US dollar, as far as prices are known.
    pub cost_nano_usd: Option<u64>,
    /// Whether a turn was started and has no end: it runs, or its process died.
    pub turn_open: bool,
    /// Questions to a person that were asked and not answered.
    pub questions_open: u64,
}

impl Meta {
    pub(crate) fn new(id: SessionId) -> Self {
        Self {
            id,
            owner: PrincipalId::local(),
            cwd: String::new(),
            title: None,
            created_at: Timestamp(0.0),
            updated_at: Timestamp(0.0),
            head: EventSeq(0),
            epoch: 0,
            archived: false,
            parent: None,
            model: None,
            turns: 0,
            tokens: 0,
            cost_nano_usd: None,
            turn_open: false,
            questions_open: 0,
        }
    }

    /// Takes one more event into account.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most events say nothing about the session as a whole"
    )]
    pub(crate) fn apply(&mut self, stored: &Stored) {
        match &stored.event {
            Event::SessionCreated(created) => {
                self.owner = created.owner.clone();
                self.cwd.clone_from(&created.cwd);
                self.epoch = created.epoch;
            }
            Event::SessionUpdated(updated) => {
                if let Some(title) = &updated.title {
                    self.title = Some(title.clone());
                }
                if let Some(archived) = updated.archived {
                    self.archived = archived;
                }
                let model = updated
                    .config
                    .as_ref()
                    .and_then(|config| config.get("model"));
                if let Some(model) = model.and_then(serde_json::Value::as_str) {
                    self.model = Some(model.to_owned());
                }
            }
            Event::UsageRecorded(recorded) => {
                let usage = &recorded.usage;
                let used = usage.input_tokens.saturating_add(usage.output_tokens);
                self.tokens = self.tokens.saturating_add(used);
                if let Some(cost) = usage.cost_nano_usd {
                    let before = self.cost_nano_usd.unwrap_or(0);
                    self.cost_nano_usd = Some(before.saturating_add(cost));
                }
            }
            Event::TurnStarted(_) => {
                self.turns += 1;
                self.turn_open = true;
            }
            Event::TurnResult(_) | Event::TurnInterrupted(_) => {
                self.turn_open = false;
                self.questions_open = 0;
            }
            Event::PermissionAsked(_) => self.questions_open += 1,
            Event::PermissionAnswered(_) => {
                self.questions_open = self.questions_open.saturating_sub(1);
            }
            Event::SessionRecovered(recovered) => self.epoch = recovered.epoch,
            Event::SessionForked(forked) => {
                if let Some(owner) = &forked.owner {
                    self.owner = owner.clone();
                }
                // The copy's own life begins here.
                self.created_at = stored.ts;
                self.archived = false;
                self.parent = None;
            }
            Event::ChildLinked(linked) => self.parent = linked.parent.or(self.parent),
            _ => {}
        }
        if self.head == EventSeq(0) {
            self.created_at = stored.ts;
        }
        self.updated_at = stored.ts;
        self.head = stored.seq;
    }
}

/// What recovery must know of a session besides its [`Meta`].
pub(crate) struct Fold {
    pub(crate) meta: Meta,
    /// The message that was started and not ended.
    pub(crate) message: Option<Started>,
    /// Whether a turn was started and not ended.
    pub(crate) turn_open: bool,
}

/// A started message.
pub(crate) struct Started {
    pub(crate) seq: EventSeq,
    pub(crate) id: MessageId,
    pub(crate) kind: MessageKind,
}

impl Fold {
    pub(crate) fn new(id: SessionId) -> Self {
        Self {
            meta: Meta::new(id),
            message: None,
            turn_open: false,
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most events open and end nothing"
    )]
    pub(crate) fn apply(&mut self, stored: &Stored) {
        match &stored.event {
            Event::MessageStarted(started) => {
                self.message = Some(Started {
                    seq: stored.seq,
                    id: started.message_id.clone(),
                    kind: started.kind,
                });
            }
            Event::AssistantMessage(ended) => self.end_message(&ended.message_id),
            Event::AssistantThought(ended) => self.end_message(&ended.message_id),
            Event::TurnStarted(_) => self.turn_open = true,
            Event::TurnResult(_) | Event::TurnInterrupted(_) => self.turn_open = false,
            _ => {}
        }
        self.meta.apply(stored);
    }

    fn end_message(&mut self, id: &MessageId) {
        if self.message.as_ref().is_some_and(|open| open.id == *id) {
            self.message = None;
        }
    }
}

/// The meta of a session: cached, brought up to date with events written since, or folded anew.
pub(crate) fn load(dir: &SessionDir) -> Result<Meta, StoreError> {
    let events = dir.open("events.jsonl", Access::Read)?;
    if let Some((mut meta, place)) = read_cache(dir)
        && place.is_boundary(&*events)?
        && fold_on(dir, &events, place, &mut meta).is_ok()
    {
        return Ok(meta);
    }
    let mut meta = Meta::new(dir.id);
    fold_on(dir, &events, Place::START, &mut meta)?;
    Ok(meta)
}

/// Replaces `meta.json` at once: a reader finds the old one or the new one, never half of it.
pub(crate) fn save(
    storage: &dyn Storage,
    session: &str,
    meta: &Meta,
    bytes: u64,
) -> Result<(), StoreError> {
    let cache = Cache {
        id: meta.id,
        owner: meta.owner.clone(),
        cwd: meta.cwd.clone(),
        title: meta.title.clone(),
        created_at: meta.created_at.0,
        updated_at: meta.updated_at.0,
        head: meta.head,
        epoch: meta.epoch,
        archived: meta.archived,
        parent: meta.parent,
        model: meta.model.clone(),
        turns: meta.turns,
        tokens: meta.tokens,
        cost_nano_usd: meta.cost_nano_usd,
        turn_open: meta.turn_open,
        questions_open: meta.questions_open,
        bytes,
    };
    let json = serde_json::to_vec(&cache).map_err(io::Error::other)?;
    let temporary = format!("{session}/meta.json.new");
    let file = storage.open(&temporary, Access::Create)?;
    file.truncate(0)?;
    write_all_at(&*file, &json, 0)?;
    file.sync()?;
    storage.rename(&temporary, &format!("{session}/meta.json"))?;
    storage.sync_dir(session)?;
    Ok(())
}

/// `meta.json`: the meta, and how much of the events it covers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cache {
    id: SessionId,
    owner: PrincipalId,
    cwd: String,
    title: Option<String>,
    created_at: f64,
    updated_at: f64,
    head: EventSeq,
    epoch: u64,
    archived: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    // A cache of before these were counted lacks them, and is made anew from the events.
    turns: u64,
    tokens: u64,
    // Written also when nothing is known, so that a cache without it is made anew as well.
    #[serde(deserialize_with = "Option::deserialize")]
    cost_nano_usd: Option<u64>,
    turn_open: bool,
    questions_open: u64,
    bytes: u64,
}

/// `None` if it is missing or unsound: it is a cache, and the events know better.
fn read_cache(dir: &SessionDir) -> Option<(Meta, Place)> {
    let file = dir.open("meta.json", Access::Read).ok()?;
    let len = usize::try_from(file.len().ok()?).ok()?;
    if len > CACHE_BYTES_MAX {
        return None;
    }
    let mut json = vec![0; len];
    let read = read_full_at(&*file, &mut json, 0).ok()?;
    let cache: Cache = serde_json::from_slice(&json[..read]).ok()?;
    let place = Place {
        offset: cache.bytes,
        next: cache.head.next(),
        crc_required: false,
    };
    let meta = Meta {
        id: cache.id,
        owner: cache.owner,
        cwd: cache.cwd,
        title: cache.title,
        created_at: Timestamp(cache.created_at),
        updated_at: Timestamp(cache.updated_at),
        head: cache.head,
        epoch: cache.epoch,
        archived: cache.archived,
        parent: cache.parent,
        model: cache.model,
        turns: cache.turns,
        tokens: cache.tokens,
        cost_nano_usd: cache.cost_nano_usd,
        turn_open: cache.turn_open,
        questions_open: cache.questions_open,
    };
    (meta.id == dir.id).then_some((meta, place))
}

/// Applies every whole event from `place` on. A torn end is somebody's unfinished write.
pub(crate) fn fold_on(
    dir: &SessionDir,
    events: &Arc<dyn StoredFile>,
    place: Place,
    meta: &mut Meta,
) -> Result<(), StoreError> {
    let mut scanner = Scanner::new(Arc::clone(events), place)?;
    loop {
        let at = scanner.place().next;
        match scanner.next()? {
            Step::Record(record) => meta.apply(&record::decode(&record, &dir.blobs())?),
            Step::End | Step::Torn => return Ok(()),
            Step::Hole if !dir.is_same_boot() => return Ok(()),
            Step::Hole | Step::Damaged => return Err(StoreError::Damaged { at }),
        }
    }
}
