//! Starting a command in its cage: the supervisor's side.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags};

use super::bubblewrap::{self, SCRATCH};
use super::cage::{Bounds, Cage, Layer};
use super::inside::{self, Entry};
use super::places::without;
use super::put_back::Remembered;
use super::ruleset::Rules;
use super::{OURSELVES, tree};

/// What commands are written for, and what does where that is not there.
const SHELLS: [&str; 2] = ["bash", "sh"];

/// Devices that everybody may use, where there is no `/dev` of the cage's own.
const DEVICES: &[&str] = &[
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
];

/// A command in its cage.
pub(super) struct Caged {
    pub(super) child: Child,
    /// Whether the child only stands outside, to see how the command ends.
    pub(super) stands_outside: bool,
    /// Removed with it.
    pub(super) _scratch: Option<Scratch>,
    /// What is put back after it.
    pub(super) remembered: Option<Remembered>,
}

/// Starts `command` in a shell, printing to where we complain.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start(cage: &Cage, command: &str) -> io::Result<Caged> {
    let programs = SHELLS.map(str::to_owned).to_vec();
    let cwd = std::env::current_dir()?;
    match &cage.layer {
        Layer::Bubblewrap { program } => {
            let entry = Entry {
                programs,
                rules: rules_inside(cage),
                network: cage.network,
                bounds: cage.bounds,
            };
            let mut outer = new_command(program);
            outer
                .args(bubblewrap::arguments(cage, &cwd))
                // Ourselves, wherever we are, and whatever is there by now.
                .arg("/proc/self/fd/0")
                .stdin(Stdio::from(File::from(own_program()?)))
                .env("TMPDIR", SCRATCH);
            Ok(Caged {
                child: spawn(outer, &entry, command)?,
                stands_outside: true,
                _scratch: None,
                remembered: None,
            })
        }
        Layer::Landlock => {
            let scratch = Scratch::new()?;
            let remembered = Remembered::of(&cage.places);
            let entry = Entry {
                programs,
                rules: rules_alone(cage, &scratch.path),
                network: cage.network,
                bounds: Bounds {
                    // Without a namespace everything that the user runs is counted.
                    processes: cage.bounds.processes + tree::tasks_of_this_user(),
                    ..cage.bounds
                },
            };
            let mut outer = new_command(Path::new(OURSELVES));
            outer.stdin(Stdio::null()).env("TMPDIR", &scratch.path);
            Ok(Caged {
                child: spawn(outer, &entry, command)?,
                stands_outside: false,
                _scratch: Some(scratch),
                remembered: Some(remembered),
            })
        }
    }
}

/// Inside bubblewrap there is only what may be seen, so the second layer is about changing.
fn rules_inside(cage: &Cage) -> Rules {
    let change = cage.places.change.iter();
    let mut write: Vec<PathBuf> = change.map(|shown| shown.at.clone()).collect();
    write.extend([SCRATCH, "/dev"].map(PathBuf::from));
    Rules {
        read: vec![PathBuf::from("/")],
        write,
        devices: Vec::new(),
        is_alone: false,
    }
}

/// Landlock can only permit, so what is hidden is what is left out.
fn rules_alone(cage: &Cage, scratch: &Path) -> Rules {
    let places = &cage.places;
    let apart = |shown: &super::cage::Shown| without(&shown.real, &places.apart);
    let mut read: Vec<PathBuf> = places.see.iter().flat_map(apart).collect();
    read.push(PathBuf::from("/proc"));
    let mut write: Vec<PathBuf> = places.change.iter().flat_map(apart).collect();
    write.push(scratch.to_owned());
    Rules {
        read,
        write,
        devices: DEVICES.iter().map(PathBuf::from).collect(),
        is_alone: true,
    }
}

#[expect(clippy::disallowed_methods, reason = "this is tools::sandbox")]
fn new_command(program: &Path) -> Command {
    Command::new(program)
}

fn spawn(mut outer: Command, entry: &Entry, command: &str) -> io::Result<Child> {
    let output = || Ok::<_, io::Error>(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
    outer
        .arg(inside::ARGUMENT)
        .arg(serde_json::to_string(entry)?)
        .args(["-c", command])
        // A script that signals its own group does not mean us.
        .process_group(0)
        .stdout(output()?)
        .stderr(output()?)
        .spawn()
}

/// Enough of this program to run it.
fn own_program() -> io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::open(OURSELVES, flags, Mode::empty())?)
}

/// A directory for what a command needs for a while, where there is none of the cage's own.
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let name = format!("fastness-{}", uuid::Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is in a directory for such things.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
