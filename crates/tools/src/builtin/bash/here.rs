//! Commands on the server: under a supervisor, with what they print shown as it comes.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::limits::PROGRESS_EVERY;
use serde_json::Value;

use super::super::{Outcome, Running, RunsCommands, Tool as _, parse_input};
use super::{Bash, Input, timed_out, with_note};
use crate::output::Output;
use crate::progress::Place;
use crate::protected::makes_repository;
use crate::roots::PathError;
use crate::sandbox::{Cage, Exit, Grants, Ordered, supervise};
use crate::shell::ShellCall;

/// The directories grew between the permission request and the run.
const BEYOND_SEARCH: &str = "The command was not run: the session's directories have become too large \
    to find every git repository in them. Call it again; the user is then asked about it.";

impl RunsCommands for Bash {
    fn run(&self, input: Value, call: ShellCall) -> Running {
        let input = parse_input::<Input>(self.name(), input);
        Box::pin(async move {
            match input {
                Ok(input) => run(&input, &call).await,
                Err(outcome) => outcome,
            }
        })
    }
}

async fn run(input: &Input, call: &ShellCall) -> Outcome {
    if input.command.contains('\0') {
        return Outcome::failed("The command could not be started: it contains a NUL character.");
    }
    let cwd = match directory(input, call).await {
        Ok(cwd) => cwd,
        Err(error) => {
            let cwd = input.cwd();
            return Outcome::failed(format!("The command cannot run in {cwd}: {error}."));
        }
    };
    let grants = Grants {
        // Whether it may was asked when the call was judged.
        repositories: makes_repository(&input.command),
        ..call.grants
    };
    let was_searched = call.shell.was_searched(&call.roots);
    let cage = match call.shell.cage(&call.roots, grants).await {
        Ok(cage) => cage,
        Err(error) => {
            return Outcome::failed(format!("The command was not started: {error}."));
        }
    };
    let is_searched = cage.as_ref().is_none_or(Cage::is_searched);
    if !is_searched && was_searched != Some(false) {
        return Outcome::failed(BEYOND_SEARCH);
    }
    let ordered = Ordered {
        command: &input.command,
        cwd: cwd.as_fd(),
        environment: call.shell.environment(),
        program: call.shell.program(),
        supervisor: call.shell.supervisor(),
        time_max: input.time_max(),
        cage: cage.as_ref(),
    };
    let output = Watched::new(Output::new(call.shell.outputs().to_owned()));
    let mut sink = |more: &[u8]| output.push(more);
    let ended = tokio::select! {
        ended = supervise(ordered, &mut sink) => ended,
        never = output.show_in(&call.place) => match never {},
    };
    // Looking through much output takes a moment.
    let shown = tokio::task::spawn_blocking(move || output.into_inner().shown()).await;
    let printed = shown.unwrap_or_else(|_| "[the output was lost]".to_owned());
    match ended {
        Ok(exit) => outcome(exit, input, &printed),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            Outcome::unknown(with_note(&printed, "[its supervisor was killed]"))
        }
        Err(error) => Outcome::failed(format!("The command could not be started: {error}.")),
    }
}

/// The directory it runs in, held open: what lies at its path later does not matter.
async fn directory(input: &Input, call: &ShellCall) -> Result<OwnedFd, PathError> {
    let (roots, cwd) = (Arc::clone(&call.roots), input.cwd().to_owned());
    let opened = tokio::task::spawn_blocking(move || roots.open_directory(&cwd)).await;
    opened.unwrap_or_else(|error| Err(PathError::Io(io::Error::other(error))))
}

fn outcome(exit: Exit, input: &Input, printed: &str) -> Outcome {
    let note = match exit {
        Exit::Code(0) if printed.is_empty() => return Outcome::completed("[no output]"),
        Exit::Code(0) => return Outcome::completed(printed),
        Exit::Code(code) => format!("[exit code {code}]"),
        Exit::Signal(signal) => format!("[ended by signal {signal}]"),
        Exit::TimedOut => timed_out(input.time_max()),
        Exit::TooLong => "[stopped: it printed too much]".to_owned(),
    };
    Outcome::failed(with_note(printed, &note))
}

/// Output that somebody may be watching.
struct Watched {
    output: Mutex<Output>,
    has_news: AtomicBool,
}

impl Watched {
    fn new(output: Output) -> Self {
        Self {
            output: Mutex::new(output),
            has_news: AtomicBool::new(false),
        }
    }

    fn push(&self, more: &[u8]) {
        self.output().push(more);
        self.has_news.store(true, Ordering::Relaxed);
    }

    /// Shows what is new, now and then.
    async fn show_in(&self, place: &Place) -> Infallible {
        let mut tick = tokio::time::interval(PROGRESS_EVERY);
        loop {
            tick.tick().await;
            if self.has_news.swap(false, Ordering::Relaxed) {
                let newest = self.output().newest();
                place.show(&newest);
            }
        }
    }

    fn into_inner(self) -> Output {
        self.output
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
