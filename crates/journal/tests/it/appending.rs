//! What is appended comes back: order, Unicode, long strings, unknown events, the meta.

use std::sync::Mutex;

use domain::clock::Timestamp;
use domain::event::{AssistantMessage, SessionUpdated, Text, ToolResult, ToolStatus, UserMessage};
use domain::limits::BLOB_BYTES_MIN;
use domain::{CallId, Event, EventSeq, MessageId, PrincipalId};
use journal::{Entry, StoreError};
use serde_json::json;

use crate::world::{NOW, World, created, entries, notice, texts, unknown};

#[test]
fn what_was_appended_is_read_back_by_readers_and_by_the_next_writer() {
    let (world, mut writer) = World::with(vec![notice("one")]);
    let stored = writer
        .append(entries([notice("two"), notice("three")]), Timestamp(5.25))
        .unwrap();
    assert_eq!(stored[1].seq, EventSeq(4));
    assert_eq!(stored[1].ts, Timestamp(5.25));
    assert_eq!(writer.head(), EventSeq(4));
    let read = world.read_all();
    assert_eq!(read[2..], stored);
    drop(writer);
    let (writer, recovery, seen) = world.open().unwrap();
    assert_eq!(recovery, journal::Recovery::default());
    assert_eq!(writer.head(), EventSeq(4));
    assert_eq!(texts(&read), ["session.created", "one", "two", "three"]);
    assert!(seen.iter().eq(read.iter().map(|stored| &**stored)));
}

#[test]
fn c_01_eight_threads_of_fifty_appends_leave_no_gap_and_no_repeat() {
    let (world, writer) = World::with(Vec::new());
    let writer = Mutex::new(writer);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let writer = &writer;
            scope.spawn(move || {
                for n in 0..50 {
                    let entry = entries([notice(&format!("{thread}.{n}"))]);
                    writer.lock().unwrap().append(entry, NOW).unwrap();
                }
            });
        }
    });
    let numbers: Vec<u64> = world.read_all().iter().map(|stored| stored.seq.0).collect();
    assert_eq!(numbers, (1..=401).collect::<Vec<_>>());
}

