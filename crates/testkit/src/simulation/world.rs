//! The world of one seed: its clients, its sessions, and the server's lives one after another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use auth::Door;
use domain::{Limits, SessionId};
use journal::FileStore;
use journal::chance::Chance;
use journal::storage::power::PowerStorage;
use llm::Provider;
use serde_json::Value;
use server::{Remotes, Roster, Service, Slots};
use session::{Catalog, Engine, OneModel, RootBase, Sessions};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client::{Asked, Client, Heard, Line, Question};
use super::model::Speaker;
use super::record::{End, Record};
use super::streams::{self, Counts};
use super::{Grounds, Lines, Summary, Verdict, panics};

/// How long nobody must use a session before it leaves memory; odd, so that nobody acts then.
pub(super) const GRACE: Duration = Duration::from_millis(20_001);

/// Rounds of reading until everything that is on the way should have come.
const ROUNDS_MAX: usize = 200;

pub(super) struct World<'a> {
    pub(super) grounds: &'a Grounds,
    pub(super) chance: Chance,
    pub(super) storage: PowerStorage,
    pub(super) clients: Vec<Client>,
    pub(super) records: BTreeMap<SessionId, Record>,
    /// Sessions that this life of the server has not opened: their journals await recovery.
    pub(super) unopened: BTreeSet<SessionId>,
    /// Sessions that their owner has asked to delete.
    pub(super) doomed: BTreeSet<SessionId>,
    /// Prompts by the name their client gave them.
    pub(super) prompts: BTreeMap<String, Prompt>,
    pub(super) summary: Summary,
    /// How clients connect.
    pub(super) lines: Lines,
    counts: Arc<Counts>,
    /// Tasks that had panicked before.
    panicked: usize,
    /// What happened last, for whoever looks for the cause.
    trail: Vec<String>,
}

/// A prompt that some client sent.
pub(super) struct Prompt {
    pub(super) session: SessionId,
    pub(super) client: usize,
    /// What it asks the model for.
    pub(super) plan: u64,
    pub(super) end: Option<End>,
}

/// One life of the server.
pub(super) struct Life {
    pub(super) service: Arc<Service>,
    pub(super) began: Instant,
    /// It is shutting down in order.
    pub(super) is_draining: bool,
}

impl<'a> World<'a> {
    pub(super) fn new(seed: u64, grounds: &'a Grounds) -> Self {
        Self {
            grounds,
            chance: Chance::new(seed),
            storage: PowerStorage::new(!seed),
            clients: Vec::new(),
            records: BTreeMap::new(),
            unopened: BTreeSet::new(),
            doomed: BTreeSet::new(),
            prompts: BTreeMap::new(),
            summary: Summary::default(),
            lines: Lines::Pipes,
            counts: Arc::default(),
            panicked: panics::count(),
            trail: Vec::new(),
        }
    }

    /// No task has panicked, of the server or of anybody else.
    pub(super) fn nothing_panicked(&self) -> Verdict {
        panics::none_since(self.panicked).map_err(|why| self.with_trail(&why))
    }

    /// What happened in it.
    pub(super) fn told(&self) -> Summary {
        let views = self.clients.iter().flat_map(|client| client.views.values());
        let mut summary = self.summary;
        let cuts_between: u64 = views.map(|view| view.cuts_between).sum();
        let [takeovers, conflicts, between] = self.counts.told();
        (summary.takeovers, summary.conflicts) = (takeovers, conflicts);
        summary.cuts_between = cuts_between + between;
        summary
    }

    /// A server with the journals that are there.
    pub(super) fn begin(&mut self) -> Life {
        self.summary.lives += 1;
        self.unopened = self.records.keys().copied().collect();
        let store = self.store();
        for record in self.records.values_mut() {
            record.process_ended(&store);
        }
        let began = Instant::now();
        let limits = Limits {
            grace: GRACE,
            // Little, so that slow readers are behind soon.
            outbox_bytes_max: 2_000,
            ..Limits::default()
        };
        let gate = Arc::clone(&self.grounds.gate);
        let provider: Arc<dyn Provider> = Arc::new(Speaker { began });
        let catalog: Arc<dyn Catalog> = Arc::new(OneModel(Arc::clone(&provider)));
        let sessions = Sessions::start(Engine {
            store: self.store(),
            catalog: Arc::clone(&catalog),
            provider,
            limits: limits.clone(),
            greeting: Some("simulated".to_owned()),
            hidden: vec![self.grounds.data()],
            base: RootBase::open(&self.grounds.work()).ok().map(Arc::new),
            gate: Arc::clone(&gate),
            web: None,
            operator: Arc::default(),
            shell: None,
            remotes: None,
        });
        let service = Service {
            sessions,
            gate,
            door: Door::new(0, &[], &[]),
            slots: Slots::new(&limits),
            limits,
            catalog,
            model_login: Arc::new(server::LoginState::Ready),
            data_dir: self.grounds.data(),
            cwd: self.grounds.work(),
            tokens_changed: tokio::sync::watch::Sender::new(()),
            closing: CancellationToken::new(),
            remotes: Remotes::default(),
            roster: Roster::default(),
            connections: TaskTracker::new(),
        };
        Life {
            service: Arc::new(service),
            began,
            is_draining: false,
        }
    }

