//! `cargo xtask soak bash`: many more commands than tests have time for, read by the reader of permission rules
//! and run by a real bash.

use std::sync::Mutex;

use agent::permissions::soak::{self, Jail, Tally};

use super::{Plan, on_all_cores};
use crate::Failure;
use crate::bench::because;

/// Commands unless it is asked for others.
const COMMANDS: u64 = 200_000;

/// Commands of one seed.
const SEED_COMMANDS: u64 = 100;

/// Runs one seed, or as many as make the commands that were asked for.
pub(super) fn run(plan: &Plan) -> Result<(), Failure> {
    let place = tempfile::tempdir().map_err(because("cannot make a directory"))?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // All are set up before anything runs: a program that is still written to cannot be started.
    let mut jails = Vec::new();
    for number in 0..cores {
        let top = place.path().join(number.to_string());
        std::fs::create_dir(&top).map_err(because("cannot make a directory"))?;
        jails.push(Jail::new(&top)?);
    }
    let (jails, all) = (Mutex::new(jails), Mutex::new(Tally::default()));
    let one = |seed: u64| -> Result<(), Failure> {
        let jail = jails.lock().ok().and_then(|mut jails| jails.pop());
        let jail = jail.ok_or("there are more threads than directories")?;
        let tally = soak::run(seed, SEED_COMMANDS, &jail)?;
        if let (Ok(mut jails), Ok(mut all)) = (jails.lock(), all.lock()) {
            jails.push(jail);
            all.generated += tally.generated;
            all.run += tally.run;
            all.programs += tally.programs;
        }
        Ok(())
    };
    let commands = plan.commands.unwrap_or(COMMANDS);
    let told = match plan.seed {
        Some(seed) => {
            one(seed)?;
            format!("seed {seed}")
        }
        None => on_all_cores(plan.seeds_or(commands.div_ceil(SEED_COMMANDS)), one)?,
    };
    let all = all.into_inner().unwrap_or_default();
    println!(
        "{} commands generated, {} known and run, {} programs started, no disagreement: {told}",
        all.generated, all.run, all.programs
    );
    Ok(())
}
