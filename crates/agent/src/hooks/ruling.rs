//! What the end of a hook means. Pure.

use std::io;

use domain::event::{HookOutcome, HookPoint};
use domain::limits::{HOOK_REASON_BYTES_MAX, HOOK_TEXT_BYTES_MAX, TOOL_RESULT_BYTES_MAX};
use serde::Deserialize;
use serde_json::Value;
use tools::sandbox::{Exit, Finished};

use crate::settings::{Hook, OnFailure};

/// The exit code that says no, with the reason on stderr.
const EXIT_BLOCK: i32 = 2;

/// What a hook says on stdout. A word that is not known is a failure: a guard whose `decison` is
/// misspelt must not be taken for one that is content.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    decision: Option<Decision>,
    reason: Option<String>,
    /// Another input for the tool.
    pub input: Option<Value>,
    /// Another prompt.
    pub prompt: Option<String>,
    /// Something for the model to read besides.
    pub context: Option<String>,
    /// Another result of the tool.
    pub result: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    /// The hook has nothing against it. Whoever else is to be asked is asked all the same.
    Allow,
    Block,
}

/// What a hook that ended means.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruling {
    /// For the journal.
    pub outcome: HookOutcome,
    /// Why, if there is something to say.
    pub reason: Option<String>,
    /// Why it must not happen, if it must not.
    pub stopped: Option<String>,
    /// What changes.
    pub answer: Answer,
}

impl Ruling {
    /// What it means that `hook` ended like this.
    pub(super) fn of(hook: &Hook, finished: io::Result<Finished>) -> Self {
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => {
                let reason = format!("it could not be started: {error}");
                return Self::failed(hook, HookOutcome::Failed, reason);
            }
        };
        match finished.exit {
            Exit::Code(0) => Self::said(hook, &finished.stdout),
            Exit::Code(EXIT_BLOCK) => Self::blocked(complaint(&finished.stderr)),
            Exit::Code(code) => {
                let complaint = complaint(&finished.stderr).map(|said| format!(": {said}"));
                let reason = format!("it ended with code {code}{}", complaint.unwrap_or_default());
                Self::failed(hook, HookOutcome::Failed, reason)
            }
            Exit::Signal(signal) => {
                let reason = format!("it was ended by signal {signal}");
                Self::failed(hook, HookOutcome::Failed, reason)
            }
            Exit::TooLong => {
                Self::failed(hook, HookOutcome::Failed, "it printed too much".to_owned())
            }
            Exit::TimedOut => {
                let reason = format!("it took longer than {} ms", hook.time_max.as_millis());
                Self::failed(hook, HookOutcome::TimedOut, reason)
            }
        }
    }

    fn said(hook: &Hook, stdout: &[u8]) -> Self {
        let answer = match parse(hook.point, stdout) {
            Ok(answer) => answer,
            Err(reason) => return Self::failed(hook, HookOutcome::Failed, reason),
        };
        if answer.decision == Some(Decision::Block) {
            return Self::blocked(answer.reason);
        }
        let changes = answer.input.is_some()
            || answer.prompt.is_some()
            || answer.context.is_some()
            || answer.result.is_some();
        Self {
            outcome: match changes {
                true => HookOutcome::Rewrote,
                false => HookOutcome::Ok,
            },
            reason: answer.reason.as_deref().map(shortened),
            stopped: None,
            answer,
        }
    }

    fn blocked(reason: Option<String>) -> Self {
        let reason = reason.as_deref().map(shortened);
        let stopped = reason.clone().filter(|reason| !reason.is_empty());
        Self {
            outcome: HookOutcome::Blocked,
            reason,
            stopped: Some(stopped.unwrap_or_else(|| "a hook said no".to_owned())),
            answer: Answer::default(),
        }
    }

    fn failed(hook: &Hook, outcome: HookOutcome, reason: String) -> Self {
        let reason = shortened(&reason);
        let stopped = match hook.on_failure {
            OnFailure::Block => Some(format!("a hook that must be asked failed: {reason}")),
            OnFailure::Ignore => None,
        };
        Self {
            outcome,
            reason: Some(reason),
            stopped,
            answer: Answer::default(),
        }
    }
}

/// What a hook printed, if it means something at `point`.
fn parse(point: HookPoint, stdout: &[u8]) -> Result<Answer, String> {
    if stdout.trim_ascii().is_empty() {
        return Ok(Answer::default());
    }
    let answer: Answer = serde_json::from_slice(stdout)
        .map_err(|error| format!("what it printed is not an answer: {error}"))?;
    let is_input = point == HookPoint::PreToolUse;
    let is_prompt = point == HookPoint::UserPromptSubmit;
    let is_result = point == HookPoint::PostToolUse;
    let misplaced = [
        ("input", answer.input.is_some() && !is_input),
        ("prompt", answer.prompt.is_some() && !is_prompt),
        ("result", answer.result.is_some() && !is_result),
    ];
    if let Some((field, _)) = misplaced
        .into_iter()
        .find(|(_, is_misplaced)| *is_misplaced)
    {
        return Err(format!("`{field}` means nothing at {}", point.name()));
    }
    if answer
        .input
        .as_ref()
        .is_some_and(|input| !input.is_object())
    {
        return Err("`input` is not an object".to_owned());
    }
    let texts = [
        (&answer.prompt, HOOK_TEXT_BYTES_MAX),
        (&answer.context, HOOK_TEXT_BYTES_MAX),
        (&answer.result, TOOL_RESULT_BYTES_MAX),
    ];
    for (text, bytes_max) in texts {
        if text.as_ref().is_some_and(|text| text.len() > bytes_max) {
            return Err(format!("a text is longer than {bytes_max} bytes"));
        }
    }
    Ok(answer)
}

fn complaint(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    (!text.is_empty()).then(|| shortened(text))
}

fn shortened(reason: &str) -> String {
    let end = reason.floor_char_boundary(HOOK_REASON_BYTES_MAX);
    reason[..end].trim().to_owned()
}
