//! How a turn ended, as an exit code, a sentence for people and an object for programs.

use client::ClientError;
use serde_json::{Value, json};

use super::Stop;
use crate::args::AskArgs;
use crate::render::{Exit, Failure, advise, exit_of, hint_of};

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    /// A limit ended the answer.
    Cut,
    /// The model ended its turn without a word.
    Empty,
    AllDenied,
    Stopped,
    TimedOut,
    Interrupted,
    /// The answer could not be written.
    Unheard,
}

/// What is known of a turn besides why it stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// It called tools, and every call was denied.
    pub(super) is_all_denied: bool,
    /// The model said something.
    pub(super) has_text: bool,
}

pub(super) fn verdict(stop: Option<Stop>, stop_reason: &str, facts: Facts) -> Verdict {
    let Facts {
        is_all_denied,
        has_text,
    } = facts;
    match (stop, stop_reason) {
        (Some(Stop::Interrupt), _) => Verdict::Interrupted,
        (Some(Stop::Timeout), _) => Verdict::TimedOut,
        (Some(Stop::OutputClosed), _) => Verdict::Unheard,
        (None, "cancelled" | "refusal") => Verdict::Stopped,
        (None, _) if is_all_denied => Verdict::AllDenied,
        (None, "end_turn") if has_text => Verdict::Good,
        (None, "end_turn") => Verdict::Empty,
        (None, _) => Verdict::Cut,
    }
}

/// Why there is no whole answer.
#[derive(Debug)]
pub(super) struct Outcome {
    /// One word for programs.
    kind: String,
    pub(super) error: anyhow::Error,
}

impl Outcome {
    pub(super) fn new(kind: impl Into<String>, error: impl Into<anyhow::Error>) -> Self {
        Self {
            kind: kind.into(),
            error: error.into(),
        }
    }

    /// `error` in the JSON that is printed.
    pub(super) fn object(&self) -> Value {
        object(&self.kind, &self.error)
    }
}

/// A limit ended the turn before the model did.
pub(super) fn cut(stop_reason: &str) -> Outcome {
    let (sentence, hint) = match stop_reason {
        "max_tokens" => (
            "the answer is incomplete: the model reached its limit of tokens".to_owned(),
            "ask it to go on with --session, or raise turn_tokens_max or the model's own limit",
        ),
        "max_turn_requests" => (
            "the answer is incomplete: the turn reached its limit of steps or time".to_owned(),
            "ask it to go on with --session, or raise FASTNESS_LIMITS_STEPS_MAX",
        ),
        other => (
            format!("the answer is incomplete: the turn stopped with `{other}`"),
            "ask it to go on with --session",
        ),
    };
    Outcome::new(stop_reason, Failure::new(sentence).hint(hint))
}

/// The model said nothing after `calls` tool calls.
pub(super) fn empty(calls: usize) -> Outcome {
    let sentence = match calls {
        0 => "the model gave an empty answer".to_owned(),
        1 => "the model gave an empty answer after 1 tool call".to_owned(),
        calls => format!("the model gave an empty answer after {calls} tool calls"),
    };
    let failure = Failure::new(sentence).hint("ask again, or choose another model with --model");
    Outcome::new("empty_answer", failure)
}

/// The user refused or cancelled the turn; `said` is the last message, which may say why.
pub(super) fn stopped(stop_reason: &str, said: Option<&str>) -> Outcome {
    let sentence = match (stop_reason, said) {
        ("refusal", Some(said)) => format!("the turn was refused: {said}"),
        ("refusal", None) => "the model refused to go on".to_owned(),
        _ => "the turn was cancelled".to_owned(),
    };
    Outcome::new(stop_reason, Failure::new(sentence))
}

/// The turn failed, or the connection did.
pub(super) fn failed(error: ClientError) -> Outcome {
    match error {
        ClientError::Refused {
            method,
            id,
            message,
            code,
            data,
        } => {
            let kind = data["kind"].as_str().unwrap_or("refused").to_owned();
            tracing::debug!(method, id, code, %data, "the server refused the prompt");
            let failure = Failure::new(message);
            Outcome::new(kind, failure)
        }
        error @ (ClientError::Connect(_)
        | ClientError::Timeout { .. }
        | ClientError::Lost { .. }
        | ClientError::BadAnswer { .. }
        | ClientError::StillAnswering { .. }
        | ClientError::TooManyWaiting { .. }) => Outcome::new("connection", error),
    }
}

/// The object that a program gets which asked for JSON, when nothing has begun.
pub(super) fn not_begun(args: &AskArgs, error: &anyhow::Error) -> Option<Value> {
    let kind = match exit_of(error) {
        Exit::Usage => "usage",
        Exit::Refused => "denied",
        Exit::Interrupted => "interrupted",
        Exit::Success | Exit::Failure => "not_started",
    };
    let error = object(kind, error);
    if args.stream_json {
        return Some(json!({"type": "result", "stopReason": null, "error": error}));
    }
    args.json
        .then(|| json!({"sessionId": null, "text": "", "messages": [], "stopReason": null, "error": error}))
}

fn object(kind: &str, error: &anyhow::Error) -> Value {
    let mut object = json!({"kind": kind, "message": advise(&format!("{error:#}"))});
    if let Some(hint) = hint_of(error) {
        object["hint"] = json!(advise(&hint));
    }
    object
}
