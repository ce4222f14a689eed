//! The supervisor: a process of its own between us and a command, so that nothing of the command
//! outlives it.
//!
//! It collects every orphan among its descendants, so none can leave it by forking twice or by
//! opening a session. When the command ends, or when its own input ends (because whoever started
//! it stopped waiting, or died), it ends all that is left. It is this very program, started with
//! [`ARGUMENT`]; it reads one [`Order`] and prints how the command ended.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use serde::{Deserialize, Serialize};

use super::cage::Cage;
use super::control_group::{ControlGroup, Left};
use super::launch::{self, Caged, Remembered};
use super::{inside, tree};
use crate::helpers;

/// What makes this program a supervisor.
pub const ARGUMENT: &str = "supervise-command";

/// What makes this program the supervisor of one that is spoken to.
pub(super) const PROGRAM_ARGUMENT: &str = "supervise-program";

/// How long a program that is spoken to gets to end by itself when nobody speaks any more.
const GOODBYE_TIME: Duration = Duration::from_millis(500);

/// Bytes of an order that is read: some thousands of paths.
const ORDER_BYTES_MAX: usize = 1024 * 1024;

/// How long processes get to put things in order once they are asked to end.
const TERM_TIME: Duration = Duration::from_millis(200);

/// How often we look for those that are left: they may fork as fast as we kill.
const SWEEP_EVERY: Duration = Duration::from_millis(5);

/// What a supervisor is to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// For the shell.
    pub(super) command: String,
    /// What it is shut in.
    pub(super) cage: Option<Cage>,
}

/// A program that a supervisor is to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProgramOrder {
    /// It, and its arguments.
    pub(super) words: Vec<String>,
    /// What it is shut in.
    pub(super) cage: Option<Cage>,
}

/// How the command ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It never began: the system's number for why.
    NotStarted(i32),
}

/// Supervises, or goes where commands are shut in, if that is what the arguments say; gives the
/// code to exit with.
#[must_use]
pub fn take_over(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<ExitCode> {
    let asked = arguments.nth(1)?;
    if asked == inside::ARGUMENT {
        return Some(inside::take_over(arguments));
    }
    if asked == PROGRAM_ARGUMENT {
        return Some(supervise_program().unwrap_or(ExitCode::FAILURE));
    }
    (asked == ARGUMENT).then(run)
}

/// Runs the ordered command to its end, and that of all it started.
pub(crate) fn run() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn supervise() -> io::Result<()> {
    let own = stand_apart()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let caged = match within_bounds(order.cage.as_ref(), || start(&order)) {
        Ok(started) => started,
        Err(error) => {
            return report(&Ending::NotStarted(
                error.raw_os_error().unwrap_or_default(),
            ));
        }
    };
    let ending = see_to_the_end(own, &caged.0, || {
        // Nothing more is ordered; this returns when nobody is there to do so.
        let _ = io::stdin().lock().read(&mut [0]);
    });
    report(&ending)
}

/// Runs a program that is spoken to, and ends as it does.
fn supervise_program() -> io::Result<ExitCode> {
    let own = stand_apart()?;
    let order: ProgramOrder = serde_json::from_slice(&read_line_only()?)?;
    let caged = within_bounds(order.cage.as_ref(), || match &order.cage {
        Some(cage) => launch::start(cage, &launch::Wanted::Program(&order.words)),
        None => launch::start_free(&order.words),
    });
    let caged = match caged {
        Ok(caged) => caged,
        Err(error) => {
            let _ = writeln!(io::stderr(), "[it could not be started: {error}]");
            return Ok(ExitCode::from(inside::NOT_BEGUN));
        }
    };
    let ending = see_to_the_end(own, &caged.0, || {
        let stdin = io::stdin();
        // Its input is its own business; ours is only whether anybody is left to write it.
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        let _ = rustix::event::poll(&mut watched, None);
        std::thread::sleep(GOODBYE_TIME);
    });
    Ok(match ending {
        Ending::Code(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Ending::Signal(signal) => ExitCode::from(128 | u8::try_from(signal).unwrap_or_default()),
        Ending::NotStarted(_) => ExitCode::FAILURE,
    })
}

/// Gets away from a terminal, where a program might ask for a password and wait for ever, and
/// collects orphans from now on.
fn stand_apart() -> io::Result<Pid> {
    let _ = rustix::process::setsid();
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own))?;
    Ok(own)
}

/// Starts something in a control group of its own, where that is needed and possible.
fn within_bounds(
    cage: Option<&Cage>,
    start: impl FnOnce() -> io::Result<Caged>,
) -> io::Result<(Caged, Option<Left>)> {
    let group = cage.map(ControlGroup::enter);
    let started = start();
    // What was started stays in it.
    let left = group.map(ControlGroup::leave);
    Ok((started?, left))
}

/// Waits for the end of `caged`, or until `nobody_cares` returns, and ends all that is left then.
fn see_to_the_end(own: Pid, caged: &Caged, nobody_cares: impl FnOnce() + Send + 'static) -> Ending {
    let shell = Pid::from_child(&caged.child);
    // It ends when those inside have, and takes them along when it is ended.
    let outside = caged.stands_outside.then_some(shell);
    let (over, is_over) = mpsc::sync_channel(2);
    let left = over.clone();
    std::thread::spawn(move || {
        nobody_cares();
        let _ = left.send(());
    });
    std::thread::spawn(move || {
        let _ = is_over.recv();
        tree::signal_descendants(own, Signal::TERM, outside);
        std::thread::sleep(TERM_TIME);
        loop {
            tree::signal_descendants(own, Signal::KILL, None);
            std::thread::sleep(SWEEP_EVERY);
        }
    });
    let mut ending = Ending::NotStarted(0);
    // Until there is nobody left to wait for.
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == shell => {
                ending = ending_of(status);
                let _ = over.send(());
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    for line in caged.remembered.iter().flat_map(Remembered::settle) {
        // Where the command printed; whoever reads that should know.
        let _ = writeln!(io::stderr(), "{line}");
    }
    ending
}

/// Reads one line and not a byte more: the rest is for somebody else.
fn read_line_only() -> io::Result<Vec<u8>> {
    let stdin = io::stdin();
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < ORDER_BYTES_MAX {
        match rustix::io::read(stdin.as_fd(), &mut byte)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if byte == *b"\n" => return Ok(line),
            _ => line.extend(byte),
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Starts the command in `bash`, or where there is none in `sh`. It has no input, and prints both
/// streams to where we would complain, so that they keep their order.
fn start(order: &Order) -> io::Result<Caged> {
    if let Some(cage) = &order.cage {
        return launch::start(cage, &launch::Wanted::Command(&order.command));
    }
    shell(&helpers::system_shell(), &order.command).map(Caged::free)
}

#[expect(clippy::disallowed_methods, reason = "this is tools::sandbox")]
fn shell(program: &Path, command: &str) -> io::Result<Child> {
    let output = || Ok::<_, io::Error>(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
    std::process::Command::new(program)
        .args(["-c", command])
        // A script that signals its own group does not mean us.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output()?)
        .stderr(output()?)
        .spawn()
}

fn ending_of(status: WaitStatus) -> Ending {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Code(code),
        (None, signal) => Ending::Signal(signal.unwrap_or_default()),
    }
}

fn report(ending: &Ending) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(b"\n")?;
    serde_json::to_writer(&mut stdout, ending)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}
