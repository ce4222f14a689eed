//! One session as one client follows it: the pump that turns its stream into frames.
//!
//! Everything a client learns of a session comes through here in the journal's order, also the
//! answers to its prompts: a prompt is answered when the pump passes the event that ended its turn.

use std::sync::Arc;

use domain::event::{StopReason, Usage};
use domain::ids::PermissionId;
use domain::{Cursor, Event, EventSeq, FailureKind, QueuedPrompt, SessionId, TurnError, TurnId};
use session::{
    CommandError, Config, Delivery, Item, ProjectView, SessionHandle, StoreError, Stored,
    Subscription, TurnOutcome,
};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::acp::{
    self, ClientCapabilities, NoticeSeverity, QueueChange, QueueNotice, RewoundNotice, TurnNotice,
    TurnState, UpdateMeta,
};
use wire::rpc::{RequestId, RpcError};

use super::answers::Answers;
use super::commands::Offered;
use super::outbox::{Frame, Gone, Kind};
use super::route::Route;
use super::waiting::Waiting;
use crate::service::Service;

mod welcome;

/// A client's place in a session: to act, and to find the prompts that wait for their answer.
pub(crate) struct Attachment {
    pub(crate) handle: SessionHandle,
    pub(crate) waiting: Arc<Waiting>,
    /// Tells a new attachment to the same session from the old one.
    pub(crate) serial: u64,
    /// Stops the pump when the attachment is dropped.
    pub(crate) stop: DropGuard,
    /// Gives back what is left when the pump has stopped.
    pub(crate) stopped: oneshot::Receiver<Box<Former>>,
}

/// The answer to a prompt whose turn ended.
pub(crate) fn outcome_answer(
    outcome: &TurnOutcome,
    usage: Option<&Usage>,
) -> Result<serde_json::Value, RpcError> {
    match outcome {
        Ok(reason) => Ok(acp::prompt_result(*reason, usage)),
        Err(error) => Err(RpcError::turn_failed(error)),
    }
}

/// The answer to a prompt that never ran.
pub(crate) fn dropped_answer() -> serde_json::Value {
    acp::prompt_result(StopReason::Cancelled, None)
}

/// What a client is told when the store failed under its turn.
pub(crate) fn storage_error(kind: FailureKind) -> TurnError {
    kind.into()
}

/// The refusal of a command that the session did not carry out.
pub(crate) fn command_error(error: &CommandError) -> RpcError {
    match error {
        CommandError::Scope => RpcError::scope(),
        CommandError::Busy => RpcError::busy(),
        CommandError::Limit(name) => RpcError::limit(name),
        CommandError::Invalid(why) => RpcError::invalid_params(*why),
        CommandError::Closed => RpcError::session_not_found(),
        CommandError::Failed(kind) => RpcError::turn_failed(&storage_error(*kind)),
    }
}

/// That a turn is as `state` says, since the event `seq`.
pub(crate) fn notice(
    session_id: SessionId,
    (seq, turn): (EventSeq, TurnId),
    state: TurnState,
) -> TurnNotice {
    TurnNotice {
        session_id,
        seq,
        turn,
        state,
        stop_reason: None,
        error: None,
        prompt_id: None,
        queued: None,
    }
}

/// The answer to the request that attached, and the event it comes after; 0 for at once.
pub(crate) struct Reply {
    pub(crate) id: RequestId,
    pub(crate) result: serde_json::Value,
    pub(crate) after: EventSeq,
}

/// What a stream leaves to the one that replaces it.
pub(crate) struct Former {
    subscription: Subscription,
    /// Requests to attach that it had not come to answer.
    replies: Vec<Reply>,
}

impl Answers {
    /// Answers everything that a client still waits for of a stream that it has closed and does not
    /// read.
    pub(crate) fn part(&self, waiting: &Waiting, left: Option<Box<Former>>) {
        for reply in left.into_iter().flat_map(|left| left.replies) {
            self.error(&reply.id, RpcError::session_not_found());
        }
        for id in waiting.all() {
            self.result(&id, &dropped_answer());
        }
        for due in waiting.due(EventSeq(u64::MAX)) {
            match due.answer {
                Ok(answer) => self.result(&due.id, &answer),
                Err(error) => self.error(&due.id, error),
            }
        }
    }
}

