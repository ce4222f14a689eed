//! Seeded runs over a storage that fails and loses power, and proof that they notice.

use journal::soak::{self, Then};
use journal::storage::power::{Fault, FaultyCall, Sabotage};

/// Seeds that a sabotaged run is tried with before it counts as not noticed.
const SEEDS_MAX: u64 = 300;

fn run(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        if let Err(why) = soak::run(seed) {
            panic!("{why}");
        }
    }
}

#[test]
fn f_03_nothing_acknowledged_is_lost_over_five_hundred_seeds() {
    std::thread::scope(|scope| {
        scope.spawn(|| run((0..500).step_by(2)));
        scope.spawn(|| run((1..500).step_by(2)));
    });
}

#[test]
fn a_sync_that_is_left_out_or_comes_too_late_is_noticed() {
    for sabotage in [
        Sabotage::NewEvents,
        Sabotage::Events,
        Sabotage::EarlyAck,
        Sabotage::Partial,
        Sabotage::Torn,
        Sabotage::Blob,
        Sabotage::BlobDir,
        Sabotage::NewSessionDir,
        Sabotage::SessionDirAfterBlobs,
        Sabotage::SessionDir,
        Sabotage::RootAfterCreate,
        Sabotage::RootAfterDelete,
        Sabotage::RootAfterTombs,
        Sabotage::Tombs,
    ] {
        let noticed = (0..SEEDS_MAX).any(|seed| soak::run_sabotaged(seed, sabotage).is_err());
        assert!(noticed, "{sabotage:?} passed {SEEDS_MAX} seeds");
    }
}

#[test]
fn the_cache_carries_no_promise_so_that_its_sync_may_fail_unnoticed() {
    for seed in 0..30 {
        soak::run_sabotaged(seed, Sabotage::Meta).unwrap();
    }
}

/// EIO, ENOSPC, EROFS, EDQUOT and EFBIG.
const ERRNOS: [i32; 5] = [5, 28, 30, 122, 27];

/// Has every call of a life fail in turn, or end the process; returns how many there are.
fn every(call: FaultyCall, dies: bool) -> u64 {
    for (nth, errno) in (1..).zip(ERRNOS.into_iter().cycle()) {
        let errno = (!dies).then_some(errno);
        let fault = Fault { call, nth, errno };
        let mut happened = false;
        for then in [Then::Restart, Then::PowerLoss] {
            happened |= soak::fault_at(fault, then).unwrap();
        }
        if !happened {
            return nth - 1;
        }
    }
    0
}

#[test]
fn f_02_the_process_may_die_at_any_call() {
    assert!(every(FaultyCall::Change, true) > 60);
}

#[test]
fn f_08_any_sync_of_a_file_or_directory_may_fail() {
    assert!(every(FaultyCall::Sync, false) > 10);
    assert!(every(FaultyCall::SyncDir, false) > 6);
}

#[test]
fn f_09_f_11_any_write_and_any_new_name_may_fail() {
    assert!(every(FaultyCall::Write, false) > 20);
    assert!(every(FaultyCall::Name, false) > 10);
}
