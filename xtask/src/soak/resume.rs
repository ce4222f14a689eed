//! `cargo xtask soak resume`: many more seeds of [`testkit::simulation`] than tests have time for.

use std::sync::Mutex;

use testkit::simulation::races::{enter_and_leave, grace_against_resume, many_clients};
use testkit::simulation::{self, Grounds, Summary};

use super::on_all_cores;
use crate::Failure;

/// Seeds unless it is asked for others.
const SEEDS: u64 = 20_000;

/// One seed in so many also runs the races.
const RACES_EVERY: u64 = 20;

/// How often a single seed is repeated: what happens within one moment of paused time is up to
/// the machine, so a failure may need a few tries.
const REPEATS: u64 = 50;

/// Runs one seed again and again, or many once each.
pub(super) fn run(only: Option<u64>, seeds: Option<u64>) -> Result<(), Failure> {
    let grounds = Grounds::new()?;
    let all = Mutex::new(Summary::default());
    let one = |seed: u64| -> Result<(), Failure> {
        let mut summary = simulation::run(seed, &grounds)?;
        if only.is_some() || seed.is_multiple_of(RACES_EVERY) {
            summary += races(seed, &grounds)?;
        }
        if let Ok(mut all) = all.lock() {
            *all += summary;
        }
        Ok(())
    };
    let told = match only {
        Some(seed) => {
            (0..REPEATS).try_for_each(|_| one(seed))?;
            format!("seed {seed}, {REPEATS} times")
        }
        None => on_all_cores(seeds.unwrap_or(SEEDS), one)?,
    };
    let all = all.into_inner().unwrap_or_default();
    println!("{told}: every client saw every update once, in order\n{all:?}");
    Ok(())
}

fn races(seed: u64, grounds: &Grounds) -> Result<Summary, Failure> {
    let mut summary = enter_and_leave(seed, grounds)?;
    summary += grace_against_resume(seed, grounds, 20)?;
    summary += many_clients(seed, grounds, 50)?;
    Ok(summary)
}
