//! The message being streamed: pushed, read beside the writer, ended short or long.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::event::{MessageKind, Text};
use domain::limits::BLOB_BYTES_MIN;
use domain::{Event, EventSeq};
use journal::{Entry, StoreError};

use crate::world::{NOW, World, entries, message, notice, texts};

const END: Entry = Entry::EndMessage { partial: false };

#[test]
fn a_streamed_message_is_in_partial_and_then_in_its_event() {
    let (world, mut writer) = World::with(Vec::new());
    let started = writer
        .start_message(message("m", MessageKind::Text), NOW)
        .unwrap();
    assert_eq!(started.seq, EventSeq(2));
    assert_eq!(writer.push_text("Hel").unwrap(), 3);
    assert_eq!(writer.push_text("lo é").unwrap(), 8);
    assert_eq!(writer.open_message(), Some((EventSeq(2), 8)));
    // The line, then a frame for each piece.
    let written = world.bytes("partial");
    assert!(written.starts_with(b"{\"seq\":2,\"crc32c\":\""));
    assert_eq!(written.len(), 30 + 12 + 3 + 12 + 5);
    let mut reader = world.reader();
    let mut read = |seq, offset, max| reader.read_partial(EventSeq(seq), offset, max).unwrap();
    assert_eq!(read(2, 3, 99).as_deref(), Some("lo é"));
    assert_eq!(read(2, 3, 4).as_deref(), Some("lo "));
    assert_eq!(read(2, 8, 4).as_deref(), Some(""));
    assert_eq!(read(3, 0, 4), None);
    writer.append(entries([notice("meanwhile")]), NOW).unwrap();
    writer
        .append(vec![END, Entry::Event(notice("next"))], NOW)
        .unwrap();
    assert_eq!(read(2, 0, 9), None);
    assert_eq!(world.bytes("partial"), b"");
    assert_eq!(
        texts(&world.read_all()),
        [
            "session.created",
            "message.started",
            "meanwhile",
            "Hello é",
            "next"
        ]
    );
}

#[test]
fn at_most_one_message_is_open() {
    let (_world, mut writer) = World::with(Vec::new());
    assert!(matches!(writer.push_text("x"), Err(StoreError::NoMessage)));
    let bare = entries([message("m", MessageKind::Text).into()]);
    assert!(matches!(
        writer.append(bare, NOW),
        Err(StoreError::StartedBare)
    ));
    writer
        .start_message(message("m", MessageKind::Thought), NOW)
        .unwrap();
    let second = writer.start_message(message("n", MessageKind::Text), NOW);
    assert!(matches!(second, Err(StoreError::MessageOpen)));
    writer.push_text("hm").unwrap();
    let ended = writer.append(vec![END], NOW).unwrap();
    assert_eq!(texts(&ended), ["thought hm"]);
    assert!(matches!(
        writer.append(vec![END], NOW),
        Err(StoreError::NoMessage)
    ));
    writer
        .start_message(message("n", MessageKind::Text), NOW)
        .unwrap();
}

#[test]
fn a_message_that_is_whole_is_started_and_ended_with_one_append() {
    let (world, mut writer) = World::with(Vec::new());
    let whole = |started: &str, ended: &str| {
        let text = Text::Inline("all of it".into());
        let end = message(ended, MessageKind::Text).ended(text, false);
        entries([message(started, MessageKind::Text).into(), end])
    };
    let stored = writer.append(whole("m", "m"), NOW).unwrap();
    assert_eq!(texts(&stored), ["message.started", "all of it"]);
    assert_eq!(writer.open_message(), None);
    assert_eq!(world.read_all()[1..], stored);
    assert!(matches!(
        writer.append(whole("m", "another"), NOW),
        Err(StoreError::StartedBare)
    ));
    writer
        .start_message(message("n", MessageKind::Text), NOW)
        .unwrap();
    assert!(matches!(
        writer.append(whole("o", "o"), NOW),
        Err(StoreError::MessageOpen)
    ));
    writer.push_text("goes on").unwrap();
    let ended = writer.append(vec![END], NOW).unwrap();
    assert_eq!(texts(&ended), ["goes on"]);
}

