//! Seeded runs over a storage that fails and loses power, and proof that they notice.

use journal::soak::{self, Then};
use journal::storage::power::{Fault, FaultyCall, Sabotage};

/// Seeds that a sabotaged run is tried with before it counts as not noticed: others than those that
/// every test run does whole.
const SEEDS: std::ops::Range<u64> = 500..1_500;

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
        let noticed = SEEDS
            .clone()
            .any(|seed| soak::run_sabotaged(seed, sabotage).is_err());
        assert!(noticed, "{sabotage:?} passed {SEEDS:?}");
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

/// Lives whose recovery is cut off at each of its calls.
const LIVES: u64 = 40;

/// Few seeds lose power between a cut and its telling, so that every call is tried here.
#[test]
fn a_note_of_a_cut_that_is_not_synced_is_noticed() {
    let cut_off_at = |nth| Fault {
        call: FaultyCall::Change,
        nth,
        errno: None,
    };
    let noticed = (0..LIVES).any(|seed| {
        let met = |nth: u64| {
            let (first, fault) = (Then::PowerLoss, cut_off_at(nth));
            soak::sabotaged_recovery_fault_at(seed, Sabotage::Cut, first, fault)
        };
        let mut calls = (1..).map(met).take_while(|met| *met != Ok(false));
        calls.any(|met| met.is_err())
    });
    assert!(noticed, "{LIVES} lives did not notice");
}

#[test]
fn f_03_recovery_may_be_cut_off_by_a_power_loss_at_any_call() {
    let mut calls = 0;
    for seed in 0..LIVES {
        for first in [Then::Restart, Then::PowerLoss] {
            for errno in [None, Some(5)] {
                let call = FaultyCall::Change;
                let met = |nth: &u64| {
                    let fault = Fault {
                        call,
                        nth: *nth,
                        errno,
                    };
                    soak::recovery_fault_at(seed, first, fault).unwrap()
                };
                calls += (1..).take_while(met).count();
            }
        }
    }
    assert!(calls > 1_000, "recovery has become short: {calls}");
}
