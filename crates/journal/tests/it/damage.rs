//! Damage in the middle, and strange things in a session's place.

use std::os::unix::fs::{PermissionsExt, symlink};

use domain::EventSeq;
use journal::StoreError;

use crate::world::{World, notice};

fn damaged_at(world: &World) -> u64 {
    match world.open().err() {
        Some(StoreError::Damaged { at }) => at.0,
        other => panic!("not damaged: {other:?}"),
    }
}

#[test]
fn a_flipped_bit_in_the_middle_is_damage_at_its_event_and_nothing_is_skipped() {
    let (world, writer) = World::with((2..=6).map(|n| notice(&n.to_string())).collect());
    drop(writer);
    let log = world.bytes("events.jsonl");
    let mut seq = 1;
    for at in 0..log.len() {
        if seq == 6 {
            break;
        }
        let mut flipped = log.clone();
        flipped[at] ^= 4;
        world.put("events.jsonl", &flipped);
        assert_eq!(damaged_at(&world), seq, "byte {at}");
        assert_eq!(world.bytes("events.jsonl"), flipped);
        let mut reader = world.reader();
        if seq > 1 {
            let read = reader
                .read_after(EventSeq(0), EventSeq(9), 9, 9_999)
                .unwrap();
            assert_eq!(read.len() as u64, seq - 1);
        }
        let next = reader.read_after(EventSeq(seq - 1), EventSeq(9), 9, 9_999);
        assert!(matches!(next, Err(StoreError::Damaged { at }) if at.0 == seq));
        assert!(matches!(reader.head(), Err(StoreError::Damaged { at }) if at.0 == seq));
        assert!(matches!(
            world.store.meta(world.id),
            Err(StoreError::Damaged { .. })
        ));
        seq += u64::from(log[at] == b'\n');
    }
}

#[test]
fn a_zeroed_sector_a_missing_and_a_repeated_record_are_damage() {
    let (world, writer) = World::with((2..=20).map(|n| notice(&n.to_string())).collect());
    drop(writer);
    let log = world.log();
    let mut zeroed = log.clone().into_bytes();
    zeroed[512..1024].fill(0);
    world.put("events.jsonl", &zeroed);
    assert_eq!(
        damaged_at(&world),
        1 + log[..512].matches('\n').count() as u64
    );
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    world.put("events.jsonl", [&lines[..4], &lines[5..]].concat().concat());
    assert_eq!(damaged_at(&world), 5);
    world.put("events.jsonl", [&lines[..], &lines[19..]].concat().concat());
    assert_eq!(damaged_at(&world), 21);
}

#[test]
fn one_damaged_session_leaves_the_others_alone() {
    let (world, writer) = World::with(vec![notice("x")]);
    drop(writer);
    world.put("events.jsonl", "garbage\nmore\n");
    let other = domain::SessionId::random();
    world
        .store
        .create(other, vec![notice("fine")], crate::world::NOW)
        .unwrap();
    assert_eq!(damaged_at(&world), 1);
    assert_eq!(world.store.meta(other).unwrap().head, EventSeq(1));
    assert_eq!(world.store.list().unwrap().len(), 2);
}

#[test]
fn links_and_pipes_in_a_sessions_place_are_refused() {
    let not_plain = |world: &World| {
        assert!(matches!(world.open().err(), Some(StoreError::NotPlain)));
        assert!(matches!(
            world.store.reader(world.id).err(),
            Some(StoreError::NotPlain)
        ));
    };
    let plant = || {
        let (world, writer) = World::with(Vec::new());
        drop(writer);
        let (log, aside) = (world.path("events.jsonl"), world.dir.path().join("aside"));
        std::fs::rename(&log, &aside).unwrap();
        (world, log, aside)
    };
    let (world, log, aside) = plant();
    symlink(&aside, &log).unwrap();
    not_plain(&world);
    let (world, log, aside) = plant();
    std::fs::hard_link(&aside, &log).unwrap();
    not_plain(&world);
    let (world, log, _) = plant();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &log,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    not_plain(&world);
    let (world, writer) = World::with(Vec::new());
    drop(writer);
    let aside = world.dir.path().join("aside");
    std::fs::rename(world.path(""), &aside).unwrap();
    symlink(&aside, world.path("")).unwrap();
    not_plain(&world);
    assert!(!world.store.exists(world.id));
}

#[test]
fn a_log_that_was_removed_under_its_writer_is_noticed() {
    let (world, mut writer) = World::with(Vec::new());
    std::fs::remove_file(world.path("events.jsonl")).unwrap();
    let lost = writer.append(crate::world::entries([notice("x")]), crate::world::NOW);
    assert!(matches!(lost, Err(StoreError::Failed(_))));
}

#[test]
fn files_and_directories_are_private() {
    let (world, mut writer) = World::with(vec![notice(&"x".repeat(300_000))]);
    writer.save_meta().unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(world.dir.path().join("sessions")), 0o700);
    for dir in ["", "blobs"] {
        assert_eq!(mode(world.path(dir)), 0o700);
    }
    for file in ["events.jsonl", "partial", "lock", "meta.json"] {
        assert_eq!(mode(world.path(file)), 0o600, "{file}");
    }
}
