//! `cargo xtask soak`: what tests do for a moment, for as long as one likes.
//!
//! Each kind, when it fails, prints the command that does it again.

mod bash;
mod edge;
mod resume;

use std::io::{IsTerminal, Write, stderr};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use testkit::{bridged, chatted, kill, rounds};
use tokio::runtime::Runtime;

use crate::Failure;
use crate::bench::{because, target};

/// How often a person is told how far it is.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// The same for a log file.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// Seeds of the journal's simulation, unless it is asked for others.
const JOURNAL_SEEDS: u64 = 10_000;

/// What one run was asked to do.
#[derive(Debug)]
struct Plan {
    seed: Option<u64>,
    seeds: Option<u64>,
    from: u64,
    rounds: u64,
    commands: Option<u64>,
    program: Option<PathBuf>,
    only: Option<String>,
}

/// Runs what the first argument names.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let (kind, rest) = arguments
        .split_first()
        .ok_or("soak what? bash, journal, resume, races, kill, bridge, chat or edge")?;
    let plan = Plan::parse(rest)?;
    match kind.as_str() {
        "journal" => journal(&plan),
        "bash" => bash::run(&plan),
        "resume" => resume::run(&plan),
        "races" => resume::races(&plan),
        "kill" => kill(&plan),
        "bridge" => bridge(&plan),
        "chat" => chat(&plan),
        "edge" => edge::run(&plan.binary()?, plan.only.as_deref()),
        other => Err(format!(
            "soak does not know {other}; it knows bash, journal, resume, races, kill, bridge, chat and edge"
        )),
    }
}

/// Seeds of the journal's own simulation, on all cores.
fn journal(plan: &Plan) -> Result<(), Failure> {
    if let Some(seed) = plan.seed {
        journal::soak::run(seed)?;
        println!("seed {seed}: nothing lost");
        return Ok(());
    }
    let rate = on_all_cores(plan.seeds_or(JOURNAL_SEEDS), journal::soak::run)?;
    println!("{rate}, nothing lost");
    Ok(())
}

/// Runs these seeds, several at once; says how many there were and how fast it went.
///
/// # Errors
/// The first failure that was found.
fn on_all_cores(
    Range { start, end }: Range<u64>,
    run: impl Fn(u64) -> Result<(), Failure> + Sync,
) -> Result<String, Failure> {
    let seeds = end - start;
    let (next, done) = (AtomicU64::new(start), AtomicU64::new(0));
    let failure: Mutex<Option<Failure>> = Mutex::new(None);
    let is_over = |failure: &Mutex<Option<Failure>>| failure.lock().is_ok_and(|f| f.is_some());
    let progress = Mutex::new(Progress::new(seeds, "seeds"));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !is_over(&failure) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    match (run(seed), failure.lock()) {
                        (Err(found), Ok(mut failure)) => *failure = Some(found),
                        _ => {
                            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                            if let Ok(mut progress) = progress.try_lock() {
                                progress.at(done, "");
                            }
                        }
                    }
                }
            });
        }
    });
    let rate = progress
        .into_inner()
        .map_or_else(|_| String::new(), Progress::finish);
    match failure.into_inner() {
        Ok(None) => Ok(format!("{seeds} seeds from {start} on, {rate}")),
        Ok(Some(found)) => Err(found),
        Err(_) => Err("the soak panicked".to_owned()),
    }
}

/// The real server, killed again and again.
fn kill(plan: &Plan) -> Result<(), Failure> {
    let (rounds, runtime) = (plan.kills()?, runtime()?);
    let mut progress = Progress::new(plan.rounds, "kills");
    let mut tell = |report: &kill::Report| {
        let answered = format!(", {} prompts answered", report.answered);
        progress.at(report.rounds, &answered);
    };
    let outcome = runtime.block_on(kill::run(&rounds, &mut tell));
    let rate = progress.finish();
    println!("{}, nothing lost, {rate}", outcome?);
    Ok(())
}

/// The real bridge, with a server that is killed and started again under it.
fn bridge(plan: &Plan) -> Result<(), Failure> {
    let (rounds, runtime) = (plan.kills()?, runtime()?);
    let mut progress = Progress::new(plan.rounds, "kills");
    let mut tell = |report: &bridged::Report| {
        let seen = format!(", {} bytes seen", report.bytes);
        progress.at(report.rounds, &seen);
    };
    let outcome = runtime.block_on(bridged::run(&rounds, &mut tell));
    let rate = progress.finish();
    println!("{}, none lost or doubled, {rate}", outcome?);
    Ok(())
}

