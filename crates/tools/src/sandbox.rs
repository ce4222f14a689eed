//! Starting processes: the only place that does.
//!
//! Each one leads a process group of its own, which ends with it: when its time is up, when whoever
//! waits for it stops waiting, and (by way of the [`warden`]) when this process is killed.
//! Commands that a model writes may try to leave their group: they run under a [`supervisor`], shut
//! in a [`Cage`] that a [`Sandbox`] makes.

mod aside;
mod beneath;
mod bubblewrap;
mod cage;
mod control_group;
mod filter;
mod found;
mod git_config;
mod held;
mod home;
mod inside;
mod inventory;
mod journal;
mod launch;
mod path_text;
mod piped;
mod places;
mod put_back;
mod ruleset;
mod secrets;
mod state_files;
mod supervised;
pub mod supervisor;
mod tree;
mod warden;

pub use cage::{Bounds, Cage, Grants};
pub use control_group::can_limit_memory;
pub use found::{Found, Sandbox, SandboxMode, SandboxSettings};
pub use piped::{Piped, PipedComplaints, PipedInput, PipedOutput, PipedProgram};
pub use supervised::{OURSELVES, Ordered, Sink, supervise};

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use domain::limits::PROCESS_DRAIN_WAIT;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};

/// What is to be run, and within which bounds.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// For the shell.
    pub command: &'a str,
    /// Where it runs: an open directory, which cannot become another one on the way.
    pub cwd: BorrowedFd<'a>,
    /// All the variables that it sees.
    pub environment: &'a [(String, String)],
    /// What it reads.
    pub input: Vec<u8>,
    /// How long it may take.
    pub time_max: Duration,
    /// Bytes that it may print, to each stream.
    pub output_bytes_max: usize,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal that we did not send.
    Signal(i32),
    /// It took too long, and was killed.
    TimedOut,
    /// It printed too much, and was killed.
    TooLong,
}

/// The system's shell, wherever the search path leads.
const SHELL: &str = "/bin/sh";

/// Waits for a line before it begins, so that nothing runs that the warden was not told of: were we
/// killed in between, there would be no line.
const WAIT_THEN_RUN: &str = r#"read -r _ && exec sh -c "$1""#;

/// Runs `job` to its end. Dropped, it kills everything that was started.
///
/// # Errors
/// If it cannot be started.
pub async fn run(job: Job<'_>) -> io::Result<Finished> {
    let mut child = start(&job)?;
    let group = Group::led_by(&child)?;
    let mut input = job.input;
    input.insert(0, b'\n');
    let mut pipes = Pipes::of(&mut child, job.output_bytes_max);
    let (mut exit, mut is_read) = (Exit::TimedOut, false);
    {
        let pumping = pipes.pump(input);
        tokio::pin!(pumping);
        let deadline = tokio::time::sleep(job.time_max);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                biased;
                is_whole = &mut pumping, if !is_read => {
                    is_read = true;
                    if !is_whole {
                        exit = Exit::TooLong;
                        break;
                    }
                }
                ended = child.wait() => {
                    exit = exit_of(ended?);
                    break;
                }
                () = &mut deadline => break,
            }
        }
        // What it left behind would keep its pipes open, and the machine busy.
        group.kill();
        if !is_read && matches!(exit, Exit::Code(_) | Exit::Signal(_)) {
            let rest = tokio::time::timeout(PROCESS_DRAIN_WAIT, pumping).await;
            exit = if rest == Ok(false) {
                Exit::TooLong
            } else {
                exit
            };
        }
    }
    // It was killed; this only collects it. If it cannot die yet, tokio collects it later.
    let _ = tokio::time::timeout(PROCESS_DRAIN_WAIT, child.wait()).await;
    Ok(Finished {
        exit,
        stdout: pipes.stdout.bytes,
        stderr: pipes.stderr.bytes,
    })
}

fn start(job: &Job<'_>) -> io::Result<Child> {
    Command::new(SHELL)
        .args(["-c", WAIT_THEN_RUN, "sh", job.command])
        .current_dir(format!("/proc/self/fd/{}", job.cwd.as_raw_fd()))
        .env_clear()
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

fn exit_of(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

/// A process and all that it started, unless they went out of their way to leave it.
struct Group {
    id: Pid,
}

impl Group {
    fn led_by(child: &Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let id = id.ok_or_else(|| io::Error::other("the process has no number"))?;
        warden::watch(id);
        Ok(Self { id })
    }

    /// Ends all of it. Its number is not used anew while a member is left, and numbers are given
    /// out in turn, so that nobody else is hit when there is none.
    fn kill(&self) {
        let _ = rustix::process::kill_process_group(self.id, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        warden::forget(self.id);
    }
}

/// The three pipes of a process.
struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Captured,
    stderr: Captured,
}

impl Pipes {
    fn of(child: &mut Child, bytes_max: usize) -> Self {
        let captured = |pipe: Option<Box<dyn AsyncRead + Send + Unpin>>| Captured {
            pipe,
            bytes: Vec::new(),
            bytes_max,
        };
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        Self {
            stdin: child.stdin.take(),
            stdout: captured(stdout.map(|pipe| Box::new(pipe) as _)),
            stderr: captured(stderr.map(|pipe| Box::new(pipe) as _)),
        }
    }

    /// Moves what can be moved; says whether all of it was taken in, and stops early if not.
    async fn pump(&mut self, input: Vec<u8>) -> bool {
        let stdin = self.stdin.take();
        let feeding = async {
            if let Some(mut stdin) = stdin {
                // Who does not read to the end does not want it.
                let _ = stdin.write_all(&input).await;
            }
            Ok(())
        };
        tokio::try_join!(feeding, self.stdout.read(), self.stderr.read()).is_ok()
    }
}

/// One stream of output, as far as it may go.
struct Captured {
    pipe: Option<Box<dyn AsyncRead + Send + Unpin>>,
    bytes: Vec<u8>,
    bytes_max: usize,
}

/// There was more than is taken.
struct TooMuch;

impl Captured {
    async fn read(&mut self) -> Result<(), TooMuch> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        let room = self.bytes_max as u64 + 1;
        // A pipe that breaks has nothing more to say.
        let _ = pipe.take(room).read_to_end(&mut self.bytes).await;
        if self.bytes.len() > self.bytes_max {
            self.bytes.truncate(self.bytes_max);
            return Err(TooMuch);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
