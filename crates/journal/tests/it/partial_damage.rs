//! The text of an open message when bytes of `partial` change: cut at the first bad frame, never
//! believed, and seen by `verify`.

use domain::EventSeq;
use domain::event::MessageKind;
use journal::StoreError;

use crate::world::{NOW, World, message, text, turn_started};

const PIECES: [&str; 4] = ["The ", "cafés ", "of 東京 ", "\0close at 8."];

/// A session that stopped in the middle of a message, and the bytes of its `partial`.
fn streaming() -> (World, Vec<u8>) {
    let (world, mut writer) = World::with(vec![turn_started()]);
    let kind = MessageKind::Text;
    writer.start_message(message("m", kind), NOW).unwrap();
    for piece in PIECES {
        writer.push_text(piece).unwrap();
    }
    drop(writer);
    let bytes = world.bytes("partial");
    (world, bytes)
}

/// Recovers a session with these bytes; returns the text that was kept, and whether the epoch rose.
fn recover(world: &World, log: &[u8], partial: &[u8]) -> (String, bool) {
    world.put("events.jsonl", log);
    world.put("partial", partial);
    let (_writer, recovery, seen) = world.open().unwrap();
    let ended = text(seen.last().unwrap());
    let kept = ended.strip_suffix('…').unwrap().to_owned();
    if let Some(from) = recovery.void_from {
        assert_eq!(from, EventSeq(3));
    }
    (kept, recovery.void_from.is_some())
}

fn is_front(kept: &str) -> bool {
    (0..=PIECES.len()).any(|count| PIECES[..count].concat() == kept)
}

#[test]
fn no_flipped_bit_of_streamed_text_becomes_a_message() {
    let (world, sound) = streaming();
    let log = world.bytes("events.jsonl");
    assert_eq!(recover(&world, &log, &sound), (PIECES.concat(), false));
    for bit in 0..sound.len() * 8 {
        let mut flipped = sound.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        world.put("events.jsonl", &log);
        world.put("partial", &flipped);
        assert!(
            world.store.verify(world.id).unwrap().is_text_damaged,
            "{bit}"
        );
        let (kept, epoch_rose) = recover(&world, &log, &flipped);
        assert!(is_front(&kept) && kept != PIECES.concat(), "{bit}: {kept}");
        assert!(epoch_rose, "{bit}");
    }
}

#[test]
fn zeroed_tail_of_streamed_text_is_cut_and_raises_the_epoch() {
    let (world, sound) = streaming();
    let log = world.bytes("events.jsonl");
    for from in 0..sound.len() {
        let mut zeroed = sound.clone();
        zeroed[from..].fill(0);
        let (kept, epoch_rose) = recover(&world, &log, &zeroed);
        assert!(is_front(&kept) && kept != PIECES.concat(), "{from}: {kept}");
        assert!(epoch_rose, "{from}");
    }
    let longer = [&*sound, &[0; 5000]].concat();
    assert_eq!(recover(&world, &log, &longer), (PIECES.concat(), true));
}

#[test]
fn unfinished_write_of_text_is_cut_without_raising_the_epoch() {
    let (world, sound) = streaming();
    let log = world.bytes("events.jsonl");
    for len in 0..sound.len() {
        world.put("partial", &sound[..len]);
        assert!(
            !world.store.verify(world.id).unwrap().is_text_damaged,
            "{len}"
        );
        let (kept, epoch_rose) = recover(&world, &log, &sound[..len]);
        assert!(is_front(&kept) && kept != PIECES.concat(), "{len}: {kept}");
        assert!(!epoch_rose, "{len}");
    }
}

#[test]
fn frames_of_another_place_or_message_do_not_fit() {
    let (world, sound) = streaming();
    let log = world.bytes("events.jsonl");
    let header = sound.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let first = header + 12 + PIECES[0].len();
    let second = first + 12 + PIECES[1].len();
    let swapped = [
        &sound[..header],
        &sound[first..second],
        &sound[header..first],
        &sound[second..],
    ]
    .concat();
    assert_eq!(recover(&world, &log, &swapped), (String::new(), true));
    let doubled = [&sound[..first], &sound[header..]].concat();
    assert_eq!(recover(&world, &log, &doubled), ("The ".to_owned(), true));
}

#[test]
fn readers_give_text_up_to_the_damage_and_then_say_so() {
    let (world, sound) = streaming();
    let mut damaged = sound.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 4;
    world.put("partial", damaged);
    let whole: String = PIECES[..3].concat();
    let mut reader = world.reader();
    let read = reader.read_partial(EventSeq(3), 0, 9999).unwrap();
    assert_eq!(read.as_deref(), Some(&*whole));
    let after = reader.read_partial(EventSeq(3), whole.len() as u64, 9999);
    assert!(matches!(after, Err(StoreError::DamagedText)), "{after:?}");
}

#[test]
fn message_that_is_damaged_while_it_streams_is_not_stored() {
    let (world, mut writer) = World::with(vec![turn_started()]);
    let kind = MessageKind::Text;
    writer.start_message(message("m", kind), NOW).unwrap();
    writer.push_text("right").unwrap();
    let mut bytes = world.bytes("partial");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    world.put("partial", bytes);
    let end = journal::Entry::EndMessage { partial: false };
    assert!(writer.append(vec![end], NOW).is_err());
    drop(writer);
    let (_writer, recovery, seen) = world.open().unwrap();
    assert_eq!(recovery.void_from, Some(EventSeq(3)));
    assert_eq!(text(seen.last().unwrap()), "…");
}
