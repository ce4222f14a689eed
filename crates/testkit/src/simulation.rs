//! Seeded runs of the real sessions and connections: many clients over bad networks, a model that
//! talks, a storage that dies and loses power, and time that is paused.
//!
//! Clients come over pipes and over streams that are cut and taken up again ([`streams`]). One seed
//! makes one story. After every step everything that any client was shown is compared
//! with the journal ([`view`]), and the journal with what must hold of it ([`record`]). [`world`]
//! carries the story out; [`steps`] decides what happens next.
//!
//! What a seed decides: who does what and when, in paused time, what the model says, what the disk
//! loses. What it does not: names (random), the order in which the store's threads finish work of
//! the same moment, and with it the exact moment inside a write at which a process dies. So a
//! failure that is a race within one moment may need a few repeats of its seed.

use std::path::PathBuf;
use std::sync::Arc;

use auth::{Credential, Gate, NamedTokens, NewToken, Principal, Secret};
use domain::clock::Timestamp;
use session::subscription::sabotage::{self, Sabotage};
use tempfile::TempDir;

mod answers;
mod client;
mod model;
mod panics;
pub mod races;
mod record;
mod steps;
mod streams;
#[cfg(test)]
mod tests;
mod view;
mod world;

use world::World;

/// What was found to be wrong, for whoever looks for the cause.
type Verdict = Result<(), String>;

/// Where simulated sessions work and who takes part; made once for many seeds.
pub struct Grounds {
    dir: TempDir,
    gate: Arc<Gate>,
    people: Vec<Principal>,
}

impl Grounds {
    /// Makes a directory with a file to read, and tokens for two people beside the local one.
    ///
    /// # Errors
    /// If the directory or the tokens cannot be made.
    pub fn new() -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("no place to simulate in: {error}");
        let dir = tempfile::tempdir().map_err(|error| failed(&error))?;
        for sub in ["work", "data"] {
            std::fs::create_dir(dir.path().join(sub)).map_err(|error| failed(&error))?;
        }
        let notes = dir.path().join("work/notes.txt");
        std::fs::write(notes, "what was written down\n").map_err(|error| failed(&error))?;
        let named = NamedTokens::of(&dir.path().join("data"));
        let now = Timestamp::now();
        let mut credentials = Vec::new();
        for name in ["ann", "bob"] {
            let new = NewToken {
                name: name.to_owned(),
                ..NewToken::default()
            };
            let (_, secret) = named.create(new, now).map_err(|error| failed(&error))?;
            credentials.push(secret);
        }
        let gate = Gate::with_tokens(Secret::new("nobody shows this one"), named);
        let mut people = vec![admit(&gate, &Credential::ThisProcess)?];
        for secret in &credentials {
            people.push(admit(&gate, &Credential::Bearer(secret.reveal()))?);
        }
        Ok(Self {
            dir,
            gate: Arc::new(gate),
            people,
        })
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }
}

/// What happened in the runs, to see that enough did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Times that a server began.
    pub lives: u64,
    /// Things that clients did.
    pub steps: u64,
    /// Frames that clients were sent.
    pub frames: u64,
    /// Connections that broke off.
    pub drops: u64,
    /// Times that a session was entered again after a cursor.
    pub resumes: u64,
    /// Of these inside a message.
    pub resumes_inside: u64,
    /// Of these with a void cursor.
    pub resyncs: u64,
    /// Prompts that were answered.
    pub answered: u64,
    /// Of these more than once, because they were sent again.
    pub repeated: u64,
    /// Questions asked of clients.
    pub questions: u64,
    /// Questions taken back.
    pub withdrawn: u64,
    /// Attempts of strangers.
    pub strangers: u64,
    /// Updates that more of the same event followed.
    pub pieces: u64,
    /// Connections that broke off after one of these.
    pub cuts_between: u64,
    /// Times that a session was entered again inside a message that is longer than one update.
    pub resumes_inside_long: u64,
    /// Streams that were taken up again after the last event that came.
    pub takeovers: u64,
    /// Those that could not be, so that the client attached anew.
    pub conflicts: u64,
    /// Times that somebody came back to a session that was in memory.
    pub met_loaded: u64,
    /// Times that it was not.
    pub met_unloaded: u64,
}

/// How clients are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// By pipes, as over a WebSocket: one way for everything, which lasts as long as the connection.
    Pipes,
    /// By single requests: a stream for each session, cut and taken up again.
    Streams,
    /// Each time one of these.
    Both,
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.lives += other.lives;
        self.steps += other.steps;
        self.frames += other.frames;
        self.drops += other.drops;
        self.resumes += other.resumes;
        self.resumes_inside += other.resumes_inside;
        self.resyncs += other.resyncs;
        self.answered += other.answered;
        self.repeated += other.repeated;
        self.questions += other.questions;
        self.withdrawn += other.withdrawn;
        self.strangers += other.strangers;
        self.pieces += other.pieces;
        self.cuts_between += other.cuts_between;
        self.resumes_inside_long += other.resumes_inside_long;
        self.takeovers += other.takeovers;
        self.conflicts += other.conflicts;
        self.met_loaded += other.met_loaded;
        self.met_unloaded += other.met_unloaded;
    }
}

/// Runs one seed.
///
/// # Errors
/// What was shown wrongly, and how to see it again.
pub fn run(seed: u64, grounds: &Grounds, lines: Lines) -> Result<Summary, String> {
    let mut world = World::new(seed, grounds);
    world.lines = lines;
    world
        .run()
        .map_err(|why| format!("seed {seed}: {why}\nrepeat: cargo xtask soak resume --seed {seed}"))
}

/// Runs one seed with followers that fail on purpose, which some seed must notice.
///
/// # Errors
/// As [`run`].
pub fn run_sabotaged(
    seed: u64,
    grounds: &Grounds,
    (lines, sabotage): (Lines, Sabotage),
) -> Result<Summary, String> {
    let mut world = World::new(seed, grounds);
    world.lines = lines;
    sabotage::set(Some(sabotage));
    let outcome = world.run();
    sabotage::set(None);
    outcome
}

fn admit(gate: &Gate, credential: &Credential<'_>) -> Result<Principal, String> {
    let admitted = gate.admit(credential, Timestamp::now());
    admitted.map_err(|_| "a token of our own was refused".to_owned())
}
