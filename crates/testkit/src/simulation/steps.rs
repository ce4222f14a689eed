//! What happens in the world of one seed, step by step.

use domain::SessionId;
use journal::storage::power::{Fault, FaultyCall};
use serde_json::json;

use super::client::{Asked, Client};
use super::model::long_winded;
use super::record::Record;
use super::world::{GRACE, Life, Prompt, World, paused_runtime};
use super::{Summary, Verdict};

/// Lives of the server in one run: enough for a restart after a restart.
const LIVES_MAX: u64 = 3;

/// Steps in one life: enough for turns to meet drops, few enough to follow.
const STEPS: u64 = 36;

/// Sessions at once.
const SESSIONS_MAX: usize = 3;

/// How a life of the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// The process is killed.
    Killed,
    /// The machine loses power.
    PowerLost,
    /// It is told to stop.
    Drained,
}

impl World<'_> {
    /// Runs the whole story.
    pub(super) fn run(mut self) -> Result<Summary, String> {
        let count = 3 + self.chance.below(3);
        for at in 0..count {
            // Most belong to one person; the others are strangers to each other.
            let who = [0, 0, 0, 1, 2][self.chance.index(5)];
            let turns = self.chance.one_in(2);
            let name = format!("client {at}");
            self.clients.push(Client::new(name, who, turns));
        }
        let lives = 1 + self.chance.below(LIVES_MAX);
        loop {
            let is_last = self.summary.lives + 1 >= lives;
            let runtime = paused_runtime()?;
            let ended = runtime.block_on(self.live(is_last));
            self.clients.iter_mut().for_each(Client::cut);
            drop(runtime);
            match ended.map_err(|why| self.with_trail(&why))? {
                Some(Death::PowerLost) => self.storage.power_loss(),
                Some(Death::Killed | Death::Drained) => self.storage.restart(),
                None => {
                    self.nothing_panicked()?;
                    return Ok(self.told());
                }
            }
        }
    }

    /// One life of the server; says how it died, or nothing if the story has come to its end. A last
    /// life that is cut short is followed by one more.
    async fn live(&mut self, is_last: bool) -> Result<Option<Death>, String> {
        let mut life = self.begin();
        self.note(format!("life {}", self.summary.lives));
        for _ in 0..STEPS {
            self.summary.steps += 1;
            self.step(&life)?;
            // Now and then several things happen at once.
            if !self.chance.one_in(4) {
                let delay_ms = [2, 2, 10, 40, 150, 600][self.chance.index(6)];
                self.pass(&life, delay_ms).await;
                self.settle(&life).await?;
            } else if self.chance.one_in(2) {
                self.cut_amid(&life).await?;
            }
            if self.chance.one_in(40) && !self.storage.is_dead() {
                self.note("grace");
                self.pass(&life, u64::try_from(GRACE.as_millis()).unwrap_or(0))
                    .await;
                self.settle(&life).await?;
            }
            if self.storage.is_dead() {
                self.note("the process is dead");
                return Ok(Some(self.killed()));
            }
        }
        self.storage.arm(None);
        if is_last {
            self.settle(&life).await?;
            self.bring_to_an_end(&life).await?;
            return Ok(None);
        }
        if self.chance.one_in(4) {
            self.note("told to stop");
            return self.drain(&mut life).await.map(Some);
        }
        // Some of what was just sent is still on its way.
        self.storage.kill();
        self.note("killed");
        Ok(Some(self.killed()))
    }

    /// Whether only the process or the whole machine went down.
    fn killed(&mut self) -> Death {
        if self.chance.one_in(2) {
            self.note("with the machine");
            Death::PowerLost
        } else {
            Death::Killed
        }
    }

    async fn drain(&mut self, life: &mut Life) -> Result<Death, String> {
        life.is_draining = true;
        self.records.values_mut().for_each(Record::told_to_stop);
        let service = std::sync::Arc::clone(&life.service);
        let ending = tokio::spawn(async move { service.shut_down().await });
        while !ending.is_finished() {
            self.pass(life, 100).await;
            self.hear_all(life)?;
        }
        self.hear_all(life)?;
        Ok(Death::Drained)
    }

    fn step(&mut self, life: &Life) -> Verdict {
        let at = self.chance.index(self.clients.len());
        if self.clients[at].line.is_none() {
            return self.come_back(life, at);
        }
        match self.chance.below(32) {
            0..=4 => {
                self.hear_some(life, at)?;
                self.cut_off(at);
            }
            5..=6 => {
                if let Some(line) = &mut self.clients[at].line {
                    line.is_stalled = !line.is_stalled;
                }
            }
            7..=9 => self.enter_another(at),
            10..=17 => self.prompt(at),
            18..=19 => self.prompt_again(at),
            20 => self.cancel(at),
            21..=25 => self.answer(at),
            26 => self.set_mode(at),
            27..=28 => self.intrude(at),
            29 => self.enter_again(at),
            30 => self.close(at),
            _ => self.arm(),
        }
        Ok(())
    }

    /// Much is on its way that nobody has read, and somebody is cut off in the middle of it: if
    /// possible one who has only part of an event.
    async fn cut_amid(&mut self, life: &Life) -> Verdict {
        self.pass(life, 2).await;
        // A process that is dead says nothing, whatever its tasks still do here.
        if self.storage.is_dead() {
            return Ok(());
        }
        let count = self.clients.len();
        let first = self.chance.index(count);
        for at in (first..first + count).map(|at| at % count) {
            self.hear_up_to_a_part(life, at)?;
            if self.clients[at].is_between() {
                self.cut_off(at);
                return Ok(());
            }
        }
        if self.chance.one_in(2) {
            self.cut_off(first);
        }
        Ok(())
    }

    /// A client reads a little before it is cut off, or until it has only part of an event.
    fn hear_some(&mut self, life: &Life, at: usize) -> Verdict {
        if let Some(line) = &mut self.clients[at].line {
            line.is_stalled = false;
        }
        if self.chance.one_in(2) {
            let most = self.chance.below(4);
            return self.hear(life, at, most).map(drop);
        }
        self.hear_up_to_a_part(life, at)
    }

    fn hear_up_to_a_part(&mut self, life: &Life, at: usize) -> Verdict {
        while !self.clients[at].is_between() && self.hear(life, at, 1)? > 0 {}
        Ok(())
    }

    fn cut_off(&mut self, at: usize) {
        let name = self.clients[at].name.clone();
        self.note(format!("{name} is cut off"));
        self.summary.drops += 1;
        self.clients[at].cut();
    }

    /// A client connects and goes on with everything it followed.
    pub(super) fn come_back(&mut self, life: &Life, at: usize) -> Verdict {
        self.connect(life, at)?;
        let cwd = self.cwd();
        let sessions: Vec<SessionId> = self.clients[at].views.keys().copied().collect();
        let name = self.clients[at].name.clone();
        self.note(format!("{name} is back for {}", sessions.len()));
        for session in sessions {
            let how = self.chance.below(8);
            let client = &mut self.clients[at];
            match how {
                0 => client.load(session, &cwd),
                _ => client.resume(session, &cwd, how > 3),
            }
        }
        if self.chance.one_in(3) {
            self.prompt_again(at);
        }
        Ok(())
    }

    fn enter_another(&mut self, at: usize) {
        let who = self.grounds.people[self.clients[at].who].id();
        let followed = &self.clients[at].views;
        let others = self.records.values();
        let others = others.filter(|record| record.owner == *who);
        let others: Vec<SessionId> = others
            .map(|record| record.id)
            .filter(|id| !followed.contains_key(id) && !self.clients[at].knows_way_into(*id))
            .collect();
        let cwd = self.cwd();
        let name = self.clients[at].name.clone();
        let other = others.get(self.chance.index(others.len())).copied();
        let loads = self.chance.one_in(2);
        match other {
            Some(session) if loads => {
                self.note(format!("{name} loads {session}"));
                self.clients[at].load(session, &cwd);
            }
            Some(session) => {
                self.note(format!("{name} enters {session} at its head"));
                self.clients[at].resume(session, &cwd, false);
            }
            None if self.records.len() < SESSIONS_MAX => {
                self.note(format!("{name} makes a session"));
                let params = json!({"cwd": cwd, "mcpServers": []});
                self.clients[at].ask(Asked::New, "session/new", params);
            }
            None => {}
        }
    }

    /// The same session again over the same connection, after what was seen.
    fn enter_again(&mut self, at: usize) {
        let (Some(session), cwd) = (self.pick(at), self.cwd()) else {
            return;
        };
        if self.clients[at].is_inside(session) && self.clients[at].views.contains_key(&session) {
            let name = self.clients[at].name.clone();
            self.note(format!("{name} enters {session} again"));
            self.clients[at].resume(session, &cwd, true);
        }
    }

    /// A session that the client is in, or on its way into.
    pub(super) fn pick(&mut self, at: usize) -> Option<SessionId> {
        let client = &self.clients[at];
        let known: Vec<SessionId> = client.views.keys().copied().collect();
        let open: Vec<SessionId> = known
            .into_iter()
            .filter(|id| client.knows_way_into(*id))
            .collect();
        open.get(self.chance.index(open.len())).copied()
    }

    pub(super) fn prompt(&mut self, at: usize) {
        let Some(session) = self.pick(at) else { return };
        let number = match self.chance.one_in(16) {
            true => long_winded(self.chance.below(100)),
            false => self.chance.below(5_000),
        };
        let id = format!("p{}", self.prompts.len());
        let queue = self.chance.one_in(3);
        let client = &mut self.clients[at];
        client.prompt(session, &id, number, queue);
        let note = format!("{} prompts {session}: {id} plan {number}", client.name);
        let prompt = Prompt {
            session,
            client: at,
            plan: number,
            end: None,
        };
        self.prompts.insert(id, prompt);
        self.note(note);
    }

    /// Sends a prompt again, as one does who does not know whether it arrived.
    pub(super) fn prompt_again(&mut self, at: usize) {
        let client = &self.clients[at];
        let mine = self.prompts.iter();
        let mine =
            mine.filter(|(_, prompt)| prompt.client == at && client.knows_way_into(prompt.session));
        let mine: Vec<(String, SessionId, u64)> = mine
            .map(|(id, prompt)| (id.clone(), prompt.session, prompt.plan))
            .collect();
        let Some((id, session, plan)) = mine.get(self.chance.index(mine.len())) else {
            return;
        };
        self.clients[at].prompt(*session, id, *plan, true);
        let name = self.clients[at].name.clone();
        self.note(format!("{name} prompts {id} again"));
    }

    pub(super) fn cancel(&mut self, at: usize) {
        let Some(session) = self.pick(at) else { return };
        let params = json!({"sessionId": session});
        let frame = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
        self.clients[at].say(&frame);
        let name = self.clients[at].name.clone();
        self.note(format!("{name} cancels {session}"));
    }

    pub(super) fn answer(&mut self, at: usize) {
        let Some(line) = &self.clients[at].line else {
            return;
        };
        let calls: Vec<String> = line.questions.keys().cloned().collect();
        let Some(call) = calls.get(self.chance.index(calls.len())).cloned() else {
            return;
        };
        let selected =
            |option: &str| Ok(json!({"outcome": {"outcome": "selected", "optionId": option}}));
        let answer = match self.chance.below(8) {
            0..=3 => selected("allow_once"),
            4 => selected("reject_once"),
            5 => selected("no such option"),
            6 => Ok(json!({"outcome": {"outcome": "cancelled"}})),
            _ => Err(json!({"code": -32603, "message": "this client cannot ask anybody"})),
        };
        let name = self.clients[at].name.clone();
        self.note(format!("{name} answers {call}: {answer:?}"));
        self.clients[at].answer(&call, answer);
    }

    fn set_mode(&mut self, at: usize) {
        let Some(session) = self.pick(at) else { return };
        let mode = ["default", "default", "acceptEdits", "plan"][self.chance.index(4)];
        let params = json!({"sessionId": session, "modeId": mode});
        let is_inside = self.clients[at].is_inside(session);
        if is_inside {
            self.clients[at].ask(Asked::Other, "session/set_mode", params);
        }
    }

    /// Somebody tries what is not theirs.
    fn intrude(&mut self, at: usize) {
        let who = self.grounds.people[self.clients[at].who].id();
        let foreign = self.records.values().filter(|record| record.owner != *who);
        let foreign: Vec<SessionId> = foreign.map(|record| record.id).collect();
        let Some(session) = foreign.get(self.chance.index(foreign.len())) else {
            return;
        };
        let cwd = self.cwd();
        let all = ["load", "resume", "prompt", "close", "delete", "set_mode"];
        let method = all[self.chance.index(all.len())];
        let params = match method {
            "prompt" => {
                json!({"sessionId": session, "prompt": [{"type": "text", "text": "let me in"}]})
            }
            "set_mode" => json!({"sessionId": session, "modeId": "plan"}),
            "resume" => {
                let meta = json!({"fastness": {"afterSeq": 0}});
                json!({"sessionId": session, "cwd": cwd, "mcpServers": [], "_meta": meta})
            }
            _ => json!({"sessionId": session, "cwd": cwd, "mcpServers": []}),
        };
        self.summary.strangers += 1;
        let label = if method == "delete" {
            "session/delete"
        } else {
            "refused"
        };
        self.clients[at].ask(Asked::Foreign(label), &format!("session/{method}"), params);
    }

    pub(super) fn close(&mut self, at: usize) {
        let Some(session) = self.pick(at) else { return };
        if !self.clients[at].is_inside(session) {
            return;
        }
        let name = self.clients[at].name.clone();
        self.note(format!("{name} closes {session}"));
        let params = json!({"sessionId": session});
        self.clients[at].ask(Asked::Close(session), "session/close", params);
    }

    /// The process will die in the middle of a write.
    fn arm(&mut self) {
        if self.chance.one_in(3) {
            self.note("death is near");
            self.storage.arm(Some(Fault {
                call: FaultyCall::Change,
                nth: 1 + self.chance.below(30),
                errno: None,
            }));
        }
    }

    /// Everybody comes back, every prompt gets its answer, and everyone has seen everything.
    pub(super) async fn bring_to_an_end(&mut self, life: &Life) -> Verdict {
        for at in 0..self.clients.len() {
            if self.clients[at].line.is_none() {
                self.come_back(life, at)?;
            }
            if let Some(line) = &mut self.clients[at].line {
                line.is_stalled = false;
            }
        }
        self.settle(life).await?;
        for _ in 0..40 {
            for at in 0..self.clients.len() {
                if self.clients[at].line.is_none() {
                    self.come_back(life, at)?;
                }
                self.finish(at);
            }
            self.pass(life, 1_000).await;
            self.settle(life).await?;
            let doomed = |prompt: &Prompt| self.doomed.contains(&prompt.session);
            let mut prompts = self.prompts.values();
            if prompts.all(|prompt| prompt.end.is_some() || doomed(prompt)) {
                return self.check_all_seen();
            }
        }
        let missing = self
            .prompts
            .iter()
            .filter(|(_, prompt)| prompt.end.is_none());
        let missing: Vec<String> = missing
            .map(|(id, prompt)| self.describe(id, prompt))
            .collect();
        Err(format!("these prompts were never answered: {missing:?}"))
    }

    /// What a client does that wants to be done: enters, denies, cancels, asks again.
    fn finish(&mut self, at: usize) {
        let cwd = self.cwd();
        let sessions: Vec<SessionId> = self.clients[at].views.keys().copied().collect();
        for session in sessions {
            if !self.clients[at].knows_way_into(session) {
                self.clients[at].resume(session, &cwd, true);
            }
        }
        let open = self
            .prompts
            .iter()
            .filter(|(_, prompt)| prompt.client == at);
        let open = open.filter(|(_, prompt)| prompt.end.is_none());
        let open: Vec<(String, SessionId, u64)> = open
            .map(|(id, prompt)| (id.clone(), prompt.session, prompt.plan))
            .collect();
        for (id, session, plan) in open {
            let waits = self.clients[at].line.as_ref().is_some_and(|line| {
                line.asked
                    .values()
                    .any(|asked| matches!(asked, Asked::Prompt(_, other) if *other == id))
            });
            if !waits {
                self.clients[at].prompt(session, &id, plan, false);
            }
            let params = json!({"sessionId": session});
            let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
            self.clients[at].say(&cancel);
        }
    }

    /// What is known of a prompt that nobody answers.
    fn describe(&self, id: &str, prompt: &Prompt) -> String {
        let client = &self.clients[prompt.client];
        let record = self.records.get(&prompt.session);
        let end = record.and_then(|record| record.end_of(id));
        let asked = client.line.as_ref().map(|line| &line.asked);
        let is_inside = client.is_inside(prompt.session);
        let name = &client.name;
        format!("{id} of {name} ({is_inside}, asked {asked:?}), which ended as {end:?}")
    }

    fn check_all_seen(&mut self) -> Verdict {
        let doomed = |id: &SessionId| self.doomed.contains(id);
        for record in self.records.values().filter(|record| !doomed(&record.id)) {
            for client in &self.clients {
                let Some(view) = client.views.get(&record.id) else {
                    continue;
                };
                let own = client.own.get(&record.id).cloned().unwrap_or_default();
                view.check(record, client.turns, &own, record.head())
                    .map_err(|why| {
                        format!("in the end, {} in {}: {why}", client.name, record.id)
                    })?;
            }
            for (id, prompt) in &self.prompts {
                let is_here = prompt.session == record.id;
                if is_here && record.end_of(id).map(|(_, end)| end) != prompt.end {
                    return Err(format!("prompt {id} did not end as its client was told"));
                }
            }
        }
        Ok(())
    }
}
