//! What one session must hold, whatever happened to the process and the machine.

use domain::clock::Timestamp;
use domain::event::Text;
use domain::{Event, EventSeq, SessionId};

use crate::storage::power::PowerStorage;
use crate::storage::{Access, Storage};
use crate::{Entry, FileStore, Recovery, Stored, Writer};

/// Whether a session must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Making it was not acknowledged: all of it is there, or nothing.
    PerhapsMade,
    Alive,
    /// Deleting it was not acknowledged.
    PerhapsDeleted,
    Deleted,
}

/// One session as it must be found.
#[derive(Clone)]
pub(super) struct Expected {
    pub(super) id: SessionId,
    pub(super) standing: Standing,
    /// Acknowledged, and so there for ever.
    pub(super) acked: Vec<Stored>,
    /// Written after those, perhaps.
    perhaps: Vec<Perhaps>,
    /// The message being streamed.
    pub(super) open: Option<Open>,
    /// The machine lost power since the session was opened last.
    pub(super) power_lost: bool,
    /// Opening the session failed since, after some of its work, or could not note the boot.
    pub(super) opened_by_half: bool,
    /// An opening that failed since has cut bytes off the log: the next must tell.
    cut_by_half: bool,
    /// Bytes that recovery has moved to `events.torn`.
    torn_bytes: u64,
}

#[derive(Clone)]
struct Perhaps {
    entry: Entry,
    /// Others have seen it: only a power loss may take it back.
    shown: bool,
}

/// The message being streamed.
#[derive(Clone)]
pub(super) struct Open {
    shown: String,
    /// Text whose write failed: some of it may have got there.
    perhaps: String,
    synced: usize,
}

impl Expected {
    pub(super) fn new(id: SessionId) -> Self {
        Self {
            id,
            standing: Standing::PerhapsMade,
            acked: Vec::new(),
            perhaps: Vec::new(),
            open: None,
            power_lost: false,
            opened_by_half: true,
            cut_by_half: false,
            torn_bytes: 0,
        }
    }

    pub(super) fn born(&mut self, first: Vec<Stored>) {
        self.standing = Standing::Alive;
        self.acked = first;
        self.opened_by_half = false;
    }

    pub(super) fn perhaps_born(&mut self, first: Vec<Event>) {
        let entries: Vec<Entry> = first.into_iter().map(Entry::Event).collect();
        self.tried(&entries);
    }

    /// Made from the first `cut` events of `source`; `now` if that was acknowledged.
    pub(super) fn forked(&mut self, source: &Self, cut: u64, now: Option<Timestamp>) {
        let cut = usize::try_from(cut).unwrap_or(usize::MAX);
        let forked: Event = domain::event::SessionForked {
            from: source.id.to_string(),
            at: EventSeq(cut as u64),
            owner: Some(domain::PrincipalId::new("bob")),
        }
        .into();
        match now {
            Some(ts) => {
                let mut events = source.acked[..cut].to_vec();
                let seq = EventSeq(cut as u64 + 1);
                let event = forked;
                events.push(Stored { seq, ts, event });
                self.born(events);
            }
            None => {
                let copied = source.acked[..cut]
                    .iter()
                    .map(|stored| stored.event.clone());
                self.perhaps_born(copied.chain([forked]).collect());
            }
        }
    }

    /// Where a fork at `at` must end: outside of any turn and message.
    pub(super) fn fork_end(&self, at: EventSeq) -> Option<u64> {
        let all = usize::try_from(at.0).ok()?;
        if all == 0 || all > self.acked.len() {
            return None;
        }
        if Busy::after(&self.acked[..all]).is_none() {
            return Some(at.0);
        }
        let is_quiet = |len: &usize| Busy::after(&self.acked[..*len]).is_none();
        let ends_turn = |len: &usize| {
            matches!(
                self.acked[*len - 1].event,
                Event::TurnResult(_) | Event::TurnInterrupted(_)
            )
        };
        let ends = (1..all).rev().filter(is_quiet).find(ends_turn);
        ends.or_else(|| (1..all).rev().find(is_quiet))
            .map(|len| len as u64)
    }

