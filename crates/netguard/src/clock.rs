//! The time of day, by which exceptions expire.

use std::time::SystemTime;

/// Says what time it is. Deadlines do not come from here: they are tokio's.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> SystemTime;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that others take as an argument"
    )]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
