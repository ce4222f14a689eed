//! A turn's surroundings: a model that plays answers, a session that keeps events in a list, and a
//! client whose files are asked for one by one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::event::{AssistantMessage, UserMessage};
use domain::event::{MessageKind, StopReason, Text, ToolResult, ToolUse, Usage, UsageRecorded};
use domain::{CallId, Event, EventSeq, Limits, MessageId, Permit, TurnError, TurnId};
use futures_util::{StreamExt as _, stream};
use llm::{Chunk, ChunkStream, Message, Model, ModelError, ModelRequest, ModelStop, ToolCall};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tools::Toolbox;
use tools::client_side::{
    Asked, ClientError, ClientSeat, ClientSide, Offers, ReadTextFile, TerminalCommand,
    TerminalExit, TerminalId, TerminalOutput,
};
use tools::remote::Patience;
use tools::roots::Roots;

use super::super::{OtherModels, Room, TurnInput, run};
use crate::budget::Budget;
use crate::command::Command;
use crate::context::Conversation;
use crate::project::{Operator, Place, ProjectView};
use crate::report::{Finished, Note, Proposal, Report, Verdict};
use crate::settings::FileSettings;

/// What the model does when it is asked; without an end it then says nothing more.
pub(super) type Play = Vec<Result<Chunk, ModelError>>;

/// The model says `text` and is done.
pub(super) fn says(text: &str) -> Play {
    vec![
        Ok(Chunk::Text(text.to_owned())),
        Ok(Chunk::Stop(ModelStop::EndTurn)),
    ]
}

/// The model wants these calls.
pub(super) fn wants(calls: impl IntoIterator<Item = ToolCall>) -> Play {
    let calls = calls.into_iter().map(|call| Ok(Chunk::ToolCall(call)));
    calls.chain([Ok(Chunk::Stop(ModelStop::ToolUse))]).collect()
}

/// The same answer, after having read so many tokens.
pub(super) fn having_read(input_tokens: u64, mut play: Play) -> Play {
    let usage = Usage {
        input_tokens,
        ..Usage::default()
    };
    play.insert(0, Ok(Chunk::Usage(usage)));
    play
}

/// A call named `id` on the file of that name.
pub(super) fn call(id: &str, tool: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(id),
        name: tool.to_owned(),
        input: json!({"path": id, "content": "x"}),
    }
}

/// Everything around one turn.
pub(super) struct World {
    place: tempfile::TempDir,
    model: Option<Player>,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
    asked: mpsc::Receiver<Request>,
    client: Arc<Files>,
    cancel: CancellationToken,
    reports: Option<mpsc::Receiver<Report>>,
    pub(super) command: Option<Command>,
    /// The operator's file.
    pub(super) settings: String,
    pub(super) limits: Limits,
    pub(super) events: Vec<Event>,
    text: String,
    outcome: Option<Result<StopReason, TurnError>>,
}

impl World {
    pub(super) fn new(plays: Vec<Play>) -> Self {
        let (asks, asked) = mpsc::channel(64);
        let requests = Arc::new(Mutex::default());
        let seen = Arc::clone(&requests);
        let plays = plays.into();
        Self {
            place: tempfile::tempdir().unwrap(),
            model: Some(Player { plays, seen }),
            requests,
            asked,
            client: Arc::new(Files { asks }),
            cancel: CancellationToken::new(),
            reports: None,
            command: None,
            settings: String::new(),
            limits: Limits::default(),
            events: Vec::new(),
            text: String::new(),
            outcome: None,
        }
        .prompted("do it")
    }

    /// The same, after another prompt.
    pub(super) fn prompted(mut self, text: &str) -> Self {
        let text = text.to_owned();
        self.store(UserMessage {
            text,
            blocks: Vec::new(),
            message_id: None,
            prompt_id: None,
        });
        self
    }

