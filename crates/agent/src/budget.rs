//! How much a turn may do.

use domain::Limits;

/// Model calls a turn has left. A step is spent by value, so it cannot be spent twice.
#[derive(Debug)]
pub struct Budget {
    steps: u32,
}

impl Budget {
    /// A full budget.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            steps: limits.steps_max,
        }
    }

    /// The budget after one more model call, or `None` when there is none left.
    #[must_use]
    pub fn spend_step(self) -> Option<Self> {
        let steps = self.steps.checked_sub(1)?;
        Some(Self { steps })
    }
}
