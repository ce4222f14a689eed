//! The way of one session's stream to one client.
//!
//! On a socket there is one way. Over HTTP what leads up to an attachment takes a detour over the
//! connection's stream when the session's own is not read yet, and a reader that comes back has
//! part of the stream sent again.

use std::collections::VecDeque;

use domain::{Cursor, EventSeq, SessionId};
use session::{Delivery, Item};
use tokio_util::sync::CancellationToken;

use super::lanes::Lanes;
use super::outbox::{Frame, Gone, Kind, Outbox};

/// One attachment's way to its client.
pub(crate) struct Route {
    serial: u64,
    lane: Outbox,
    /// Where frames go until the client has what led up to its attachment.
    detour: Option<Detour>,
    /// The stream goes through events again until it is here.
    replay_to: Option<Cursor>,
    /// Events up to here have had their effects; seen again they are only shown.
    handled: EventSeq,
    stop: CancellationToken,
}

struct Detour {
    main: Outbox,
    /// Says which session it is, in case nothing else does: some clients learn from it which
    /// stream to open.
    sign: Option<String>,
}

impl Route {
    /// The way to a session's own stream, or first to the connection's.
    pub(crate) fn new(
        lanes: &Lanes,
        session: SessionId,
        serial: u64,
        stop: CancellationToken,
    ) -> Self {
        Self {
            serial,
            lane: lanes.of(session),
            detour: None,
            replay_to: None,
            handled: EventSeq(0),
            stop,
        }
    }

    /// Lets everything up to [`Route::arrive`] go over the connection's stream. `sign` is sent
    /// there if no other frame named the session.
    pub(crate) fn by_way_of(mut self, main: &Outbox, sign: Option<String>) -> Self {
        let main = main.clone();
        self.detour = Some(Detour { main, sign });
        self
    }

    /// The stream begins after `cursor`.
    pub(crate) fn begin(&self, cursor: Cursor) {
        self.lane.begin(self.serial, cursor);
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        self.lane.end(self.serial);
    }

    /// Nothing more will come, unless the client is still owed part of the stream: then `false`.
    pub(crate) fn end_if_read(&self) -> bool {
        self.lane.end_if_read(self.serial)
    }

    /// Whether frames take the detour.
    pub(crate) fn is_on_detour(&self) -> bool {
        self.detour.is_some()
    }

    /// Ends the detour: what comes after `cursor` waits for the session's own stream.
    pub(crate) async fn arrive(&mut self, cursor: Cursor) -> Result<(), Gone> {
        let sign = self.detour.as_mut().and_then(|detour| detour.sign.take());
        self.send(sign.map(Frame::once).into_iter().collect())
            .await?;
        self.detour = None;
        self.begin(cursor);
        Ok(())
    }

    /// Sends frames in order, each once there is room. When the stream is stopped, those that can
    /// be had again are left out.
    pub(crate) async fn send(&mut self, frames: Vec<Frame>) -> Result<(), Gone> {
        let mut frames = VecDeque::from(frames);
        let lane = match &mut self.detour {
            None => &self.lane,
            Some(detour) => {
                for frame in &mut frames {
                    if let Kind::Update { .. } = frame.kind {
                        detour.sign = None;
                        frame.kind = Kind::Once;
                    }
                }
                &detour.main
            }
        };
        let stopped = tokio::select! {
            biased;
            sent = lane.stream(&mut frames) => return sent,
            () = self.stop.cancelled() => Err(Gone),
        };
        let answers = frames.into_iter().filter(|frame| frame.kind == Kind::Once);
        answers.for_each(|frame| lane.answer(frame.text));
        stopped
    }

    /// Returns when the client wants part of the stream again, with the place after which.
    pub(crate) async fn rewound(&self) -> Cursor {
        self.lane.rewound().await
    }

    /// The stream goes back; it had come to `at`.
    pub(crate) fn go_back(&mut self, at: Cursor) {
        self.replay_to = self.replay_to.max(Some(at));
        self.handled = self.handled.max(at.seq);
    }

    /// Whether an event has had its effects.
    pub(crate) fn has_handled(&self, seq: EventSeq) -> bool {
        seq <= self.handled
    }

    /// Of what comes next, the part that the client was sent before.
    pub(crate) fn sent_before(&self, mut deliveries: Vec<Delivery>) -> Vec<Delivery> {
        let to = self.replay_to.unwrap_or_default();
        let sent = deliveries.partition_point(|delivery| delivery.cursor <= to);
        deliveries.truncate(sent + 1);
        // Text comes in other pieces now; one of them may reach further.
        if let Some(last) = deliveries.get_mut(sent) {
            let beyond = last.cursor.offset.saturating_sub(to.offset);
            if let Item::Text { text, .. } = &mut last.item
                && last.cursor.seq == to.seq
            {
                let keep = text
                    .len()
                    .saturating_sub(usize::try_from(beyond).unwrap_or(0));
                *text = text.get(..keep).unwrap_or_default().into();
                last.cursor = to;
            } else {
                deliveries.truncate(sent);
            }
        }
        deliveries
    }

    /// Notes how far the stream has come.
    pub(crate) fn passed(&mut self, cursor: Cursor) {
        if self.replay_to.is_some_and(|to| cursor >= to) {
            self.replay_to = None;
            self.lane.caught_up();
        }
    }
}
