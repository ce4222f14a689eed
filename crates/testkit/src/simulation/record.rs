//! What a session's journal says, read beside the server, and what must hold of it by itself.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "it looks at the few events that it checks"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use domain::event::{MessageKind, PromptDropped, StopReason, Text};
use domain::ids::PermissionId;
use domain::{Event, EventSeq, PrincipalId, SessionId};
use journal::{FileStore, Reader, StoreError, Stored};
use serde_json::Value;
use wire::acp::{UpdateMeta, context_update, event_updates};

use super::Verdict;

/// Bytes and events read at once: all of a simulated journal.
const ALL: usize = 1 << 30;

/// A session as its journal tells it.
pub(super) struct Record {
    pub(super) id: SessionId,
    pub(super) owner: PrincipalId,
    pub(super) events: Vec<Arc<Stored>>,
    /// What each event is shown as, apart from text, with the prompt that it echoes.
    pub(super) updates: Vec<Vec<Update>>,
    /// All messages of the assistant, in order.
    pub(super) messages: Vec<Told>,
    /// The texts that stand beside the journal, by the event that ends their message.
    long: BTreeMap<u64, String>,
    reader: Option<Reader>,
    /// The newest event on disk whenever a process ended.
    ends: Vec<u64>,
    /// The events that processes stored after they were told to stop.
    drains: Vec<Range<u64>>,
}

/// An update, and the prompt that it echoes.
pub(super) type Update = (Value, Option<String>);

/// A message of the assistant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) name: String,
    pub(super) kind: MessageKind,
    /// Its `message.started`.
    pub(super) from: u64,
    /// The event that ended it.
    pub(super) to: Option<u64>,
    pub(super) text: String,
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Stopped(StopReason),
    Failed(String),
    Interrupted,
    Dropped,
}

impl Record {
    pub(super) fn new(id: SessionId, owner: PrincipalId) -> Self {
        Self {
            id,
            owner,
            events: Vec::new(),
            updates: Vec::new(),
            messages: Vec::new(),
            long: BTreeMap::new(),
            reader: None,
            ends: Vec::new(),
            drains: Vec::new(),
        }
    }

    /// Notes that the process is told to stop: from here on it drops what waits.
    pub(super) fn told_to_stop(&mut self) {
        self.drains.push(self.head() + 1..u64::MAX);
    }

    /// Notes where the journal stands when a process has ended: what follows is its successor's.
    pub(super) fn process_ended(&mut self, store: &FileStore) {
        let mut head = 0;
        let reader = store.reader(self.id);
        // What cannot be read was not finished; a session without files was deleted.
        let _ = reader.and_then(|mut reader| {
            reader.for_each(EventSeq(0), &mut |stored| {
                head = stored.seq.0;
                ControlFlow::Continue(())
            })
        });
        self.ends.retain(|end| *end <= head);
        self.ends.push(head);
        if let Some(drain) = self.drains.last_mut() {
            drain.end = drain.end.min(head + 1);
        }
    }

    /// The newest event.
    pub(super) fn head(&self) -> u64 {
        self.events.len() as u64
    }

    /// Reads what is new. What was read before stays as it was, until the process ends.
    pub(super) fn read_on(&mut self, store: &FileStore) -> Verdict {
        self.read(store).map_err(|error| self.because(&error))
    }

    /// Reads everything again after the process ended. What is not there any more, or is something
    /// else now, must be declared void.
    pub(super) fn read_again(&mut self, store: &FileStore) -> Verdict {
        let before = std::mem::take(&mut self.events);
        (self.updates, self.reader) = (Vec::new(), None);
        self.long.clear();
        self.read_on(store)?;
        let kept = before
            .iter()
            .zip(&self.events)
            .take_while(|(before, now)| before.event == now.event)
            .count() as u64;
        let voided = self.voided_from(None);
        let same = kept == before.len() as u64;
        if same || voided.is_some_and(|from| kept + 1 >= from) {
            return Ok(());
        }
        Err(format!(
            "session {}: event {} changed over a restart and nobody is told (void from {voided:?})",
            self.id,
            kept + 1
        ))
    }

