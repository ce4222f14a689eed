//! `cargo xtask bench journal`: the journal beside what the disk, the kernel and the parser can do.
//!
//! Ours and the bare way take turns in short slices on the same disk, so that a noisy neighbour
//! meets both.

mod appends;
mod counted;
mod large;
mod replay;

use std::path::Path;

use domain::clock::Timestamp;
use domain::event::{AssistantMessage, SessionCreated, Text, ToolResult, ToolStatus};
use domain::{CallId, Event, MessageId, PrincipalId, SessionId};
use journal::{FileStore, StoreError, Writer};

pub(crate) use large::{WEIGH, weigh};

use super::{Group, because};
use crate::Failure;

/// What is measured, by the name that `--only` looks at.
pub(super) const GROUPS: &[(&str, Group)] = &[
    ("appends", appends::measure),
    ("group commit", appends::measure_shared),
    ("streamed text", appends::measure_text),
    ("replay", replay::measure),
    ("large", large::measure),
];

/// Where the sessions that are made here believe themselves to be.
pub(super) const CWD: &str = "/srv/project";

/// Makes a session with its first event.
fn new_session(store: &FileStore) -> Result<Writer, Failure> {
    let created = SessionCreated {
        owner: PrincipalId::local(),
        cwd: CWD.to_owned(),
        epoch: 0,
        additional_directories: Vec::new(),
        real_directories: Vec::new(),
    };
    let made = store.create(SessionId::random(), vec![created.into()], Timestamp::now());
    made.map(|(writer, _)| writer).map_err(failed)
}

/// An event as most are: a few words about something that happened.
fn short_event(number: u64) -> Event {
    ToolResult {
        call_id: CallId::new(format!("call-{number}")),
        status: ToolStatus::Completed,
        text: "Finished `dev` profile in 1.03s\nrunning 12 tests, 12 passed, 0 failed".to_owned(),
        blocks: Vec::new(),
        locations: Vec::new(),
    }
    .into()
}

/// An event of about 1 KB: a paragraph of an answer, with quotes, line breaks and accents.
fn long_event(number: u64) -> Event {
    let sentence = "The “parser” reads one line, checks it & keeps naïve input out:\n\t\"ok\". ";
    AssistantMessage {
        message_id: MessageId::new(format!("message-{number}")),
        text: Text::Inline(sentence.repeat(12)),
        partial: false,
    }
    .into()
}

/// A failure of the journal, as a sentence.
fn failed(error: StoreError) -> Failure {
    because("the journal failed")(error)
}

/// Writes a session of `events` events that belongs to the person at this machine; gives its id.
pub(super) fn write_session(data: &Path, events: u64) -> Result<String, Failure> {
    let store = FileStore::open(data).map_err(failed)?;
    let (id, _) = replay::generate(&store, data, events)?;
    Ok(id.to_string())
}