#[test]
fn a_long_streamed_message_becomes_a_blob_and_reads_back_in_slices() {
    let (world, mut writer) = World::with(Vec::new());
    writer
        .start_message(message("m", MessageKind::Text), NOW)
        .unwrap();
    let piece = "Grüße, 世界! ".repeat(50);
    let mut whole = String::new();
    while whole.len() <= BLOB_BYTES_MIN {
        writer.push_text(&piece).unwrap();
        whole.push_str(&piece);
    }
    let ended = writer.append(vec![END], NOW).unwrap();
    let Event::AssistantMessage(ended) = &ended[0].event else {
        panic!("a message")
    };
    assert!(matches!(ended.text, Text::Blob { .. }));
    let (reader, mut read) = (world.reader(), String::new());
    while read.len() < whole.len() {
        read += &reader
            .read_text(&ended.text, read.len() as u64, 50_000)
            .unwrap();
    }
    assert_eq!(read, whole);
    drop(writer);
    let (_writer, _, seen) = world.open().unwrap();
    assert_eq!(seen[2].event, ended.clone().into());
}

#[test]
fn what_is_not_synced_is_handed_out_once() {
    let (_world, mut writer) = World::with(Vec::new());
    assert!(writer.unsynced().is_none());
    writer
        .start_message(message("m", MessageKind::Text), NOW)
        .unwrap();
    writer.unsynced().unwrap().run().unwrap();
    assert!(writer.unsynced().is_none());
    writer.push_text("x").unwrap();
    let job = writer.unsynced().unwrap();
    let running = std::thread::spawn(move || job.run());
    writer.push_text("y").unwrap();
    running.join().unwrap().unwrap();
    writer.unsynced().unwrap().run().unwrap();
    writer.append(vec![END], NOW).unwrap();
    assert!(writer.unsynced().is_none());
}

#[test]
fn a_fenced_writer_refuses_everything_and_the_session_opens_anew() {
    let (world, mut writer) = World::with(Vec::new());
    writer
        .start_message(message("m", MessageKind::Text), NOW)
        .unwrap();
    writer.push_text("kept").unwrap();
    writer.fence();
    assert!(matches!(writer.push_text("x"), Err(StoreError::Fenced)));
    assert!(matches!(
        writer.append(vec![END], NOW),
        Err(StoreError::Fenced)
    ));
    assert!(matches!(writer.save_meta(), Err(StoreError::Fenced)));
    assert!(writer.unsynced().is_none());
    drop(writer);
    let (_writer, recovery, _) = world.open().unwrap();
    assert_eq!(recovery.ended_message, Some(EventSeq(2)));
    assert_eq!(texts(&world.read_all())[2], "kept…");
}

/// Tells the readers that all is written, also when the writer panics.
struct Ended<'a>(&'a AtomicU64);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, Ordering::Release);
    }
}

/// The text of the message that event `seq` opens: readable from any place that it was cut at.
fn story(seq: u64) -> String {
    format!("⟨{seq}⟩").repeat(40)
}

#[test]
fn a_reader_beside_a_writer_never_mixes_messages_and_sees_only_whole_events() {
    const MESSAGES: u64 = 200;
    let (world, mut writer) = World::with(Vec::new());
    let head = AtomicU64::new(1);
    std::thread::scope(|scope| {
        let (world, head) = (&world, &head);
        for _ in 0..2 {
            scope.spawn(move || {
                let (mut reader, mut after) = (world.reader(), EventSeq(0));
                while after.0 < 1 + 2 * MESSAGES {
                    let up_to = EventSeq(head.load(Ordering::Acquire));
                    let read = reader
                        .read_after(after, EventSeq(u64::MAX), 7, 4_096)
                        .unwrap();
                    assert!(!read.is_empty() || after >= up_to, "an event is missing");
                    for stored in read {
                        assert_eq!(stored.seq, after.next());
                        after = stored.seq;
                    }
                    for seq in [after.0, after.0 + 1] {
                        for (offset, max) in [(0, 10_000), (0, 7)] {
                            let text = reader.read_partial(EventSeq(seq), offset, max).unwrap();
                            assert!(story(seq).starts_with(&text.unwrap_or_default()));
                        }
                    }
                }
            });
        }
        let _ended = Ended(head);
        for _ in 0..MESSAGES {
            let started = writer
                .start_message(message("m", MessageKind::Text), NOW)
                .unwrap();
            let text = story(started.seq.0);
            let (mut rest, mut len) = (&*text, 1);
            while !rest.is_empty() {
                let first = rest.chars().next().map_or(0, char::len_utf8);
                let cut = rest.floor_char_boundary(len).max(first);
                writer.push_text(&rest[..cut]).unwrap();
                rest = &rest[cut..];
                len = len * 2 + 1;
            }
            let ended = writer.append(vec![END], NOW).unwrap();
            head.store(ended[0].seq.0, Ordering::Release);
        }
    });
}
