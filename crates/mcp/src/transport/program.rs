//! A server that is a program: one JSON message per line through its pipes.
//!
//! The sandbox starts it, and ends it with all that it started: when its input closes, it gets a
//! moment; then it is told to stop, then killed.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use domain::limits::{MCP_CLOSE_WAIT, MCP_INCOMING_MAX, MCP_MESSAGE_BYTES_MAX, MCP_OUTGOING_MAX};
use domain::tool_server::ServerProgram;
use rmcp::model::ServerJsonRpcMessage;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tools::remote::RemoteHome;
use tools::sandbox::Piped;
use tools::shell::{PipedCage, Shell};

use super::{Outgoing, Pipe, is_of_use};
use crate::error::{ConnectError, quoted};
use crate::fetching::PrivateCache;
use crate::life::Life;

/// Bytes taken from a pipe at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Starts `program` for the session at `home`.
///
/// # Errors
/// If it may not or cannot be started. One that ends at once ends the life of the pipe.
pub(crate) async fn start(
    program: &ServerProgram,
    home: &RemoteHome,
    cache: Option<PrivateCache>,
) -> Result<Pipe, ConnectError> {
    let Some(shell) = &home.shell else {
        return Err(ConnectError::Refused("no programs run here".to_owned()));
    };
    if let Some(why) = missing(program, home, shell) {
        return Err(ConnectError::NoProgram(why));
    }
    let words = std::iter::once(&program.command).chain(&program.args);
    let words: Vec<String> = words.cloned().collect();
    let variables = program.environment.iter();
    let variables = variables.map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    let mut variables: Vec<(String, String)> = variables.collect();
    let mut write = program.write.clone();
    if let Some(cache) = cache {
        cache.make().map_err(|error| {
            let place = cache.place.display();
            ConnectError::Failed(format!("its private cache {place} cannot be made: {error}"))
        })?;
        variables.extend(cache.variables);
        write.push(cache.place);
    }
    let cage = match program.is_caged {
        true => PipedCage::With {
            network: program.network.unwrap_or(false),
            read: program.read.clone(),
            write,
        },
        false => PipedCage::Free,
    };
    let started = shell.start_piped(&words, &variables, &home.roots, cage);
    let piped = started.await.map_err(|error| {
        if error.kind() == io::ErrorKind::Unsupported {
            let why = "it must run in a sandbox, and none works here (`fastness doctor` says why)";
            return ConnectError::Refused(why.to_owned());
        }
        ConnectError::Failed(format!("it could not be started: {error}"))
    })?;
    Ok(attend(piped))
}

/// Why `program` cannot be found, if it cannot, and what to do.
fn missing(program: &ServerProgram, home: &RemoteHome, shell: &Shell) -> Option<String> {
    let command = &program.command;
    let shown = quoted(command);
    if command.contains('/') {
        let cwd = home.roots.directories().next()?;
        let is_there = cwd.join(command).exists();
        let advice = "write the path of the program as `command`, and its arguments as `args`";
        return (!is_there).then(|| format!("there is no program {shown}; {advice}"));
    }
    let mut set = program.environment.iter();
    let own = set.find(|(name, _)| name == "PATH");
    let path = own.map(|(_, value)| value.reveal());
    let path = path.or_else(|| shell.variable("PATH")).unwrap_or_default();
    let is_found = std::env::split_paths(path).any(|folder| is_program(&folder.join(command)));
    (!is_found).then(|| {
        let advice = "install it, or write its full path as `command`";
        format!("the program {shown} was not found on PATH ({path}); {advice}")
    })
}

