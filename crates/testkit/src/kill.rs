//! The kill harness: a real server, clients that write to many sessions, `kill -9` at any moment,
//! and then the question whether all that was ever seen is still there.
//!
//! [`run`] is used by a test with a few rounds and by `cargo xtask soak kill` with many. Each round
//! starts the server on what the last one left, checks it against the [`ledger`], writes, and dies.

mod ledger;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::json;

use self::ledger::Ledger;
use crate::client::AcpClient;
use crate::home::Home;
use crate::program::Program;
use crate::random::Random;
use crate::rounds::{Plan, moment};
use crate::script::{Script, say, stream, think, tool};

/// Sessions that are written to at once.
pub const SESSIONS: usize = 8;

/// Longest time that the clients write before the server dies.
const WRITE_TIME_MAX: Duration = Duration::from_millis(250);

/// Prompts for which the model has something to say; no round gets that far.
const PROMPTS_MAX: usize = 100;

/// What was done so far.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Times the server was killed.
    pub rounds: u64,
    /// Prompts that were answered before a kill.
    pub answered: u64,
    /// Prompts that a kill interrupted.
    pub interrupted: u64,
    /// Journal lines that were checked after a kill.
    pub events: u64,
    /// Longest time from starting the server to its ready line.
    pub restart_max: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rounds,
            answered,
            interrupted,
            events,
            restart_max,
        } = self;
        write!(
            f,
            "{rounds} kills, {answered} prompts answered, {interrupted} interrupted, \
             {events} journal lines checked, slowest restart {} ms",
            restart_max.as_millis()
        )
    }
}

/// Kills the server again and again. Tells `progress` after every round.
///
/// # Errors
/// What was lost or wrong after which round, where the data is, and how to do it again.
pub async fn run(plan: &Plan, progress: &mut dyn FnMut(&Report)) -> Result<Report, String> {
    let mut report = Report::default();
    let mut random = Random::new(plan.seed);
    let mut slots: Vec<Slot> = (0..SESSIONS).map(|_| Slot::default()).collect();
    let mut home = Home::new(&plan.binary, script()).env("FASTNESS_LOG", "warn");
    home.write("notes.txt", "what the tool reads\n");
    // The last round only looks at what the kill before it left.
    for round in 0..=plan.rounds {
        let is_last = round == plan.rounds;
        let attempt = live_and_die(home, &mut slots, &mut random, is_last, &mut report);
        home = AssertUnwindSafe(attempt)
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(panic_text(&*panic)))
            .map_err(|failure| {
                let (seed, rounds) = (plan.seed, round.max(1));
                format!(
                    "after kill {round}: {failure}\n\
                     repeat with: cargo xtask soak kill --seed {seed} --rounds {rounds}"
                )
            })?;
        if !is_last {
            report.rounds += 1;
            progress(&report);
        }
    }
    Ok(report)
}

/// One session and what its clients were told about it.
#[derive(Default)]
struct Slot {
    /// Missing until a server has answered that it made one.
    session: Option<String>,
    ledger: Ledger,
    prompts: u64,
}

impl Slot {
    /// A prompt that must be answered, if there is a session.
    async fn prompt_once(&mut self, client: &mut AcpClient) -> Result<(), String> {
        let Some(session) = self.session.clone() else {
            return Ok(());
        };
        let text = self.next_prompt(&session);
        let answer = client.try_prompt(&session, &text).await;
        let answer =
            answer.map_err(|error| format!("after the restart {text} answered {error}"))?;
        self.ledger.saw(&answer.updates);
        self.ledger.answered(text);
        Ok(())
    }

    fn next_prompt(&mut self, session: &str) -> String {
        self.prompts += 1;
        format!("prompt {} of {session}", self.prompts)
    }
}