    fn read(&mut self, store: &FileStore) -> Result<(), StoreError> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => store.reader(self.id)?,
        };
        let after = EventSeq(self.head());
        let new = reader.read_after(after, EventSeq(u64::MAX), ALL, ALL)?;
        let is_new = !new.is_empty();
        for stored in new {
            if let Some(text @ Text::Blob { .. }) = text_of(&stored.event) {
                let text = reader.read_text(text, 0, ALL)?;
                self.long.insert(stored.seq.0, text);
            }
            self.updates.push(updates_of(self.id, &stored));
            self.events.push(stored);
        }
        if is_new || self.events.is_empty() {
            self.messages = self.told();
        }
        if let Some(last) = self.messages.last_mut().filter(|told| told.to.is_none()) {
            let text = reader.read_partial(EventSeq(last.from), 0, ALL)?;
            last.text = text.unwrap_or_default();
        }
        self.reader = Some(reader);
        Ok(())
    }

    fn because(&self, error: &StoreError) -> String {
        format!("session {}: the journal cannot be read: {error}", self.id)
    }

    /// All messages of the assistant, in order; the text of one that is open is not here.
    fn told(&self) -> Vec<Told> {
        let mut all: Vec<Told> = Vec::new();
        for stored in &self.events {
            if let Event::MessageStarted(started) = &stored.event {
                all.push(Told {
                    name: started.message_id.to_string(),
                    kind: started.kind,
                    from: stored.seq.0,
                    to: None,
                    text: String::new(),
                });
            }
            let text = match text_of(&stored.event) {
                Some(Text::Inline(text)) => Some(text),
                Some(Text::Blob { .. }) => self.long.get(&stored.seq.0),
                None => None,
            };
            if let (Some(text), Some(last)) = (text, all.last_mut()) {
                last.to = Some(stored.seq.0);
                last.text.clone_from(text);
            }
        }
        all
    }

    /// The smallest `from` of the recoveries after `epoch`; of all of them without one.
    pub(super) fn voided_from(&self, epoch: Option<u64>) -> Option<u64> {
        let recoveries = self.events.iter().filter_map(|stored| match &stored.event {
            Event::SessionRecovered(recovered) => Some(recovered),
            _ => None,
        });
        recoveries
            .filter(|recovered| epoch.is_none_or(|epoch| recovered.epoch > epoch))
            .map(|recovered| recovered.from.0)
            .min()
    }

    /// Questions that nobody has answered.
    pub(super) fn open_questions(&self) -> BTreeMap<PermissionId, String> {
        let mut open = BTreeMap::new();
        for stored in &self.events {
            match &stored.event {
                Event::PermissionAsked(asked) => {
                    open.insert(asked.id.clone(), asked.call_id.to_string());
                }
                Event::PermissionAnswered(answered) => {
                    open.remove(&answered.id);
                }
                _ => {}
            }
        }
        open
    }

    /// Where and how the prompt that its client calls `prompt` ended, if it was stored and did.
    pub(super) fn end_of(&self, prompt: &str) -> Option<(u64, End)> {
        let (mut turn, mut queued) = (None, None);
        let mut orphan = None;
        for stored in &self.events {
            let is_it =
                |id: &Option<domain::PromptId>| id.as_ref().is_some_and(|id| id.as_str() == prompt);
            match &stored.event {
                Event::PromptQueued(waiting) if is_it(&waiting.prompt_id) => {
                    queued = Some(stored.seq);
                }
                Event::PromptDropped(dropped) if Some(dropped.queued) == queued => {
                    let end = match self.is_cut_off(dropped, stored.seq.0) {
                        true => End::Interrupted,
                        false => End::Dropped,
                    };
                    return Some((stored.seq.0, end));
                }
                Event::UserMessage(message) if is_it(&message.prompt_id) => {
                    orphan = Some(stored.seq.0);
                }
                Event::TurnStarted(started) if is_it(&started.prompt_id) => {
                    (turn, orphan) = (Some(started.turn), None);
                }
                Event::TurnResult(result) if Some(result.turn) == turn => {
                    let end = match (&result.stop_reason, &result.error) {
                        (Some(reason), _) => End::Stopped(*reason),
                        (None, Some(error)) => End::Failed(error.kind.name().to_owned()),
                        (None, None) => End::Failed(String::new()),
                    };
                    return Some((stored.seq.0, end));
                }
                Event::TurnInterrupted(ended) if Some(ended.turn) == turn => {
                    return Some((stored.seq.0, End::Interrupted));
                }
                _ => {}
            }
        }
        // The disk kept the prompt and lost the turn that was stored with it.
        orphan.map(|seq| (seq, End::Interrupted))
    }

    /// Whether a prompt that waited was dropped because its process ended, and not by a cancel. One
    /// that was told to stop drops what waits, and may yet hear of a cancel that was on its way.
    fn is_cut_off(&self, dropped: &PromptDropped, at: u64) -> bool {
        let is_older = |end: &u64| (dropped.queued.0..at).contains(end);
        let is_stopping = self.drains.iter().any(|drain| drain.contains(&at));
        self.ends.iter().any(is_older) || is_stopping && dropped.interrupted
    }

    /// What holds of every journal: one owner, numbers without a gap, one turn at a time, each
    /// ended once, no prompt run twice, each question answered at most once.
    pub(super) fn check(&self) -> Verdict {
        self.check_order()
            .map_err(|why| format!("session {}: {why}", self.id))
    }

    fn check_order(&self) -> Verdict {
        let (mut running, mut turns) = (None, 0);
        let (mut prompts, mut waiting) = (BTreeSet::new(), BTreeSet::new());
        let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
        let (mut used, mut finished) = (BTreeSet::new(), BTreeSet::new());
        for (at, stored) in self.events.iter().enumerate() {
            let seq = stored.seq.0;
            if seq != at as u64 + 1 {
                return Err(format!("event {seq} stands at place {}", at + 1));
            }
            let fresh = match &stored.event {
                Event::SessionCreated(created) => at == 0 && created.owner == self.owner,
                Event::UserMessage(message) => message
                    .prompt_id
                    .as_ref()
                    .is_none_or(|id| prompts.insert(id.clone())),
                Event::PromptQueued(queued) => queued
                    .prompt_id
                    .as_ref()
                    .is_none_or(|id| waiting.insert(id.clone())),
                Event::TurnStarted(started) => {
                    turns += 1;
                    started.turn.0 == turns && running.replace(started.turn).is_none()
                }
                Event::TurnResult(result) => running.take() == Some(result.turn),
                Event::TurnInterrupted(ended) => running.take() == Some(ended.turn),
                Event::PermissionAsked(question) => asked.insert(question.id.clone()),
                Event::PermissionAnswered(answer) => {
                    asked.contains(&answer.id) && answered.insert(answer.id.clone())
                }
                Event::QuestionAsked(question) => asked.insert(question.id.clone()),
                Event::QuestionAnswered(answer) => {
                    asked.contains(&answer.id) && answered.insert(answer.id.clone())
                }
                Event::ToolUse(call) => used.insert(call.call_id.clone()),
                Event::ToolResult(result) => {
                    used.contains(&result.call_id) && finished.insert(result.call_id.clone())
                }
                _ => at > 0,
            };
            if !fresh {
                return Err(format!(
                    "event {seq} must not stand here: {:?}",
                    stored.event
                ));
            }
        }
        Ok(())
    }
}

/// The text of a message that an event ends.
fn text_of(event: &Event) -> Option<&Text> {
    match event {
        Event::AssistantMessage(message) => Some(&message.text),
        Event::AssistantThought(thought) => Some(&thought.text),
        _ => None,
    }
}

/// What a client is to be shown of an event, apart from text and turns. Of a compaction the clients
/// here are told only how full the window is afterwards.
fn updates_of(session: SessionId, stored: &Stored) -> Vec<Update> {
    let meta = UpdateMeta {
        seq: stored.seq,
        ..UpdateMeta::default()
    };
    let mut updates = event_updates(session, &stored.event, &meta);
    if let Event::Compaction(_) = &stored.event {
        updates.clear();
    }
    updates.extend(context_update(session, &stored.event, &meta));
    let updates = updates.iter().map(|frame| {
        let mut frame: Value = serde_json::from_str(frame).unwrap_or_default();
        let prompt = frame["params"]["_meta"]["fastness"]["promptId"].take();
        let prompt = prompt.as_str().map(ToOwned::to_owned);
        (frame["params"]["update"].take(), prompt)
    });
    updates.collect()
}
