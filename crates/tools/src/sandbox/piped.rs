//! Programs that run for long and are spoken to, such as servers of tools: in a cage like commands,
//! with pipes to the caller instead of a result.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::cage::Cage;
use super::supervisor::{PROGRAM_ARGUMENT, ProgramOrder};

/// What such a program reads.
pub type PipedInput = ChildStdin;

/// What it prints.
pub type PipedOutput = ChildStdout;

/// What it complains about.
pub type PipedComplaints = ChildStderr;

/// A program to run, and in what.
#[derive(Clone, Copy, Debug)]
pub struct PipedProgram<'a> {
    /// It, and its arguments.
    pub words: &'a [String],
    /// Where it runs: an open directory.
    pub cwd: BorrowedFd<'a>,
    /// All the variables that it sees.
    pub environment: &'a [(String, String)],
    /// The program that supervises: [`OURSELVES`](super::OURSELVES), or its like in tests.
    pub program: &'a Path,
    /// What it is shut in.
    pub cage: Option<&'a Cage>,
}

/// A program at work. When its input is closed, or this is dropped, it gets a moment to end; then it
/// and all that it started are killed. So they are when this process dies.
#[derive(Debug)]
pub struct Piped {
    supervisor: Child,
    /// What it reads.
    pub input: Option<ChildStdin>,
    /// What it prints.
    pub output: Option<ChildStdout>,
    /// What it complains about.
    pub complaints: Option<ChildStderr>,
}

impl Piped {
    /// Starts a program.
    ///
    /// # Errors
    /// If its supervisor cannot be started. A program that is not there ends at once, with 126 or 127.
    pub async fn start(wanted: PipedProgram<'_>) -> io::Result<Self> {
        let variables = wanted.environment.iter();
        let mut supervisor = Command::new(wanted.program)
            .arg(PROGRAM_ARGUMENT)
            .current_dir(format!("/proc/self/fd/{}", wanted.cwd.as_raw_fd()))
            .env_clear()
            .envs(variables.map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut piped = Self {
            input: supervisor.stdin.take(),
            output: supervisor.stdout.take(),
            complaints: supervisor.stderr.take(),
            supervisor,
        };
        let order = ProgramOrder {
            words: wanted.words.to_vec(),
            cage: wanted.cage.cloned(),
        };
        let mut line = serde_json::to_vec(&order)?;
        line.push(b'\n');
        match &mut piped.input {
            Some(input) => input.write_all(&line).await?,
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        Ok(piped)
    }

    /// Waits until the program and all that it started have ended. Cancel safe.
    ///
    /// # Errors
    /// If the system does not tell.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.supervisor.wait().await
    }
}