/// Moves one session's stream to one client.
pub(crate) struct Pump {
    pub(crate) service: Arc<Service>,
    pub(crate) session: SessionId,
    pub(crate) subscription: Subscription,
    /// The same client's former stream of this session, as far as it came.
    pub(crate) before: Option<Box<Former>>,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) route: Route,
    pub(crate) capabilities: ClientCapabilities,
    /// Questions that were open when the client attached; later ones come with the stream.
    pub(crate) questions: Vec<session::Asked>,
    /// What is around the session.
    pub(crate) view: ProjectView,
    /// What the client was last told of its commands.
    pub(crate) offered: Offered,
    /// Events up to here are history.
    pub(crate) attached_at: EventSeq,
    /// What was set when the client attached, and then as the stream tells.
    pub(crate) config: Config,
    /// Whether the client may answer questions.
    pub(crate) may_act: bool,
    /// Fires when the client has left the session, or left altogether.
    pub(crate) stop: CancellationToken,
}

impl Pump {
    /// Runs until the session ends here, the client closes it, or the client leaves; gives back
    /// what is left, for whoever follows the session next for this client.
    ///
    /// What is rare and large is boxed: an idle client's task has the room of its largest step.
    pub(crate) async fn run(mut self: Box<Self>, reply: Box<Reply>) -> Box<Former> {
        let mut replies = Vec::new();
        // Err means that the client left: there is nobody to tell, and the session goes on.
        let _ = self.follow(reply, &mut replies).await;
        self.answers.forget_session(self.session);
        self.route.end();
        let subscription = self.subscription;
        Box::new(Former {
            subscription,
            replies,
        })
    }

