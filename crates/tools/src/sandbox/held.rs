//! What a command may change must be what was checked, not what lies at its path when it is
//! mounted or permitted: another command may have put a link there in between.
//!
//! Bubblewrap opens what it mounts by path. So the last step inside, when everything is mounted and
//! nothing of the command runs yet, compares device and inode of each place; from then on a mount
//! stays what it is. Landlock's rules are made from the descriptors that were compared.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::cage::Places;
use super::path_text;
use crate::roots::{DirectoryId, PathError, Root};

/// A place that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// Under which name a command sees it.
    #[serde(with = "path_text::one")]
    at: PathBuf,
    /// What must be there.
    id: DirectoryId,
}

impl Held {
    /// Whether `path` lies in it.
    pub(super) fn covers(&self, path: &Path) -> bool {
        path.starts_with(&self.at)
    }
}

/// Bytes of one argument for the last step: the kernel takes twice as many.
const ARGUMENT_BYTES_MAX: usize = 64 * 1024;

/// `held` as arguments: how many follow, and they.
///
/// # Errors
/// None that is known: paths can always be written.
pub(super) fn to_arguments(held: &[Held]) -> io::Result<Vec<String>> {
    let mut arguments = vec![String::new()];
    for place in held {
        let line = serde_json::to_string(place)?;
        match arguments.last_mut() {
            Some(last) if last.len() + line.len() < ARGUMENT_BYTES_MAX => {
                last.push_str(&line);
                last.push('\n');
            }
            Some(_) | None => arguments.push(line + "\n"),
        }
    }
    arguments.insert(0, arguments.len().to_string());
    Ok(arguments)
}

/// What [`to_arguments`] made, taken from the front of `arguments`.
///
/// # Errors
/// If it is something else.
pub(super) fn from_arguments(
    arguments: &mut impl Iterator<Item = OsString>,
) -> io::Result<Vec<Held>> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
    let count = arguments.next().ok_or_else(wrong)?;
    let count: usize = count
        .to_str()
        .and_then(|count| count.parse().ok())
        .ok_or_else(wrong)?;
    let mut held = Vec::new();
    for _ in 0..count {
        let lines = arguments.next().ok_or_else(wrong)?;
        for line in lines.to_str().ok_or_else(wrong)?.lines() {
            held.push(serde_json::from_str(line)?);
        }
    }
    Ok(held)
}

/// All of `places` that lies in `roots`: what can be changed, and what must stay as it is. Blocks.
///
/// # Errors
/// If a root, or something in one, was replaced since it was looked at.
pub(super) fn hold(places: &Places, roots: &[Root]) -> Result<Vec<Held>, PathError> {
    let mut open: Vec<(&Root, OwnedFd)> = Vec::new();
    for root in roots {
        match root.open() {
            Ok(directory) => open.push((root, directory)),
            // It was replaced since the places were found.
            Err(error) if places.change.iter().any(|shown| shown.real == root.real()) => {
                return Err(error);
            }
            // What was replaced before is not among the places.
            Err(_) => {}
        }
    }
    let shown = places.change.iter().chain(&places.hold);
    let all = shown.map(|shown| &shown.at).chain(&places.keep);
    let mut held = Vec::new();
    for at in all {
        let beneath = |(root, open): &'_ (&Root, OwnedFd)| {
            let rest = at.strip_prefix(root.path());
            let rest = rest.or_else(|_| at.strip_prefix(root.real())).ok()?;
            let opened = match rest.as_os_str().is_empty() {
                true => rustix::io::dup(open),
                false => open_beneath(open, rest),
            };
            Some((rest.components().count(), opened))
        };
        // The innermost root is mounted there.
        let found = open.iter().filter_map(beneath);
        match found.min_by_key(|(depth, _)| *depth) {
            Some((_, Ok(open))) => held.push(Held {
                at: at.clone(),
                id: DirectoryId::of(&open)?,
            }),
            // Gone by now, or no part of a root.
            Some((_, Err(Errno::NOENT))) | None => {}
            Some((_, Err(_))) => return Err(PathError::Replaced(at.clone())),
        }
    }
    Ok(held)
}

/// The held places, open and compared.
#[derive(Debug)]
pub(super) struct OpenPlaces {
    open: Vec<(PathBuf, OwnedFd)>,
    /// Whether no link is followed elsewhere either.
    is_strict: bool,
}

impl OpenPlaces {
    /// Opens and compares all of `held`. Where nothing else keeps the command in, no link is
    /// followed.
    ///
    /// # Errors
    /// If something else is there.
    pub(super) fn open(held: &[Held], is_strict: bool) -> io::Result<Self> {
        let mut places = Self {
            open: Vec::new(),
            is_strict,
        };
        for place in held {
            let open = match places.open_at_top(&place.at) {
                // Where nothing is, nothing is shown.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if DirectoryId::of(&open)? != place.id {
                let at = place.at.display();
                return Err(io::Error::other(format!(
                    "{at} is not what it was when the command was checked; try again"
                )));
            }
            places.open.push((place.at.clone(), open));
        }
        Ok(places)
    }

    /// Opens `path`: from the held place that it lies in, if it lies in one.
    pub(super) fn find(&self, path: &Path) -> io::Result<OwnedFd> {
        let within = self.open.iter().filter_map(|(at, open)| {
            let rest = path.strip_prefix(at).ok()?;
            Some((rest, open))
        });
        match within.min_by_key(|(rest, _)| rest.components().count()) {
            Some((rest, open)) if rest.as_os_str().is_empty() => Ok(rustix::io::dup(open)?),
            Some((rest, open)) => Ok(open_beneath(open, rest)?),
            None => self.open_at_top(path),
        }
    }

    fn open_at_top(&self, path: &Path) -> io::Result<OwnedFd> {
        let resolve = match self.is_strict {
            true => ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
            false => ResolveFlags::empty(),
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(
            CWD,
            path,
            flags,
            Mode::empty(),
            resolve,
        )?)
    }
}

fn open_beneath(directory: &OwnedFd, rest: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(directory, rest, flags, Mode::empty(), resolve)
}
