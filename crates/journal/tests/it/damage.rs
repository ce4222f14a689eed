//! Damage in the middle, and strange things in a session's place.

use std::os::unix::fs::{PermissionsExt, symlink};

use std::sync::Arc;

use domain::EventSeq;
use journal::storage::power::{Fault, FaultyCall, PowerStorage};
use journal::{FileStore, StoreError};

use crate::world::{NOW, World, entries, notice};

fn damaged_at(world: &World) -> u64 {
    match world.open().err() {
        Some(StoreError::Damaged { at }) => at.0,
        other => panic!("not damaged: {other:?}"),
    }
}

#[test]
fn f_05_a_flipped_bit_in_the_middle_is_damage_at_its_event_and_nothing_is_skipped() {
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
fn f_05_a_zeroed_sector_a_missing_and_a_repeated_record_are_damage() {
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
fn f_05_one_damaged_session_leaves_the_others_alone() {
    let (world, writer) = World::with(vec![notice("x")]);
    drop(writer);
    world.put("events.jsonl", "garbage\nmore\n");
    let other = domain::SessionId::random();
    world
        .store
        .create(other, vec![notice("fine")], NOW)
        .unwrap();
    assert_eq!(damaged_at(&world), 1);
    assert_eq!(world.store.meta(other).unwrap().head, EventSeq(1));
    assert_eq!(world.store.list().unwrap().len(), 2);
}

#[test]
fn f_15_links_and_pipes_in_a_sessions_place_are_refused() {
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
fn f_14_a_log_that_was_removed_under_its_writer_is_noticed() {
    let (world, mut writer) = World::with(Vec::new());
    std::fs::remove_file(world.path("events.jsonl")).unwrap();
    let lost = writer.append(entries([notice("x")]), NOW);
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

/// A session of single events up to 3 and then one batch of four, `hole` of whose bytes are zero.
fn with_hole(hole: std::ops::Range<usize>) -> World {
    let (world, mut writer) = World::with(Vec::new());
    for n in 2..=3 {
        writer
            .append(entries([notice(&n.to_string())]), NOW)
            .unwrap();
    }
    let start = world.log().len();
    writer
        .append(entries((4..=7).map(|n| notice(&n.to_string()))), NOW)
        .unwrap();
    drop(writer);
    let mut log = world.bytes("events.jsonl");
    log[start + hole.start..start + hole.end].fill(0);
    world.put("events.jsonl", log);
    world
}

#[test]
fn f_03_the_lost_front_of_an_unsynced_batch_is_torn_after_a_power_loss() {
    for hole in [0..1, 0..60, 30..100, 0..200, 99..101, 150..151] {
        let world = with_hole(hole.clone());
        world.reboot();
        let before = world.bytes("events.jsonl");
        let verified = world.store.verify(world.id).unwrap();
        assert_eq!(verified.damaged_at, None, "{hole:?}");
        assert!(verified.torn_bytes > 0);
        let kept = verified.events;
        assert_eq!(world.read_all().len() as u64, kept);
        assert_eq!(world.reader().head().unwrap().0, kept);
        assert_eq!(world.store.meta(world.id).unwrap().head.0, kept);
        let (writer, recovery, seen) = world.open().unwrap();
        assert_eq!(recovery.cut_bytes, verified.torn_bytes);
        assert_eq!(recovery.void_from, Some(EventSeq(kept + 1)));
        assert_eq!((seen.len() as u64, writer.epoch()), (kept + 1, 1));
        assert!(before.ends_with(&world.bytes("events.torn")));
    }
}

#[test]
fn the_same_hole_is_damage_if_the_machine_ran_on() {
    let world = with_hole(0..60);
    assert_eq!(damaged_at(&world), 4);
    assert_eq!(
        world.store.verify(world.id).unwrap().damaged_at,
        Some(EventSeq(4))
    );
}

#[test]
fn f_05_a_hole_before_anything_that_was_written_after_its_sync_is_damage_also_after_a_power_loss() {
    let world = with_hole(0..0);
    let (mut writer, _, _) = world.open().unwrap();
    writer.append(entries([notice("later")]), NOW).unwrap();
    drop(writer);
    let mut log = world.bytes("events.jsonl");
    let at = log.windows(9).position(|w| w == b"{\"seq\":5,").unwrap();
    log[at..at + 40].fill(0);
    world.put("events.jsonl", &log);
    world.reboot();
    assert_eq!(damaged_at(&world), 5);
    assert_eq!(world.bytes("events.jsonl"), log);
}

#[test]
fn f_05_a_flipped_bit_in_an_unsynced_looking_batch_is_damage_for_no_crash_flips_bits() {
    let world = with_hole(0..0);
    let mut log = world.bytes("events.jsonl");
    let at = log.windows(9).position(|w| w == b"{\"seq\":5,").unwrap();
    log[at + 20] ^= 1;
    world.put("events.jsonl", log);
    world.reboot();
    assert_eq!(damaged_at(&world), 5);
}

#[test]
fn f_05_a_last_record_that_arrived_whole_and_is_wrong_is_damage_unless_power_was_lost() {
    let world = with_hole(0..0);
    let mut log = world.bytes("events.jsonl");
    let len = log.len();
    log[len - 40] ^= 1;
    world.put("events.jsonl", &log);
    assert_eq!(damaged_at(&world), 7);
    world.reboot();
    assert_eq!(world.open().unwrap().2.len(), 7);
}

#[test]
fn nobody_in_the_process_is_served_past_damage_that_opening_found() {
    let filler = "x".repeat(2_000);
    let (world, writer) = World::with((2..=900).map(|_| notice(&filler)).collect());
    drop(writer);
    let good = world.bytes("events.jsonl");
    let mut log = good.clone();
    log[good.len() / 3] ^= 1;
    world.put("events.jsonl", &log);
    // Nobody knows yet: events far behind are whole, and are served as such.
    let after = |n| {
        world
            .reader()
            .read_after(EventSeq(n), EventSeq(900), 2, 9_999)
    };
    assert_eq!(after(800).unwrap().len(), 2);
    let at = damaged_at(&world);
    for n in [at - 1, at, 800] {
        assert!(matches!(after(n), Err(StoreError::Damaged { at: found }) if found.0 == at));
    }
    assert_eq!(after(at - 2).unwrap().len(), 1);
    world.put("events.jsonl", &good);
    drop(world.open().unwrap());
    assert_eq!(after(800).unwrap().len(), 2);
}

#[test]
fn f_10_a_log_that_cannot_be_read_is_that_sessions_own_trouble() {
    let storage = PowerStorage::new(3);
    let store = FileStore::with_storage(Arc::new(storage.clone()));
    let ids = [domain::SessionId::random(), domain::SessionId::random()];
    for id in ids {
        store.create(id, vec![notice("x")], NOW).unwrap();
    }
    let open = |id| store.open_session(id, NOW, &mut |_| {});
    for nth in 1.. {
        storage.arm(Some(Fault {
            call: FaultyCall::Read,
            nth,
            errno: Some(5),
        }));
        let before = storage.faults();
        let opened = open(ids[0]);
        if storage.faults() == before {
            break;
        }
        // What cannot be read of the lock only costs knowing who held it.
        assert!(matches!(opened, Ok(_) | Err(StoreError::Failed(_))));
        drop(opened);
        drop(open(ids[1]).unwrap());
        drop(open(ids[0]).unwrap());
    }
}
