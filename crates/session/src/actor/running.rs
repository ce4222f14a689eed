//! The running turn: starting it, storing what it reports, ending it.

use std::sync::Arc;

use agent::client_side::ClientSeat;
use agent::project::Moment;
use agent::prompt::{self, Surroundings};
use agent::turn::{self, OtherModels, Room, TurnInput};
use agent::{Budget, Conversation, Model, Proposal, Report, Root, Shell, Toolbox, Web};
use domain::clock::Timestamp;
use domain::event::{MessageKind, MessageStarted, StopReason, ToolResult};
use domain::limits::{
    BATCH_BYTES_MAX, BATCH_EVENTS_MAX, BLOB_BYTES_MIN, SESSION_WARM_TIME, TURN_REPORTS_MAX,
};
use domain::{EventSeq, MessageId, PrincipalId};
use journal::StoreError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::family::Caller;
use super::pace::Pace;
use super::{CANCEL_TIME_MAX, LiveTurn, Prompter, SessionActor};
use crate::state::{Command, Proposed, SessionState};
use crate::store_task::blocking;

/// Text that is written at once if it waits: more would be no faster.
const TEXT_WRITE_BYTES: usize = 64 * 1024;

/// Text from which on a write goes to a thread that may block.
const TEXT_INLINE_BYTES: usize = 16 * 1024;

/// A message from which on it is streamed even if its end is there.
const WHOLE_BYTES_MAX: usize = 16 * 1024;

impl SessionActor {
    /// Starts the turn that the journal says is running.
    ///
    /// Where its tools run is decided here and stays so: with the client that prompted as far as
    /// it offers that, else on the server. So is its model.
    pub(super) async fn start_turn(&mut self, prompter: Option<Prompter>) {
        let view = self.view();
        let system = self.system_prompt().await;
        let model = self.model.take().unwrap_or_else(|| self.open_model());
        let remote = self.remote();
        let role = self.role();
        let limits = &self.engine.limits;
        let limits = role.map_or_else(|| limits.clone(), |role| role.limits(limits));
        let Some(open) = &self.open else { return };
        let Some(roots) = self.roots() else { return };
        let roots = roots.with_seen(self.seen.clone());
        let turn = open.state.last_turn();
        let started_by = prompter.as_ref().map(|prompter| prompter.line);
        let trace = prompter.as_ref().and_then(|prompter| prompter.trace);
        let patience = prompter.as_ref().map(|prompter| prompter.patience);
        let client = prompter.and_then(|prompter| prompter.client);
        let seat = client.map(|client| ClientSeat::new(client, limits.client_back));
        let seat = role.map_or(seat, |role| role.seat.clone());
        // One turn runs at a time, so a turn's share of the network is the session's.
        let toolbox = Toolbox::new(roots)
            .with_client(seat.clone())
            .with_web(self.engine.web.as_ref().map(Web::for_session))
            .with_shell(self.shell())
            .with_languages(self.languages.clone())
            .with_progress(self.feed.progress().clone())
            .with_delegate(self.nursery(turn))
            .with_remote(remote)
            .with_only(role.and_then(|role| role.agent.tools.clone()));
        // A sub-agent talks to the agent that called it, which may ask the person.
        let toolbox = match role {
            Some(_) => toolbox.without_person(),
            None => toolbox,
        };
        let input = TurnInput {
            model,
            system,
            toolbox,
            models: self.other_models(&open.state),
            budget: Budget::new(&limits, open.state.usage().tokens()),
            room: Room {
                window: (limits.context_window > 0).then_some(limits.context_window),
                percent: limits.compact_percent,
            },
            command: agent::Command::parse(open.state.prompt_head()),
            view,
            asked: self.prompted_at.take().unwrap_or_else(Moment::now),
            turn,
            patience: patience.unwrap_or_default(),
        };
        let caller = Caller::new(open.state.mode());
        self.cool_at = None;
        let (sender, reports) = mpsc::channel(TURN_REPORTS_MAX);
        let cancel = CancellationToken::new();
        let span = self.watch_start(turn, trace);
        tokio::spawn(turn::run(input, sender, cancel.clone()).instrument(span));
        self.turn = Some(LiveTurn {
            reports,
            cancel,
            started_by,
            seat,
            end_by: None,
            pace: Pace::default(),
            caller,
        });
    }

    /// Where a project's model comes from, and one at an address of it. A session that has a model of
    /// its own, or whose operator has named one for all, takes no other from a project.
    fn other_models(&self, state: &SessionState) -> OtherModels {
        let is_named = self.engine.operator.is_model_named;
        let is_open = state.model().is_none() && !state.is_child();
        let own = self.engine.provider.label();
        OtherModels {
            catalog: Some(Arc::clone(&self.engine.catalog)),
            spec: state.model().unwrap_or(own).to_owned(),
            takes_project_model: is_open && !is_named,
        }
    }

