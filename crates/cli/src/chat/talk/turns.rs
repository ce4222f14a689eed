//! How turns begin and end: ours, those of other clients, and earlier ones that are replayed.

use std::collections::VecDeque;

use client::{ClientError, PromptEnd, Update};
use domain::event::StopReason;
use domain::{FailureKind, PromptId, TurnError};
use serde_json::Value;
use tokio::time::Instant;
use wire::acp::{QueueChange, QueueNotice, TurnNotice, TurnState};

use super::super::face::Waiting;
use super::Talk;
use crate::render::one_line;

/// Turns that can be undone one after the other; older ones by their number elsewhere.
const TURNS_MAX: usize = 1_000;
/// Prompts whose turn's end was shown and whose answer may still come; more never wait.
const SHOWN_MAX: usize = 64;

/// What was seen of the turn that runs, and of the ones before.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The client's name of the prompt that the running turn answers.
    prompt: Option<PromptId>,
    /// Whether the turn said anything.
    has_answered: bool,
    /// Prompts whose turn's end was shown.
    shown: VecDeque<PromptId>,
}

impl Turns {
    /// Something happened in the session.
    pub(super) fn heard(&mut self, update: &Update) {
        let is_answer = match update {
            Update::Text { text, greeting, .. } => !greeting && !text.trim().is_empty(),
            Update::Notice { .. } => true,
            Update::Thought { .. }
            | Update::ToolCall(_)
            | Update::ToolUpdate(_)
            | Update::Turn(_)
            | Update::Other { .. } => false,
        };
        self.has_answered |= is_answer;
    }

    fn began(&mut self, prompt: Option<&PromptId>) {
        self.prompt = prompt.cloned();
        self.has_answered = false;
    }

    /// The end of the running turn is shown; says whether it had an answer.
    fn ended(&mut self) -> bool {
        let prompt = self.prompt.take();
        self.show(prompt);
        std::mem::take(&mut self.has_answered)
    }

    /// How the prompt ended is shown.
    fn show(&mut self, prompt: Option<PromptId>) {
        if self.shown.len() >= SHOWN_MAX {
            self.shown.pop_front();
        }
        self.shown.extend(prompt);
    }

    fn take_shown(&mut self, prompt: &PromptId) -> bool {
        let at = self.shown.iter().position(|shown| shown == prompt);
        at.and_then(|at| self.shown.remove(at)).is_some()
    }
}

impl Talk<'_> {
    pub(super) fn turn(&mut self, notice: &TurnNotice, now: Instant) {
        match notice.state {
            TurnState::Running | TurnState::Waiting => {
                self.face.running.get_or_insert(now);
                let turns = self.seat.as_mut().map(|seat| &mut seat.turns);
                if let (Some(turns), TurnState::Running) = (turns, notice.state)
                    && turns.len() < TURNS_MAX
                {
                    turns.push(notice.seq);
                }
                if notice.state == TurnState::Running {
                    self.turns.began(notice.prompt_id.as_ref());
                }
                let prompt = notice.prompt_id.as_ref();
                if let Some(waited) = self.face.take_queued(notice.queued, prompt)
                    && waited.is_own
                {
                    self.face.transcript.prompt(&waited.text);
                }
            }
            TurnState::Idle => {
                self.face.running = None;
                self.face.transcript.turn_ended();
                let has_answered = self.turns.ended();
                // What the server said besides is not told again later.
                let is_silent = !has_answered && !self.face.is_entering();
                let (error, reason) = (notice.error.as_ref(), notice.stop_reason);
                self.show_end(error, reason, is_silent);
            }
        }
    }

    /// Says how a turn ended, unless it ended well.
    fn show_end(&mut self, error: Option<&TurnError>, reason: Option<StopReason>, is_silent: bool) {
        let transcript = &mut self.face.transcript;
        match (error, reason) {
            (Some(error), _) if error.kind == FailureKind::Interrupted => {
                transcript.failed("interrupted: the server that ran this turn is gone");
            }
            (Some(error), _) => transcript.failed(&error.message),
            (None, None | Some(StopReason::EndTurn)) if is_silent => {
                transcript.warn("the model ended its turn without an answer");
            }
            (None, None | Some(StopReason::EndTurn)) => {}
            (None, Some(StopReason::Cancelled)) => transcript.failed("cancelled"),
            (None, Some(StopReason::MaxTokens)) => {
                transcript.warn("the answer was cut: the limit of tokens was reached");
            }
            (None, Some(StopReason::MaxTurnRequests)) => {
                transcript.warn("the turn was ended: it used up its steps");
            }
            (None, Some(StopReason::Refusal)) => transcript.warn("the model refused to go on"),
        }
    }

    /// A prompt waits, or will not run.
    pub(super) fn queue_changed(&mut self, raw: &Value) {
        let notice = serde_json::from_value::<QueueNotice>(raw.clone());
        match notice.map(|notice| notice.change) {
            Ok(QueueChange::Queued { prompt }) => self.face.wait(Waiting {
                seq: Some(prompt.seq),
                prompt: prompt.prompt_id,
                text: prompt.text,
                is_own: false,
            }),
            Ok(QueueChange::Dropped {
                queued,
                interrupted,
            }) => {
                let Some(waited) = self.face.take_queued(Some(queued), None) else {
                    return;
                };
                let text = one_line(&waited.text);
                self.face.transcript.warn(&match interrupted {
                    true => format!("not sent, for the server stopped before its turn: {text}"),
                    false => format!("not sent: {text}"),
                });
                self.turns.show(waited.prompt);
            }
            Err(error) => tracing::debug!(%error, "skipped a change of the queue"),
        }
    }

    /// A prompt of ours has its answer. The end of its turn was shown with the turn, if it had one.
    pub(super) fn ended(&mut self, prompt: &PromptId, end: Result<PromptEnd, ClientError>) {
        self.sent.retain(|sent| sent != prompt);
        if self.sent.is_empty() {
            self.face.running = None;
        }
        self.face.transcript.turn_ended();
        if let Some(waited) = self.face.take_queued(None, Some(prompt)) {
            let text = one_line(&waited.text);
            self.face.transcript.warn(&format!("not sent: {text}"));
        } else if !self.turns.take_shown(prompt) {
            match end {
                Ok(end) => match end.stop_reason.as_str() {
                    "end_turn" => {}
                    "cancelled" => self.face.transcript.failed("cancelled"),
                    reason => {
                        let text = format!("the answer was cut: {reason}");
                        self.face.transcript.warn(&text);
                    }
                },
                Err(error) => self.face.transcript.failed(&told(&error)),
            }
        }
    }
}

/// An error as the user reads it: the server's sentence without the numbers around it.
pub(super) fn told(error: &ClientError) -> String {
    match error {
        ClientError::Refused { message, data, .. } => match data["kind"].as_str() {
            Some("interrupted") => "interrupted: the server that ran this turn is gone".to_owned(),
            Some(_) | None => message.clone(),
        },
        ClientError::Connect(_)
        | ClientError::Timeout { .. }
        | ClientError::Lost { .. }
        | ClientError::BadAnswer { .. }
        | ClientError::StillAnswering { .. }
        | ClientError::TooManyWaiting { .. } => error.to_string(),
    }
}
