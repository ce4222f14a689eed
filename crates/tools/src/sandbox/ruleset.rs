//! What Landlock lets a command open.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::held::OpenPlaces;
use super::path_text;

/// The newest that we have tried. Older kernels keep what they know of it.
const NEWEST: ABI = ABI::V7;

/// The oldest that is enough by itself: before it, any file could be emptied.
const OLDEST_ALONE: ABI = ABI::V3;

/// What a command may open. All else is refused.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Rules {
    /// To read, and to run.
    #[serde(with = "path_text::many")]
    pub(super) read: Vec<PathBuf>,
    /// To change as well.
    #[serde(with = "path_text::many")]
    pub(super) write: Vec<PathBuf>,
    /// Devices, to read and to write.
    pub(super) devices: Vec<PathBuf>,
    /// Whether there is nothing else that keeps the command in.
    pub(super) is_alone: bool,
}

impl Rules {
    /// Shuts this thread in, and all that it becomes or starts. There is no way back.
    ///
    /// # Errors
    /// If the kernel cannot do what is needed.
    pub(super) fn apply(&self, places: &OpenPlaces) -> io::Result<()> {
        let everything = AccessFs::from_all(NEWEST);
        let mut ruleset = Ruleset::default();
        if self.is_alone {
            ruleset = ruleset
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessFs::from_all(OLDEST_ALONE))
                .map_err(io::Error::other)?
                .set_compatibility(CompatLevel::BestEffort);
        }
        let mut created = ruleset
            .handle_access(everything)
            .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
            .and_then(Ruleset::create)
            .map_err(io::Error::other)?;
        let reading = AccessFs::from_read(NEWEST);
        let using = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        for (paths, access) in [
            (&self.read, reading),
            (&self.write, everything),
            (&self.devices, using),
        ] {
            for path in paths {
                created = allow(created, places.find(path), access)?;
            }
        }
        let status = created.restrict_self().map_err(io::Error::other)?;
        if self.is_alone && status.ruleset == RulesetStatus::NotEnforced {
            return Err(io::Error::other("the kernel does not enforce Landlock"));
        }
        Ok(())
    }
}

/// Adds one path; a path that is gone, or became a link, needs no rule.
fn allow(
    created: RulesetCreated,
    opened: io::Result<OwnedFd>,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let Ok(file) = opened else {
        return Ok(created);
    };
    let mode = rustix::fs::fstat(&file)?.st_mode;
    // A right about directories cannot be given on a file.
    let access = match FileType::from_raw_mode(mode).is_dir() {
        true => access,
        false => access & AccessFs::from_file(NEWEST),
    };
    let rule = PathBeneath::new(file, access);
    created.add_rule(rule).map_err(io::Error::other)
}
