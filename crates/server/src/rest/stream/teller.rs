//! What a reader is told of a session: its stream in the words of server-sent events.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use domain::ids::PermissionId;
use domain::{Cursor, Event, EventSeq, FailureKind, SessionId, TurnId};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use session::{Attached, Config, Delivery, From, Item, Stored, TurnPhase};
use wire::acp::{self, TurnNotice, TurnState, UpdateMeta};

use crate::connection::{notice, storage_error};
use crate::service::Service;

/// What it knows of the session as its reader sees it.
pub(super) struct Teller {
    service: Arc<Service>,
    session: SessionId,
    config: Config,
    /// Events up to here are history.
    attached_at: EventSeq,
    /// Where the reader starts, and what it must drop first.
    start: Cursor,
    resync_from: Option<EventSeq>,
    /// How the newest turn stood, for a reader that is not told how it came to that.
    opening: Option<TurnNotice>,
    turn: TurnId,
    is_running: bool,
    /// What people are being asked, as far as the reader knows.
    questions: Vec<PermissionId>,
}

/// One thing to tell: which event of the stream, and its data.
type Told = (&'static str, String);

impl Teller {
    pub(super) fn new(service: &Arc<Service>, attached: &Attached, from: From) -> Self {
        let (session, snapshot) = (attached.handle.id(), &attached.snapshot);
        let start = attached.subscription.cursor();
        let questions = snapshot.questions.iter();
        let known = questions.filter(|question| question.seq <= start.seq);
        let state = match snapshot.phase {
            TurnPhase::Running => TurnState::Running,
            TurnPhase::Waiting => TurnState::Waiting,
            TurnPhase::Idle => TurnState::Idle,
        };
        let opening = (from == From::Head).then(|| TurnNotice {
            prompt_id: snapshot.prompt_id.clone(),
            ..notice(session, (snapshot.head, snapshot.turn), state)
        });
        Self {
            service: Arc::clone(service),
            session,
            config: snapshot.config.clone(),
            attached_at: snapshot.head,
            start,
            resync_from: snapshot.resync_from,
            opening,
            turn: snapshot.turn,
            is_running: snapshot.phase != TurnPhase::Idle,
            questions: known.map(|question| question.asked.id().clone()).collect(),
        }
    }

    /// What comes before anything else.
    pub(super) fn first(&mut self) -> Bytes {
        // Also so that the reader's end sees an answer at once, whatever comes when.
        let mut text = String::from(":\n\n");
        if let Some(from) = self.resync_from.take() {
            let data = json!({"from": from, "epoch": self.start.epoch}).to_string();
            push(&mut text, vec![("resync", data)], Some((self.start, false)));
        }
        let mut told = vec![("update", self.settings())];
        if let Some(opening) = self.opening.take() {
            told.push(turn(&opening));
        }
        push(&mut text, told, None);
        Bytes::from(text)
    }

    /// Tells of what was delivered.
    pub(super) fn tell(&mut self, deliveries: Vec<Delivery>) -> Bytes {
        let mut text = String::new();
        for delivery in deliveries {
            let place = (delivery.cursor, delivery.in_message);
            let mut meta = UpdateMeta {
                seq: delivery.cursor.seq,
                epoch: delivery.cursor.epoch,
                offset: delivery.in_message.then_some(delivery.cursor.offset),
                ..UpdateMeta::default()
            };
            match delivery.item {
                Item::Text {
                    message,
                    kind,
                    text: chunk,
                } => {
                    let frame = acp::text_chunk(self.session, kind, &message, &chunk, &meta);
                    push(&mut text, updates([frame]), Some(place));
                }
                Item::Event(stored) => {
                    let told = self.event(&stored, &mut meta);
                    push(&mut text, told, Some(place));
                    if stored.seq > self.attached_at && self.config.take(&stored.event) {
                        push(&mut text, vec![("update", self.settings())], None);
                    }
                }
                Item::Progress(live) => {
                    let frame = acp::tool_progress(self.session, &live.call, &live.text);
                    push(&mut text, updates(frame), None);
                }
                Item::Failed(kind) => {
                    let told = self.failed(kind, delivery.cursor.seq);
                    push(&mut text, told.into_iter().collect(), None);
                }
            }
        }
        Bytes::from(text)
    }

    fn event(&mut self, stored: &Stored, meta: &mut UpdateMeta) -> Vec<Told> {
        if let Event::UserMessage(message) = &stored.event {
            meta.prompt_id.clone_from(&message.prompt_id);
        }
        let context = acp::context_update(self.session, &stored.event, meta);
        meta.more = context.is_some();
        let mut told = updates(acp::event_updates(self.session, &stored.event, meta));
        told.extend(updates(context));
        told.extend(self.turn_changed(stored).as_ref().map(turn));
        if let Event::SessionRewound(rewound) = &stored.event
            && stored.seq > self.attached_at
        {
            let from = rewound.to.next();
            let data = json!({"from": from, "epoch": meta.epoch}).to_string();
            told.push(("resync", data));
        }
        told
    }

    /// How a stored event changes the turn. That it waits for a person is a change too: readers
    /// are not asked here, so they must know when to look.
    fn turn_changed(&mut self, stored: &Stored) -> Option<TurnNotice> {
        let (session, seq) = (self.session, stored.seq);
        if let Event::TurnStarted(started) = &stored.event {
            (self.turn, self.is_running) = (started.turn, true);
            return Some(TurnNotice {
                prompt_id: started.prompt_id.clone(),
                ..notice(session, (seq, started.turn), TurnState::Running)
            });
        }
        if let Event::TurnResult(result) = &stored.event {
            self.over();
            return Some(TurnNotice {
                stop_reason: result.stop_reason,
                error: result.error.clone(),
                ..notice(session, (seq, result.turn), TurnState::Idle)
            });
        }
        if let Event::TurnInterrupted(interrupted) = &stored.event {
            self.over();
            return Some(TurnNotice {
                error: Some(storage_error(FailureKind::Interrupted)),
                ..notice(session, (seq, interrupted.turn), TurnState::Idle)
            });
        }
        let state = self.question_changed(&stored.event)?;
        Some(notice(session, (seq, self.turn), state))
    }

    /// What a question that is asked or settled makes of the running turn.
    fn question_changed(&mut self, event: &Event) -> Option<TurnState> {
        if let Some(asked) = asked_in(event) {
            self.questions.push(asked.clone());
            return (self.questions.len() == 1).then_some(TurnState::Waiting);
        }
        let settled = settled_in(event)?;
        let before = self.questions.len();
        self.questions.retain(|question| question != settled);
        let is_last = self.questions.is_empty() && before > 0;
        (is_last && self.is_running).then_some(TurnState::Running)
    }

    fn over(&mut self) {
        self.is_running = false;
        self.questions.clear();
    }

    /// The store failed under a turn: it is over, and no event could say so.
    fn failed(&mut self, kind: FailureKind, seq: EventSeq) -> Option<Told> {
        if !self.is_running {
            return None;
        }
        self.over();
        let ended = TurnNotice {
            error: Some(storage_error(kind)),
            ..notice(self.session, (seq, self.turn), TurnState::Idle)
        };
        Some(turn(&ended))
    }

    /// What is set, as an update.
    fn settings(&self) -> String {
        let shown = self.service.settings(&self.config);
        params(acp::config_option_update(self.session, &shown.settings()))
    }
}

/// The question that an event asks, if it asks one.
fn asked_in(event: &Event) -> Option<&PermissionId> {
    if let Event::PermissionAsked(asked) = event {
        return Some(&asked.id);
    }
    if let Event::QuestionAsked(asked) = event {
        return Some(&asked.id);
    }
    None
}

/// The question that an event settles, if it settles one.
fn settled_in(event: &Event) -> Option<&PermissionId> {
    if let Event::PermissionAnswered(answered) = event {
        return Some(&answered.id);
    }
    if let Event::QuestionAnswered(answered) = event {
        return Some(&answered.id);
    }
    None
}

fn updates(frames: impl IntoIterator<Item = String>) -> Vec<Told> {
    let frames = frames.into_iter().map(params);
    frames.map(|params| ("update", params)).collect()
}

fn turn(notice: &TurnNotice) -> Told {
    ("turn", params(acp::turn_notification(notice)))
}

/// The parameters of a notification.
fn params(frame: String) -> String {
    #[derive(Deserialize)]
    struct Notification<'a> {
        #[serde(borrow)]
        params: &'a RawValue,
    }
    let parsed: Result<Notification<'_>, _> = serde_json::from_str(&frame);
    // Whole, if it is none: that is our own mistake, and better seen than lost.
    parsed.map_or(frame.clone(), |parsed| parsed.params.get().to_owned())
}

/// Adds events to a stream. The last one carries the place where the reader stands after all of
/// them. JSON text has no line breaks, so each is one line of data.
fn push(text: &mut String, told: Vec<Told>, place: Option<(Cursor, bool)>) {
    let last = told.len();
    for (at, (name, data)) in told.into_iter().enumerate() {
        if at + 1 == last
            && let Some((cursor, in_message)) = place
        {
            let (epoch, seq) = (cursor.epoch, cursor.seq.0);
            // Writing to a string cannot fail.
            let _ = match in_message {
                true => writeln!(text, "id: {epoch}.{seq}.{}", cursor.offset),
                false => writeln!(text, "id: {epoch}.{seq}"),
            };
        }
        let _ = write!(text, "event: {name}\ndata: {data}\n\n");
    }
}
