//! The measured program: starting it, waiting until it is ready, and what it weighs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use super::{Plan, because};
use crate::Failure;

/// Settings of the person who runs this, which would change what is measured.
const FOREIGN_SETTINGS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OLLAMA_HOST",
    "FASTNESS_MODEL",
    "FASTNESS_DATA_DIR",
    "FASTNESS_TOKEN",
    "FASTNESS_LOG",
];

/// A started program; it is killed when this goes.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
}

/// A server that said it is ready.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) running: Running,
    /// `ADDRESS:PORT`.
    pub(super) address: String,
    pub(super) token: String,
}

impl Running {
    /// Starts `command` with our hands on its stdin and stdout.
    pub(super) fn start(
        mut command: Command,
    ) -> Result<(Self, ChildStdin, BufReader<ChildStdout>), Failure> {
        // A model server is asked for calls only, and not before the first for its window.
        command.env("FASTNESS_MODELS_CONTEXT_WINDOW", "128000");
        for name in FOREIGN_SETTINGS {
            let is_ours = command.get_envs().any(|(ours, _)| ours == *name);
            if !is_ours {
                command.env_remove(name);
            }
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(because("cannot start the program"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err("the program has no stdin or stdout".to_owned());
        };
        Ok((Self { child }, stdin, BufReader::new(stdout)))
    }

    /// Memory that is really in use now, in bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64, Failure> {
        self.status_bytes("VmRSS:")
    }
}

/// Files of the kernel about a running program.
impl Running {
    /// Time that its threads have spent on a processor. The kernel counts in hundredths of a
    /// second here: to be asked about many turns together.
    pub(super) fn cpu_time(&self) -> Result<Duration, Failure> {
        let stat = self.about("stat")?;
        // The name before it may hold anything, also spaces.
        let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let (user, system) = ticks(11).zip(ticks(12)).ok_or("its stat has no times")?;
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_micros(
            (user + system) * 1_000_000 / per_second,
        ))
    }

    /// Bytes that it has read with calls for files and pipes; sockets do not count.
    pub(super) fn read_bytes(&self) -> Result<u64, Failure> {
        let io = self.about("io")?;
        let line = io.lines().find_map(|line| line.strip_prefix("rchar:"));
        let bytes = line.and_then(|line| line.trim().parse().ok());
        bytes.ok_or_else(|| "the kernel does not say what it read".to_owned())
    }

    /// Forgets the most memory that was in use so far.
    pub(super) fn forget_peak(&self) -> Result<(), Failure> {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(path, "5").map_err(because("the kernel does not forget the peak of memory"))
    }

    /// The most memory that was in use, in bytes.
    pub(super) fn peak_bytes(&self) -> Result<u64, Failure> {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, name: &str) -> Result<u64, Failure> {
        let status = self.about("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes =
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kibibytes
            .map(|kibibytes| kibibytes * 1024)
            .ok_or_else(|| "the kernel does not say what it weighs".to_owned())
    }

    fn about(&self, file: &str) -> Result<String, Failure> {
        let path = format!("/proc/{}/{file}", self.child.id());
        std::fs::read_to_string(path).map_err(because("cannot read what the kernel says of it"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts `serve` on a port of its own and waits for its ready line.
    pub(super) fn start(plan: &Plan, data: &Path, script: &Path) -> Result<Self, Failure> {
        Self::started(serve(plan, data, script))
    }

    /// Starts a command that serves, and waits for its ready line.
    pub(super) fn started(command: Command) -> Result<Self, Failure> {
        let (running, _stdin, mut stdout) = Running::start(command)?;
        let ready: Value = serde_json::from_str(&first_line(&mut stdout)?)
            .map_err(because("the ready line is not JSON"))?;
        let word = |key: &str| {
            let found = ready[key].as_str().map(str::to_owned);
            found.ok_or_else(|| format!("the ready line has no `{key}`"))
        };
        let address = word("url")?.trim_start_matches("http://").to_owned();
        let token = std::fs::read_to_string(word("tokenFile")?)
            .map_err(because("cannot read the token"))?;
        Ok(Self {
            running,
            address,
            token: token.trim().to_owned(),
        })
    }
}

/// `fastness serve` as it is measured.
pub(super) fn serve(plan: &Plan, data: &Path, script: &Path) -> Command {
    serve_model(plan, data, &format!("script:{}", script.display()))
}

/// `fastness serve` with any model.
pub(super) fn serve_model(plan: &Plan, data: &Path, model: &str) -> Command {
    let mut command = fastness(plan, "serve", data, model);
    command.args(["--listen", "127.0.0.1:0"]);
    command
}

/// `fastness acp` as it is measured.
pub(super) fn acp(plan: &Plan, data: &Path, script: &Path) -> Command {
    acp_model(plan, data, &format!("script:{}", script.display()))
}

/// `fastness acp` with any model.
pub(super) fn acp_model(plan: &Plan, data: &Path, model: &str) -> Command {
    fastness(plan, "acp", data, model)
}

/// Writes a model script with one answer for every prompt: these steps.
pub(super) fn write_script(folder: &Path, steps: &Value) -> Result<PathBuf, Failure> {
    let path = folder.join("script.json");
    let script = serde_json::json!([steps]).to_string();
    std::fs::write(&path, script).map_err(because("cannot write the script"))?;
    Ok(path)
}

/// The first line that a program prints.
pub(super) fn first_line(stdout: &mut BufReader<ChildStdout>) -> Result<String, Failure> {
    let mut line = String::new();
    stdout
        .read_line(&mut line)
        .map_err(because("cannot read from the program"))?;
    if line.is_empty() {
        return Err("the program ended before it was ready".to_owned());
    }
    Ok(line)
}

/// Takes as many open files as the machine lets us, for us and the programs we start.
pub(super) fn raise_open_files() -> Result<(), Failure> {
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, most).map_err(because("cannot raise the number of open files"))
}

/// How many files this process may have open.
pub(super) fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn fastness(plan: &Plan, subcommand: &str, data: &Path, model: &str) -> Command {
    let mut command = Command::new(&plan.program);
    command
        .arg(subcommand)
        .arg("--data-dir")
        .arg(data)
        .arg("--model")
        .arg(model)
        .args(["--log", "error"])
        .current_dir(&plan.folder);
    command
}
