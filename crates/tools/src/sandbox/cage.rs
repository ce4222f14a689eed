//! What a command is shut in: the form in which the supervisor is told.
//!
//! A [`Cage`] is made by [`Sandbox::cage`](super::Sandbox::cage) of what [`places`](super::places)
//! found, and carried out by [`bubblewrap`](super::bubblewrap) and [`inside`](super::inside).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::held::Held;
use super::inventory::{FoundFile, SearchArea};
use super::path_text;

/// Rights of one command beyond those that every command has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// It may reach the network.
    pub network: bool,
    /// It may make git repositories: the user was asked about that.
    pub repositories: bool,
}

/// What a command is shut in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cage {
    pub(super) layer: Layer,
    pub(super) places: Places,
    /// What of the places must still be what was checked when the command begins.
    pub(super) held: Vec<Held>,
    pub(super) network: bool,
    /// Whether sockets with a path can be made and reached.
    pub(super) unix_sockets: bool,
    pub(super) bounds: Bounds,
    /// Whether new git repositories stay.
    pub(super) may_make_repositories: bool,
    /// Where a snapshot of protected files is kept while the command runs.
    pub(super) snapshots: Option<PathBuf>,
    /// What the user is to be told before the command prints anything.
    pub(super) notes: Vec<String>,
}

impl Cage {
    /// Whether all protected files beneath the session's directories are known.
    #[must_use]
    pub(crate) fn is_searched(&self) -> bool {
        self.places.is_searched
    }
}

/// What keeps it in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Layer {
    /// Namespaces made by bubblewrap, with Landlock and a filter of system calls inside.
    Bubblewrap {
        /// The program.
        program: PathBuf,
    },
    /// Landlock and a filter of system calls alone.
    Landlock,
}

/// What a command sees of the disk, and what of it it may change. Nothing else is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Places {
    /// Can be read, and programs in them run.
    pub(super) see: Vec<Shown>,
    /// Can be changed too.
    pub(super) change: Vec<Shown>,
    /// Within those: directories out of sight.
    #[serde(with = "path_text::many")]
    pub(super) hide: Vec<PathBuf>,
    /// Within those: files out of sight.
    #[serde(with = "path_text::many")]
    pub(super) hide_files: Vec<PathBuf>,
    /// All that is out of sight, without links.
    #[serde(with = "path_text::many")]
    pub(super) apart: Vec<PathBuf>,
    /// Within what can be changed: what must stay as it is.
    #[serde(with = "path_text::many")]
    pub(super) keep: Vec<PathBuf>,
    /// Directories on the way to what is kept or hidden: mounted, so that they cannot be renamed.
    pub(super) hold: Vec<Shown>,
    /// The protected files that are there.
    pub(super) protected: Vec<FoundFile>,
    /// Directories that git takes for a repository's.
    #[serde(with = "path_text::many")]
    pub(super) repositories: Vec<PathBuf>,
    /// Where protected files are looked for.
    pub(super) area: SearchArea,
    /// Whether the search came to its end.
    pub(super) is_searched: bool,
    /// Directories of that kind that are not there yet, and must not be made.
    #[serde(with = "path_text::many")]
    pub(super) keep_out: Vec<PathBuf>,
    /// Directories that are there, with nothing in them but what is shown.
    #[serde(with = "path_text::many")]
    pub(super) bare: Vec<PathBuf>,
    /// Links at the top, as `bin` to `usr/bin`: where, and to what.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
}

/// A directory or file, and under which name it is seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Shown {
    /// The name.
    #[serde(with = "path_text::one")]
    pub(super) at: PathBuf,
    /// What it really is: a path without links.
    #[serde(with = "path_text::one")]
    pub(super) real: PathBuf,
}

/// How much a command may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Processes and threads at once.
    pub processes: u64,
    /// Bytes of memory that one process may fill.
    pub memory_bytes: u64,
    /// Bytes of memory that all of them may fill together, where a control group can be made.
    pub total_memory_bytes: u64,
    /// Bytes of the largest file it may write.
    pub file_bytes: u64,
}