    /// These are about to be written.
    pub(super) fn tried(&mut self, entries: &[Entry]) {
        let perhaps = |entry: &Entry| Perhaps {
            entry: entry.clone(),
            shown: false,
        };
        self.perhaps.extend(entries.iter().map(perhaps));
    }

    /// They were acknowledged, and with them all before.
    pub(super) fn stored(&mut self, stored: Vec<Stored>) -> Result<(), String> {
        self.synced_events();
        let tried = std::mem::take(&mut self.perhaps);
        if let Some(end) = stored.iter().find(|stored| is_end(&stored.event)) {
            let same = match self.open.take() {
                Some(open) => matches!(
                    text_of(&end.event),
                    Some(text) if matches!(text, Text::Blob { .. }) || *text == Text::Inline(open.shown)
                ),
                // One that was never open is stored as it was written.
                None => tried
                    .iter()
                    .any(|tried| tried.entry == Entry::Event(end.event.clone())),
            };
            ensure(same, "a message ended with other text than was shown")?;
        }
        self.acked.extend(stored);
        Ok(())
    }

    pub(super) fn started(&mut self, _stored: &Stored) {
        if let Some(last) = self.perhaps.last_mut() {
            last.shown = true;
        }
        self.open = Some(Open {
            shown: String::new(),
            perhaps: String::new(),
            synced: 0,
        });
    }

    pub(super) fn showed(&mut self, text: &str) {
        if let Some(open) = &mut self.open {
            open.shown.push_str(text);
        }
    }

    pub(super) fn perhaps_showed(&mut self, text: &str) {
        if let Some(open) = &mut self.open {
            open.perhaps.push_str(text);
        }
    }

    /// All that was written is synced.
    pub(super) fn flushed(&mut self) {
        self.synced_events();
        if let Some(open) = &mut self.open {
            open.synced = open.shown.len();
        }
    }

    /// The events that were shown are synced.
    pub(super) fn synced_events(&mut self) {
        let shown = self.perhaps.iter().take_while(|perhaps| perhaps.shown);
        let shown: Vec<Entry> = shown.map(|perhaps| perhaps.entry.clone()).collect();
        self.perhaps.drain(..shown.len());
        for entry in shown {
            if let Entry::Event(event) = entry {
                let seq = EventSeq(self.acked.len() as u64 + 1);
                let ts = Timestamp(f64::NAN);
                self.acked.push(Stored { seq, ts, event });
            }
        }
    }

    pub(super) fn may_be_absent(&self) -> bool {
        matches!(
            self.standing,
            Standing::PerhapsMade | Standing::PerhapsDeleted
        )
    }

    /// Opening it failed, and made its log shorter by `cut_bytes`.
    pub(super) fn half_opened(&mut self, cut_bytes: u64) {
        self.opened_by_half = true;
        self.cut_by_half |= cut_bytes > 0;
        self.torn_bytes += cut_bytes;
    }

    /// Compares what opening found with what must be there.
    pub(super) fn check(
        &self,
        storage: &PowerStorage,
        seen: &[Stored],
        recovery: &Recovery,
        writer: &Writer,
    ) -> Result<(), String> {
        let numbered = seen.iter().zip(1..).all(|(stored, n)| stored.seq.0 == n);
        ensure(numbered, "the numbers have a gap or a repeat")?;
        let acked = self.acked.len();
        ensure(seen.len() >= acked, "acknowledged events are lost")?;
        for (found, wanted) in seen.iter().zip(&self.acked) {
            let same_time = wanted.ts.0.is_nan() || found.ts == wanted.ts;
            let same = found.event == wanted.event && same_time;
            ensure(same, "an acknowledged event has changed")?;
        }
        let kept = self.check_perhaps(&seen[acked..])?;
        if self.standing == Standing::PerhapsMade && kept < self.perhaps.len() {
            return Err("a session was made by half".into());
        }
        let found = self.find_recoveries(storage, seen, acked + kept)?;
        self.check_recovery(&found, recovery, writer)
    }

