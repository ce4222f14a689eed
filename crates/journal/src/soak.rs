//! Seeded runs of the file store over a storage that fails and loses power.
//!
//! One seed makes, appends, streams, forks, deletes and reopens sessions while calls fail, the
//! process dies and the machine loses power. After each of these everything is compared with
//! [`oracle`]: what was acknowledged is there, what was never written is not.

use std::sync::Arc;

use domain::clock::Timestamp;
use domain::event::{Notice, SessionCreated};
use domain::limits::BLOB_BYTES_MIN;
use domain::{Event, EventSeq, PrincipalId, SessionId};

use crate::chance::Chance;
use crate::storage::power::{Fault, FaultyCall, PowerStorage, Sabotage};
use crate::{FileStore, StoreError, Writer};

mod every;
mod oracle;
mod writing;

pub use every::{Then, fault_at, recovery_fault_at, sabotaged_recovery_fault_at};
use oracle::{Expected, Standing};

/// Steps of one run: enough for several lives, few enough that a failure can be followed.
const STEPS: u64 = 60;

/// Sessions at once in one run.
const SESSIONS_MAX: usize = 4;

/// Times that opening is tried while faults are still to come: a run arms one at a time.
const TRIES_MAX: usize = 4;

/// Runs one seed.
///
/// # Errors
/// What was lost, repeated or made up, and how to see it again.
pub fn run(seed: u64) -> Result<(), String> {
    run_on(seed, None).map_err(|why| {
        format!("seed {seed}: {why}\nrepeat: cargo xtask soak journal --seed {seed}")
    })
}

/// Runs one seed with a sync that does nothing, which some seed must notice.
///
/// # Errors
/// As [`run`].
pub fn run_sabotaged(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    run_on(seed, Some(sabotage))
}

fn run_on(seed: u64, sabotage: Option<Sabotage>) -> Result<(), String> {
    let mut run = Run::new(seed, sabotage);
    for step in 0..STEPS {
        run.step().map_err(|why| format!("step {step}: {why}"))?;
    }
    run.end()
}

struct Run {
    storage: PowerStorage,
    store: FileStore,
    chance: Chance,
    seed: u64,
    sessions: Vec<Session>,
    made: u64,
    words: u64,
}

struct Session {
    expected: Expected,
    writer: Option<Writer>,
}

impl Run {
    fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        let storage = PowerStorage::new(seed);
        if let Some(sabotage) = sabotage {
            storage.sabotage(sabotage);
        }
        Self {
            store: FileStore::with_storage(Arc::new(storage.clone())),
            storage,
            chance: Chance::new(!seed),
            seed,
            sessions: Vec::new(),
            made: 0,
            words: 0,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.chance.below(40) {
            0..=2 => self.create(),
            3 => self.fork(),
            4 => self.delete(),
            5..=6 => {
                self.arm_fault();
                Ok(())
            }
            7..=8 => {
                self.arm_death();
                Ok(())
            }
            9 => {
                self.storage.restart();
                self.come_back()
            }
            10..=11 => self.lose_power(),
            12 => self.reopen_one(),
            _ => self.write(),
        }?;
        if self.storage.is_dead() {
            match self.chance.one_in(2) {
                true => self.lose_power()?,
                false => {
                    self.storage.restart();
                    self.come_back()?;
                }
            }
        }
        Ok(())
    }

    /// At the end everything is looked at once more, after a restart and after a power loss.
    fn end(&mut self) -> Result<(), String> {
        self.storage.restart();
        self.come_back()?;
        self.lose_power()
    }

    fn now(&self) -> Timestamp {
        #[expect(clippy::cast_precision_loss, reason = "a small count")]
        Timestamp(self.words as f64)
    }

    fn new_id(&mut self) -> SessionId {
        self.made += 1;
        let name = format!("{:016x}{:016x}", self.seed, self.made);
        name.parse().unwrap_or_else(|_| SessionId::random())
    }

    fn text(&mut self, most: u64) -> String {
        self.words += 1;
        let len = self
            .chance
            .index(usize::try_from(most).unwrap_or(usize::MAX));
        let mut text = format!("{}:", self.words);
        while text.len() < len {
            text.push_str(["word ", "żółw ", "\u{2028}", "世界 ", "\0", "x"][self.chance.index(6)]);
        }
        text
    }

    fn notice(&mut self) -> Event {
        let mut text = self.text(900);
        if self.chance.one_in(400) {
            text.push_str(&"long ".repeat(BLOB_BYTES_MIN / 5 + 1));
        }
        Notice {
            kind: "soak".into(),
            message_id: None,
            text,
        }
        .into()
    }

