//! The real server, started by a test: `fastness serve` with its ready line read.
//!
//! A [`Program`] owns its process and its [`Home`]. It dies with the test; it can also be killed
//! or asked to end, and started again on the same data.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::home::{Home, read_file};

/// Longest wait for anything a program should do: far above what a loaded machine needs.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Most output of a program kept for a failing test to show.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// A running `fastness serve`.
pub struct Program {
    home: Home,
    process: Child,
    url: String,
    token: String,
    stdout: Output,
    stderr: Output,
    /// Ends once all of stderr was read.
    said: JoinHandle<()>,
}

impl Program {
    /// Starts `binary serve` in a home of its own, on a free port, with a model that follows
    /// `script`.
    ///
    /// # Panics
    /// If it is not ready in time.
    pub async fn serve(binary: impl Into<PathBuf>, script: impl Into<Value>) -> Self {
        Self::serve_in(Home::new(binary, script)).await
    }

    /// Starts the server in `home`.
    ///
    /// # Panics
    /// If it is not ready in time.
    pub async fn serve_in(home: Home) -> Self {
        let mut command = home.command("serve");
        command.args(["--listen", "127.0.0.1:0"]);
        let mut process = command
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", home.binary().display()));
        let (Some(out), Some(err)) = (process.stdout.take(), process.stderr.take()) else {
            panic!("the server's output is piped");
        };
        let stderr = Output::default();
        let said = stderr.keep(err);
        let mut reader = BufReader::new(out);
        let Some(ready) = read_ready_line(&mut reader).await else {
            // The reason stands on stderr, which may end a moment later than stdout.
            let _ = process.start_kill();
            let _ = timeout(DEADLINE, said).await;
            panic!("the server did not get ready; it said:\n{}", stderr.text());
        };
        let stdout = Output::default();
        stdout.keep(reader);
        let url = field(&ready, "url");
        let token_file = field(&ready, "tokenFile");
        let token = read_file(Path::new(&token_file))
            .unwrap_or_else(|| panic!("there is no token file {token_file}"));
        Self {
            home,
            process,
            url,
            token: token.trim().to_owned(),
            stdout,
            stderr,
            said,
        }
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where ACP is spoken over WebSocket.
    #[must_use]
    pub fn acp_url(&self) -> String {
        format!("{}/acp", self.url.replacen("http", "ws", 1))
    }

    /// The default token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The place the server lives in.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The place the server lives in, to change it.
    pub fn home_mut(&mut self) -> &mut Home {
        &mut self.home
    }

    /// The server's process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// What the server has logged so far; the newest part if it is long.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// The lines of a log in JSON so far.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        let text = self.stderr();
        let lines = text.lines().filter(|line| line.starts_with('{'));
        // The newest line may still be on its way.
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// What the server has printed after its ready line; it should be nothing.
    #[must_use]
    pub fn stdout_after_ready(&self) -> String {
        self.stdout.text()
    }

    /// Kills the server as a power cut would, and waits until it is gone.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn kill9(&mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        self.exit().await
    }

    /// Asks the server to end (SIGTERM) and waits for it.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exit().await
    }

    /// Asks the server to end and gives what it has logged, to the last line.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn whole_log(&mut self) -> String {
        self.terminate().await;
        let all = timeout(DEADLINE, &mut self.said).await;
        assert!(all.is_ok(), "somebody still holds the server's stderr");
        self.stderr()
    }

    /// Waits for the server to end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn exit(&mut self) -> ExitStatus {
        match timeout(DEADLINE, self.process.wait()).await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => panic!("the server's end cannot be seen: {error}"),
            Err(_) => panic!(
                "the server did not end in time; it said:\n{}",
                self.stderr()
            ),
        }
    }

    /// Starts the server again on the same data, after ending it if it still runs.
    ///
    /// # Panics
    /// If it does not end, or is not ready again in time.
    pub async fn restart(mut self) -> Self {
        if self.pid().is_some() {
            self.terminate().await;
        }
        Self::serve_in(self.home).await
    }

    /// The place alone, after ending the server.
    #[must_use]
    pub fn into_home(self) -> Home {
        self.home
    }

    fn signal(&self, signal: Signal) {
        let pid = self.pid().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let Some(pid) = pid else {
            panic!("the server has ended already; it said:\n{}", self.stderr());
        };
        if let Err(error) = rustix::process::kill_process(pid, signal) {
            panic!("the server takes no signal: {error}");
        }
    }
}

/// The newest part of what a program printed, filled by a task that ends with the pipe.
#[derive(Clone, Default)]
pub(crate) struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    /// Keeps reading `pipe`, so that the program never waits for a reader.
    pub(crate) fn keep(&self, mut pipe: impl AsyncRead + Unpin + Send + 'static) -> JoinHandle<()> {
        let output = self.clone();
        tokio::spawn(async move {
            let mut chunk = vec![0; 8 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
                output.add(&chunk[..count]);
            }
        })
    }

    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn add(&self, more: &[u8]) {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend_from_slice(more);
        let excess = bytes.len().saturating_sub(OUTPUT_BYTES_MAX);
        bytes.drain(..excess);
    }
}

/// The ready line, or `None` if something else came, or nothing in time.
async fn read_ready_line(stdout: &mut BufReader<ChildStdout>) -> Option<Value> {
    let mut line = String::new();
    timeout(DEADLINE, stdout.read_line(&mut line))
        .await
        .ok()?
        .ok()?;
    let ready: Value = serde_json::from_str(&line).ok()?;
    (ready["ready"] == true).then_some(ready)
}

fn field(ready: &Value, name: &str) -> String {
    match ready[name].as_str() {
        Some(value) => value.to_owned(),
        None => panic!("the ready line {ready} has no {name}"),
    }
}