/// Starts the server, checks what is there, writes, and kills it.
async fn live_and_die(
    home: Home,
    slots: &mut [Slot],
    random: &mut Random,
    is_last: bool,
    report: &mut Report,
) -> Result<Home, String> {
    let started = Instant::now();
    let mut server = Program::serve_in(home).await;
    report.restart_max = report.restart_max.max(started.elapsed());
    let checked = check(&server, slots, report).await;
    let clients = checked.map_err(|failure| {
        let place = server.home_mut().keep();
        format!("{failure}\nthe data is in {}", place.display())
    })?;
    // The next prompt after a crash works, in every session.
    let mut clients = clients;
    for (client, slot) in clients.iter_mut().zip(slots.iter_mut()) {
        slot.prompt_once(client).await?;
    }
    if is_last {
        server.terminate().await;
        return Ok(server.into_home());
    }
    // One session a round makes room for a new one, so that creating is killed too.
    let replaced = usize::try_from(random.below(slots.len() as u64)).unwrap_or(0);
    slots[replaced] = Slot::default();
    let write_time = moment(random, WRITE_TIME_MAX);
    let writing = join_all(
        clients
            .into_iter()
            .zip(slots.iter_mut())
            .map(|(client, slot)| write(client, slot)),
    );
    let dying = async {
        tokio::time::sleep(write_time).await;
        server.kill9().await
    };
    let (wrote, _) = tokio::join!(writing, dying);
    for tally in wrote {
        let (answered, interrupted) = tally?;
        report.answered += answered;
        report.interrupted += interrupted;
    }
    Ok(server.into_home())
}

/// Loads every session and holds journal and replay against what was seen before the kill.
async fn check(
    server: &Program,
    slots: &[Slot],
    report: &mut Report,
) -> Result<Vec<AcpClient>, String> {
    let mut clients = Vec::new();
    for slot in slots {
        let mut client = AcpClient::connect_ws(server).await.without_oracle();
        if let Some(session) = &slot.session {
            let replayed = client
                .load_session(session)
                .await
                .map_err(|error| format!("session {session} does not load: {error}"))?;
            let path = journal_path(server.home(), session);
            let events = crate::journal::read_strictly(&path)?;
            report.events += events.len() as u64;
            slot.ledger
                .check(&path, &events, &replayed)
                .map_err(|failure| format!("session {session}: {failure}"))?;
        }
        clients.push(client);
    }
    Ok(clients)
}

/// Prompts until the connection ends; gives how many were answered and how many were not.
async fn write(mut client: AcpClient, slot: &mut Slot) -> Result<(u64, u64), String> {
    let session = match &slot.session {
        Some(session) => session.clone(),
        None => {
            let params = json!({"cwd": client.directory(), "mcpServers": []});
            let request = client.start("session/new", params).await;
            let Some(made) = client.wait_or_end(&request).await else {
                return Ok((0, 0));
            };
            let made = made.map_err(|error| format!("session/new answered {error}"))?;
            let session = made["sessionId"].as_str().unwrap_or_default().to_owned();
            slot.session = Some(session.clone());
            session
        }
    };
    let mut answered = 0;
    loop {
        let text = slot.next_prompt(&session);
        let request = client.start_prompt(&session, &text).await;
        let answer = client.wait_or_end(&request).await;
        slot.ledger.saw(&client.take_updates(&session));
        match answer {
            Some(Ok(_)) => slot.ledger.answered(text),
            Some(Err(error)) => return Err(format!("{text} answered {error}")),
            None => return Ok((answered, 1)),
        }
        answered += 1;
    }
}

/// Thoughts, text, tool calls, and now and then an answer so long that it becomes a blob.
fn script() -> Script {
    let long = "and so on ".repeat(820);
    (0..PROMPTS_MAX).fold(Script::new(), |script, prompt| {
        let answer = match prompt % 4 {
            3 => stream(&long, 40, 0),
            2 => stream("tock ", 60, 1),
            _ => stream("tick ", 20, 0),
        };
        let reads = tool("read", json!({"path": "notes.txt"}));
        script
            .call([think("what was asked"), answer, reads])
            .call([say("the file says ${result}")])
    })
}

/// Where a session's journal is.
#[must_use]
pub fn journal_path(home: &Home, session: &str) -> PathBuf {
    let folder = Path::new("sessions").join(session);
    home.data_dir().join(folder).join("events.jsonl")
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    text.unwrap_or_else(|| "the harness panicked".to_owned())
}
