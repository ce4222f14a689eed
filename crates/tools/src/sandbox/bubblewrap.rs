//! A cage as arguments for bubblewrap.
//!
//! The root is empty at first; what may be seen is put into it, parents before what lies in them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use domain::limits::{COMMAND_SCRATCH_BYTES_MAX, COMMAND_SHARED_MEMORY_BYTES_MAX};

use super::cage::{Cage, Places, Shown};

/// Where a command may put what it needs for a while.
pub(super) const SCRATCH: &str = "/tmp";

/// One thing in the new root.
enum Mount<'a> {
    See(&'a Shown),
    Change(&'a Shown),
    /// A directory of what can be changed, as a mount of its own so that it cannot be renamed.
    Held(&'a Shown),
    Scratch,
    Bare,
    Empty,
    Blank,
    Kept,
}

/// The arguments for bubblewrap, up to the program that it is to start in `cwd`.
pub(super) fn arguments(cage: &Cage, cwd: &Path) -> Vec<OsString> {
    let mut words = Words::default();
    words.add(["--unshare-all", "--die-with-parent", "--new-session"]);
    if cage.network {
        words.add(["--share-net"]);
    }
    for (at, to) in &cage.places.links {
        words.add(["--symlink"]).path(to).path(at);
    }
    let mut read_only = vec![PathBuf::from("/")];
    for (at, mount) in mounts(&cage.places) {
        match mount {
            Mount::See(shown) => words.add(["--ro-bind"]).path(&shown.real).path(at),
            Mount::Change(shown) => words.add(["--bind"]).path(&shown.real).path(at),
            // What lies in the scratch directory could be written to.
            Mount::Bare if at.starts_with(SCRATCH) => {
                read_only.push(at.to_owned());
                words.add(["--tmpfs"]).path(at)
            }
            Mount::Bare => words.add(["--dir"]).path(at),
            // What is gone by now needs no mount.
            Mount::Held(shown) => words.add(["--bind-try"]).path(&shown.real).path(at),
            Mount::Kept => words.add(["--ro-bind-try"]).path(at).path(at),
            Mount::Blank => words.add(["--ro-bind", "/dev/null"]).path(at),
            Mount::Scratch => {
                let size = COMMAND_SCRATCH_BYTES_MAX.to_string();
                let words = words.add(["--perms", "1777", "--size", &size, "--tmpfs"]);
                words.path(at)
            }
            Mount::Empty => {
                read_only.push(at.to_owned());
                words.add(["--tmpfs"]).path(at)
            }
        };
    }
    words.add(["--dev", "/dev", "--proc", "/proc"]);
    // What is written there is memory.
    let size = COMMAND_SHARED_MEMORY_BYTES_MAX.to_string();
    words.add(["--perms", "1777", "--size", &size, "--tmpfs", "/dev/shm"]);
    read_only.push(PathBuf::from("/dev"));
    words.add(["--symlink", SCRATCH, "/var/tmp"]);
    // Last: it can only be done once everything is in its place.
    for at in &read_only {
        words.add(["--remount-ro"]).path(at);
    }
    words.add(["--chdir"]).path(cwd).add(["--"]);
    words.0
}

/// Everything that is put into the root, parents first; of two at one path the stricter last.
fn mounts(places: &Places) -> Vec<(&Path, Mount<'_>)> {
    let mut mounts = vec![(Path::new(SCRATCH), Mount::Scratch)];
    mounts.extend(places.bare.iter().map(|at| (&**at, Mount::Bare)));
    mounts.extend(
        places
            .see
            .iter()
            .map(|shown| (&*shown.at, Mount::See(shown))),
    );
    let change = places.change.iter();
    mounts.extend(change.map(|shown| (&*shown.at, Mount::Change(shown))));
    let hold = places.hold.iter();
    mounts.extend(hold.map(|shown| (&*shown.at, Mount::Held(shown))));
    mounts.extend(places.keep.iter().map(|at| (&**at, Mount::Kept)));
    let empty = places.keep_out.iter().chain(&places.hide);
    mounts.extend(empty.map(|at| (&**at, Mount::Empty)));
    mounts.extend(places.hide_files.iter().map(|at| (&**at, Mount::Blank)));
    // The sort keeps the order of what is at the same path.
    mounts.sort_by_key(|(at, _)| *at);
    mounts
}

#[derive(Default)]
struct Words(Vec<OsString>);

impl Words {
    fn add<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.0.extend(words.into_iter().map(OsString::from));
        self
    }

    fn path(&mut self, path: &Path) -> &mut Self {
        self.0.push(path.into());
        self
    }
}