    async fn follow(&mut self, reply: Box<Reply>, replies: &mut Vec<Reply>) -> Result<(), Gone> {
        let answers = Arc::clone(&self.answers);
        let mut sending = answers.sending();
        self.route.begin(self.subscription.cursor());
        let mut before = self.before.take();
        if let Some(former) = &mut before {
            replies.append(&mut former.replies);
        }
        {
            // Moved in here, so that its box is gone before the stream begins.
            let reply = reply;
            replies.push(*reply);
        }
        if let Some(former) = before {
            Box::pin(self.settle_before(former)).await?;
        }
        // Nothing is left to say but what a reader wants again.
        let mut is_over = false;
        loop {
            let cursor = self.subscription.cursor();
            let passed = cursor.seq;
            self.route.passed(cursor);
            if !is_over {
                self.welcome((cursor, passed), replies).await?;
            }
            is_over |= self.answer_due(passed).await?;
            if is_over {
                let left = RpcError::session_not_found();
                Box::pin(self.refuse(replies, &left)).await?;
                if self.route.end_if_read() {
                    return Ok(());
                }
            }
            drop(sending);
            let next = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(Gone),
                () = self.waiting.bell.notified() => None,
                from = self.route.rewound() => {
                    self.route.go_back(cursor);
                    self.subscription = self.subscription.again_after(from);
                    None
                }
                next = self.subscription.next() => Some(next),
            };
            sending = answers.sending();
            let Some(next) = next else { continue };
            match next {
                Ok(Some(deliveries)) if is_over => {
                    let again = self.route.sent_before(deliveries);
                    self.deliver(again).await?;
                }
                Ok(Some(deliveries)) if passed < self.attached_at => {
                    Box::pin(self.deliver_history(cursor, deliveries, replies)).await?;
                }
                Ok(Some(deliveries)) => self.deliver(deliveries).await?,
                // Not to be had again: there is nothing left to read.
                Ok(None) | Err(_) if is_over => return Ok(()),
                Ok(None) => {
                    let refusal = RpcError::session_not_found();
                    Box::pin(self.finish(replies, &refusal)).await?;
                    is_over = true;
                }
                Err(error) => {
                    Box::pin(self.fail(&error, replies)).await?;
                    is_over = true;
                }
            }
        }
    }

    /// Answers what the client's former stream had not come to and this one will not show.
    async fn settle_before(&mut self, former: Box<Former>) -> Result<(), Gone> {
        let mut before = former.subscription;
        let up_to = self.subscription.cursor().seq;
        while before.cursor().seq < up_to {
            // A journal that cannot be read is met again by the stream itself.
            let Ok(Some(deliveries)) = before.next().await else {
                break;
            };
            let mut frames = Vec::new();
            for delivery in deliveries {
                if let Item::Event(stored) = &delivery.item
                    && stored.seq <= up_to
                {
                    self.settle(&stored.event, &mut frames);
                }
            }
            self.route.send(frames).await?;
        }
        Ok(())
    }

    /// Gives the answers whose time has come; says whether one of them was the last.
    async fn answer_due(&mut self, passed: EventSeq) -> Result<bool, Gone> {
        let due = self.waiting.due(passed);
        let is_last = due.iter().any(|due| due.is_last);
        let mut frames = Vec::new();
        for due in due {
            if due.is_last {
                frames.extend(self.rest());
            }
            let frame = match due.answer {
                Ok(answer) => self.answers.result_in_stream(&due.id, &answer),
                Err(error) => self.answers.error_in_stream(&due.id, error),
            };
            frames.extend(frame.map(Frame::once));
        }
        if !frames.is_empty() {
            self.route.send(frames).await?;
        }
        Ok(is_last)
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
                    let text = acp::text_chunk(self.session, kind, &message, &text, &meta);
                    frames.push(Frame::update(text, delivery.cursor));
                }
                Item::Event(stored) if self.route.has_handled(stored.seq) => {
                    self.show_again(&stored, &mut meta, delivery.cursor, &mut frames);
                }
                Item::Event(stored) => {
                    self.event(&stored, &mut meta, delivery.cursor, &mut frames);
                }
                Item::Progress(live) => {
                    let frame = acp::tool_progress(self.session, &live.call, &live.text);
                    frames.extend(frame.map(Frame::passing));
                }
                Item::Failed(kind) => self.store_failed(kind, delivery.cursor.seq, &mut frames),
            }
        }
        self.route.send(frames).await
    }

    /// The store failed under the turn: it is over, and no event could say so yet.
    fn store_failed(&self, kind: FailureKind, seq: EventSeq, frames: &mut Vec<Frame>) {
        let error = storage_error(kind);
        let turn = self.waiting.take_running();
        let turn = turn.filter(|_| self.capabilities.turns);
        let notice = turn.map(|turn| TurnNotice {
            error: Some(error.clone()),
            ..notice(self.session, (seq, turn), TurnState::Idle)
        });
        // Once: the journal cannot give it again, only what recovery makes of it.
        let told = notice.map(|notice| acp::turn_notification(&notice));
        frames.extend(told.map(Frame::once));
        let all = self.waiting.all();
        let failed = all.iter().filter_map(|id| self.failed(id, &error));
        frames.extend(failed.map(Frame::once));
    }

    /// The frames that show a stored event to this client.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "wire shows all others, arm by arm"
    )]
    fn event(
        &mut self,
        stored: &Stored,
        meta: &mut UpdateMeta,
        cursor: Cursor,
        frames: &mut Vec<Frame>,
    ) {
        let is_live = stored.seq > self.attached_at;
        match &stored.event {
            Event::UserMessage(message) if self.waiting.is_own(message.message_id.as_ref()) => {}
            Event::PermissionAsked(asked) if is_live && self.may_act => {
                frames.push(self.question(&session::Asked::Permission(asked.clone())));
            }
            Event::QuestionAsked(asked) if is_live && self.may_act => {
                frames.push(self.question(&session::Asked::Person(asked.clone())));
            }
            Event::PermissionAnswered(answered) => frames.extend(self.withdraw(&answered.id)),
            Event::QuestionAnswered(answered) => frames.extend(self.withdraw(&answered.id)),
            Event::Notice(notice) if notice.kind != "greeting" => {
                // Said once, when it happens, to those who want to hear it.
                if is_live && self.capabilities.notices {
                    let severity = NoticeSeverity::Warning;
                    let told = acp::notice_update(self.session, severity, &notice.text, meta);
                    frames.extend(told.map(|text| Frame::update(text, cursor)));
                }
            }
            other => self.updates(other, meta, cursor, frames),
        }
        if is_live && self.config.take(&stored.event) {
            let shown = self.service.settings(&self.config);
            let update = acp::config_option_update(self.session, &shown.settings());
            frames.push(Frame::once(update));
        }
        frames.extend(self.turn_notice(stored, cursor));
        frames.extend(self.queue_notice(stored, meta, cursor));
        frames.extend(self.rewound_notice(stored, cursor));
        self.settle(&stored.event, frames);
    }

    /// The frames of an event that this client was sent before, but for those that are kept.
    fn show_again(
        &self,
        stored: &Stored,
        meta: &mut UpdateMeta,
        cursor: Cursor,
        frames: &mut Vec<Frame>,
    ) {
        if let Event::UserMessage(message) = &stored.event
            && self.waiting.was_own(message.message_id.as_ref())
        {
            return;
        }
        self.updates(&stored.event, meta, cursor, frames);
        frames.extend(self.turn_notice(stored, cursor));
        frames.extend(self.queue_notice(stored, meta, cursor));
        frames.extend(self.rewound_notice(stored, cursor));
    }

    /// The updates that tell of an event.
    fn updates(
        &self,
        event: &Event,
        meta: &mut UpdateMeta,
        cursor: Cursor,
        frames: &mut Vec<Frame>,
    ) {
        if let Event::UserMessage(message) = event {
            meta.prompt_id.clone_from(&message.prompt_id);
        }
        let context = acp::context_update(self.session, event, meta);
        meta.more = context.is_some();
        let mut updates = acp::event_updates(self.session, event, meta);
        // ACP: only to clients that said they show it.
        if matches!(event, Event::Compaction(_)) && !self.capabilities.compaction {
            updates.clear();
        }
        updates.extend(context);
        let last = updates.len().saturating_sub(1);
        for (at, text) in updates.into_iter().enumerate() {
            let more = at < last;
            let kind = Kind::Update { cursor, more };
            frames.push(Frame { text, kind });
        }
    }

    /// The answers to this client's prompts that a stored event brings.
    fn settle(&self, event: &Event, frames: &mut Vec<Frame>) {
        if let Event::TurnStarted(started) = event {
            self.waiting.started(started);
        } else if let Event::TurnResult(result) = event {
            let outcome = session::state::outcome_of(result);
            for id in self.waiting.ended(result.turn) {
                let answer = match outcome_answer(&outcome, result.usage.as_ref()) {
                    Ok(answer) => self.answers.result_in_stream(&id, &answer),
                    Err(error) => self.answers.error_in_stream(&id, error),
                };
                frames.extend(answer.map(Frame::once));
            }
        } else if let Event::TurnInterrupted(interrupted) = event {
            let error = storage_error(FailureKind::Interrupted);
            let ended = self.waiting.ended(interrupted.turn);
            let failed = ended.iter().filter_map(|id| self.failed(id, &error));
            frames.extend(failed.map(Frame::once));
        } else if let Event::PromptDropped(dropped) = event {
            let ids = self.waiting.dropped(dropped.queued);
            // Told now as it will be told to whoever asks again after the restart.
            let (answer, error) = (dropped_answer(), storage_error(FailureKind::Interrupted));
            let answers = ids.iter().filter_map(|id| match dropped.interrupted {
                true => self.failed(id, &error),
                false => self.answers.result_in_stream(id, &answer),
            });
            frames.extend(answers.map(Frame::once));
        }
    }

    /// How a stored event changes the turn, for a client that asked to be told.
    fn turn_notice(&self, stored: &Stored, cursor: Cursor) -> Option<Frame> {
        if !self.capabilities.turns {
            return None;
        }
        let notice = |turn, state| notice(self.session, (stored.seq, turn), state);
        let notice = if let Event::TurnStarted(started) = &stored.event {
            let (prompt_id, queued) = (started.prompt_id.clone(), started.queued);
            TurnNotice {
                prompt_id,
                queued,
                ..notice(started.turn, TurnState::Running)
            }
        } else if let Event::TurnResult(result) = &stored.event {
            let (stop_reason, error) = (result.stop_reason, result.error.clone());
            TurnNotice {
                stop_reason,
                error,
                ..notice(result.turn, TurnState::Idle)
            }
        } else if let Event::TurnInterrupted(interrupted) = &stored.event {
            let error = Some(storage_error(FailureKind::Interrupted));
            TurnNotice {
                error,
                ..notice(interrupted.turn, TurnState::Idle)
            }
        } else {
            return None;
        };
        Some(Frame::update(acp::turn_notification(&notice), cursor))
    }

    /// How a stored event changes the queue, for a client that asked to be told.
    fn queue_notice(&self, stored: &Stored, meta: &UpdateMeta, cursor: Cursor) -> Option<Frame> {
        if !self.capabilities.queue {
            return None;
        }
        let change = if let Event::PromptQueued(queued) = &stored.event {
            let id = queued.prompt_id.as_ref();
            let prompt = QueuedPrompt::new(stored.seq, id, &queued.text);
            QueueChange::Queued { prompt }
        } else if let Event::PromptDropped(dropped) = &stored.event {
            QueueChange::Dropped {
                queued: dropped.queued,
                interrupted: dropped.interrupted,
            }
        } else {
            return None;
        };
        let notice = QueueNotice {
            session_id: self.session,
            seq: stored.seq,
            offset: meta.offset,
            change,
        };
        Some(Frame::update(acp::queue_notification(&notice), cursor))
    }

    /// Tells a client that saw what was undone, and asked to be told, to drop it.
    fn rewound_notice(&self, stored: &Stored, cursor: Cursor) -> Option<Frame> {
        let Event::SessionRewound(rewound) = &stored.event else {
            return None;
        };
        let notice = RewoundNotice {
            session_id: self.session,
            seq: stored.seq,
            to: rewound.to,
        };
        let is_told = self.capabilities.turns && stored.seq > self.attached_at;
        is_told.then(|| Frame::update(acp::rewound_notification(&notice), cursor))
    }

    /// The session has ended here; whatever still waits was cancelled with it.
    async fn finish(&mut self, replies: &mut Vec<Reply>, refusal: &RpcError) -> Result<(), Gone> {
        let rest = self.rest();
        self.route.send(rest).await?;
        self.refuse(replies, refusal).await?;
        self.answer_due(EventSeq(u64::MAX)).await?;
        Ok(())
    }

    /// Answers to all prompts that still wait: they were cancelled.
    fn rest(&self) -> Vec<Frame> {
        let answer = dropped_answer();
        let rest = self.waiting.all();
        rest.iter()
            .filter_map(|id| self.answers.result_in_stream(id, &answer))
            .map(Frame::once)
            .collect()
    }

    /// The journal cannot be read: everything that waits fails.
    async fn fail(&mut self, error: &StoreError, replies: &mut Vec<Reply>) -> Result<(), Gone> {
        tracing::warn!(session = %self.session, %error, "the journal could not be read");
        let kind = error.kind().unwrap_or(FailureKind::StorageFailed);
        let error = storage_error(kind);
        let rest = self.waiting.all();
        let frames: Vec<_> = rest
            .iter()
            .filter_map(|id| self.failed(id, &error))
            .map(Frame::once)
            .collect();
        self.route.send(frames).await?;
        self.finish(replies, &RpcError::turn_failed(&error)).await
    }

    /// Asks the client's person, as it can show it.
    fn question(&self, asked: &session::Asked) -> Frame {
        let answers = &self.answers;
        Frame::once(answers.question(self.session, asked, self.capabilities))
    }

    /// A question has its answer. If it was not asked here yet, it need not be at all.
    fn withdraw(&mut self, question: &PermissionId) -> Option<Frame> {
        self.questions.retain(|asked| asked.id() != question);
        self.answers.withdraw(question).map(Frame::once)
    }

    fn failed(&self, id: &RequestId, error: &TurnError) -> Option<String> {
        self.answers
            .error_in_stream(id, RpcError::turn_failed(error))
    }

    async fn send(&mut self, frame: Option<String>) -> Result<(), Gone> {
        self.route
            .send(frame.map(Frame::once).into_iter().collect())
            .await
    }
}