    fn create(&mut self) -> Result<(), String> {
        let alive = |session: &&Session| session.expected.standing != Standing::Deleted;
        if self.sessions.iter().filter(alive).count() >= SESSIONS_MAX {
            return self.write();
        }
        let id = self.new_id();
        let owner = PrincipalId::new("ann");
        let cwd = "/soak".to_owned();
        let created = SessionCreated {
            owner,
            cwd,
            epoch: 0,
            additional_directories: Vec::new(),
            real_directories: Vec::new(),
        };
        let mut first = vec![created.into()];
        for _ in 0..self.chance.below(4) {
            first.push(self.notice());
        }
        let mut expected = Expected::new(id);
        let faults = self.storage.faults();
        let writer = match self.store.create(id, first.clone(), self.now()) {
            Ok((writer, stored)) => {
                expected.born(stored.iter().map(|stored| (**stored).clone()).collect());
                expected.opened_by_half = self.storage.faults() > faults;
                Some(writer)
            }
            Err(error) => {
                self.excuse(&error, "create")?;
                expected.perhaps_born(first);
                None
            }
        };
        self.sessions.push(Session { expected, writer });
        Ok(())
    }

    fn fork(&mut self) -> Result<(), String> {
        let Some(from) = self.pick() else {
            return Ok(());
        };
        let head = self.sessions[from].expected.acked.len() as u64;
        // What is not acknowledged may be there; what was never written is not.
        let at = match self.chance.below(head + 2) {
            past if past > head => EventSeq(head + 100),
            at => EventSeq(at),
        };
        let to = self.new_id();
        self.fork_at(from, at, to, &PrincipalId::new("bob"))
    }

    fn fork_at(
        &mut self,
        from: usize,
        at: EventSeq,
        id: SessionId,
        owner: &PrincipalId,
    ) -> Result<(), String> {
        let source = self.sessions[from].expected.clone();
        let cut = source.fork_end(at);
        let faults = self.storage.faults();
        let forked = self.store.fork(source.id, at, id, owner, self.now());
        let mut expected = Expected::new(id);
        match (forked, cut) {
            (Ok(meta), Some(cut)) => {
                if meta.owner != *owner || meta.head != EventSeq(cut + 1) {
                    return Err(format!("a fork at {at} gave {meta:?}, not {cut} events"));
                }
                expected.forked(&source, cut, Some(self.now()));
                expected.opened_by_half = self.storage.faults() > faults;
            }
            (Ok(_), None) => return Err(format!("a fork at {at} was not refused")),
            (Err(StoreError::NoFork { .. }), None) => return Ok(()),
            (Err(error), cut) => {
                self.excuse(&error, "fork")?;
                let Some(cut) = cut else { return Ok(()) };
                expected.forked(&source, cut, None);
            }
        }
        self.sessions.push(Session {
            expected,
            writer: None,
        });
        Ok(())
    }

    fn delete(&mut self) -> Result<(), String> {
        let Some(at) = self.pick() else { return Ok(()) };
        let session = &mut self.sessions[at];
        session.writer = None;
        match self.store.delete(session.expected.id) {
            Ok(()) => session.expected.standing = Standing::Deleted,
            Err(error) => {
                session.expected.standing = Standing::PerhapsDeleted;
                self.excuse(&error, "delete")?;
            }
        }
        Ok(())
    }

    fn arm_fault(&mut self) {
        use FaultyCall::{Change, Name, Sync, SyncDir, Write};
        let call = [Write, Sync, Name, SyncDir, Change][self.chance.index(5)];
        let errno = [5, 28, 30, 122][self.chance.index(4)];
        let nth = 1 + self.chance.below(12);
        self.storage.arm(Some(Fault {
            call,
            nth,
            errno: Some(errno),
        }));
    }

    fn arm_death(&mut self) {
        let nth = 1 + self.chance.below(40);
        self.storage.arm(Some(Fault {
            call: FaultyCall::Change,
            nth,
            errno: None,
        }));
    }

    fn lose_power(&mut self) -> Result<(), String> {
        self.cut_power();
        self.come_back()
    }

    fn cut_power(&mut self) {
        self.storage.power_loss();
        for session in &mut self.sessions {
            session.expected.power_lost = true;
        }
    }

    /// A new process looks at everything, perhaps to die again while doing so.
    fn come_back(&mut self) -> Result<(), String> {
        match self.chance.below(4) {
            0 => self.arm_death(),
            1 => self.arm_fault(),
            _ => {}
        }
        self.look_at_everything()?;
        self.storage.arm(None);
        if self.storage.is_dead() {
            match self.chance.one_in(2) {
                true => self.cut_power(),
                false => self.storage.restart(),
            }
            self.look_at_everything()?;
        }
        Ok(())
    }

