//! What a session shows its followers: the head they may read up to, and the newest events and
//! text in memory for those who keep up.
//!
//! The lock is held for a few pointer moves, never across an await. Whoever lags reads the files.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::progress::Progress;
use domain::event::{MessageKind, MessageStarted};
use domain::limits::{RING_BYTES_MAX, RING_EVENTS_MAX, TAIL_BYTES_MAX, TAIL_CHUNKS_MAX};
use domain::{Event, EventSeq, FailureKind, MessageId};
use journal::Stored;
use tokio::sync::watch;

/// How far followers may read. Rung on every change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    /// The newest stored event.
    pub(crate) seq: EventSeq,
    /// The journal's epoch.
    pub(crate) epoch: u64,
    /// The message being streamed and its bytes so far.
    pub(crate) open: Option<OpenText>,
    /// Counts storage failures, so that followers notice each.
    pub(crate) failures: u64,
    /// The newest of them.
    pub(crate) failure: Option<FailureKind>,
    /// Set once nothing more will come.
    pub(crate) ended: bool,
}

/// A message being streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenText {
    /// Its `message.started`.
    pub(crate) started: EventSeq,
    /// Bytes written so far.
    pub(crate) bytes: u64,
}

/// The writer's and the followers' common ground.
pub(crate) struct Feed {
    recent: Mutex<Recent>,
    head: watch::Sender<Head>,
    /// What running calls show of themselves.
    progress: Progress,
}

#[derive(Default)]
struct Recent {
    events: VecDeque<(usize, Arc<Stored>)>,
    event_bytes: usize,
    tail: Option<Tail>,
}

/// The newest chunks of the open message, apart as the model sent them.
struct Tail {
    started: EventSeq,
    message: MessageId,
    kind: MessageKind,
    chunks: VecDeque<Arc<str>>,
    /// Where the first chunk begins, and where the last one ends.
    from: u64,
    to: u64,
}

/// Chunks of the open message after some offset.
pub(crate) struct TailChunks {
    pub(crate) message: MessageId,
    pub(crate) kind: MessageKind,
    /// `None` when they are no longer all in memory.
    pub(crate) chunks: Option<Vec<Arc<str>>>,
}

impl Feed {
    pub(crate) fn new(head: Head) -> Self {
        Self {
            recent: Mutex::default(),
            head: watch::Sender::new(head),
            progress: Progress::default(),
        }
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(crate) fn head(&self) -> Head {
        *self.head.borrow()
    }

    pub(crate) fn follow(&self) -> watch::Receiver<Head> {
        self.head.subscribe()
    }

    /// Shows stored events.
    pub(crate) fn push(&self, stored: &[Arc<Stored>]) {
        let Some(last) = stored.last() else { return };
        let mut recent = self.recent();
        for event in stored {
            recent.push_event(event);
        }
        let open = recent.tail.as_ref().map(Tail::open);
        drop(recent);
        self.head.send_modify(|head| {
            head.seq = last.seq;
            head.open = open;
        });
    }

    /// Shows more text of the open message, piece by piece; the last one ends at `to`.
    pub(crate) fn push_text(&self, pieces: &[String], to: u64) {
        let bytes: usize = pieces.iter().map(String::len).sum();
        let mut end = to - bytes as u64;
        let mut recent = self.recent();
        let open = recent.tail.as_mut().map(|tail| {
            for piece in pieces {
                end += piece.len() as u64;
                tail.push(Arc::from(piece.as_str()), end);
            }
            tail.open()
        });
        drop(recent);
        self.head.send_modify(|head| head.open = open);
    }

    /// Says that the store failed; what was shown stays, and recovery decides what follows.
    pub(crate) fn fail(&self, kind: FailureKind) {
        self.recent().tail = None;
        self.head.send_modify(|head| {
            head.failures += 1;
            head.failure = Some(kind);
            head.open = None;
        });
    }

    /// Starts over after recovery.
    pub(crate) fn recovered(&self, seq: EventSeq, epoch: u64) {
        *self.recent() = Recent::default();
        self.head.send_modify(|head| {
            head.seq = seq;
            head.epoch = epoch;
            head.open = None;
            head.failure = None;
        });
    }

    /// Lets go of the newest events; whoever still wants them reads the file.
    pub(crate) fn cool(&self) {
        let mut recent = self.recent();
        (recent.events, recent.event_bytes) = (VecDeque::new(), 0);
    }

    /// Says that nothing more will come.
    pub(crate) fn end(&self) {
        self.head.send_modify(|head| head.ended = true);
    }

    /// The events in `(after, up_to]` if all of them are still in memory.
    pub(crate) fn recent_after(
        &self,
        after: EventSeq,
        up_to: EventSeq,
    ) -> Option<Vec<Arc<Stored>>> {
        let recent = self.recent();
        let (_, first) = recent.events.front()?;
        if first.seq > after.next() {
            return None;
        }
        let skip = usize::try_from(after.next().0 - first.seq.0).ok()?;
        let wanted = recent.events.iter().skip(skip).map(|(_, event)| event);
        Some(
            wanted
                .take_while(|event| event.seq <= up_to)
                .cloned()
                .collect(),
        )
    }

    /// The open message's text after `offset`, if it is the one that `started` began.
    pub(crate) fn tail_after(&self, started: EventSeq, offset: u64) -> Option<TailChunks> {
        let recent = self.recent();
        let tail = recent
            .tail
            .as_ref()
            .filter(|tail| tail.started == started)?;
        Some(TailChunks {
            message: tail.message.clone(),
            kind: tail.kind,
            chunks: tail.after(offset),
        })
    }

    /// The guarded data is whole at every step, so a panic elsewhere does not spoil it.
    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn push_event(&mut self, stored: &Arc<Stored>) {
        if let Event::MessageStarted(started) = &stored.event {
            self.tail = Some(Tail::new(stored.seq, started));
        } else if matches!(
            stored.event,
            Event::AssistantMessage(_) | Event::AssistantThought(_)
        ) {
            self.tail = None;
        }
        let bytes = weight(&stored.event);
        self.event_bytes += bytes;
        self.events.push_back((bytes, Arc::clone(stored)));
        while self.events.len() > RING_EVENTS_MAX || self.event_bytes > RING_BYTES_MAX {
            let Some((bytes, _)) = self.events.pop_front() else {
                break;
            };
            self.event_bytes -= bytes;
        }
    }
}

impl Tail {
    fn new(seq: EventSeq, started: &MessageStarted) -> Self {
        Self {
            started: seq,
            message: started.message_id.clone(),
            kind: started.kind,
            chunks: VecDeque::new(),
            from: 0,
            to: 0,
        }
    }