    /// What the files beside the log and other ways to read it must say.
    pub(super) fn check_files(
        &self,
        store: &FileStore,
        storage: &PowerStorage,
        seen: &[Stored],
        recovery: &Recovery,
    ) -> Result<(), String> {
        if storage.is_dead() {
            return Ok(());
        }
        let say = |error: crate::StoreError| format!("reading beside the writer: {error}");
        let verified = store.verify(self.id).map_err(say)?;
        let sound = verified.damaged_at.is_none() && verified.torn_bytes == 0;
        ensure(sound, "verify is not content")?;
        ensure(verified.events == seen.len() as u64, "verify counts others")?;
        let meta = store.meta(self.id).map_err(say)?;
        ensure(
            meta.head.0 == seen.len() as u64,
            "the meta is of another head",
        )?;
        let mut reader = store.reader(self.id).map_err(say)?;
        let after = EventSeq(seen.len() as u64 / 2);
        let read = reader
            .read_after(after, EventSeq(u64::MAX), usize::MAX, usize::MAX)
            .map_err(say)?;
        let same = read.iter().map(|stored| &**stored);
        ensure(same.eq(&seen[seen.len() / 2..]), "a reader sees others")?;
        let torn = storage.open(&format!("{}/events.torn", self.id), Access::Read);
        let torn = torn.and_then(|file| file.len()).unwrap_or(0);
        let wanted = self.torn_bytes + recovery.cut_bytes;
        ensure(torn >= wanted, "bytes that were cut are not kept")
    }

    /// Everything found is acknowledged from now on.
    pub(super) fn opened(&mut self, seen: Vec<Stored>, cut_bytes: u64) {
        self.torn_bytes += cut_bytes;
        self.acked = seen;
        self.standing = Standing::Alive;
        self.perhaps.clear();
        self.open = None;
        self.power_lost = false;
        self.opened_by_half = false;
        self.cut_by_half = false;
    }

    /// How many of the events that were perhaps written are there; they must be the first ones.
    fn check_perhaps(&self, rest: &[Stored]) -> Result<usize, String> {
        let matches = |(stored, perhaps): (&Stored, &Perhaps)| match &perhaps.entry {
            Entry::Event(event) => stored.event == *event,
            Entry::EndMessage { partial } => is_end_of(&stored.event, *partial),
        };
        let both = rest.iter().zip(&self.perhaps);
        let kept = both.take_while(|pair| matches(*pair)).count();
        let shown = self.perhaps.iter().filter(|perhaps| perhaps.shown).count();
        if !self.power_lost {
            ensure(kept >= shown, "an event that was shown is lost")?;
        }
        Ok(kept)
    }

    /// Reads the events after `whole`, which are recovery's own: of this opening, or of earlier ones
    /// that did not get to their end.
    fn find_recoveries(
        &self,
        storage: &PowerStorage,
        seen: &[Stored],
        whole: usize,
    ) -> Result<Recoveries, String> {
        let busy = Busy::after(&seen[..whole]);
        let mut message = busy.and_then(|busy| busy.message);
        let mut found = Recoveries {
            turn_open: busy.is_some_and(|busy| busy.turn),
            epoch: epoch_of(&seen[..whole]),
            raised: None,
            ended: None,
            text_lost: false,
        };
        for stored in &seen[whole..] {
            if let Event::SessionRecovered(recovered) = &stored.event {
                found.epoch += 1;
                ensure(recovered.epoch == found.epoch, "the epoch jumps")?;
                let from = message.unwrap_or(stored.seq);
                ensure(recovered.from == from, "another place is void")?;
                found.raised = Some(from);
            } else {
                ensure(message.is_some(), "an event was never written")?;
                found.text_lost = self.check_text(storage, &stored.event)?;
                found.ended = message.take();
            }
        }
        ensure(message.is_none(), "an open message was not ended")?;
        Ok(found)
    }

