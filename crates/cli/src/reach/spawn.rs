//! Starting a server that stays when we leave: several editors share it.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use rustix::fs::FlockOperation;

use crate::serve::announcement::{private_file, running};
use crate::settings::Settings;

/// Longest ready line: a few words and two paths.
const READY_BYTES_MAX: u64 = 64 * 1024;

/// Starts a server on the data directory and waits until it is ready. Of several who want to at the
/// same time, one does, and the others find it running.
///
/// # Errors
/// If it does not get ready; what it said is in `server.log` of the data directory.
pub(super) fn start(settings: &Settings) -> anyhow::Result<()> {
    std::fs::create_dir_all(&settings.data_dir).context("the data directory cannot be made")?;
    let lock = private_file(&settings.data_dir.join("spawn.lock"))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    if running(&settings.data_dir).is_some() {
        return Ok(());
    }
    let mut server = command(settings)?.spawn().context("it does not start")?;
    let is_ready = is_ready(&mut server);
    // It is reaped when it ends before us, and goes on when we end before it.
    std::thread::spawn(move || server.wait());
    if !is_ready {
        let log = settings.data_dir.join("server.log");
        bail!("it did not get ready; {} says why", log.display());
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the person who starts the bridge asked for a server; no model and no client can"
)]
fn command(settings: &Settings) -> anyhow::Result<Command> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(settings.data_dir.join("server.log"))
        .context("its log cannot be written")?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("serve")
        .arg("--data-dir")
        .arg(&settings.data_dir);
    command.args(["--listen", "127.0.0.1:0", "--end-when-idle"]);
    if let Some(model) = &settings.model_flag {
        command.args(["--model", model]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        // Ctrl-C in the editor's terminal is not meant for it.
        .process_group(0);
    Ok(command)
}

fn is_ready(server: &mut Child) -> bool {
    let Some(output) = server.stdout.take() else {
        return false;
    };
    let mut line = String::new();
    let mut output = BufReader::new(output.take(READY_BYTES_MAX));
    output.read_line(&mut line).is_ok() && line.contains("\"ready\":true")
}
