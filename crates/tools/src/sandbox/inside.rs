//! The last step before a command: this very program, started inside with [`ARGUMENT`], gives up
//! what is left to give up and becomes the command.
//!
//! It fails rather than go on with less: then the command has not begun.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

use super::cage::Bounds;
use super::filter::{self, Sockets};
use super::held::{self, Held, OpenPlaces};
use super::ruleset::Rules;
use crate::roots::DirectoryId;

/// What makes this program step inside; one more argument says how.
pub(super) const ARGUMENT: &str = "enter-sandbox";

/// The code of a command that could not begin, as programs that start others use it.
pub(super) const NOT_BEGUN: u8 = 126;

/// What is to be done inside.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// What to become: the first of these that is there. Its arguments are those that are left.
    pub(super) programs: Vec<String>,
    /// Whether it has the input that we have, or none.
    pub(super) is_spoken_to: bool,
    /// The directory that it begins in; `None` if it is made for the sandbox.
    pub(super) cwd: Option<DirectoryId>,
    /// What may be opened.
    pub(super) rules: Rules,
    /// Whether the network was granted.
    pub(super) network: bool,
    /// Whether Unix sockets were granted.
    pub(super) unix_sockets: bool,
    /// How much may be taken.
    pub(super) bounds: Bounds,
}

/// Steps inside: `arguments` are how, and those of the command. Returns only the code of a failure.
#[must_use]
pub(super) fn take_over(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let entry = arguments.next().unwrap_or_default();
    let Err(error) = held::from_arguments(&mut arguments).and_then(|held| {
        enter(
            &entry.to_string_lossy(),
            &held,
            &arguments.collect::<Vec<_>>(),
        )
    });
    complain(&error);
    ExitCode::from(NOT_BEGUN)
}

#[expect(
    clippy::print_stderr,
    reason = "this process's stderr is the command's output"
)]
fn complain(error: &io::Error) {
    eprintln!("[the sandbox could not be entered: {error}]");
}

fn enter(entry: &str, held: &[Held], arguments: &[OsString]) -> io::Result<Infallible> {
    let entry: Entry = serde_json::from_str(entry)?;
    let places = OpenPlaces::open(held, entry.rules.is_alone)?;
    if let Some(cwd) = entry.cwd {
        check_cwd(cwd)?;
    }
    bound(&entry.bounds)?;
    give_up_capabilities()?;
    rustix::thread::set_no_new_privs(true)?;
    entry.rules.apply(&places)?;
    drop(places);
    let is_alone = entry.rules.is_alone;
    let sockets = match (is_alone, entry.network, entry.unix_sockets) {
        (false, _, true) => Sockets::Usual,
        (false, _, false) | (true, true, _) => Sockets::NetworkOnly,
        (true, false, _) => Sockets::PairsOnly,
    };
    filter::apply(sockets, is_alone)?;
    become_one_of(&entry, arguments)
}

/// Bubblewrap goes there by path.
fn check_cwd(expected: DirectoryId) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = rustix::fs::open(".", flags, Mode::empty())?;
    if DirectoryId::of(&own)? == expected {
        return Ok(());
    }
    Err(io::Error::other(
        "the command's directory has changed; try again",
    ))
}

fn bound(bounds: &Bounds) -> io::Result<()> {
    for (resource, most) in [
        (Resource::Nproc, bounds.processes),
        (Resource::Data, bounds.memory_bytes),
        (Resource::Fsize, bounds.file_bytes),
        // What a process had in memory is nobody's business.
        (Resource::Core, 0),
    ] {
        // Nobody can raise what is lower already.
        let already = rustix::process::getrlimit(resource).maximum;
        let most = already.map_or(most, |already| already.min(most));
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

/// Gives up what root can do beyond other users, so that it is root in name only.
fn give_up_capabilities() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        // Only root may, and only root needs to.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    // There is nothing in it unless somebody started us with it.
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
}

#[expect(clippy::disallowed_methods, reason = "this is tools::sandbox")]
fn become_one_of(entry: &Entry, arguments: &[OsString]) -> io::Result<Infallible> {
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for program in &entry.programs {
        let mut command = std::process::Command::new(program);
        command.args(arguments);
        if !entry.is_spoken_to {
            command.stdin(Stdio::null());
        }
        error = command.exec();
        if error.kind() != io::ErrorKind::NotFound {
            break;
        }
    }
    Err(error)
}
