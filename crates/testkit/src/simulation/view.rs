//! What one client has been shown of one session, and whether that is what the journal says.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "it looks at the few events that it checks"
)]

use std::collections::BTreeSet;

use domain::Event;
use domain::event::MessageKind;
use serde_json::{Value, json};

use super::Verdict;
use super::record::{Record, Told};

/// Where a client stands, as it keeps it from the newest update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) seq: u64,
    pub(super) offset: u64,
    /// Unknown as long as no update has named it.
    pub(super) epoch: Option<u64>,
}

/// Something a client was shown.
#[derive(Clone, Debug)]
struct Shown {
    seq: u64,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    /// A piece of a message, up to byte `to` of it.
    Text {
        message: String,
        kind: MessageKind,
        to: u64,
        text: String,
    },
    /// Any other update, and the prompt that it echoes.
    Update(Value, Option<String>),
    /// `_fastness/turn`.
    Turn(Value),
}

/// One client's picture of one session. It outlives connections.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    shown: Vec<Shown>,
    /// Updates of an event whose last has not come.
    pending: Vec<Shown>,
    pub(super) cursor: Option<Cursor>,
    /// What lies before is not shown; `None` until something is, for who enters at the head.
    start: Option<u64>,
    /// For who enters at the head: the newest event by then.
    latest: u64,
    pub(super) token: Option<String>,
    /// How often the connection went between two updates of one event.
    pub(super) cuts_between: u64,
}

impl View {
    /// Of a client that is shown everything from the first event on.
    pub(super) fn whole() -> Self {
        Self {
            start: Some(0),
            ..Self::default()
        }
    }

    /// Of a client that enters without a cursor; `latest` is the newest event by then.
    pub(super) fn from_head(latest: u64) -> Self {
        Self {
            latest,
            ..Self::default()
        }
    }

    /// Whether the client stands at event `seq` or after it.
    pub(super) fn has_passed(&self, seq: u64) -> bool {
        self.cursor.is_some_and(|cursor| cursor.seq >= seq)
    }

    /// The connection is gone: updates of an event that was not complete count as not seen.
    pub(super) fn cut(&mut self) {
        self.cuts_between += u64::from(!self.pending.is_empty());
        self.pending.clear();
    }

    /// The server says that what is held from `from` on is void.
    pub(super) fn drop_from(&mut self, from: u64) {
        self.pending.clear();
        self.shown.retain(|shown| shown.seq < from);
        let before = from.saturating_sub(1);
        if let Some(cursor) = &mut self.cursor {
            (cursor.seq, cursor.offset) = (before, 0);
        }
        self.start = self.start.map(|start| start.min(before));
        self.latest = self.latest.min(before);
    }

    /// What is left of it when the client learns of all recoveries since, if they void anything.
    pub(super) fn as_of(&self, record: &Record) -> Option<Self> {
        let cursor = self.cursor.unwrap_or_default();
        let void = cursor
            .epoch
            .and_then(|epoch| record.voided_from(Some(epoch)));
        let from = void.filter(|from| cursor.seq >= *from)?;
        let mut view = self.clone();
        view.drop_from(from);
        Some(view)
    }