    fn open(&self) -> OpenText {
        OpenText {
            started: self.started,
            bytes: self.to,
        }
    }

    fn push(&mut self, text: Arc<str>, to: u64) {
        self.chunks.push_back(text);
        self.to = to;
        while self.chunks.len() > TAIL_CHUNKS_MAX || self.to - self.from > TAIL_BYTES_MAX as u64 {
            let Some(oldest) = self.chunks.pop_front() else {
                break;
            };
            self.from += oldest.len() as u64;
        }
    }

    /// The chunks after `offset`; the first may begin in the middle of one.
    fn after(&self, offset: u64) -> Option<Vec<Arc<str>>> {
        if offset < self.from {
            return None;
        }
        let mut begins = self.from;
        let mut found = Vec::new();
        for chunk in &self.chunks {
            let ends = begins + chunk.len() as u64;
            if begins >= offset {
                found.push(Arc::clone(chunk));
            } else if ends > offset {
                // A cursor from another life of the message may stand inside a chunk.
                let inside = usize::try_from(offset - begins).ok()?;
                found.push(Arc::from(chunk.get(inside..)?));
            }
            begins = ends;
        }
        Some(found)
    }
}

/// About how much memory an event takes.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others are small")]
fn weight(event: &Event) -> usize {
    const BASE: usize = 256;
    BASE + match event {
        Event::UserMessage(message) => 2 * message.text.len(),
        Event::PromptQueued(queued) => 2 * queued.text.len(),
        Event::AssistantMessage(message) => text_bytes(&message.text),
        Event::AssistantThought(thought) => text_bytes(&thought.text),
        Event::ToolUse(used) => value_bytes(&used.input),
        Event::ToolResult(result) => result.text.len(),
        Event::Notice(notice) => notice.text.len(),
        _ => 0,
    }
}

fn text_bytes(text: &domain::event::Text) -> usize {
    match text {
        domain::event::Text::Inline(text) => text.len(),
        domain::event::Text::Blob { .. } => 0,
    }
}

fn value_bytes(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(fields) => fields.values().map(|value| 32 + value_bytes(value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::clock::Timestamp;
    use domain::event::{MessageKind, MessageStarted, SessionClosed};
    use domain::limits::RING_EVENTS_MAX;
    use domain::{Event, EventSeq, MessageId};
    use journal::Stored;

    use super::{Feed, Head};

    fn stored(seq: u64, event: impl Into<Event>) -> Arc<Stored> {
        Arc::new(Stored {
            seq: EventSeq(seq),
            ts: Timestamp(0.0),
            event: event.into(),
        })
    }

    #[test]
    fn a_follower_that_lags_is_sent_to_the_file() {
        let feed = Feed::new(Head::default());
        let last = RING_EVENTS_MAX as u64 + 10;
        for seq in 1..=last {
            feed.push(&[stored(seq, SessionClosed {})]);
        }
        assert!(feed.recent_after(EventSeq(9), EventSeq(last)).is_none());
        let kept = feed.recent_after(EventSeq(10), EventSeq(last)).unwrap();
        assert_eq!(kept.len(), RING_EVENTS_MAX);
        assert_eq!(kept[0].seq, EventSeq(11));
        assert_eq!(
            feed.recent_after(EventSeq(last), EventSeq(last))
                .unwrap()
                .len(),
            0
        );
    }

    #[test]
    fn after_it_has_cooled_old_events_are_in_the_file_and_new_ones_here() {
        let feed = Feed::new(Head::default());
        feed.push(&[stored(1, SessionClosed {}), stored(2, SessionClosed {})]);
        feed.cool();
        assert!(feed.recent_after(EventSeq(0), EventSeq(2)).is_none());
        assert_eq!(feed.head().seq, EventSeq(2));
        feed.push(&[stored(3, SessionClosed {})]);
        assert!(feed.recent_after(EventSeq(1), EventSeq(3)).is_none());
        let kept = feed.recent_after(EventSeq(2), EventSeq(3)).unwrap();
        assert_eq!(kept[0].seq, EventSeq(3));
    }

    #[test]
    fn chunks_stay_apart_and_a_cursor_inside_one_gets_its_rest() {
        let feed = Feed::new(Head::default());
        let started = MessageStarted {
            message_id: MessageId::new("m"),
            kind: MessageKind::Text,
        };
        feed.push(&[stored(1, started)]);
        feed.push_text(&["hello ".to_owned(), "world".to_owned()], 11);
        let texts = |offset| -> Vec<String> {
            let tail = feed.tail_after(EventSeq(1), offset).unwrap();
            tail.chunks
                .unwrap()
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(texts(0), ["hello ", "world"]);
        assert_eq!(texts(6), ["world"]);
        assert_eq!(texts(8), ["rld"]);
        assert!(texts(11).is_empty());
        assert!(feed.tail_after(EventSeq(2), 0).is_none());
    }
}