    pub(super) fn store(&self) -> FileStore {
        FileStore::with_storage(Arc::new(self.storage.clone()))
    }

    pub(super) fn cwd(&self) -> String {
        self.grounds.work().to_string_lossy().into_owned()
    }

    /// Notes what happens, for whoever looks for the cause.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        self.trail.push(what.into());
        if self.trail.len() > 40 {
            self.trail.remove(0);
        }
    }

    /// Adds what happened before to what is wrong.
    pub(super) fn with_trail(&self, why: &str) -> String {
        format!("{why}\nbefore that:\n  {}", self.trail.join("\n  "))
    }

    /// Connects a client as who it is.
    pub(super) fn connect(&mut self, life: &Life, at: usize) -> Verdict {
        let frames_max = [2, 16, 256][self.chance.index(3)];
        let client = &mut self.clients[at];
        let principal = self.grounds.people[client.who].clone();
        let is_streamed = match self.lines {
            Lines::Pipes => false,
            Lines::Streams => true,
            Lines::Both => self.chance.one_in(2),
        };
        if is_streamed {
            let (service, counts) = (Arc::clone(&life.service), Arc::clone(&self.counts));
            let chance = Chance::new(self.chance.draw());
            let (ends, standing) =
                streams::connect_as((service, principal), frames_max, (chance, counts));
            client.connected(ends, Some(standing));
            return Ok(());
        }
        let ends = if client.who == 0 && frames_max == 256 {
            server::transport::pipe::connect(&life.service).map_err(|error| error.to_string())?
        } else {
            server::transport::pipe::connect_as(&life.service, principal, frames_max)
        };
        client.connected(ends, None);
        Ok(())
    }

    /// Moves time on to the next even millisecond after `delay_ms`, when nothing is under way.
    pub(super) async fn pass(&self, life: &Life, delay_ms: u64) {
        let since = Instant::now().duration_since(life.began).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        let until = (since + delay_ms.max(1)).next_multiple_of(2);
        sleep_until(life.began + Duration::from_millis(until)).await;
    }

    /// Has every client read what has come, until nothing more comes, then checks everything.
    pub(super) async fn settle(&mut self, life: &Life) -> Verdict {
        let mut is_quiet = false;
        for _ in 0..ROUNDS_MAX {
            self.pass(life, 1).await;
            if self.storage.is_dead() {
                return Ok(());
            }
            let heard = self.hear_all(life)?;
            let mut lines = self
                .clients
                .iter()
                .filter_map(|client| client.line.as_ref());
            if heard == 0 && !lines.any(Line::is_away) {
                is_quiet = true;
                break;
            }
        }
        self.check(is_quiet && !life.is_draining)
    }

    /// Has every client read what has come; says how much it was.
    pub(super) fn hear_all(&mut self, life: &Life) -> Result<u64, String> {
        let mut heard = 0;
        for at in 0..self.clients.len() {
            heard += self.hear(life, at, u64::MAX)?;
        }
        Ok(heard)
    }

    /// Has a client read up to `most` of what has come; says how much it was.
    pub(super) fn hear(&mut self, life: &Life, at: usize, most: u64) -> Result<u64, String> {
        let mut heard = 0;
        while heard < most {
            let frame = match self.clients[at].hear() {
                Heard::Frame(frame) => frame,
                Heard::Nothing => break,
                Heard::Ended(may_be) => {
                    let is_down = life.is_draining || self.storage.is_dead();
                    let name = &self.clients[at].name;
                    match may_be {
                        Err(why) if !is_down => return Err(format!("{name}: {why}")),
                        Ok(()) | Err(_) => break,
                    }
                }
            };
            heard += 1;
            self.on_frame(life, at, &frame).map_err(|why| {
                let name = &self.clients[at].name;
                format!("{name}: {why}\nat the frame {frame}")
            })?;
        }
        self.summary.frames += heard;
        Ok(heard)
    }

    pub(super) fn on_frame(&mut self, life: &Life, at: usize, frame: &Value) -> Verdict {
        let Some(method) = frame["method"].as_str() else {
            return self.on_answer(life, at, frame);
        };
        let params = &frame["params"];
        if method == "$/cancel_request" {
            return self.on_withdrawn(at, &params["requestId"]);
        }
        let session: SessionId = params["sessionId"]
            .as_str()
            .and_then(|id| id.parse().ok())
            .ok_or("a message that names no session")?;
        let client = &mut self.clients[at];
        let Some(line) = &mut client.line else {
            return Ok(());
        };
        let owner = self.records.get(&session).map(|record| &record.owner);
        if owner.is_some_and(|owner| owner != self.grounds.people[client.who].id()) {
            return Err("a stranger was told".to_owned());
        }
        if method == "session/request_permission" {
            line.heard.insert(frame["id"].to_string());
        }
        if self.doomed.contains(&session) {
            return Ok(());
        }
        if let Some(aside) = line.reentering.get_mut(&session) {
            aside.push(frame.clone());
            return Ok(());
        }
        let is_loading = line
            .asked
            .values()
            .any(|asked| matches!(asked, Asked::Load(id) if *id == session));
        if !line.inside.contains(&session) && !is_loading {
            return Err("a message of a session that it has not entered".to_owned());
        }
        let Some(view) = client.views.get_mut(&session) else {
            return Err("a message of a session that it does not follow".to_owned());
        };
        match method {
            "session/update" => {
                let prompt = params["_meta"]["fastness"]["promptId"].as_str();
                self.summary.pieces += u64::from(params["_meta"]["fastness"]["more"] == true);
                if prompt.is_some_and(|prompt| line.fresh.contains(prompt)) {
                    return Err("the echo of a prompt that this connection sent".to_owned());
                }
                view.update(params)
            }
            "_fastness/turn" if client.turns => view.turn(params),
            "session/request_permission" => {
                self.summary.questions += 1;
                let call = params["toolCall"]["toolCallId"]
                    .as_str()
                    .unwrap_or_default();
                let id = frame["id"].clone();
                let question = Question { session, id };
                match line.questions.insert(call.to_owned(), question) {
                    None => Ok(()),
                    Some(_) => Err("a question that is open here was asked again".to_owned()),
                }
            }
            _ => Err("a message that it did not ask for".to_owned()),
        }
    }

    fn on_withdrawn(&mut self, at: usize, id: &Value) -> Verdict {
        self.summary.withdrawn += 1;
        let Some(line) = &mut self.clients[at].line else {
            return Ok(());
        };
        if !line.heard.contains(&id.to_string()) {
            return Err("a question was taken back that was never asked".to_owned());
        }
        line.questions.retain(|_, question| question.id != *id);
        for aside in line.reentering.values_mut() {
            aside.retain(|frame| frame["id"] != *id);
        }
        Ok(())
    }

    /// Reads on in a session's journal; from its start if this life of the server just opened it.
    pub(super) fn read(&mut self, session: SessionId) -> Verdict {
        let store = self.store();
        let Some(record) = self.records.get_mut(&session) else {
            return Ok(());
        };
        if self.unopened.remove(&session) {
            record.read_again(&store)
        } else {
            record.read_on(&store)
        }
    }

    /// Everything that must hold at every moment; `is_quiet` when nothing is on the way.
    pub(super) fn check(&mut self, is_quiet: bool) -> Verdict {
        let store = self.store();
        for (id, record) in &mut self.records {
            if self.unopened.contains(id) || self.doomed.contains(id) {
                continue;
            }
            record.read_on(&store)?;
            record.check()?;
            for client in &self.clients {
                let Some(view) = client.views.get(id) else {
                    continue;
                };
                let own = client.own.get(id).cloned().unwrap_or_default();
                // Who has not come back since may hold what recovery had to cut.
                let is_away = !client.is_inside(*id);
                let left = view.as_of(record).filter(|_| is_away);
                let view = left.as_ref().unwrap_or(view);
                view.check(record, client.turns, &own, 0)
                    .map_err(|why| format!("{} in session {id}: {why}", client.name))?;
                if is_quiet {
                    check_questions(client, record)?;
                }
            }
        }
        Ok(())
    }
}

/// Whoever can answer is asked what is open, and nothing else.
fn check_questions(client: &Client, record: &Record) -> Verdict {
    let line = client.line.as_ref();
    let line = line.filter(|line| !line.is_stalled && !line.is_away());
    let Some(line) =
        line.filter(|line| line.inside.contains(&record.id) && !line.is_leaving(record.id))
    else {
        return Ok(());
    };
    let open = record.open_questions();
    for (call, question) in &line.questions {
        if question.session == record.id && !open.values().any(|other| other == call) {
            return Err(format!(
                "{} still waits to answer for {call}, which is settled",
                client.name
            ));
        }
    }
    for call in open.values() {
        if !line.questions.contains_key(call) && !line.answered.contains(call) {
            return Err(format!("{} was not asked for {call}", client.name));
        }
    }
    Ok(())
}

/// A runtime whose time moves on only when nobody has anything to do.
pub(super) fn paused_runtime() -> Result<Runtime, String> {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(4)
        .build()
        .map_err(|error| format!("no runtime: {error}"))
}