    /// The epoch follows the rules, also where several openings were needed.
    fn check_recovery(
        &self,
        found: &Recoveries,
        recovery: &Recovery,
        writer: &Writer,
    ) -> Result<(), String> {
        let epoch = found.epoch;
        ensure(writer.epoch() == epoch, "the writer has another epoch")?;
        let raised = found.raised;
        let cut = recovery.cut_bytes > 0;
        ensure(!cut || recovery.void_from.is_some(), "cut in silence")?;
        ensure(
            !self.cut_by_half || raised.is_some(),
            "cut by half in silence",
        )?;
        // A message that an earlier opening ended with all that was shown has lost nothing by a
        // power loss after that.
        let busy = found.turn_open || found.text_lost || recovery.ended_message.is_some();
        let lost = self.power_lost && busy;
        ensure(!lost || raised.is_some(), "the epoch did not grow")?;
        let excused = self.power_lost || self.opened_by_half || cut;
        ensure(raised.is_none() || excused, "the epoch grew for nothing")?;
        if !self.opened_by_half {
            ensure(recovery.void_from == raised, "recovery tells other")?;
            ensure(recovery.ended_message == found.ended, "another one ended")?;
        }
        Ok(())
    }

    /// An open message ends as far as it got; says whether some that was shown is lost.
    fn check_text(&self, storage: &PowerStorage, event: &Event) -> Result<bool, String> {
        ensure(is_end_of(event, true), "an open message was not ended")?;
        let text = match text_of(event) {
            Some(Text::Inline(text)) => text.clone(),
            Some(Text::Blob { sha256 }) => {
                let blob = storage.peek(&format!("{}/blobs/{sha256}", self.id));
                let text = blob.and_then(|blob| String::from_utf8(blob).ok());
                text.ok_or("the blob of a long text is not there")?
            }
            None => String::new(),
        };
        let (shown, perhaps, synced) = match &self.open {
            Some(open) => (&*open.shown, &*open.perhaps, open.synced),
            None => ("", "", 0),
        };
        let most = format!("{shown}{perhaps}");
        ensure(most.starts_with(&text), "text was never written")?;
        let least = match self.power_lost {
            true => synced,
            false => shown.len(),
        };
        ensure(text.len() >= least, "text that was shown is lost")?;
        Ok(text.len() < shown.len())
    }
}

/// What the events of recovery say.
struct Recoveries {
    /// A turn was open before them.
    turn_open: bool,
    epoch: u64,
    /// From where on cursors are void, if the epoch grew.
    raised: Option<EventSeq>,
    /// The message that was ended.
    ended: Option<EventSeq>,
    /// It ended with less than was shown.
    text_lost: bool,
}

/// What is under way at the end of some events.
#[derive(Clone, Copy)]
struct Busy {
    turn: bool,
    message: Option<EventSeq>,
}

impl Busy {
    fn after(events: &[Stored]) -> Option<Self> {
        let (mut turn, mut message) = (false, None);
        for stored in events {
            if is_end(&stored.event) {
                message = None;
            }
            if let Event::MessageStarted(_) = stored.event {
                message = Some(stored.seq);
            }
            if let Event::TurnStarted(_) = stored.event {
                turn = true;
            }
            if let Event::TurnResult(_) | Event::TurnInterrupted(_) = stored.event {
                turn = false;
            }
        }
        (turn || message.is_some()).then_some(Self { turn, message })
    }
}

fn epoch_of(events: &[Stored]) -> u64 {
    let epoch = |stored: &Stored| {
        let Event::SessionRecovered(recovered) = &stored.event else {
            return None;
        };
        Some(recovered.epoch)
    };
    events.iter().rev().find_map(epoch).unwrap_or(0)
}

fn is_end(event: &Event) -> bool {
    text_of(event).is_some()
}

fn is_end_of(event: &Event, cut: bool) -> bool {
    matches!(event,
        Event::AssistantMessage(message) if message.partial == cut)
        || matches!(event, Event::AssistantThought(thought) if thought.partial == cut)
}

fn text_of(event: &Event) -> Option<&Text> {
    if let Event::AssistantMessage(message) = event {
        return Some(&message.text);
    }
    if let Event::AssistantThought(thought) = event {
        return Some(&thought.text);
    }
    None
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        return Ok(());
    }
    Err(otherwise.to_owned())
}