    /// A new model as the session has it chosen. One that is no longer on offer, as after a restart
    /// with other settings, gives way to the process's own.
    fn open_model(&self) -> Box<dyn Model> {
        let chosen = self.open.as_ref().and_then(|open| open.state.model());
        let chosen = chosen.and_then(|spec| self.engine.catalog.offered(spec).ok());
        let provider = chosen.unwrap_or_else(|| Arc::clone(&self.engine.provider));
        match self.role() {
            Some(role) => provider.open_for(&role.agent.name),
            None => provider.open(),
        }
    }

    /// What the model is told first, the same for as long as the session is in memory.
    async fn system_prompt(&mut self) -> Arc<str> {
        if let Some(system) = &self.system {
            return Arc::clone(system);
        }
        let state = self.open.as_ref().map(|open| &open.state);
        let mut surroundings = Surroundings {
            cwd: state
                .map(|state| state.cwd().to_owned())
                .unwrap_or_default(),
            others: state
                .map(|state| state.additional_directories().to_vec())
                .unwrap_or_default(),
            branch: None,
            since: Some(Timestamp::now()),
        };
        let cwd = self.roots.as_deref().and_then(<[Root]>::first).cloned();
        let branch = blocking(move || {
            let cwd = cwd.filter(|cwd| cwd.verify().is_ok());
            Ok(cwd.and_then(|cwd| agent::branch(cwd.real())))
        });
        surroundings.branch = branch.await.ok().flatten();
        let mut system = prompt::system(&surroundings);
        if let Some(role) = self.role() {
            system.push_str(&prompt::role(&role.agent.name, &role.agent.prompt));
        }
        let system: Arc<str> = system.into();
        self.system = Some(Arc::clone(&system));
        system
    }

    /// How commands of this session run on the server.
    pub(super) fn shell(&self) -> Option<Shell> {
        let shell = self.engine.shell.as_ref();
        let shell = shell.map(|shell| shell.for_session(&self.id.to_string()));
        // What a session can write is never run outside of the sandbox, by any session.
        agent::helpers::note_writable(self.roots.as_deref().unwrap_or_default());
        let owner = self.open.as_ref().map(|open| open.state.owner());
        match owner == Some(&PrincipalId::local()) {
            true => shell,
            false => shell.map(|shell| shell.for_guest()),
        }
    }

    /// Asks the running turn to stop, closes its questions, and drops what waits behind it.
    pub(super) fn cancel_turn(&mut self) {
        self.stage(Command::Cancel);
        match &mut self.turn {
            Some(turn) => {
                turn.cancel.cancel();
                turn.end_by
                    .get_or_insert_with(|| Instant::now() + CANCEL_TIME_MAX);
            }
            // Decided but not begun: it ends before it does anything.
            None => self.stage(Command::End(Ok(StopReason::Cancelled))),
        }
    }

    /// Forgets the running turn; its task notices that nobody listens and stops.
    pub(super) fn drop_turn(&mut self) {
        if let Some(turn) = self.turn.take() {
            turn.cancel.cancel();
        }
        // One that waited behind it goes by what it has left behind.
        self.prompted_at = None;
        self.verdicts.clear();
        self.unable.clear();
        self.question_deadlines.clear();
        self.idle_since = Instant::now();
        self.cool_at = Some(self.idle_since + SESSION_WARM_TIME);
    }

    /// Handles a report and, if it is text, the text that waits behind it; `None` is a turn that
    /// stopped without saying how.
    pub(super) async fn on_report(&mut self, report: Option<Report>) {
        let mut report = report;
        while let Some(Report::Text { kind, delta }) = report {
            let (deltas, next) = self.gather_text(kind, delta);
            // What a call used is told at its end, so it stands between the text and what follows.
            let (usage, next) = match next {
                Some(Report::Usage { .. }) => (next, self.report_at_hand()),
                next => (None, next),
            };
            let is_whole = self.is_whole(&deltas, next.as_ref());
            if !is_whole {
                self.on_text(kind, &deltas).await;
            }
            if usage.is_some() {
                self.on_news(usage).await;
            }
            if is_whole {
                // Behind what the call used, which tells of all that stood before the answer.
                self.say(kind, deltas.concat());
            }
            match next {
                Some(next) => report = Some(next),
                None => return,
            }
        }
        self.on_news(report).await;
    }

