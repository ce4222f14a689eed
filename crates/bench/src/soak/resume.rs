//! `cargo xtask soak resume` and `soak races`: many more seeds of [`testkit::simulation`] than tests
//! have time for.

use std::sync::Mutex;

use testkit::simulation::races::{SCHEDULES, enter_and_leave, grace_against_resume, many_clients};
use testkit::simulation::{self, Grounds, Lines, Summary};

use super::{Plan, on_all_cores};
use crate::Failure;

/// Seeds unless it is asked for others.
const SEEDS: u64 = 20_000;

/// One seed in so many also runs the races.
const RACES_EVERY: u64 = 20;

/// Schedules of entering against leaving, unless it is asked for others.
const SCHEDULES_MIN: u64 = 100_000;

/// How often a single seed is repeated: what happens within one moment of paused time is up to
/// the machine, so a failure may need a few tries.
const REPEATS: u64 = 50;

/// Runs one seed again and again, or many once each.
pub(super) fn run(plan: &Plan) -> Result<(), Failure> {
    let grounds = Grounds::new()?;
    let told = each(plan, SEEDS, |seed| {
        let mut summary = simulation::run(seed, &grounds, Lines::Both)?;
        if plan.seed.is_some() || seed.is_multiple_of(RACES_EVERY) {
            summary += enter_and_leave(seed, &grounds)?;
            summary += grace_against_resume(seed, &grounds, 20, || false)?;
            summary += many_clients(seed, &grounds, 50)?;
        }
        Ok(summary)
    })?;
    println!("every client saw every update once, in order: {told}");
    Ok(())
}

/// Clients that enter, leave, close and delete in the same moments, and nothing else.
pub(super) fn races(plan: &Plan) -> Result<(), Failure> {
    let grounds = Grounds::new()?;
    let told = each(plan, SCHEDULES_MIN.div_ceil(SCHEDULES), |seed| {
        enter_and_leave(seed, &grounds)
    })?;
    println!("{SCHEDULES} schedules a seed, one owner always, nothing left behind: {told}");
    Ok(())
}

/// Runs `one` with the seed that was named again and again, or with `seeds` once each; says what
/// happened in them.
fn each(
    plan: &Plan,
    seeds: u64,
    one: impl Fn(u64) -> Result<Summary, Failure> + Sync,
) -> Result<String, Failure> {
    let all = Mutex::new(Summary::default());
    let one = |seed: u64| -> Result<(), Failure> {
        let summary = one(seed)?;
        if let Ok(mut all) = all.lock() {
            *all += summary;
        }
        Ok(())
    };
    let told = match plan.seed {
        Some(seed) => {
            (0..REPEATS).try_for_each(|_| one(seed))?;
            format!("seed {seed}, {REPEATS} times")
        }
        None => on_all_cores(plan.seeds_or(seeds), one)?,
    };
    let all = all.into_inner().unwrap_or_default();
    Ok(format!("{told}\n{all:?}"))
}
