//! Permission modes: how much a session may do without asking.

use std::str::FromStr;

/// How freely tools run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Reading is free; everything else asks.
    #[default]
    Default,
    /// Editing files is free too.
    AcceptEdits,
    /// Reading only; nothing else runs.
    Plan,
    /// Everything runs.
    Bypass,
}

/// There is no such mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the modes are default, acceptEdits, plan and bypass")]
pub struct UnknownMode;

impl Mode {
    /// Its name on the wire and in the journal.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::Bypass => "bypass",
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let modes = [Self::Default, Self::AcceptEdits, Self::Plan, Self::Bypass];
        modes
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or(UnknownMode)
    }
}
