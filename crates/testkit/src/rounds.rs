//! What the harnesses have in common that kill a program again and again.

use std::path::PathBuf;
use std::time::Duration;

use crate::random::Random;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program to kill.
    pub binary: PathBuf,
    /// Chooses when it dies, and what is written.
    pub seed: u64,
    /// How often it dies.
    pub rounds: u64,
}

/// Some time shorter than `longest`.
pub(crate) fn moment(random: &mut Random, longest: Duration) -> Duration {
    let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random.below(micros))
}
