//! Sessions as version 1 of the format stores them, written by another program than ours and never
//! changed again: whatever later versions do, they read these.

use std::path::Path;

use domain::clock::Timestamp;
use domain::event::{Text, UserMessage};
use domain::{Event, EventSeq, PrincipalId, SessionId};
use journal::{FileStore, StoreError};

use crate::world::{NOW, World, entries, notice, texts};

const BLOB: &str = "a long text, kept in a file of its own: żółw 😀";

/// A copy of golden session `digit`, which the story may change.
fn golden(digit: &str) -> World {
    let world = World::new();
    let id: SessionId = digit.repeat(32).parse().unwrap();
    let world = World { id, ..world };
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{id}"));
    copy(&from, &world.path(""));
    world
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn every_event_of_version_1_is_understood_and_written_again_the_same() {
    let world = golden("1");
    let read = world.read_all();
    assert_eq!(read.len(), 27);
    let (known, unknown) = read.split_at(26);
    let is_unknown = |event: &Event| matches!(event, Event::Unknown(_));
    assert!(!known.iter().any(|stored| is_unknown(&stored.event)));
    assert!(unknown.iter().all(|stored| is_unknown(&stored.event)));
    let again = World::new();
    let events = read.iter().map(|stored| stored.event.clone()).collect();
    let ts = Timestamp(1_700_000_000.25);
    again.store.create(again.id, events, ts).unwrap();
    assert_eq!(again.log(), world.log());
    let meta = world.store.meta(world.id).unwrap();
    assert_eq!((meta.owner.as_str(), meta.epoch), ("bob", 1));
    assert_eq!(meta.title.as_deref(), Some("A title"));
    let (_writer, recovery, seen) = world.open().unwrap();
    assert_eq!((recovery, seen.len()), (journal::Recovery::default(), 27));
}

#[test]
fn long_strings_unknown_fields_batches_and_an_open_message_of_version_1_are_read() {
    let world = golden("2");
    let verified = world.store.verify(world.id).unwrap();
    assert_eq!((verified.events, verified.blobs), (6, 3));
    assert_eq!(verified.damaged_at, None);
    let read = world.read_all();
    let Event::UserMessage(UserMessage { text, blocks, .. }) = &read[1].event else {
        panic!("a prompt")
    };
    assert_eq!(text, BLOB);
    assert_eq!(blocks[0]["text"], BLOB);
    assert_eq!(blocks[1]["$blob"], "real");
    let Event::AssistantMessage(message) = &read[3].event else {
        panic!("a message")
    };
    let reader = world.reader();
    assert_eq!(reader.read_text(&message.text, 0, 999).unwrap(), BLOB);
    let Event::Unknown(later) = &read[4].event else {
        panic!("an unknown event")
    };
    assert_eq!(
        serde_json::Value::from(later.fields.clone()),
        serde_json::json!({"a": 1})
    );
    let (to, owner) = (SessionId::random(), PrincipalId::new("bob"));
    world
        .store
        .fork(world.id, EventSeq(1), to, &owner, NOW)
        .unwrap();
    let forked = world.dir.path().join(format!("sessions/{to}/events.jsonl"));
    let forked = std::fs::read_to_string(forked).unwrap();
    assert_eq!(forked.lines().next(), world.log().lines().next());
    let (mut writer, recovery, seen) = world.open().unwrap();
    assert_eq!(recovery.ended_message, Some(EventSeq(6)));
    let Some(Event::AssistantMessage(ended)) = seen.last().map(|stored| &stored.event) else {
        panic!("a message")
    };
    assert_eq!(ended.text, Text::Inline("as far as it gót".into()));
    writer.append(entries([notice("goes on")]), NOW).unwrap();
}

#[test]
fn f_17_the_older_layout_without_checksums_is_read_and_continued() {
    let world = golden("3");
    let wanted = ["user.message", "assistant.delta", "assistant.message"];
    assert_eq!(texts(&world.read_all()), wanted);
    let (mut writer, recovery, _) = world.open().unwrap();
    assert_eq!(recovery, journal::Recovery::default());
    writer.append(entries([notice("ours")]), NOW).unwrap();
    drop(writer);
    assert_eq!(world.open().unwrap().2.len(), 4);
}

#[test]
fn f_17_a_later_format_is_refused_politely_and_left_alone() {
    let world = golden("4");
    let log = world.bytes("events.jsonl");
    let refused = |error: Option<StoreError>| {
        let error = error.unwrap();
        assert!(
            matches!(error, StoreError::NewerFormat { format: 2 }),
            "{error}"
        );
    };
    refused(world.open().err());
    refused(world.store.meta(world.id).err());
    refused(world.store.verify(world.id).err());
    let all = |mut reader: journal::Reader| reader.read_after(EventSeq(0), EventSeq(9), 9, 999);
    refused(all(world.reader()).err());
    let to = SessionId::random();
    let owner = PrincipalId::local();
    refused(
        world
            .store
            .fork(world.id, EventSeq(1), to, &owner, NOW)
            .err(),
    );
    assert_eq!(world.bytes("events.jsonl"), log);
    // Others in the same place are served.
    let other = FileStore::open(world.dir.path()).unwrap();
    other
        .create(SessionId::random(), vec![notice("x")], NOW)
        .unwrap();
}