    pub(super) fn start(&mut self) {
        let roots = Roots::new(self.place.path().to_owned(), Vec::new(), Vec::new());
        let client: Arc<dyn ClientSide> = self.client.clone();
        let seat = ClientSeat::new(client, Duration::from_secs(1));
        let (reports, receiver) = mpsc::channel(8);
        let window = self.limits.context_window;
        let input = TurnInput {
            model: Box::new(self.model.take().unwrap()),
            system: "system".into(),
            toolbox: Toolbox::new(roots).with_client(Some(seat)),
            budget: Budget::new(&self.limits, 0),
            room: Room {
                window: (window > 0).then_some(window),
                percent: self.limits.compact_percent,
            },
            models: OtherModels {
                catalog: None,
                spec: String::new(),
                takes_project_model: false,
            },
            command: self.command.take(),
            view: ProjectView::new(self.surroundings()),
            asked: crate::project::Moment::now(),
            turn: TurnId(1),
            patience: Patience::Brief,
        };
        tokio::spawn(run(input, reports, self.cancel.clone()));
        self.reports = Some(receiver);
    }

    fn surroundings(&self) -> Place {
        let (settings, _) = FileSettings::parse(&self.settings).unwrap();
        let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
        Place {
            session: domain::SessionId::random(),
            cwd: self.place.path().to_owned().into(),
            is_local: true,
            operator: Arc::new(Operator {
                settings,
                environment: Arc::from([("PATH".to_owned(), path)]),
                ..Operator::default()
            }),
            hidden: Vec::new(),
            agent: None,
        }
    }

