//! Resume under bad networks and dying servers: the seeds that every change runs, and the proof
//! that they would notice.

use session::subscription::sabotage::Sabotage;
use testkit::simulation::{Grounds, Summary, run, run_sabotaged};

use crate::ALONE;

/// Seeds until a sabotage must have been noticed.
const SEEDS_TO_NOTICE: u64 = 40;

/// Runs these seeds; checks that enough happened for the result to mean something.
fn seeds(from: u64, to: u64) {
    let _shared = ALONE.read();
    let grounds = Grounds::new().unwrap();
    let mut all = Summary::default();
    for seed in from..to {
        match run(seed, &grounds) {
            Ok(summary) => all += summary,
            Err(why) => panic!("{why}"),
        }
    }
    let rare = [all.resyncs, all.repeated, all.withdrawn];
    let often = [all.resumes, all.resumes_inside, all.answered, all.strangers];
    assert!(rare.iter().all(|count| *count > 0), "too quiet: {all:?}");
    assert!(often.iter().all(|count| *count > 20), "too quiet: {all:?}");
}

#[test]
fn every_client_sees_every_update_once_and_in_order_seeds_0_to_60() {
    seeds(0, 60);
}

#[test]
fn every_client_sees_every_update_once_and_in_order_seeds_60_to_120() {
    seeds(60, 120);
}

#[test]
fn every_client_sees_every_update_once_and_in_order_seeds_120_to_180() {
    seeds(120, 180);
}

#[test]
fn every_client_sees_every_update_once_and_in_order_seeds_180_to_240() {
    seeds(180, 240);
}

/// Some seed fails if followers do, and says what a client was shown wrongly.
fn is_noticed(sabotage: Sabotage) {
    let _shared = ALONE.read();
    let grounds = Grounds::new().unwrap();
    let found = (0..SEEDS_TO_NOTICE).find_map(|seed| run_sabotaged(seed, &grounds, sabotage).err());
    assert!(found.is_some(), "nobody notices {sabotage:?}");
}

#[test]
fn an_update_that_is_skipped_is_noticed() {
    is_noticed(Sabotage::SkipOne);
}

#[test]
fn an_update_that_is_delivered_twice_is_noticed() {
    is_noticed(Sabotage::DeliverTwice);
}

#[test]
fn an_offset_that_is_forgotten_is_noticed() {
    is_noticed(Sabotage::ForgetOffset);
}