    /// Whether the rest of an event is still to come.
    pub(super) fn is_between(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes the parameters of a `session/update`.
    pub(super) fn update(&mut self, params: &Value) -> Verdict {
        let meta = &params["_meta"]["fastness"];
        let update = &params["update"];
        let Some(seq) = meta["seq"].as_u64() else {
            // How things stand, not what happened.
            let kind = update["sessionUpdate"].as_str().unwrap_or_default();
            let is_state = ["config_option_update", "available_commands_update"].contains(&kind);
            return match is_state {
                true => Ok(()),
                false => Err(format!("an update without a cursor: {params}")),
            };
        };
        let what = match text_of(update) {
            Some((kind, text)) if meta["greeting"] != json!(true) => What::Text {
                message: string(&update["messageId"]),
                kind,
                to: meta["offset"]
                    .as_u64()
                    .ok_or_else(|| format!("text without an offset: {params}"))?,
                text,
            },
            Some(_) | None => {
                let prompt = meta["promptId"].as_str().map(ToOwned::to_owned);
                What::Update(update.clone(), prompt)
            }
        };
        self.pending.push(Shown { seq, what });
        if meta["more"] == json!(true) {
            return Ok(());
        }
        let epoch = meta["epoch"].as_u64();
        let offset = meta["offset"].as_u64().unwrap_or(0);
        self.take(Cursor { seq, offset, epoch })
    }

    /// Takes the parameters of a `_fastness/turn`.
    pub(super) fn turn(&mut self, params: &Value) -> Verdict {
        let seq = params["seq"].as_u64();
        let seq = seq.ok_or_else(|| format!("a turn without a number: {params}"))?;
        let what = What::Turn(params.clone());
        self.pending.push(Shown { seq, what });
        let epoch = self.cursor.and_then(|cursor| cursor.epoch);
        let offset = 0;
        self.take(Cursor { seq, offset, epoch })
    }

    fn take(&mut self, cursor: Cursor) -> Verdict {
        if let Some(before) = self.cursor
            && (cursor.seq, cursor.offset) < (before.seq, before.offset)
        {
            return Err(format!(
                "the cursor went back from {before:?} to {cursor:?}"
            ));
        }
        if self.start.is_none()
            && let Some(first) = self.pending.first()
        {
            self.start = Some(match first.is_text() {
                true => first.seq,
                false => (first.seq - 1).min(self.latest),
            });
        }
        self.cursor = Some(cursor);
        self.shown.append(&mut self.pending);
        Ok(())
    }

    /// Compares with the journal: what was shown is what happened, all of it up to the cursor, and
    /// up to `at_least` if that is more. `own` are prompts of this client, which it needs no echo of.
    pub(super) fn check(
        &self,
        record: &Record,
        turns: bool,
        own: &BTreeSet<String>,
        at_least: u64,
    ) -> Verdict {
        let Some(start) = self.start else {
            return Ok(());
        };
        let cursor = self.cursor.unwrap_or_default();
        let up_to = cursor.seq.max(at_least);
        if cursor.seq > record.head() {
            return Err(format!(
                "shown up to {} of {} events",
                cursor.seq,
                record.head()
            ));
        }
        self.check_events(record, turns, own, (start, up_to))?;
        self.check_texts(record, start, (cursor, up_to))
    }

    fn check_events(
        &self,
        record: &Record,
        turns: bool,
        own: &BTreeSet<String>,
        (after, up_to): (u64, u64),
    ) -> Verdict {
        let mut shown = self
            .shown
            .iter()
            .filter(|shown| !shown.is_text())
            .peekable();
        let events = record.events.iter().zip(&record.updates);
        let events = events.filter(|(stored, _)| stored.seq.0 > after && stored.seq.0 <= up_to);
        for (stored, updates) in events {
            let seq = stored.seq.0;
            for (update, prompt) in updates {
                let is_it = |shown: &Shown| {
                    matches!(&shown.what, What::Update(seen, echoes)
                        if shown.seq == seq && seen == update && echoes == prompt)
                };
                let is_own = prompt.as_ref().is_some_and(|prompt| own.contains(prompt));
                if shown.next_if(|shown| is_it(shown)).is_none() && !is_own {
                    let instead = shown.next();
                    return Err(format!("event {seq} is shown as {update}, but {instead:?}"));
                }
            }
            let notice = turn_notice(record, &stored.event, seq).filter(|_| turns);
            if let Some(notice) = notice
                && shown.next_if(|shown| shown.what == notice).is_none()
            {
                let instead = shown.next();
                return Err(format!("turn notice {notice:?}, but {instead:?}"));
            }
        }
        match shown.next() {
            Some(more) => Err(format!("shown twice or out of place: {more:?}")),
            None => Ok(()),
        }
    }

    fn check_texts(&self, record: &Record, after: u64, (cursor, up_to): (Cursor, u64)) -> Verdict {
        let mut shown = self.shown.iter().filter(|shown| shown.is_text()).peekable();
        for told in &record.messages {
            if told.from > up_to || told.to.is_some_and(|to| to <= after) {
                continue;
            }
            // Who enters at the head knows nothing of what was said before.
            let first = shown.peek().filter(|shown| shown.is_of(told));
            let begins_inside = told.from <= after;
            if begins_inside && first.is_none() {
                continue;
            }
            let begins_at = first.map_or(0, |first| first.begins_at());
            let mut at = if begins_inside { begins_at } else { 0 };
            while let Some(piece) = shown.next_if(|shown| shown.is_of(told)) {
                at = piece.follows(told, at)?;
            }
            let must_be = match told.to {
                Some(to) if to <= up_to => told.text.len() as u64,
                _ if cursor.seq >= told.from => cursor.offset,
                _ => at,
            };
            if at != must_be {
                return Err(format!(
                    "of message {} ({}..{:?}) {at} bytes were shown, not {must_be}: {cursor:?}",
                    told.name, told.from, told.to
                ));
            }
        }
        match shown.next() {
            Some(more) => Err(format!("text of no message, or out of place: {more:?}")),
            None => Ok(()),
        }
    }
}

impl Shown {
    fn is_text(&self) -> bool {
        matches!(self.what, What::Text { .. })
    }

