//! Starting a command in its cage: the supervisor's side.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::bubblewrap::{self, SCRATCH};
use super::cage::{Bounds, Cage, Layer};
use super::held::{self, Held};
use super::inside::{self, Entry};
use super::journal::{self, Written};
use super::places::without;
use super::put_back::Snapshot;
use super::ruleset::Rules;
use super::{OURSELVES, tree};
use crate::helpers;
use crate::roots::DirectoryId;

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
    /// What is looked at after it.
    pub(super) remembered: Option<Remembered>,
}

/// The protected files as they were before a command.
#[derive(Debug)]
pub(super) struct Remembered {
    snapshot: Snapshot,
    written: Option<Arc<Written>>,
}

impl Remembered {
    /// Looks at what must not change, and writes it down. Says what the user should know.
    ///
    /// # Errors
    /// If it cannot be written down: after a crash it would not be known what to check.
    fn of(cage: &Cage, is_program: bool) -> io::Result<Self> {
        for note in &cage.notes {
            // Where the command prints.
            let _ = writeln!(io::stderr(), "{note}");
        }
        let snapshot = Snapshot::of(cage, is_program)?;
        let directory = cage.snapshots.as_ref();
        let written = directory.map(|directory| Written::new(directory, &snapshot));
        let written = written.transpose()?.map(Arc::new);
        if let Some(written) = written.clone() {
            std::thread::spawn(move || {
                loop {
                    std::thread::sleep(journal::TOUCH_EVERY);
                    written.touch();
                }
            });
        }
        Ok(Self { snapshot, written })
    }

    /// Undoes what the command did to protected files. Says, a line each, what the user should know.
    pub(super) fn settle(&self) -> Vec<String> {
        let told = self.snapshot.settle(None);
        if let Some(written) = &self.written {
            written.remove();
        }
        told
    }
}

impl Caged {
    /// One that is shut in nothing.
    pub(super) fn free(child: Child) -> Self {
        Self {
            child,
            stands_outside: false,
            _scratch: None,
            remembered: None,
        }
    }
}

/// What is to run.
pub(super) enum Wanted<'a> {
    /// A command for a shell, without input, printing to where we complain.
    Command(&'a str),
    /// A program and its arguments, with our own input and output.
    Program(&'a [String]),
}

/// Starts what is wanted in `cage`.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start(cage: &Cage, wanted: &Wanted<'_>) -> io::Result<Caged> {
    let (at, own) = (std::env::current_dir()?, own_directory()?);
    let has_roots = !cage.places.area.roots.is_empty();
    let remembered = has_roots.then(|| Remembered::of(cage, wanted.is_spoken_to()));
    let remembered = remembered.transpose()?;
    match &cage.layer {
        Layer::Bubblewrap { program } => {
            let entry = Entry {
                programs: wanted.programs(),
                is_spoken_to: wanted.is_spoken_to(),
                // Above the roots there are only directories of the sandbox's own.
                cwd: cage.held.iter().any(|held| held.covers(&at)).then_some(own),
                rules: rules_inside(cage),
                network: cage.network,
                unix_sockets: cage.unix_sockets,
                bounds: cage.bounds,
            };
            // Ourselves, wherever we are, and whatever is there by now.
            let ourselves = own_program()?;
            let (number, input, _open) = match wanted {
                Wanted::Command(_) => (0, Stdio::from(ourselves), None),
                // Its input is taken. This one stays open in it, for nothing but to be run.
                Wanted::Program(_) => {
                    let open = rustix::io::dup(ourselves)?;
                    (open.as_raw_fd(), Stdio::inherit(), Some(open))
                }
            };
            let mut outer = new_command(program);
            outer
                .args(bubblewrap::arguments(cage, &at))
                .arg(format!("/proc/self/fd/{number}"))
                .env("TMPDIR", SCRATCH);
            Ok(Caged {
                stands_outside: true,
                remembered,
                ..Caged::free(spawn(outer, (&entry, &cage.held), wanted, input)?)
            })
        }
        Layer::Landlock => {
            let scratch = Scratch::new()?;
            let entry = Entry {
                programs: wanted.programs(),
                is_spoken_to: wanted.is_spoken_to(),
                cwd: Some(own),
                rules: rules_alone(cage, &scratch.path),
                network: cage.network,
                unix_sockets: cage.unix_sockets,
                bounds: Bounds {
                    // Without a namespace everything that the user runs is counted.
                    processes: cage.bounds.processes + tree::tasks_of_this_user(),
                    ..cage.bounds
                },
            };
            let mut outer = new_command(Path::new(OURSELVES));
            outer.env("TMPDIR", &scratch.path);
            let input = match wanted {
                Wanted::Command(_) => Stdio::null(),
                Wanted::Program(_) => Stdio::inherit(),
            };
            Ok(Caged {
                _scratch: Some(scratch),
                remembered,
                ..Caged::free(spawn(outer, (&entry, &cage.held), wanted, input)?)
            })
        }
    }
}

/// Starts a program that is shut in nothing, with our own input and output.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start_free(words: &[String]) -> io::Result<Caged> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = new_command(Path::new(program));
    let child = command.args(arguments).process_group(0).spawn();
    child.map(Caged::free)
}

impl Wanted<'_> {
    fn programs(&self) -> Vec<String> {
        match self {
            Self::Command(_) => vec![helpers::system_shell().display().to_string()],
            Self::Program(words) => words.iter().take(1).cloned().collect(),
        }
    }

    fn is_spoken_to(&self) -> bool {
        matches!(self, Self::Program(_))
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
    // Rules follow no links, and a temporary directory may lie behind one.
    write.push(
        scratch
            .canonicalize()
            .unwrap_or_else(|_| scratch.to_owned()),
    );
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

fn spawn(
    mut outer: Command,
    (entry, held): (&Entry, &[Held]),
    wanted: &Wanted<'_>,
    input: Stdio,
) -> io::Result<Child> {
    let output = || Ok::<_, io::Error>(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
    outer
        .arg(inside::ARGUMENT)
        .arg(serde_json::to_string(entry)?)
        .args(held::to_arguments(held)?)
        .stdin(input)
        // A script that signals its own group does not mean us.
        .process_group(0);
    match wanted {
        Wanted::Command(command) => outer
            .args(["-c", command])
            .stdout(output()?)
            .stderr(output()?),
        Wanted::Program(words) => outer.args(words.iter().skip(1)),
    };
    outer.spawn()
}

/// Which directory this process is in: it came here by a descriptor.
fn own_directory() -> io::Result<DirectoryId> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    DirectoryId::of(&rustix::fs::open(".", flags, Mode::empty())?)
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
