//! One client of a simulation: a person with a token, a connection that comes and goes, and what
//! was seen of each session, which stays.

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use domain::{Limits, SessionId};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::model::prompt_of;
use super::streams::Standing;
use super::view::{Cursor, View};

/// A client, connected or not.
pub(super) struct Client {
    pub(super) name: String,
    /// Which of the simulation's people it belongs to.
    pub(super) who: usize,
    /// Whether it wants to be told of turns.
    pub(super) turns: bool,
    pub(super) line: Option<Line>,
    pub(super) views: BTreeMap<SessionId, View>,
    /// The prompts that it sent, by session.
    pub(super) own: BTreeMap<SessionId, BTreeSet<String>>,
}

/// A connection.
pub(super) struct Line {
    to_agent: mpsc::Sender<String>,
    from_agent: mpsc::Receiver<String>,
    /// It reads nothing for a while.
    pub(super) is_stalled: bool,
    /// Over HTTP: how its streams are.
    streams: Option<Arc<Standing>>,
    last_sent: Instant,
    ids: u64,
    pub(super) asked: BTreeMap<u64, Asked>,
    /// Sessions it has entered.
    pub(super) inside: BTreeSet<SessionId>,
    /// Sessions it has asked to enter again. What comes before the answer belongs to the old stream
    /// and is put aside: for nothing if it is let in, to be used if it is refused and stays.
    pub(super) reentering: BTreeMap<SessionId, Vec<Value>>,
    /// Prompts that were first sent over this connection, and that it must not be shown.
    pub(super) fresh: BTreeSet<String>,
    /// Questions that wait for this client: the request, by the call that is asked for.
    pub(super) questions: BTreeMap<String, Question>,
    /// Every question that came over this connection, by its request.
    pub(super) heard: BTreeSet<String>,
    /// The calls that it gave an answer for.
    pub(super) answered: BTreeSet<String>,
}

/// What a client hears when it listens.
pub(super) enum Heard {
    Frame(Value),
    Nothing,
    /// The connection was ended, and not by the client; whether that is what a server may do.
    Ended(Result<(), &'static str>),
}

/// A permission question as a client sees it.
pub(super) struct Question {
    pub(super) session: SessionId,
    pub(super) id: Value,
}

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Initialize,
    New,
    Load(SessionId),
    Resume(SessionId, Option<Cursor>),
    Prompt(SessionId, String),
    Close(SessionId),
    /// Something that needs no more than an answer.
    Other,
    /// Something that must be refused as if the session were not there.
    Foreign(&'static str),
}

impl Line {
    /// Whether it has asked to close `session` and waits to hear of it.
    pub(super) fn is_leaving(&self, session: SessionId) -> bool {
        let mut asked = self.asked.values();
        asked.any(|asked| matches!(asked, Asked::Close(id) if *id == session))
    }

    /// It is not in `session` any more.
    pub(super) fn left(&mut self, session: SessionId) {
        self.inside.remove(&session);
        self.questions
            .retain(|_, question| question.session != session);
    }

    /// Whether part of what is on the way waits for a stream to be taken up again.
    pub(super) fn is_away(&self) -> bool {
        let streams = self.streams.as_ref();
        streams.is_some_and(|streams| streams.is_away())
    }

    /// Why a server that is not going down may have ended it.
    fn may_be_ended(&self) -> Result<(), &'static str> {
        let gave_up = self.streams.as_ref().is_some_and(|one| one.has_given_up());
        let is_idle = self.inside.is_empty()
            && self.asked.is_empty()
            && self.last_sent.elapsed() >= Limits::default().idle;
        match gave_up || is_idle {
            true => Ok(()),
            false => Err("the server ended a connection for no reason"),
        }
    }

    /// Whether it has asked to enter `session` and waits to be let in.
    pub(super) fn is_entering(&self, session: SessionId) -> bool {
        self.asked
            .values()
            .any(|asked| matches!(asked, Asked::Load(id) | Asked::Resume(id, _) if *id == session))
    }
}

impl Client {
    pub(super) fn new(name: String, who: usize, turns: bool) -> Self {
        Self {
            name,
            who,
            turns,
            line: None,
            views: BTreeMap::new(),
            own: BTreeMap::new(),
        }
    }

    /// Takes a new connection into use.
    pub(super) fn connected(
        &mut self,
        (to_agent, from_agent): (mpsc::Sender<String>, mpsc::Receiver<String>),
        streams: Option<Arc<Standing>>,
    ) {
        self.line = Some(Line {
            to_agent,
            from_agent,
            is_stalled: false,
            streams,
            last_sent: Instant::now(),
            ids: 0,
            asked: BTreeMap::new(),
            inside: BTreeSet::new(),
            reentering: BTreeMap::new(),
            fresh: BTreeSet::new(),
            questions: BTreeMap::new(),
            heard: BTreeSet::new(),
            answered: BTreeSet::new(),
        });
        let turns = self.turns;
        self.ask(
            Asked::Initialize,
            "initialize",
            json!({
                "protocolVersion": 1,
                "clientCapabilities": {"_meta": {"fastness": {"turns": turns}}},
            }),
        );
    }

    /// The network is gone, with everything that was on the way.
    pub(super) fn cut(&mut self) {
        self.line = None;
        self.views.values_mut().for_each(View::cut);
    }