    /// The text of a file beside the turn.
    pub(super) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.place.path().join(name)).unwrap()
    }

    pub(super) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// The next request to the client, while the session does its part.
    pub(super) async fn asked(&mut self) -> Request {
        loop {
            tokio::select! {
                biased;
                asked = self.asked.recv() => return asked.unwrap(),
                report = next(&mut self.reports) => self.handle(report),
            }
        }
    }

    /// Whether nothing is asked of the client, however often everybody gets to run.
    pub(super) async fn is_quiet(&mut self) -> bool {
        for _ in 0..200 {
            // What blocks does so on other threads, so letting go of this one is not enough.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            tokio::task::yield_now().await;
            while let Some(Ok(report)) = self.reports.as_mut().map(mpsc::Receiver::try_recv) {
                self.handle(Some(report));
            }
        }
        self.asked.is_empty()
    }

    /// Waits for a call to be stored.
    pub(super) async fn finished_one(&mut self) {
        let before = self.finished().len();
        while self.finished().len() == before {
            let report = next(&mut self.reports).await;
            assert!(report.is_some(), "the turn ended");
            self.handle(report);
        }
    }

    /// Waits until the model has said `words`.
    pub(super) async fn heard(&mut self, words: &str) {
        while !self.text.contains(words) {
            let report = next(&mut self.reports).await;
            self.handle(report);
        }
    }

    /// The tokens that each model call read, as far as they were stored.
    pub(super) fn tokens_read(&self) -> Vec<u64> {
        let read = self.events.iter().filter_map(|event| {
            if let Event::UsageRecorded(recorded) = event {
                Some(recorded.usage.input_tokens)
            } else {
                None
            }
        });
        read.collect()
    }

    /// Waits for the turn's end.
    pub(super) async fn ended(&mut self) -> Result<StopReason, TurnError> {
        while self.outcome.is_none() {
            let report = next(&mut self.reports).await;
            self.handle(report);
        }
        self.outcome.clone().unwrap()
    }

    /// The calls that have a result, in the order in which they were stored.
    pub(super) fn finished(&self) -> Vec<&str> {
        let results = self.events.iter().filter_map(|event| {
            if let Event::ToolResult(result) = event {
                Some(result.call_id.as_str())
            } else {
                None
            }
        });
        results.collect()
    }

    /// The texts of all results, in the order in which they were stored.
    pub(super) fn results(&self) -> Vec<&str> {
        let results = self.events.iter().filter_map(|event| {
            if let Event::ToolResult(result) = event {
                Some(result.text.as_str())
            } else {
                None
            }
        });
        results.collect()
    }

    /// The tools and inputs of all calls.
    pub(super) fn calls(&self) -> Vec<(&str, &serde_json::Value)> {
        let calls = self.events.iter().filter_map(|event| {
            if let Event::ToolUse(call) = event {
                Some((call.name.as_str(), &call.input))
            } else {
                None
            }
        });
        calls.collect()
    }

    /// Writes a file beside the turn.
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.place.path().join(name), text).unwrap();
    }

    /// What the model was shown in its call number `at`.
    pub(super) fn request(&self, at: usize) -> Vec<Message> {
        self.requests.lock().unwrap()[at].messages.to_vec()
    }

    /// How often the model was asked.
    pub(super) fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The conversation, folded anew from all events.
    pub(super) fn folded(&self) -> Conversation {
        let mut conversation = Conversation::default();
        for (at, event) in self.events.iter().enumerate() {
            let seq = EventSeq(at as u64 + 1);
            conversation.apply(seq, event, |_| String::new());
        }
        conversation
    }

    pub(super) fn store(&mut self, event: impl Into<Event>) {
        self.events.push(event.into());
    }

    fn end_message(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.store(AssistantMessage {
                message_id: MessageId::new("m"),
                text: Text::Inline(text),
                partial: false,
            });
        }
    }

    fn handle(&mut self, report: Option<Report>) {
        match report {
            None => panic!("the turn vanished"),
            Some(Report::Text { kind, delta }) => {
                assert_eq!(kind, MessageKind::Text);
                self.text.push_str(&delta);
            }
            Some(Report::Note(Note::Hook(ran))) => {
                self.end_message();
                self.store(ran);
            }
            Some(Report::Note(note @ (Note::Expanded { .. } | Note::Told(_)))) => {
                panic!("nothing to say of: {note:?}")
            }
            Some(Report::Model(spec)) => panic!("nobody offers {spec}"),
            Some(Report::Asked(asking)) => panic!("nobody answers {:?}", asking.asked),
            Some(Report::TakenBack(question)) => panic!("nobody asked {question:?}"),
            Some(Report::Usage {
                usage,
                purpose,
                context_window,
            }) => self.store(UsageRecorded {
                turn: TurnId(1),
                purpose,
                context_window: Some(context_window),
                session_cost_nano_usd: None,
                usage,
            }),
            Some(Report::Context { reply }) => assert!(reply.send(self.folded().context()).is_ok()),
            Some(Report::Plan { keep_tokens, reply }) => {
                assert!(reply.send(self.folded().plan(keep_tokens)).is_ok());
            }
            Some(Report::Compacted { compaction, stored }) => {
                self.store(compaction);
                stored.send(()).unwrap();
            }
            Some(Report::Proposed(proposals)) => self.on_proposed(proposals),
            Some(Report::Finished(finished)) => self.on_finished(finished),
            Some(Report::Ended(end)) => {
                self.end_message();
                self.outcome = Some(end.outcome);
            }
        }
    }

    fn on_proposed(&mut self, proposals: Vec<Proposal>) {
        self.end_message();
        for proposal in proposals {
            self.store(ToolUse {
                turn: TurnId(1),
                call_id: proposal.call.clone(),
                name: proposal.name,
                input: proposal.input,
                title: proposal.title,
                kind: proposal.kind,
                locations: proposal.locations.into(),
                content: proposal.content.into(),
                allowed_by: None,
            });
            if let Some(refusal) = proposal.refused {
                let (status, text) = refusal.result();
                let text = text.to_owned();
                self.store(ToolResult {
                    call_id: proposal.call,
                    status,
                    text,
                    blocks: Vec::new(),
                    locations: Vec::new(),
                });
                proposal.verdict.send(Verdict::Denied).unwrap();
                continue;
            }
            let permit = Permit::granted(proposal.call, EventSeq(1));
            proposal.verdict.send(Verdict::Run(permit)).unwrap();
        }
    }

    fn on_finished(&mut self, finished: Finished) {
        self.store(ToolResult {
            call_id: finished.call,
            status: finished.status,
            text: finished.text,
            blocks: Vec::new(),
            locations: Vec::new(),
        });
        // A turn that was cancelled meanwhile does not wait for it.
        let _ = finished.stored.send(());
    }
}

