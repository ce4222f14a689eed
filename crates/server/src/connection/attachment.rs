//! One session as one client follows it: the pump that turns its stream into frames.
//!
//! Everything a client learns of a session comes through here in the journal's order, also the
//! answers to its prompts: a prompt is answered when the pump passes the event that ended its turn.

use std::sync::Arc;

use domain::event::{PermissionAsked, StopReason, TurnResult, Usage};
use domain::{Event, EventSeq, FailureKind, SessionId, TurnError, TurnId};
use session::{CommandError, Delivery, Item, Outcome, SessionHandle, Stored, Subscription};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::acp::{self, ClientCapabilities, TurnNotice, TurnState, UpdateMeta};
use wire::rpc::{RequestId, RpcError};

use super::answers::Answers;
use super::outbox::{Gone, Outbox};
use super::waiting::Waiting;
use crate::service::Service;

/// A client's place in a session: to act, and to find the prompts that wait for their answer.
pub(crate) struct Attachment {
    pub(crate) handle: SessionHandle,
    pub(crate) waiting: Arc<Waiting>,
    /// Tells a new attachment to the same session from the old one.
    pub(crate) serial: u64,
    /// Stops the pump when the attachment is dropped.
    pub(crate) stop: DropGuard,
    /// Fires when the pump has stopped.
    pub(crate) stopped: CancellationToken,
}

/// The answer to a prompt whose outcome is known.
pub(crate) fn outcome_answer(
    outcome: &Outcome,
    usage: Option<&Usage>,
) -> Result<serde_json::Value, RpcError> {
    match outcome {
        Outcome::Turn(Ok(reason)) => Ok(acp::prompt_result(*reason, usage)),
        Outcome::Turn(Err(error)) => Err(RpcError::turn_failed(error)),
        Outcome::Dropped => Ok(acp::prompt_result(StopReason::Cancelled, None)),
    }
}

/// What a client is told when the store failed under its turn.
pub(crate) fn storage_error(kind: FailureKind) -> TurnError {
    let message = match kind {
        FailureKind::StorageFull => "the disk is full; free some space and prompt again",
        FailureKind::StorageFailed => "the disk failed; the turn was not stored",
        FailureKind::Damaged => {
            "the session's journal is damaged; it can be read but not continued"
        }
        FailureKind::HeldElsewhere => "another process has the session open",
        FailureKind::Draining => "the server is shutting down",
        FailureKind::Interrupted => "the server stopped while the turn ran",
        FailureKind::ModelError => "the model failed",
        FailureKind::ModelTimeout => "the model did not answer in time",
    };
    TurnError::new(kind, message)
}

/// The refusal of a command that the session did not carry out.
pub(crate) fn command_error(error: &CommandError) -> RpcError {
    match error {
        CommandError::Busy => RpcError::busy(),
        CommandError::Limit(name) => RpcError::limit(name),
        CommandError::Closed => RpcError::session_not_found(),
        CommandError::Failed(kind) => RpcError::turn_failed(&storage_error(*kind)),
    }
}

/// When the request that attached is answered.
pub(crate) enum Reply {
    /// Before anything else.
    First(RequestId, serde_json::Value),
    /// After everything up to this event.
    After(RequestId, serde_json::Value, EventSeq),
}

/// Moves one session's stream to one client.
pub(crate) struct Pump {
    pub(crate) service: Arc<Service>,
    pub(crate) session: SessionId,
    pub(crate) subscription: Subscription,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) outbox: Outbox,
    pub(crate) capabilities: ClientCapabilities,
    /// Questions that were open when the client attached; later ones come with the stream.
    pub(crate) questions: Vec<PermissionAsked>,
    /// Events up to here are history.
    pub(crate) attached_at: EventSeq,
    /// Fires when the client has left the session, or left altogether.
    pub(crate) stop: CancellationToken,
}

impl Pump {
    /// Runs until the session ends here, the client closes it, or the client leaves.
    pub(crate) async fn run(mut self, reply: Reply) {
        // Err means that the client left: there is nobody to tell, and the session goes on.
        let _ = self.follow(reply).await;
        self.answers.forget_session(self.session);
    }

