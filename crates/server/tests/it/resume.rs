//! Resume under bad networks and dying servers: the seeds that every change runs, and the proof
//! that they would notice.

use session::subscription::sabotage::Sabotage;
use testkit::simulation::{Grounds, Lines, Summary, run, run_sabotaged};

use crate::ALONE;

/// Seeds until a sabotage must have been noticed.
const SEEDS_TO_NOTICE: u64 = 40;

/// Runs these seeds; checks that enough happened for the result to mean something.
fn seeds(from: u64, to: u64, lines: Lines) -> Summary {
    let _shared = ALONE.read();
    let grounds = Grounds::new().unwrap();
    let mut all = Summary::default();
    for seed in from..to {
        match run(seed, &grounds, lines) {
            Ok(summary) => all += summary,
            Err(why) => panic!("{why}"),
        }
    }
    let rare = [all.resyncs, all.repeated, all.withdrawn];
    let inside = [all.cuts_between, all.resumes_inside_long];
    let often = [all.resumes, all.resumes_inside, all.answered, all.strangers];
    let all_of = |counts: &[u64], least| counts.iter().all(|count| *count > least);
    assert!(all_of(&rare, 0) && all_of(&inside, 0), "too quiet: {all:?}");
    assert!(all_of(&often, 20) && all.pieces > 20, "too quiet: {all:?}");
    all
}

/// As [`seeds`], over streams that are cut; most can be taken up where they were.
fn streamed(from: u64, to: u64, lines: Lines) {
    let all = seeds(from, to, lines);
    assert!(all.takeovers > 5 * (to - from), "too quiet: {all:?}");
    assert!(all.conflicts * 10 < all.takeovers, "too many: {all:?}");
}

#[test]
fn every_client_sees_every_update_once_and_in_order_seeds_0_to_60() {
    seeds(0, 60, Lines::Pipes);
}

#[test]
fn every_client_sees_every_update_once_and_in_order_seeds_60_to_120() {
    seeds(60, 120, Lines::Pipes);
}

#[test]
fn every_client_sees_every_update_once_and_in_order_seeds_120_to_180() {
    streamed(120, 180, Lines::Both);
}

#[test]
fn every_client_sees_every_update_once_and_in_order_seeds_180_to_240() {
    streamed(180, 240, Lines::Both);
}

#[test]
fn over_streams_that_are_cut_too_every_client_sees_every_update_once_seeds_240_to_300() {
    streamed(240, 300, Lines::Streams);
}

/// Some seed fails if followers do, and says what a client was shown wrongly; on any kind of line.
fn is_noticed(sabotage: Sabotage) {
    let _shared = ALONE.read();
    let grounds = Grounds::new().unwrap();
    for lines in [Lines::Pipes, Lines::Streams] {
        let how = (lines, sabotage);
        let mut seeds = 0..SEEDS_TO_NOTICE;
        let found = seeds.find_map(|seed| run_sabotaged(seed, &grounds, how).err());
        assert!(found.is_some(), "nobody notices {how:?}");
    }
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