async fn next(reports: &mut Option<mpsc::Receiver<Report>>) -> Option<Report> {
    let report = reports.as_mut().unwrap().recv();
    let late = "the turn does nothing";
    tokio::time::timeout(Duration::from_secs(20), report)
        .await
        .expect(late)
}

struct Player {
    plays: VecDeque<Play>,
    seen: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Model for Player {
    fn stream(&mut self, request: ModelRequest) -> ChunkStream {
        self.seen.lock().unwrap().push(request);
        let play = self
            .plays
            .pop_front()
            .expect("the model was asked too often");
        let is_whole = matches!(play.last(), Some(Ok(Chunk::Stop(_)) | Err(_)));
        let rest = stream::iter((!is_whole).then_some(stream::pending())).flatten();
        Box::pin(stream::iter(play).chain(rest))
    }

    fn may_write_calls(&self) -> bool {
        true
    }
}

/// Something that the client was asked and has not answered.
pub(super) struct Request {
    pub(super) what: String,
    answer: oneshot::Sender<String>,
}

impl Request {
    pub(super) fn answer(self, text: &str) {
        // A cancelled call does not listen.
        let _ = self.answer.send(text.to_owned());
    }

    /// Whether whoever asked no longer waits.
    pub(super) fn is_dropped(&self) -> bool {
        self.answer.is_closed()
    }
}

#[derive(Debug)]
struct Files {
    asks: mpsc::Sender<Request>,
}

impl Files {
    fn ask(&self, what: &str, path: &str) -> oneshot::Receiver<String> {
        let (answer, answered) = oneshot::channel();
        let name = path.rsplit('/').next().unwrap_or(path);
        let what = format!("{what} {name}");
        assert!(self.asks.try_send(Request { what, answer }).is_ok());
        answered
    }
}

impl ClientSide for Files {
    fn offers(&self) -> Offers {
        Offers {
            read_text_file: true,
            write_text_file: true,
            terminal: false,
            tools: false,
        }
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn read_text_file(&self, read: ReadTextFile) -> Asked<String> {
        // Only a look at what a write would change wants a whole file: nothing is there yet.
        if (read.line, read.limit) == (None, None) {
            return Box::pin(async { Err(ClientError::NotOffered) });
        }
        let answered = self.ask("read", &read.path);
        Box::pin(async move { answered.await.map_err(|_| ClientError::Gone) })
    }

    fn write_text_file(&self, path: String, _: String) -> Asked<()> {
        let answered = self.ask("write", &path);
        Box::pin(async move { answered.await.map(drop).map_err(|_| ClientError::Gone) })
    }

    fn create_terminal(&self, _: TerminalCommand) -> Asked<TerminalId> {
        Box::pin(async { Err(ClientError::Gone) })
    }

    fn terminal_output(&self, _: &TerminalId) -> Asked<TerminalOutput> {
        Box::pin(async { Err(ClientError::Gone) })
    }

    fn wait_for_exit(&self, _: &TerminalId) -> Asked<TerminalExit> {
        Box::pin(async { Err(ClientError::Gone) })
    }

    fn kill_terminal(&self, _: &TerminalId) -> Asked<()> {
        Box::pin(async { Err(ClientError::Gone) })
    }

    fn release_terminal(&self, _: &TerminalId) -> Asked<()> {
        Box::pin(async { Err(ClientError::Gone) })
    }

    fn show_terminal(&self, _: &CallId, _: &TerminalId) {}

    fn let_go(&self, _: &TerminalId) {}
}