    async fn follow(&mut self, reply: Reply) -> Result<(), Gone> {
        let mut pending = match reply {
            Reply::First(id, result) => {
                self.send(self.answers.result_in_stream(&id, &result))
                    .await?;
                self.ask_open_questions().await?;
                None
            }
            Reply::After(id, result, seq) => Some((id, result, seq)),
        };
        loop {
            if let Some((id, result, _)) =
                pending.take_if(|(_, _, seq)| self.subscription.cursor().seq >= *seq)
            {
                self.send(self.answers.result_in_stream(&id, &result))
                    .await?;
                self.ask_open_questions().await?;
            }
            if let Some(id) = self.waiting.closing(self.subscription.cursor().seq) {
                self.answer_rest(StopReason::Cancelled).await?;
                return self
                    .send(self.answers.result_in_stream(&id, &acp::empty_result()))
                    .await;
            }
            let next = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(Gone),
                () = self.waiting.bell.notified() => continue,
                next = self.subscription.next() => next,
            };
            match next {
                Ok(Some(deliveries)) => self.deliver(deliveries).await?,
                Ok(None) => return self.finish().await,
                Err(error) => {
                    tracing::warn!(session = %self.session, %error, "the journal could not be read");
                    let kind = error.kind().unwrap_or(FailureKind::StorageFailed);
                    return self.fail_rest(kind).await;
                }
            }
        }
    }

    async fn deliver(&mut self, deliveries: Vec<Delivery>) -> Result<(), Gone> {
        let mut frames = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let mut meta = UpdateMeta {
                seq: delivery.cursor.seq,
                epoch: delivery.cursor.epoch,
                offset: delivery.in_message.then_some(delivery.cursor.offset),
                ..UpdateMeta::default()
            };
            match delivery.item {
                Item::Text {
                    message,
                    kind,
                    text,
                } => {
                    frames.push(acp::text_chunk(self.session, kind, &message, &text, &meta));
                }
                Item::Event(stored) => self.event(&stored, &mut meta, &mut frames),
                Item::Failed(kind) => {
                    let error = storage_error(kind);
                    let all = self.waiting.all();
                    frames.extend(all.iter().filter_map(|id| self.failed(id, &error)));
                }
            }
        }
        self.outbox.stream(frames).await
    }

    /// The frames that show a stored event to this client.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "wire shows all others, arm by arm"
    )]
    fn event(&self, stored: &Stored, meta: &mut UpdateMeta, frames: &mut Vec<String>) {
        let is_live = stored.seq > self.attached_at;
        match &stored.event {
            Event::UserMessage(message) if self.waiting.is_own(message.message_id.as_ref()) => {}
            Event::UserMessage(message) => {
                meta.prompt_id.clone_from(&message.prompt_id);
                frames.extend(acp::event_updates(self.session, &stored.event, meta));
            }
            Event::TurnStarted(started) => {
                self.waiting.started(started);
                let notice = self.notice(stored.seq, started.turn, TurnState::Running);
                frames.extend(self.turn(TurnNotice {
                    prompt_id: started.prompt_id.clone(),
                    ..notice
                }));
            }
            Event::TurnResult(result) => self.result(stored.seq, result, frames),
            Event::TurnInterrupted(interrupted) => {
                let error = storage_error(FailureKind::Interrupted);
                let notice = self.notice(stored.seq, interrupted.turn, TurnState::Idle);
                frames.extend(self.turn(TurnNotice {
                    error: Some(error.clone()),
                    ..notice
                }));
                let ended = self.waiting.ended(interrupted.turn);
                frames.extend(ended.iter().filter_map(|id| self.failed(id, &error)));
            }
            Event::PromptDropped(dropped) => {
                let dropped = self.waiting.dropped(dropped.queued);
                let cancelled = acp::prompt_result(StopReason::Cancelled, None);
                frames.extend(
                    dropped
                        .iter()
                        .filter_map(|id| self.answers.result_in_stream(id, &cancelled)),
                );
            }
            Event::PermissionAsked(asked) if is_live => {
                frames.push(self.answers.question(self.session, asked));
            }
            Event::PermissionAnswered(answered) => {
                frames.extend(self.answers.withdraw(&answered.id))
            }
            Event::ModeChanged(changed) => {
                frames.extend(acp::event_updates(self.session, &stored.event, meta));
                if is_live {
                    let settings = self.service.settings(&changed.mode);
                    frames.push(acp::config_option_update(self.session, &settings));
                }
            }
            other => frames.extend(acp::event_updates(self.session, other, meta)),
        }
    }

    fn result(&self, seq: EventSeq, result: &TurnResult, frames: &mut Vec<String>) {
        let notice = self.notice(seq, result.turn, TurnState::Idle);
        frames.extend(self.turn(TurnNotice {
            stop_reason: result.stop_reason,
            error: result.error.clone(),
            ..notice
        }));
        let outcome = Outcome::Turn(session::state::outcome_of(result));
        for id in self.waiting.ended(result.turn) {
            frames.extend(match outcome_answer(&outcome, result.usage.as_ref()) {
                Ok(answer) => self.answers.result_in_stream(&id, &answer),
                Err(error) => self.answers.error_in_stream(&id, error),
            });
        }
    }

    /// The session has ended here; whatever still waits was cancelled with it.
    async fn finish(&mut self) -> Result<(), Gone> {
        self.answer_rest(StopReason::Cancelled).await?;
        // A close that came too late to be told apart has reached its end as well.
        let closing = self.waiting.closing(EventSeq(u64::MAX));
        let answer =
            closing.and_then(|id| self.answers.result_in_stream(&id, &acp::empty_result()));
        self.send(answer).await
    }

    async fn answer_rest(&self, reason: StopReason) -> Result<(), Gone> {
        let answer = acp::prompt_result(reason, None);
        let rest = self.waiting.all();
        let frames: Vec<_> = rest
            .iter()
            .filter_map(|id| self.answers.result_in_stream(id, &answer))
            .collect();
        self.outbox.stream(frames).await
    }

    async fn fail_rest(&self, kind: FailureKind) -> Result<(), Gone> {
        let error = storage_error(kind);
        let rest = self.waiting.all();
        let frames: Vec<_> = rest
            .iter()
            .filter_map(|id| self.failed(id, &error))
            .collect();
        self.outbox.stream(frames).await
    }

    async fn ask_open_questions(&mut self) -> Result<(), Gone> {
        let questions = std::mem::take(&mut self.questions);
        let frames: Vec<_> = questions
            .iter()
            .map(|asked| self.answers.question(self.session, asked))
            .collect();
        self.outbox.stream(frames).await
    }

    fn failed(&self, id: &RequestId, error: &TurnError) -> Option<String> {
        self.answers
            .error_in_stream(id, RpcError::turn_failed(error))
    }

    fn turn(&self, notice: TurnNotice) -> Option<String> {
        self.capabilities
            .turns
            .then(|| acp::turn_notification(&notice))
    }

    fn notice(&self, seq: EventSeq, turn: TurnId, state: TurnState) -> TurnNotice {
        let session_id = self.session;
        TurnNotice {
            session_id,
            seq,
            turn,
            state,
            stop_reason: None,
            error: None,
            prompt_id: None,
        }
    }

    async fn send(&self, frame: Option<String>) -> Result<(), Gone> {
        self.outbox.stream(frame).await
    }
}