    /// Handles a report that is no text.
    async fn on_news(&mut self, report: Option<Report>) {
        match report {
            Some(Report::Text { .. }) => {}
            Some(Report::Note(note)) => self.stage(Command::Note(note)),
            // One that a person has chosen meanwhile counts more, from the next turn on.
            Some(Report::Model(_)) if self.is_model_changed => {}
            Some(Report::Model(spec)) => self.stage(Command::SetModel(spec)),
            Some(Report::Usage {
                usage,
                purpose,
                context_window,
            }) => self.stage(Command::RecordUsage {
                usage,
                purpose,
                context_window,
            }),
            Some(Report::Context { reply }) => {
                if let Some(conversation) = self.conversation().await {
                    // A turn that is gone needs no context.
                    let _ = reply.send(conversation.context());
                }
            }
            Some(Report::Plan { keep_tokens, reply }) => {
                if let Some(conversation) = self.conversation().await {
                    let _ = reply.send(conversation.plan(keep_tokens));
                }
            }
            Some(Report::Compacted { compaction, stored }) => {
                self.stage(Command::Compact(compaction));
                self.tell_once_stored(stored);
            }
            Some(Report::Proposed(proposals)) => self.on_proposed(proposals),
            Some(Report::Asked(asking)) => self.on_asked(*asking),
            Some(Report::TakenBack(question)) => self.stage(Command::Withdraw(question)),
            Some(Report::Finished(finished)) => {
                let result = ToolResult {
                    call_id: finished.call,
                    status: finished.status,
                    text: finished.text,
                    blocks: finished.blocks,
                    locations: finished.locations,
                };
                let plan = finished.plan;
                self.stage(Command::Finish { result, plan });
                self.tell_once_stored(finished.stored);
            }
            Some(Report::Ended(end)) => {
                // One that was chosen meanwhile takes its place.
                self.model = (!self.is_model_changed).then_some(end.model);
                self.is_model_changed = false;
                self.stage(Command::End(end.outcome));
                self.drop_turn();
            }
            None => {
                self.stage(Command::End(Err(turn::vanished())));
                self.drop_turn();
            }
        }
    }

    /// A store that failed ends the turn, which then waits for nothing.
    fn tell_once_stored(&mut self, stored: oneshot::Sender<()>) {
        self.staged.after(move |done| {
            if done.is_ok() {
                let _ = stored.send(());
            }
        });
    }

    fn on_proposed(&mut self, proposals: Vec<Proposal>) {
        let mut calls = Vec::with_capacity(proposals.len());
        for proposal in proposals {
            let Proposal {
                call,
                name,
                input,
                title,
                kind,
                locations,
                content,
                ruled,
                refused,
                is_uncontained,
                question,
                verdict,
            } = proposal;
            self.verdicts.insert(call.clone(), verdict);
            calls.push(Proposed {
                call,
                name,
                input,
                title,
                kind,
                locations,
                content,
                ruled,
                refused,
                is_uncontained,
                question,
            });
        }
        self.stage(Command::Propose(calls));
    }

    /// Text of one kind that is already there, so that it shares one write, and the first report
    /// that is something else.
    fn gather_text(&mut self, kind: MessageKind, first: String) -> (Vec<String>, Option<Report>) {
        let mut bytes = first.len();
        let mut deltas = vec![first];
        while bytes < TEXT_WRITE_BYTES
            && let Some(report) = self.report_at_hand()
        {
            match report {
                Report::Text { kind: same, delta } if same == kind => {
                    bytes += delta.len();
                    deltas.push(delta);
                }
                Report::Text { .. }
                | Report::Note(_)
                | Report::Model(_)
                | Report::Usage { .. }
                | Report::Context { .. }
                | Report::Plan { .. }
                | Report::Compacted { .. }
                | Report::Proposed(_)
                | Report::Asked(_)
                | Report::TakenBack(_)
                | Report::Finished(_)
                | Report::Ended(_) => return (deltas, Some(report)),
            }
        }
        (deltas, None)
    }

    fn report_at_hand(&mut self) -> Option<Report> {
        self.turn.as_mut()?.reports.try_recv().ok()
    }

    /// Whether the text is all of a message, because the end of it is here as well. Only one piece
    /// is: several are shown as they came.
    fn is_whole(&self, deltas: &[String], next: Option<&Report>) -> bool {
        let open = self.open.as_ref();
        let is_begun = open.is_some_and(|open| open.state.message_open());
        let is_ended = match next {
            Some(Report::Ended(end)) => end.outcome == Ok(StopReason::EndTurn),
            next => matches!(next, Some(Report::Proposed(_))),
        };
        let is_short = matches!(deltas, [text] if text.len() < WHOLE_BYTES_MAX);
        is_ended && !is_begun && is_short
    }