    fn look_at_everything(&mut self) -> Result<(), String> {
        for session in &mut self.sessions {
            session.writer = None;
        }
        self.store = FileStore::with_storage(Arc::new(self.storage.clone()));
        self.check_names()?;
        for at in 0..self.sessions.len() {
            self.open(at)?;
        }
        Ok(())
    }

    fn reopen_one(&mut self) -> Result<(), String> {
        let Some(at) = self.pick() else { return Ok(()) };
        self.sessions[at].writer = None;
        self.open(at)
    }

    /// Every session that is listed can be one, and every one that must be there is listed.
    fn check_names(&mut self) -> Result<(), String> {
        let Ok(listed) = self.store.list() else {
            return Ok(());
        };
        for id in &listed {
            let known = self
                .sessions
                .iter()
                .find(|session| session.expected.id == *id);
            match known.map(|session| session.expected.standing) {
                None => return Err(format!("session {id} was never made")),
                Some(Standing::Deleted) => return Err(format!("session {id} was deleted")),
                Some(_) if !self.store.exists(*id) => {
                    return Err(format!("half of session {id} is there"));
                }
                Some(_) => {}
            }
        }
        for Session { expected, .. } in &self.sessions {
            let is_there = listed.contains(&expected.id);
            if expected.standing == Standing::Alive && !is_there {
                return Err(format!("session {} is gone", expected.id));
            }
            if expected.standing == Standing::Deleted && !self.storage.is_dead() {
                match self.store.create(expected.id, Vec::new(), Timestamp(0.0)) {
                    Err(StoreError::Exists) => {}
                    Err(error) => excuse(&self.storage, &error, "create again")?,
                    Ok(_) => return Err(format!("the name {} was given again", expected.id)),
                }
            }
        }
        Ok(())
    }

    /// Opens a session and compares it with what is expected of it.
    fn open(&mut self, at: usize) -> Result<(), String> {
        let now = self.now();
        let Session { expected, writer } = &mut self.sessions[at];
        if writer.is_some() || expected.standing == Standing::Deleted {
            return Ok(());
        }
        for _ in 0..TRIES_MAX {
            if self.storage.is_dead() {
                return Ok(());
            }
            let faults = self.storage.faults();
            let bytes = log_bytes(&self.storage, expected.id);
            let mut seen = Vec::new();
            let mut visit = |stored: &crate::Stored| seen.push(stored.clone());
            match self.store.open_session(expected.id, now, &mut visit) {
                Ok((opened, recovery)) => {
                    expected.check(&self.storage, &seen, &recovery, &opened)?;
                    expected.check_files(&self.store, &self.storage, &seen, &recovery)?;
                    expected.opened(seen, recovery.cut_bytes);
                    // That the boot could not be noted is no failure, but costs an epoch later.
                    expected.opened_by_half = self.storage.faults() > faults;
                    *writer = Some(opened);
                    return Ok(());
                }
                Err(StoreError::NotFound) if expected.may_be_absent() => return Ok(()),
                Err(error) => {
                    excuse(&self.storage, &error, "open")?;
                    let left = log_bytes(&self.storage, expected.id);
                    expected.half_opened(bytes.saturating_sub(left));
                    if self.chance.one_in(4) {
                        self.storage.kill();
                    }
                }
            }
        }
        Err(format!("session {} could not be opened", expected.id))
    }

    /// A session that may be written.
    fn pick(&mut self) -> Option<usize> {
        let alive: Vec<usize> = (0..self.sessions.len())
            .filter(|at| self.sessions[*at].expected.standing == Standing::Alive)
            .collect();
        alive.get(self.chance.index(alive.len())).copied()
    }

    fn excuse(&self, error: &StoreError, what: &str) -> Result<(), String> {
        excuse(&self.storage, error, what)
    }
}

/// An error is expected only as the consequence of a fault, and says which kind it was.
fn excuse(storage: &PowerStorage, error: &StoreError, what: &str) -> Result<(), String> {
    if storage.is_dead() || matches!(error, StoreError::Full | StoreError::Failed(_)) {
        return Ok(());
    }
    Err(format!("{what}: {error}"))
}

/// How long a session's log is.
fn log_bytes(storage: &PowerStorage, id: SessionId) -> u64 {
    let log = storage.peek(&format!("{id}/events.jsonl"));
    log.map_or(0, |bytes| bytes.len() as u64)
}