#[test]
fn c_06_any_unicode_comes_back_and_every_line_stays_one_line() {
    let hostile =
        "a\u{2028}b\u{2029}c\u{85}d\0e\u{7f}f\u{9f}g😀\r\n\t\"\\\u{feff}\u{10ffff}\u{e000}é";
    let events = vec![
        notice(hostile),
        unknown(
            "k\u{2028}\"\\",
            json!({hostile: [hostile, {"$blob": hostile}]}),
        ),
    ];
    let (world, _writer) = World::with(events.clone());
    let read = world.read_all();
    assert_eq!([&read[1].event, &read[2].event], [&events[0], &events[1]]);
    let log = world.log();
    assert_eq!(log.lines().count(), 3);
    assert_eq!(log.matches('\n').count(), 3);
    let breaks = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'));
    assert!(!log.contains(breaks));
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn strings_over_the_limit_stand_once_in_a_blob_and_are_read_back_in_place() {
    let long = "é\u{2028}\"$blob\"".repeat(BLOB_BYTES_MIN / 8);
    let just_fits = "x".repeat(BLOB_BYTES_MIN);
    let event: Event = UserMessage {
        text: long.clone(),
        blocks: vec![
            json!({"type": "text", "text": long}),
            json!({"$blob": "real", "t": just_fits}),
        ],
        message_id: None,
        prompt_id: None,
    }
    .into();
    let (world, mut writer) = World::with(Vec::new());
    writer.append(entries([event.clone()]), NOW).unwrap();
    let result: Event = ToolResult {
        call_id: CallId::new("c"),
        status: ToolStatus::Completed,
        text: long,
        blocks: Vec::new(),
        locations: Vec::new(),
    }
    .into();
    writer.append(entries([result.clone()]), NOW).unwrap();
    let read = world.read_all();
    assert_eq!(read[1].event, event);
    assert_eq!(read[2].event, result);
    assert!(world.log().len() < 2 * BLOB_BYTES_MIN);
    assert_eq!(std::fs::read_dir(world.path("blobs")).unwrap().count(), 1);
}

#[test]
fn a_missing_or_wrong_blob_is_damage_at_its_event() {
    let long = "x".repeat(BLOB_BYTES_MIN + 1);
    let (world, writer) = World::with(vec![notice("before"), notice(&long), notice("after")]);
    drop(writer);
    let blob = std::fs::read_dir(world.path("blobs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let name = format!("blobs/{}", blob.file_name().to_str().unwrap());
    let damaged = |world: &World| {
        let opened = world.open().err().unwrap();
        assert!(
            matches!(opened, StoreError::Damaged { at: EventSeq(3) }),
            "{opened}"
        );
        assert_eq!(texts(&world.read_all()), ["session.created", "before"]);
    };
    world.put(&name, long.replace('x', "y"));
    damaged(&world);
    std::fs::remove_file(blob.path()).unwrap();
    damaged(&world);
}

#[test]
fn the_text_of_a_finished_message_stays_a_name_and_is_read_in_slices() {
    let long = "żółw ".repeat(BLOB_BYTES_MIN / 4);
    let event = AssistantMessage {
        message_id: MessageId::new("m"),
        text: Text::Inline(long.clone()),
        partial: false,
    };
    let (world, mut writer) = World::with(Vec::new());
    let stored = writer.append(entries([event.into()]), NOW).unwrap();
    let read = world.read_all();
    assert_eq!(read[1], stored[0]);
    let Event::AssistantMessage(message) = &read[1].event else {
        panic!("a message")
    };
    let (reader, mut whole) = (world.reader(), String::new());
    loop {
        let piece = reader
            .read_text(&message.text, whole.len() as u64, 10_001)
            .unwrap();
        assert!(piece.len() <= 10_001);
        if piece.is_empty() {
            break;
        }
        whole.push_str(&piece);
    }
    assert_eq!(whole, long);
    let inside = reader.read_text(&message.text, 1, 10);
    assert!(matches!(inside, Err(StoreError::InsideCharacter)));
    let elsewhere = Text::Blob {
        sha256: "../../events.jsonl".into(),
    };
    assert!(matches!(
        reader.read_text(&elsewhere, 0, 9),
        Err(StoreError::DamagedText)
    ));
}

#[test]
fn slices_of_a_text_are_cut_at_characters_and_refused_inside_one() {
    let (world, _writer) = World::with(Vec::new());
    let reader = world.reader();
    let text = Text::Inline("aż😀".into());
    let slice = |offset, max| reader.read_text(&text, offset, max);
    assert_eq!(slice(0, 2).unwrap(), "a");
    assert_eq!(slice(0, 3).unwrap(), "aż");
    assert_eq!(slice(3, 1).unwrap(), "😀");
    assert_eq!(slice(7, 9).unwrap(), "");
    assert_eq!(slice(u64::MAX, 9).unwrap(), "");
    assert!(matches!(slice(2, 9), Err(StoreError::InsideCharacter)));
}

#[test]
fn unknown_events_survive_a_read_and_a_write() {
    let event = unknown(
        "future.thing",
        json!({"z": 1, "a": {"deep": [1.5, null]}, "text": "t"}),
    );
    let (world, _writer) = World::with(vec![event]);
    let copy = World::new();
    let events = world
        .read_all()
        .iter()
        .map(|stored| stored.event.clone())
        .collect();
    let (_copied, _) = copy.store.create(copy.id, events, NOW).unwrap();
    assert_eq!(copy.log(), world.log());
}

#[test]
fn the_meta_is_the_same_from_the_cache_the_events_and_the_writer() {
    let (world, mut writer) = World::with(Vec::new());
    let update = |title: &str, archived| {
        entries([SessionUpdated {
            title: Some(title.into()),
            config: None,
            archived,
        }
        .into()])
    };
    writer
        .append(update("first", None), Timestamp(1_800_000_000.0))
        .unwrap();
    writer.save_meta().unwrap();
    assert_eq!(&world.store.meta(world.id).unwrap(), writer.meta());
    // Events after the cache was written are taken into account.
    writer
        .append(update("second", Some(true)), Timestamp(1_900_000_000.0))
        .unwrap();
    let meta = world.store.meta(world.id).unwrap();
    assert_eq!(&meta, writer.meta());
    assert_eq!(meta.title.as_deref(), Some("second"));
    assert_eq!(meta.owner, PrincipalId::new("ann"));
    assert_eq!(
        (meta.created_at, meta.updated_at),
        (NOW, Timestamp(1_900_000_000.0))
    );
    assert_eq!((meta.head, meta.archived), (EventSeq(3), true));
    std::fs::remove_file(world.path("meta.json")).unwrap();
    assert_eq!(world.store.meta(world.id).unwrap(), meta);
    world.put("meta.json", "{\"id\":\"nonsense");
    assert_eq!(world.store.meta(world.id).unwrap(), meta);
    drop(writer);
    assert_eq!(world.open().unwrap().0.meta(), &meta);
}

#[test]
fn a_batch_that_cannot_be_stored_whole_changes_nothing() {
    let (world, mut writer) = World::with(Vec::new());
    let before = world.log();
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let refused = writer.append(
        entries([notice("x"), unknown("d", json!({"v": deep}))]),
        NOW,
    );
    assert!(matches!(refused, Err(StoreError::TooLarge)));
    let refused = writer.append(
        vec![
            Entry::Event(notice("x")),
            Entry::EndMessage { partial: false },
        ],
        NOW,
    );
    assert!(matches!(refused, Err(StoreError::NoMessage)));
    assert_eq!(world.log(), before);
    writer.append(entries([notice("y")]), NOW).unwrap();
    assert_eq!(texts(&world.read_all()), ["session.created", "y"]);
}

#[test]
fn a_name_is_used_once_even_after_the_session_is_deleted() {
    let (world, writer) = World::with(Vec::new());
    let again = || world.store.create(world.id, vec![created()], NOW).err();
    assert!(matches!(again(), Some(StoreError::Exists)));
    drop(writer);
    assert_eq!(world.store.list().unwrap(), [world.id]);
    world.store.delete(world.id).unwrap();
    assert!(!world.store.exists(world.id));
    assert_eq!(world.store.list().unwrap(), []);
    assert!(matches!(again(), Some(StoreError::Exists)));
    assert!(matches!(
        world.store.delete(world.id),
        Err(StoreError::NotFound)
    ));
    assert!(matches!(
        world.store.reader(world.id).err(),
        Some(StoreError::NotFound)
    ));
}

#[test]
fn a_deletion_and_a_creation_cut_short_are_finished_when_the_store_is_opened() {
    let (world, writer) = World::with(vec![notice(&"x".repeat(BLOB_BYTES_MIN + 1))]);
    drop(writer);
    let sessions = world.dir.path().join("sessions");
    let tomb = sessions.join(format!("{}.deleted", world.id));
    std::fs::rename(world.path(""), &tomb).unwrap();
    let unborn = sessions.join(".new-0123");
    std::fs::create_dir(&unborn).unwrap();
    std::fs::copy(tomb.join("lock"), unborn.join("lock")).unwrap();
    let store = journal::FileStore::open(world.dir.path()).unwrap();
    assert!(!tomb.exists() && !unborn.exists());
    assert!(matches!(
        store.create(world.id, vec![created()], NOW).err(),
        Some(StoreError::Exists)
    ));
}

#[test]
fn a_reader_pages_through_events_by_count_and_by_size() {
    let (world, _writer) = World::with((0..500).map(|n| notice(&n.to_string())).collect());
    let mut reader = world.reader();
    let mut page = |after: u64, up_to: u64, events, bytes| -> Vec<u64> {
        let read = reader
            .read_after(EventSeq(after), EventSeq(up_to), events, bytes)
            .unwrap();
        read.iter().map(|stored| stored.seq.0).collect()
    };
    assert_eq!(page(0, 501, 3, 9_999), [1, 2, 3]);
    assert_eq!(page(3, 501, 2, 9_999), [4, 5]);
    assert_eq!(page(400, 402, 9, 9_999), [401, 402]);
    assert_eq!(page(10, 501, 9, 1), [11]);
    assert_eq!(page(10, 501, 9, 300).len(), 3);
    assert!(page(501, 900, 9, 300).is_empty());
    assert!(page(900, 4, 9, 300).is_empty());
    assert!(page(u64::MAX, u64::MAX, 9, 300).is_empty());
    assert_eq!(reader.head().unwrap(), EventSeq(501));
}

#[test]
fn a_reader_finds_any_event_of_a_long_log_without_reading_all_of_it() {
    let filler = "x".repeat(2_000);
    let (world, writer) = World::with(
        (2..=3_000)
            .map(|n| notice(&format!("{n} {filler}")))
            .collect(),
    );
    for after in [2_998, 0, 1_500, 1_499, 2_000, 17, 2_999, 1] {
        let read = world
            .reader()
            .read_after(EventSeq(after), EventSeq(3_000), 1, 1)
            .unwrap();
        assert_eq!(read[0].seq, EventSeq(after + 1));
    }
    drop(writer);
    let (_writer, _, seen) = world.open().unwrap();
    assert_eq!(seen.len(), 3_000);
    assert_eq!(seen[2_999].seq, EventSeq(3_000));
}
