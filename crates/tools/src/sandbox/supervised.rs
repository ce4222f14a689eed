//! Commands under a supervisor: the starting side.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use domain::limits::{COMMAND_STOP_WAIT, PROCESS_DRAIN_WAIT, PROTECTED_SETTLE_WAIT};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::cage::Cage;
use super::supervisor::{Ending, Order};
use super::{Exit, tree};

/// Marks the processes of a command, for the case that they kill their supervisor.
const MARK: &str = "FASTNESS_COMMAND";

/// Bytes of what a supervisor reports: a line, and what a test prints around it.
const REPORT_BYTES_MAX: u64 = 16 * 1024;

/// Bytes of output taken at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// A command for a shell, and within which bounds.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<'a> {
    /// For the shell.
    pub command: &'a str,
    /// Where it runs: an open directory, which cannot become another one on the way.
    pub cwd: BorrowedFd<'a>,
    /// All the variables that it sees.
    pub environment: &'a [(String, String)],
    /// The program that supervises: [`OURSELVES`], or its like in tests.
    pub program: &'a Path,
    /// What makes this program a supervisor: [`super::supervisor::ARGUMENT`], or its like in tests.
    pub supervisor: &'a [String],
    /// How long it may take.
    pub time_max: Duration,
    /// What it is shut in.
    pub cage: Option<&'a Cage>,
}

/// This program, even if another file lies at its path by now.
pub const OURSELVES: &str = "/proc/self/exe";

/// What takes output as it comes.
pub type Sink<'a> = dyn FnMut(&[u8]) + Send + 'a;

/// Runs a command to its end, handing what it prints to `sink` as it comes. Dropped, it has
/// everything ended that was started.
///
/// # Errors
/// If it cannot be started, or [`io::ErrorKind::Interrupted`] if its supervisor was killed.
pub async fn supervise(ordered: Ordered<'_>, sink: &mut Sink<'_>) -> io::Result<Exit> {
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let mut running = Running::start(&ordered, &mark)?;
    running.give(&ordered).await?;
    let is_in_time = running.follow(ordered.time_max, sink).await;
    let ending = running.ending(sink).await;
    match (is_in_time, ending) {
        (true, Some(Ending::Code(code))) => Ok(Exit::Code(code)),
        (true, Some(Ending::Signal(signal))) => Ok(Exit::Signal(signal)),
        (_, Some(Ending::NotStarted(number))) if number != 0 => {
            Err(io::Error::from_raw_os_error(number))
        }
        (false, Some(_)) => Ok(Exit::TimedOut),
        (is_in_time, _) => {
            // Whoever was left has lost the one who would have found it.
            tree::signal_marked(MARK, &mark, Signal::KILL);
            match is_in_time {
                false => Ok(Exit::TimedOut),
                true => Err(io::ErrorKind::Interrupted.into()),
            }
        }
    }
}

/// A supervisor at work.
struct Running {
    supervisor: Child,
    /// When it closes, everything ends.
    control: Option<ChildStdin>,
    /// What the command prints.
    output: Option<ChildStderr>,
    report: Option<ChildStdout>,
}

impl Running {
    fn start(ordered: &Ordered<'_>, mark: &str) -> io::Result<Self> {
        let mut supervisor = Command::new(ordered.program)
            .args(ordered.supervisor)
            .current_dir(format!("/proc/self/fd/{}", ordered.cwd.as_raw_fd()))
            .env_clear()
            .envs(
                ordered
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .env(MARK, mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self {
            control: supervisor.stdin.take(),
            output: supervisor.stderr.take(),
            report: supervisor.stdout.take(),
            supervisor,
        })
    }

    async fn give(&mut self, ordered: &Ordered<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Order {
            command: ordered.command.to_owned(),
            cage: ordered.cage.cloned(),
        })?;
        line.push(b'\n');
        match &mut self.control {
            Some(control) => control.write_all(&line).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Follows it until the supervisor has ended; says whether the command did so in its time.
    async fn follow(&mut self, time_max: Duration, sink: &mut Sink<'_>) -> bool {
        let mut chunk = vec![0; CHUNK_BYTES];
        let deadline = tokio::time::sleep(time_max);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                _ = self.supervisor.wait() => return self.control.is_some(),
                count = read(&mut self.output, &mut chunk) => sink(&chunk[..count]),
                () = &mut deadline => {
                    if self.control.take().is_none() {
                        // It should have ended long ago.
                        let _ = self.supervisor.start_kill();
                        return false;
                    }
                    // It has to end the command, and to look at protected files then.
                    let wait = COMMAND_STOP_WAIT + PROTECTED_SETTLE_WAIT;
                    deadline.as_mut().reset(tokio::time::Instant::now() + wait);
                }
            }
        }
    }

    /// What is left in the pipes of a supervisor that has ended: the last output, and how the
    /// command ended.
    async fn ending(&mut self, sink: &mut Sink<'_>) -> Option<Ending> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut said = Vec::new();
        let draining = async {
            while self.output.is_some() {
                let count = read(&mut self.output, &mut chunk).await;
                sink(&chunk[..count]);
            }
            if let Some(report) = &mut self.report {
                let _ = report.take(REPORT_BYTES_MAX).read_to_end(&mut said).await;
            }
        };
        let _ = tokio::time::timeout(PROCESS_DRAIN_WAIT, draining).await;
        let said = String::from_utf8_lossy(&said);
        said.lines()
            .find_map(|line| serde_json::from_str(line).ok())
    }
}

/// Reads some more; at the end of the pipe there is none any more. Cancel safe.
async fn read(pipe: &mut Option<ChildStderr>, chunk: &mut [u8]) -> usize {
    let Some(open) = pipe else {
        return std::future::pending().await;
    };
    let count = open.read(chunk).await.unwrap_or(0);
    if count == 0 {
        *pipe = None;
    }
    count
}