    fn is_of(&self, told: &Told) -> bool {
        matches!(&self.what, What::Text { message, .. } if *message == told.name)
    }

    /// The byte of its message that it begins at.
    fn begins_at(&self) -> u64 {
        match &self.what {
            What::Text { to, text, .. } => to.saturating_sub(text.len() as u64),
            What::Update(..) | What::Turn(_) => 0,
        }
    }

    /// Whether this piece comes after byte `at` of the message; gives the byte that it ends at.
    fn follows(&self, told: &Told, at: u64) -> Result<u64, String> {
        let What::Text { kind, to, text, .. } = &self.what else {
            return Ok(at);
        };
        let (from, until) = (usize::try_from(at), usize::try_from(*to));
        let real = from.ok().zip(until.ok());
        let real = real.and_then(|(from, until)| told.text.get(from..until));
        let in_place = self.seq >= told.from && told.to.is_none_or(|to| self.seq < to);
        if real == Some(text.as_str()) && *kind == told.kind && in_place {
            return Ok(*to);
        }
        Err(format!(
            "message {} ({}..{:?}) says {real:?} after byte {at}, but {self:?}",
            told.name, told.from, told.to
        ))
    }
}

/// How a client that asked for it is told of a turn.
fn turn_notice(record: &Record, event: &Event, seq: u64) -> Option<What> {
    let mut notice = json!({"sessionId": record.id, "seq": seq});
    match event {
        Event::TurnStarted(started) => {
            notice["turn"] = json!(started.turn);
            notice["state"] = json!("running");
            if let Some(prompt) = &started.prompt_id {
                notice["promptId"] = json!(prompt);
            }
            if let Some(queued) = started.queued {
                notice["queued"] = json!(queued);
            }
        }
        Event::TurnResult(result) => {
            notice["turn"] = json!(result.turn);
            notice["state"] = json!("idle");
            if let Some(reason) = &result.stop_reason {
                notice["stopReason"] = json!(reason);
            }
            if let Some(error) = &result.error {
                notice["error"] = json!(error);
            }
        }
        Event::TurnInterrupted(interrupted) => {
            notice["turn"] = json!(interrupted.turn);
            notice["state"] = json!("idle");
            notice["error"] = json!({
                "kind": "interrupted",
                "message": "the server stopped while the turn ran",
            });
        }
        _ => return None,
    }
    Some(What::Turn(notice))
}

/// The text of an update that is a piece of a message.
fn text_of(update: &Value) -> Option<(MessageKind, String)> {
    let kind = match update["sessionUpdate"].as_str()? {
        "agent_message_chunk" => MessageKind::Text,
        "agent_thought_chunk" => MessageKind::Thought,
        _ => return None,
    };
    Some((kind, string(&update["content"]["text"])))
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