/// The real chat in a terminal, with a server that is killed and started again under it.
fn chat(plan: &Plan) -> Result<(), Failure> {
    let (rounds, runtime) = (plan.kills()?, runtime()?);
    let mut progress = Progress::new(plan.rounds, "kills");
    let mut tell = |report: &chatted::Report| {
        let seen = format!(", {} words seen", report.words);
        progress.at(report.rounds, &seen);
    };
    let outcome = runtime.block_on(chatted::run(&rounds, &mut tell));
    let rate = progress.finish();
    let report = outcome?;
    println!(
        "{} kills under the chat, {} seen to break the connection, {} turns interrupted, {} words \
         on the screen, none lost or doubled, {rate}",
        report.rounds, report.lost, report.interrupted, report.words
    );
    Ok(())
}

/// One thread is enough for whoever kills.
fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let built = builder.enable_all().build();
    built.map_err(because("cannot start the runtime"))
}

impl Plan {
    /// The seeds to run: as many as it was asked for, or else `count`.
    fn seeds_or(&self, count: u64) -> Range<u64> {
        self.from..self.from.saturating_add(self.seeds.unwrap_or(count))
    }

    /// What to kill, and how often.
    fn kills(&self) -> Result<rounds::Plan, Failure> {
        Ok(rounds::Plan {
            binary: self.binary()?,
            seed: self.seed.unwrap_or(1),
            rounds: self.rounds,
        })
    }

    /// The program to strain: the one that was named, or the one that was just built.
    fn binary(&self) -> Result<PathBuf, Failure> {
        match &self.program {
            Some(program) => Ok(program.clone()),
            None => Ok(target()?.join("release/fastness")),
        }
    }

    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut plan = Self {
            seed: None,
            seeds: None,
            from: 0,
            rounds: 1_000,
            commands: None,
            program: None,
            only: None,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let value = arguments.next();
            let value = value.ok_or_else(|| format!("{argument} needs a value"))?;
            let number = || {
                let digits = value.replace([',', '_'], "");
                digits
                    .parse::<u64>()
                    .map_err(|_| format!("{argument} takes a number, not {value}"))
            };
            match argument.as_str() {
                "--seed" => plan.seed = Some(number()?),
                "--seeds" => plan.seeds = Some(number()?),
                "--from" => plan.from = number()?,
                "--commands" => plan.commands = Some(number()?),
                "--rounds" => plan.rounds = number()?,
                "--bin" => plan.program = Some(PathBuf::from(value)),
                "--only" => plan.only = Some(value.clone()),
                other => return Err(format!("soak does not know {other}")),
            }
        }
        Ok(plan)
    }
}

/// How far it is and how fast, on one line of a terminal or now and then in a log.
struct Progress {
    total: u64,
    what: &'static str,
    started: Instant,
    told: Instant,
    done: u64,
    is_terminal: bool,
}

impl Progress {
    fn new(total: u64, what: &'static str) -> Self {
        let now = Instant::now();
        Self {
            total,
            what,
            started: now,
            told: now,
            done: 0,
            is_terminal: stderr().is_terminal(),
        }
    }

    fn at(&mut self, done: u64, more: &str) {
        self.done = self.done.max(done);
        let every = if self.is_terminal {
            TELL_EVERY
        } else {
            LOG_EVERY
        };
        if self.told.elapsed() < every {
            return;
        }
        self.told = Instant::now();
        let (done, total, what) = (self.done, self.total, self.what);
        let line = format!("{done} of {total} {what}{more}, {}", self.rate());
        let (before, after) = if self.is_terminal {
            ("\r\x1b[K", "")
        } else {
            ("", "\n")
        };
        // Not being able to tell is no reason to stop.
        let _ = write!(stderr(), "{before}{line}{after}");
    }

    /// Clears the line; gives the rate over the whole run.
    fn finish(mut self) -> String {
        self.done = self.total;
        if self.is_terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
        let seconds = self.started.elapsed().as_secs_f64();
        format!("{} ({seconds:.1} s)", self.rate())
    }

    fn rate(&self) -> String {
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        format!("{:.1} a second", self.done as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn a_soak_is_long_unless_it_is_asked_to_be_short() {
        let plan = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            Plan::parse(&words)
        };
        let long = plan(&[]).unwrap();
        assert_eq!((long.seeds, long.rounds, long.seed), (None, 1_000, None));
        let short = plan(&["--rounds", "2", "--seed", "7", "--seeds", "1,000"]).unwrap();
        assert_eq!((short.rounds, short.seed), (2, Some(7)));
        assert_eq!(short.seeds_or(5), 0..1_000);
        let others = plan(&["--from", "20_000"]).unwrap();
        assert_eq!(others.seeds_or(5), 20_000..20_005);
        assert!(plan(&["--rounds"]).is_err());
        assert!(plan(&["--rounds", "many"]).is_err());
        assert!(plan(&["--for", "ever"]).is_err());
    }
}