    /// Has a whole message stored with what ends it: with one write, and shown after one sync.
    fn say(&mut self, kind: MessageKind, text: String) {
        if self.is_cancelled() {
            return;
        }
        if let Some(turn) = &mut self.turn {
            turn.pace.wrote(text.len());
        }
        let message = MessageStarted {
            message_id: MessageId::random(),
            kind,
        };
        self.stage(Command::Say { message, text });
    }

    fn is_cancelled(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| turn.cancel.is_cancelled())
    }

    /// Text is shown once it is written; it is synced a little later.
    async fn on_text(&mut self, kind: MessageKind, deltas: &[String]) {
        if self.is_cancelled() {
            return;
        }
        if let Err(error) = self.write_text(kind, deltas).await {
            return self.fence(&error, Vec::new());
        }
        let sync_time = self.engine.limits.partial_sync / 2;
        self.sync_due
            .get_or_insert_with(|| Instant::now() + sync_time);
    }

    async fn write_text(&mut self, kind: MessageKind, deltas: &[String]) -> Result<(), StoreError> {
        let continues = self.open_kind == Some(kind);
        if !continues
            && self
                .open
                .as_ref()
                .is_some_and(|open| open.state.message_open())
        {
            self.stage(Command::EndMessage);
        }
        self.commit().await;
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        if !open.state.message_open() {
            let started = MessageStarted {
                message_id: MessageId::random(),
                kind,
            };
            let stored = open.writer.start_message(started, Timestamp::now())?;
            open.state.apply(stored.seq, &stored.event);
            self.feed.push(&[stored]);
            self.open_kind = Some(kind);
        }
        let Some(bytes) = self.push_text(deltas).await? else {
            return Ok(());
        };
        self.feed.push_text(deltas, bytes);
        if let Some(turn) = &mut self.turn {
            turn.pace.wrote(deltas.iter().map(String::len).sum());
        }
        if bytes > self.engine.limits.streamed_message_bytes_max {
            self.stage(Command::End(Ok(StopReason::MaxTokens)));
            self.drop_turn();
        }
        Ok(())
    }

    /// Writes the next text of the open message; says how long that is now. `None` if the session
    /// is fenced.
    async fn push_text(&mut self, deltas: &[String]) -> Result<Option<u64>, StoreError> {
        if deltas.iter().map(String::len).sum::<usize>() < TEXT_INLINE_BYTES {
            let Some(open) = &mut self.open else {
                return Ok(None);
            };
            // One small write to the page cache: cheaper here than a hop to another thread.
            return match deltas {
                [delta] => open.writer.push_text(delta),
                several => open.writer.push_text(&several.concat()),
            }
            .map(Some);
        }
        let Some(mut open) = self.open.take() else {
            return Ok(None);
        };
        let text = deltas.concat();
        // A large one can be held up behind a sync; other sessions need this thread meanwhile.
        let (open, pushed) = blocking(move || {
            let pushed = open.writer.push_text(&text);
            Ok((open, pushed))
        })
        .await?;
        self.open = Some(open);
        pushed.map(Some)
    }

    /// The conversation up to what is stored now, folded from the journal unless it is at hand.
    /// If it cannot be read, the session is fenced and there is none.
    async fn conversation(&mut self) -> Option<&mut Conversation> {
        self.commit().await;
        if self.conversation.is_none() {
            match self.fold_conversation().await {
                Ok(conversation) => self.conversation = Some(conversation),
                Err(error) => self.fence(&error, Vec::new()),
            }
        }
        self.conversation.as_mut()
    }

    async fn fold_conversation(&mut self) -> Result<Conversation, StoreError> {
        let (store, id, head) = (self.engine.store.clone(), self.id, self.feed.head().seq);
        let rewinds = self.open.as_ref().map(|open| open.state.rewinds().to_vec());
        let rewinds = rewinds.unwrap_or_default();
        let folded = blocking(move || {
            let mut reader = store.reader(id)?;
            let mut conversation = Conversation::default();
            let mut after = EventSeq(0);
            while after < head {
                let events = reader.read_after(after, head, BATCH_EVENTS_MAX, BATCH_BYTES_MAX)?;
                let Some(last) = events.last() else { break };
                after = last.seq;
                let is_undone = |seq| rewinds.iter().any(|rewind| rewind.undoes(seq));
                for stored in events.iter().filter(|stored| !is_undone(stored.seq)) {
                    conversation.apply(stored.seq, &stored.event, |text| {
                        // More than this of one message is no use to any model.
                        reader
                            .read_text(text, 0, BLOB_BYTES_MIN)
                            .unwrap_or_default()
                    });
                }
            }
            Ok(conversation)
        });
        folded.await
    }
}