fn is_program(path: &Path) -> bool {
    let found = path.metadata();
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Starts the tasks that own the pipes of a program.
fn attend(mut piped: Piped) -> Pipe {
    let life = Life::default();
    let (incoming_sender, incoming) = mpsc::channel(MCP_INCOMING_MAX);
    let (outgoing, outgoing_receiver) = mpsc::channel(MCP_OUTGOING_MAX);
    if let Some(complaints) = piped.complaints.take() {
        tokio::spawn(listen(complaints, life.clone()));
    }
    if let Some(output) = piped.output.take() {
        tokio::spawn(read(output, incoming_sender, life.clone()));
    }
    if let Some(input) = piped.input.take() {
        tokio::spawn(write(input, outgoing_receiver, life.clone()));
    }
    tokio::spawn(keep(piped, life.clone()));
    Pipe::new(incoming, outgoing, life)
}

/// The same over any two streams.
#[cfg(test)]
pub(crate) fn over(
    output: impl AsyncRead + Unpin + Send + 'static,
    input: impl AsyncWrite + Unpin + Send + 'static,
) -> Pipe {
    let life = Life::default();
    let (incoming_sender, incoming) = mpsc::channel(MCP_INCOMING_MAX);
    let (outgoing, outgoing_receiver) = mpsc::channel(MCP_OUTGOING_MAX);
    tokio::spawn(read(output, incoming_sender, life.clone()));
    tokio::spawn(write(input, outgoing_receiver, life.clone()));
    Pipe::new(incoming, outgoing, life)
}

/// Waits for the program's end, or the connection's, and then for the program's.
async fn keep(mut piped: Piped, life: Life) {
    tokio::select! {
        ended = piped.wait() => {
            let code = ended.ok().and_then(|status| status.code());
            // What it printed last is still being read; the reader ends its life then.
            let _ = timeout(MCP_CLOSE_WAIT, life.ended()).await;
            life.end(match code {
                Some(code) => format!("it ended with exit code {code}"),
                None => "it was killed".to_owned(),
            });
        }
        // The writer has closed its input by now; the sandbox sees to the rest.
        () = life.ended() => {
            let _ = timeout(MCP_CLOSE_WAIT, piped.wait()).await;
        }
    }
}

/// Keeps what the program complains about.
async fn listen(mut complaints: impl AsyncRead + Unpin, life: Life) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = complaints.read(&mut chunk).await {
        life.complained(&chunk[..count]);
    }
}

async fn read(
    mut output: impl AsyncRead + Unpin,
    incoming: mpsc::Sender<ServerJsonRpcMessage>,
    life: Life,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut line = Vec::new();
    loop {
        let read = tokio::select! {
            read = output.read(&mut chunk) => read,
            () = life.ended() => return,
        };
        let Ok(count @ 1..) = read else {
            return life.end("it closed its output");
        };
        let mut rest = &chunk[..count];
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            if line.len() > MCP_MESSAGE_BYTES_MAX {
                break;
            }
            if !pass_on(&line, &incoming, &life).await {
                return;
            }
            line.clear();
        }
        line.extend_from_slice(rest);
        if line.len() > MCP_MESSAGE_BYTES_MAX {
            return life.end(format!(
                "it sent a message longer than {MCP_MESSAGE_BYTES_MAX} bytes"
            ));
        }
    }
}

/// Hands a line on; says whether anybody still wants lines.
async fn pass_on(line: &[u8], incoming: &mpsc::Sender<ServerJsonRpcMessage>, life: &Life) -> bool {
    if line.iter().all(u8::is_ascii_whitespace) {
        return true;
    }
    match serde_json::from_slice::<ServerJsonRpcMessage>(line) {
        Ok(message) if is_of_use(&message, life) => tokio::select! {
            sent = incoming.send(message) => sent.is_ok(),
            () = life.ended() => false,
        },
        Ok(_) => true,
        // Programs print all kinds of things; what is no message may explain a failure.
        Err(_) => {
            life.complained(line);
            life.complained(b"\n");
            true
        }
    }
}

async fn write(
    mut input: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::Receiver<Outgoing>,
    life: Life,
) {
    loop {
        let next = tokio::select! {
            next = outgoing.recv() => next,
            () = life.ended() => None,
        };
        let Some(Outgoing { message, written }) = next else {
            return;
        };
        let line = serde_json::to_vec(&message).map_err(io::Error::other);
        let done = match line {
            Err(error) => Err(error),
            Ok(mut line) => {
                line.push(b'\n');
                tokio::select! {
                    done = input.write_all(&line) => done,
                    // Half a message is of no use to anyone, but nobody will send another.
                    () = life.ended() => return,
                }
            }
        };
        if let Err(error) = &done {
            life.end(format!("it does not read: {error}"));
        }
        let _ = written.send(done);
    }
}
