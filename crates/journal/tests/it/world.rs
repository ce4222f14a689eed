//! A store in a temporary directory, and short words for what the stories need.

use std::path::PathBuf;
use std::sync::Arc;

use domain::clock::Timestamp;
use domain::event::{
    MessageKind, MessageStarted, Notice, SessionCreated, Text, TurnStarted, Unknown,
};
use domain::{Event, EventSeq, MessageId, PrincipalId, SessionId, TurnId};
use journal::{Entry, FileStore, Reader, Recovery, StoreError, Stored, Writer};

pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000.5);

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: FileStore,
    pub(crate) id: SessionId,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            store: FileStore::open(dir.path()).unwrap(),
            dir,
            id: SessionId::random(),
        }
    }

    /// A session of these events after its `session.created`.
    pub(crate) fn with(events: Vec<Event>) -> (Self, Writer) {
        let world = Self::new();
        let mut first = vec![created()];
        first.extend(events);
        let (writer, _) = world.store.create(world.id, first, NOW).unwrap();
        (world, writer)
    }

    /// A session whose log is exactly these bytes, as another tool left it.
    pub(crate) fn with_log(log: impl AsRef<[u8]>) -> Self {
        let world = Self::new();
        std::fs::create_dir(world.path("")).unwrap();
        world.put("events.jsonl", log);
        world
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        let session = self.dir.path().join("sessions").join(self.id.to_string());
        match file {
            "" => session,
            file => session.join(file),
        }
    }

    pub(crate) fn bytes(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.path(file)).unwrap()
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8(self.bytes("events.jsonl")).unwrap()
    }

    pub(crate) fn put(&self, file: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(file), bytes).unwrap();
    }

    /// Makes the session look as if the machine was started anew since.
    pub(crate) fn reboot(&self) {
        self.put("lock", "{\"pid\":1,\"bootId\":\"another\"}");
    }

    pub(crate) fn open(&self) -> Result<(Writer, Recovery, Vec<Stored>), StoreError> {
        let mut seen = Vec::new();
        let mut visit = |stored: &Stored| seen.push(stored.clone());
        let (writer, recovery) = self.store.open_session(self.id, NOW, &mut visit)?;
        Ok((writer, recovery, seen))
    }

    pub(crate) fn reader(&self) -> Reader {
        self.store.reader(self.id).unwrap()
    }

    /// Everything a fresh reader finds.
    pub(crate) fn read_all(&self) -> Vec<Arc<Stored>> {
        self.reader()
            .read_after(EventSeq(0), EventSeq(u64::MAX), usize::MAX, usize::MAX)
            .unwrap()
    }
}

pub(crate) fn created() -> Event {
    SessionCreated {
        owner: PrincipalId::new("ann"),
        cwd: "/home/ann".into(),
        epoch: 0,
        additional_directories: Vec::new(),
        real_directories: Vec::new(),
    }
    .into()
}

pub(crate) fn notice(text: &str) -> Event {
    Notice {
        kind: "test".into(),
        message_id: None,
        text: text.into(),
    }
    .into()
}

pub(crate) fn turn_started() -> Event {
    TurnStarted {
        turn: TurnId(1),
        prompt_id: None,
        queued: None,
    }
    .into()
}

pub(crate) fn message(id: &str, kind: MessageKind) -> MessageStarted {
    MessageStarted {
        message_id: MessageId::new(id),
        kind,
    }
}

pub(crate) fn unknown(kind: &str, fields: serde_json::Value) -> Event {
    let serde_json::Value::Object(fields) = fields else {
        panic!("an object")
    };
    Event::Unknown(Unknown {
        kind: kind.into(),
        fields,
    })
}

/// One entry per event.
pub(crate) fn entries(events: impl IntoIterator<Item = Event>) -> Vec<Entry> {
    events.into_iter().map(Entry::Event).collect()
}

/// The text of a notice or of a finished message that stands inline; else the event's type.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the rest is told by its type"
)]
pub(crate) fn text(stored: &Stored) -> String {
    match &stored.event {
        Event::Notice(notice) => notice.text.clone(),
        Event::AssistantMessage(message) => inline(&message.text, message.partial),
        Event::AssistantThought(thought) => {
            "thought ".to_owned() + &inline(&thought.text, thought.partial)
        }
        Event::SessionRecovered(r) => format!("recovered {} from {}", r.epoch, r.from),
        other => other.kind().to_owned(),
    }
}

fn inline(text: &Text, partial: bool) -> String {
    let cut = if partial { "…" } else { "" };
    match text {
        Text::Inline(text) => format!("{text}{cut}"),
        Text::Blob { .. } => format!("a blob{cut}"),
    }
}

pub(crate) fn texts<S: AsRef<Stored>>(stored: &[S]) -> Vec<String> {
    stored.iter().map(|stored| text(stored.as_ref())).collect()
}

/// `Stored` and `Arc<Stored>` alike.
pub(crate) fn arcs(stored: Vec<Stored>) -> Vec<Arc<Stored>> {
    stored.into_iter().map(Arc::new).collect()
}
