//! Hooks: commands that are asked before and after what a session does.
//!
//! A hook reads one JSON object and may answer with one ([`Answer`]); [`ruling`] says what its end
//! means. It can say no, and it can change what is about to happen, which is then judged as if the
//! model had asked for that. It can allow nothing: nobody is asked less because of a hook.

mod ruling;

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use domain::event::{HookOutcome, HookPoint, HookRan};
use domain::limits::HOOK_OUTPUT_BYTES_MAX;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tools::helpers;
use tools::sandbox::{self, Finished, Job};

pub use ruling::{Answer, Ruling};

use crate::project::Place;
use crate::settings::Hook;

/// Longest label of a command in the journal: enough to recognise it.
const LABEL_CHARS_MAX: usize = 120;

/// The hooks of a place, and what they run with. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    all: Arc<[Hook]>,
    environment: Arc<[(String, String)]>,
}

/// A hook that ran.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What the journal keeps of it.
    pub event: HookRan,
    /// Why what it was asked about must not happen.
    pub stopped: Option<String>,
    /// What it changed.
    pub answer: Answer,
}

impl Hooks {
    /// The hooks `all`, in this order.
    #[must_use]
    pub fn new(all: Vec<Hook>, environment: Arc<[(String, String)]>) -> Self {
        Self {
            all: all.into(),
            environment,
        }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Hook] {
        &self.all
    }

    /// Those that run at `point`, about the tool called `tool`.
    #[must_use]
    pub fn at(&self, point: HookPoint, tool: Option<&str>) -> Vec<Hook> {
        let meant = self.all.iter().filter(|hook| hook.is_for(point, tool));
        meant.cloned().collect()
    }

    /// Asks `hook` about `fields` of the session at `place`. Dropped, it kills the command and all
    /// that it started.
    pub async fn run(&self, hook: &Hook, place: &Place, fields: &Map<String, Value>) -> Ran {
        let session = place.session.to_string();
        let mut input = Map::new();
        input.insert("event".to_owned(), json!(hook.point));
        input.insert("sessionId".to_owned(), json!(session));
        input.insert("cwd".to_owned(), json!(place.cwd.path().to_string_lossy()));
        if let Some(agent) = &place.agent {
            input.insert("agent".to_owned(), json!(agent));
        }
        input.extend(fields.clone());
        let begun = Instant::now();
        let finished = self.run_in(hook, place, Value::Object(input)).await;
        let ruling = Ruling::of(hook, finished);
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let HookOutcome::Failed | HookOutcome::TimedOut = ruling.outcome {
            let why = ruling.reason.as_deref().unwrap_or_default();
            tracing::warn!(session, hook = label(hook), why, "a hook failed");
        }
        Ran {
            event: HookRan {
                event: hook.point,
                command: label(hook),
                outcome: ruling.outcome,
                ms,
                turn: None,
                call_id: None,
                reason: ruling.reason,
                prompt: None,
                context: None,
                stopped: ruling.stopped.is_some(),
            },
            stopped: ruling.stopped,
            answer: ruling.answer,
        }
    }
}

impl Hooks {
    /// Runs the command in the session's directory, if that is still the directory that was checked.
    async fn run_in(&self, hook: &Hook, place: &Place, input: Value) -> io::Result<Finished> {
        let (cwd, mut environment) = (place.cwd.clone(), self.environment.to_vec());
        // Looking at the disk blocks.
        let looking = tokio::task::spawn_blocking(move || {
            // A hook runs outside of the sandbox, so its programs come from where no session writes.
            helpers::note_writable(std::slice::from_ref(&cwd));
            for (_, path) in environment.iter_mut().filter(|(name, _)| name == "PATH") {
                *path = helpers::safe_path(path);
            }
            Ok::<_, io::Error>((cwd.open().map_err(io::Error::other)?, environment))
        });
        let (directory, environment) = looking.await.map_err(io::Error::other)??;
        let running = sandbox::run(Job {
            command: &hook.command,
            cwd: directory.as_fd(),
            environment: &environment,
            input: input.to_string().into_bytes(),
            time_max: hook.time_max,
            output_bytes_max: HOOK_OUTPUT_BYTES_MAX,
        });
        running.await
    }
}

/// What the journal keeps of a hook that was cut off with its turn.
#[must_use]
pub fn cut_off(hook: &Hook) -> HookRan {
    HookRan {
        event: hook.point,
        command: label(hook),
        outcome: HookOutcome::Failed,
        ms: 0,
        turn: None,
        call_id: None,
        reason: Some("the turn was cancelled".to_owned()),
        prompt: None,
        context: None,
        stopped: false,
    }
}

/// The command in one line, as long as a label may be.
fn label(hook: &Hook) -> String {
    let line = hook
        .command
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let line: String = line.chars().filter(|letter| !letter.is_control()).collect();
    match line.char_indices().nth(LABEL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
