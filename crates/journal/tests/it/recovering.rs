//! What opening makes of a session that was cut short: torn ends, open messages, epochs.

use domain::event::{MessageKind, TurnInterrupted};
use domain::limits::BLOB_BYTES_MIN;
use domain::{EventSeq, TurnId};
use journal::Entry;

use crate::world::{NOW, World, entries, message, notice, text, texts, turn_started};

#[test]
fn c_06_f_04_a_last_record_cut_at_any_byte_is_cut_back_and_kept() {
    let (whole, writer) = World::with(vec![notice("kept"), notice("the last é\u{2028}")]);
    drop(writer);
    let log = whole.bytes("events.jsonl");
    let start = log[..log.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    for cut in start + 1..log.len() {
        let world = World::with_log(&log[..cut]);
        assert_eq!(texts(&world.read_all()), ["session.created", "kept"]);
        let (mut writer, recovery, seen) = world.open().unwrap();
        assert_eq!(recovery.cut_bytes, (cut - start) as u64);
        assert_eq!(world.bytes("events.torn"), &log[start..cut]);
        assert_eq!(recovery.void_from, Some(EventSeq(3)));
        assert_eq!(text(&seen[2]), "recovered 1 from 3");
        assert_eq!(seen[2].seq, EventSeq(3));
        writer.append(entries([notice("goes on")]), NOW).unwrap();
        assert_eq!(world.reader().head().unwrap(), EventSeq(4));
    }
}

#[test]
fn c_06_f_06_a_tail_of_zeros_or_a_last_record_that_does_not_match_is_torn() {
    let (whole, writer) = World::with(vec![notice("kept"), notice("last")]);
    drop(writer);
    let log = whole.bytes("events.jsonl");
    let zeros = [&*log, &[0; 4096]].concat();
    let mut half_zero = log.clone();
    let len = log.len();
    half_zero[len - 30..].fill(0);
    half_zero.extend([0; 70_000]);
    let mut wrong = log.clone();
    wrong[len - 40] ^= 1;
    for (bytes, kept) in [(zeros, 3), (half_zero, 2), (wrong, 2)] {
        let world = World::with_log(bytes);
        let (writer, recovery, seen) = world.open().unwrap();
        assert!(recovery.cut_bytes > 0);
        assert_eq!(seen.len(), kept + 1);
        assert_eq!(text(&seen[kept]), format!("recovered 1 from {}", kept + 1));
        drop(writer);
        let (writer, recovery, _) = world.open().unwrap();
        assert_eq!(
            (recovery, writer.epoch()),
            (journal::Recovery::default(), 1)
        );
    }
}

/// A session in whose message `kind` these bytes stand in `partial`, as earlier versions wrote it.
fn streaming(kind: MessageKind, partial: &[u8]) -> World {
    let (world, mut writer) = World::with(vec![turn_started()]);
    writer.start_message(message("m", kind), NOW).unwrap();
    drop(writer);
    world.put("partial", partial);
    world
}

#[test]
fn an_open_message_is_ended_as_far_as_it_got() {
    let header = b"{\"seq\":3}\n";
    for (kind, raw, ended) in [
        (MessageKind::Text, &b"Hello"[..], "Hello…"),
        (MessageKind::Thought, b"hm", "thought hm…"),
        (MessageKind::Text, b"", "…"),
        (MessageKind::Text, "caf\u{e9}".as_bytes(), "café…"),
        (MessageKind::Text, &"caf\u{e9}".as_bytes()[..4], "caf…"),
        (MessageKind::Text, &"a😀".as_bytes()[..4], "a…"),
    ] {
        let world = streaming(kind, &[header, raw].concat());
        let (writer, recovery, seen) = world.open().unwrap();
        assert_eq!(recovery.ended_message, Some(EventSeq(3)));
        // The process died, the machine did not: nothing shown was lost.
        assert_eq!((recovery.void_from, writer.epoch()), (None, 0));
        assert_eq!(text(&seen[3]), ended);
        assert_eq!(world.bytes("partial"), b"");
        assert_eq!(writer.open_message(), None);
        drop(writer);
        assert_eq!(world.open().unwrap().2.len(), 4);
    }
}

#[test]
fn a_partial_without_its_header_or_of_another_message_gives_an_empty_text() {
    for (partial, void_from) in [
        (&b""[..], None),
        (b"{\"seq\":3", None),
        (b"{\"seq\":2}\nold", None),
        // There was text that clients may have seen.
        (b"no header\nat all", Some(EventSeq(3))),
    ] {
        let world = streaming(MessageKind::Text, partial);
        let (_writer, recovery, seen) = world.open().unwrap();
        assert_eq!(text(seen.last().unwrap()), "…");
        assert_eq!(recovery.void_from, void_from);
    }
}

#[test]
fn the_partial_of_a_message_that_ended_is_dropped() {
    let (world, mut writer) = World::with(vec![turn_started()]);
    writer
        .start_message(message("m", MessageKind::Text), NOW)
        .unwrap();
    writer.push_text("whole").unwrap();
    let before = world.bytes("partial");
    writer
        .append(vec![Entry::EndMessage { partial: false }], NOW)
        .unwrap();
    drop(writer);
    world.put("partial", before);
    let (_writer, recovery, seen) = world.open().unwrap();
    assert_eq!(recovery, journal::Recovery::default());
    assert_eq!(texts(&crate::world::arcs(seen))[3], "whole");
    assert_eq!(world.bytes("partial"), b"");
}

#[test]
fn a_long_open_message_is_recovered_into_a_blob() {
    let mut raw = b"{\"seq\":3}\n".to_vec();
    raw.extend("świat ".repeat(BLOB_BYTES_MIN / 4).bytes());
    let text_len = raw.len() - 10;
    raw.extend(&"ś".as_bytes()[..1]);
    let world = streaming(MessageKind::Text, &raw);
    let (_writer, _, seen) = world.open().unwrap();
    assert_eq!(text(&seen[3]), "a blob…");
    let blob = std::fs::read_dir(world.path("blobs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(blob.metadata().unwrap().len(), text_len as u64);
}

#[test]
fn the_epoch_grows_when_the_machine_was_restarted_in_a_turn() {
    let world = streaming(MessageKind::Text, b"{\"seq\":3}\nshown\0\0\0");
    world.reboot();
    let (mut writer, recovery, seen) = world.open().unwrap();
    assert_eq!(recovery.void_from, Some(EventSeq(3)));
    assert_eq!(writer.epoch(), 1);
    assert_eq!(text(&seen[3]), "recovered 1 from 3");
    assert_eq!(text(&seen[4]), "shown…");
    // The session closes the turn; from then on a restart loses nothing.
    writer
        .append(entries([TurnInterrupted { turn: TurnId(1) }.into()]), NOW)
        .unwrap();
    drop(writer);
    world.reboot();
    let (writer, recovery, _) = world.open().unwrap();
    assert_eq!((recovery.void_from, writer.epoch()), (None, 1));
}

#[test]
fn a_turn_without_an_open_message_is_void_from_the_first_free_number() {
    let (world, writer) = World::with(vec![turn_started(), notice("x")]);
    drop(writer);
    world.reboot();
    let (_writer, recovery, seen) = world.open().unwrap();
    assert_eq!(recovery.void_from, Some(EventSeq(4)));
    assert_eq!(text(&seen[3]), "recovered 1 from 4");
}

#[test]
fn a_boot_that_is_not_known_counts_as_another() {
    for lock in ["", "{}", "{\"pid\":1}"] {
        let (world, writer) = World::with(vec![turn_started()]);
        drop(writer);
        world.put("lock", lock);
        assert_eq!(world.open().unwrap().0.epoch(), 1, "{lock}");
    }
}

#[test]
fn text_that_turned_to_garbage_is_cut_before_it_and_raises_the_epoch() {
    let world = streaming(MessageKind::Text, b"{\"seq\":3}\ngood \xff\xfe more");
    let (_writer, recovery, seen) = world.open().unwrap();
    assert_eq!(recovery.void_from, Some(EventSeq(3)));
    assert_eq!(text(&seen[4]), "good …");
}

#[test]
fn f_17_logs_of_other_tools_load_and_go_on_with_checksums() {
    let log = concat!(
        r#"{"seq":1,"ts":1600000000,"type":"user.message","text":"hi","blocks":[]}"#,
        "\n",
        r#"{"type":"assistant.delta","seq":2,"ts":1600000001.5,"text_delta":"h\ud800"}"#,
        "\n",
        "\n",
        r#"{"seq": 3, "ts": 1600000002, "type": "assistant.message", "content": "hello"}"#,
    );
    let world = World::with_log(log);
    let (mut writer, recovery, seen) = world.open().unwrap();
    assert_eq!(recovery, journal::Recovery::default());
    assert_eq!(
        texts(&crate::world::arcs(seen)),
        ["user.message", "assistant.delta", "assistant.message"]
    );
    assert_eq!((writer.meta().owner.as_str(), writer.epoch()), ("local", 0));
    assert_eq!(writer.meta().created_at.0, 1_600_000_000.0);
    writer.append(entries([notice("ours")]), NOW).unwrap();
    drop(writer);
    assert_eq!(world.open().unwrap().2.len(), 4);
    assert_eq!(world.log().lines().count(), 5);
}