    /// Whether the rest of some event is still to come.
    pub(super) fn is_between(&self) -> bool {
        self.line.is_some() && self.views.values().any(View::is_between)
    }

    /// Whether it has entered `session` or has asked to.
    pub(super) fn knows_way_into(&self, session: SessionId) -> bool {
        let line = self.line.as_ref();
        line.is_some_and(|line| {
            let is_there = line.inside.contains(&session) || line.is_entering(session);
            is_there && !line.is_leaving(session)
        })
    }

    /// Whether it has entered `session` and was told so.
    pub(super) fn is_inside(&self, session: SessionId) -> bool {
        let line = self.line.as_ref();
        line.is_some_and(|line| line.inside.contains(&session))
    }

    /// Sends a request, if it is connected. A full pipe is a network that takes nothing more.
    pub(super) fn ask(&mut self, asked: Asked, method: &str, params: Value) {
        let Some(line) = &mut self.line else { return };
        line.ids += 1;
        line.last_sent = Instant::now();
        let id = line.ids;
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if line.to_agent.try_send(frame.to_string()).is_ok() {
            line.asked.insert(id, asked);
        } else {
            self.cut();
        }
    }

    /// Sends a notification or an answer.
    pub(super) fn say(&mut self, frame: &Value) {
        let Some(line) = &mut self.line else { return };
        line.last_sent = Instant::now();
        if line.to_agent.try_send(frame.to_string()).is_err() {
            self.cut();
        }
    }

    /// The next frame that has come; a connection that was closed is gone afterwards.
    pub(super) fn hear(&mut self) -> Heard {
        let Some(line) = self.line.as_mut().filter(|line| !line.is_stalled) else {
            return Heard::Nothing;
        };
        match line.from_agent.try_recv() {
            Ok(frame) => Heard::Frame(serde_json::from_str(&frame).unwrap_or_default()),
            Err(mpsc::error::TryRecvError::Empty) => Heard::Nothing,
            Err(mpsc::error::TryRecvError::Disconnected) => {
                let may_be = line.may_be_ended();
                self.cut();
                Heard::Ended(may_be)
            }
        }
    }

    /// Asks for the whole story of a session.
    pub(super) fn load(&mut self, session: SessionId, cwd: &str) {
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        let token = self.views.remove(&session).and_then(|view| view.token);
        let mut view = View::whole();
        view.token = token;
        self.views.insert(session, view);
        if let Some(line) = &mut self.line {
            let own = self.own.get(&session);
            line.fresh
                .retain(|prompt| own.is_none_or(|own| !own.contains(prompt)));
        }
        self.ask(Asked::Load(session), "session/load", params);
    }

    /// Goes on after what it has seen; without a view, only with what comes now.
    pub(super) fn resume(&mut self, session: SessionId, cwd: &str, with_token: bool) {
        let view = self.views.get(&session);
        let (mut meta, mut cursor) = (json!({}), None);
        if let Some(view) = view {
            let at = view.cursor.unwrap_or_default();
            meta["afterSeq"] = json!(at.seq);
            if at.offset > 0 {
                meta["offset"] = json!(at.offset);
            }
            if let Some(epoch) = at.epoch {
                meta["epoch"] = json!(epoch);
            }
            if let Some(token) = view.token.as_ref().filter(|_| with_token) {
                meta["resumeToken"] = json!(token);
            }
            cursor = Some(at);
        }
        let params = json!({
            "sessionId": session, "cwd": cwd, "mcpServers": [], "_meta": {"fastness": meta},
        });
        let own = self.own.get(&session);
        if let Some(line) = &mut self.line {
            if line.inside.remove(&session) {
                line.reentering.insert(session, Vec::new());
            }
            // Whoever enters again is shown its own prompts too.
            line.fresh
                .retain(|prompt| own.is_none_or(|own| !own.contains(prompt)));
        }
        self.ask(Asked::Resume(session, cursor), "session/resume", params);
    }

    /// Prompts, again if it was sent before.
    pub(super) fn prompt(&mut self, session: SessionId, prompt: &str, plan: u64, queue: bool) {
        let blocks = prompt_of(plan).into_iter();
        let blocks = blocks.map(|text| json!({"type": "text", "text": text}));
        let params = json!({
            "sessionId": session,
            "prompt": blocks.collect::<Vec<_>>(),
            "_meta": {"fastness": {"promptId": prompt, "queue": queue}},
        });
        let is_new = self
            .own
            .entry(session)
            .or_default()
            .insert(prompt.to_owned());
        if let Some(line) = self.line.as_mut().filter(|_| is_new) {
            line.fresh.insert(prompt.to_owned());
        }
        let asked = Asked::Prompt(session, prompt.to_owned());
        self.ask(asked, "session/prompt", params);
    }

    /// Answers a question.
    pub(super) fn answer(&mut self, call: &str, result: Result<Value, Value>) {
        let question = self
            .line
            .as_mut()
            .and_then(|line| line.questions.remove(call));
        let Some(question) = question else { return };
        if let Some(line) = &mut self.line {
            line.answered.insert(call.to_owned());
        }
        let mut frame = json!({"jsonrpc": "2.0", "id": question.id});
        match result {
            Ok(result) => frame["result"] = result,
            Err(error) => frame["error"] = error,
        }
        self.say(&frame);
    }
}
