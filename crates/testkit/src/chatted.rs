//! The chat harness: a person at `fastness chat` in a terminal, a server that is killed and started
//! again under it, and then the question whether every word is on the screen once.
//!
//! [`run`] is used by a test with a few rounds and by `cargo xtask soak chat` with many.

use std::time::Duration;

use serde_json::{Value, json};

use crate::home::Home;
use crate::program::Program;
use crate::random::Random;
use crate::rounds::{Plan, moment};
use crate::script::Script;
use crate::terminal::Terminal;

/// Longest time that a turn runs before the server dies.
const TURN_TIME_MAX: Duration = Duration::from_millis(500);
/// Words of an answer, each of which tells where it is from.
const WORDS: u32 = 60;
/// A terminal that breaks lines between those words.
const SIZE: (u16, u16) = (90, 24);

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Times the server was killed.
    pub rounds: u64,
    /// Turns that were cut short by it.
    pub interrupted: usize,
    /// Times the person saw that the connection was lost.
    pub lost: usize,
    /// Words that the person saw.
    pub words: usize,
}

/// Kills the server under the chat again and again. Tells `progress` after every round.
///
/// # Errors
/// What the person missed or saw twice, and how to do it again.
///
/// # Panics
/// If the chat does not get ready again.
pub async fn run(plan: &Plan, progress: &mut dyn FnMut(&Report)) -> Result<Report, String> {
    let mut random = Random::new(plan.seed);
    let home = Home::new(&plan.binary, script())
        .env("FASTNESS_GREETING", false)
        .env("NO_COLOR", 1)
        .env("FASTNESS_LIMITS_RECONNECT_FIRST_MS", 20);
    let mut server = Program::serve_in(home).await;
    let mut terminal = Terminal::start(server.home(), "chat", &["--server", "local"], SIZE);
    terminal.shows("ready").await;
    let session = session(&terminal)?;
    let mut report = Report::default();
    for round in 0..plan.rounds {
        terminal.enter(&format!("r{round}"));
        tokio::time::sleep(moment(&mut random, TURN_TIME_MAX)).await;
        server.kill9().await;
        server = server.restart().await;
        // Once it is sent, the last row says `ready` only after it was answered.
        let prompt = format!("❯ r{round}\n");
        terminal
            .shows_when("the end of the turn", |screen| {
                let last = screen.lines().next_back().unwrap_or_default();
                last.starts_with("ready") && screen.contains(&prompt)
            })
            .await;
        let seen = terminal.all();
        let failure = |why| {
            format!(
                "{why}\nrepeat with: cargo xtask soak chat --seed {} --rounds {}",
                plan.seed,
                round + 1
            )
        };
        report.words = compare(&seen, &server.home().events(&session), round).map_err(failure)?;
        report.interrupted = seen.matches("✗ interrupted").count();
        report.lost = seen.matches("! connection lost").count();
        report.rounds += 1;
        progress(&report);
    }
    terminal.press("\x04");
    terminal.exit().await;
    server.terminate().await;
    Ok(report)
}

/// Holds what the person saw against the journal; gives how many words that was.
fn compare(seen: &str, events: &[Value], round: u64) -> Result<usize, String> {
    let told = events
        .iter()
        .filter(|event| event["type"] == "assistant.message");
    let stored: String = told.filter_map(|event| event["text"].as_str()).collect();
    let (seen_words, stored_words) = (words(seen), words(&stored));
    if seen_words != stored_words {
        let same = seen_words.iter().zip(&stored_words);
        let at = same.take_while(|(a, b)| a == b).count();
        return Err(format!(
            "the person saw {} words and the journal has {}; they differ from word {at} on \
             ({:?} and {:?})\n{seen}",
            seen_words.len(),
            stored_words.len(),
            seen_words.get(at),
            stored_words.get(at),
        ));
    }
    for number in 0..=round {
        let prompt = format!("❯ r{number}");
        match seen.lines().filter(|line| *line == prompt).count() {
            1 => {}
            count => {
                return Err(format!(
                    "the prompt r{number} is there {count} times\n{seen}"
                ));
            }
        }
    }
    Ok(seen_words.len())
}

/// The words that a model of [`script`] says, in order.
fn words(text: &str) -> Vec<&str> {
    let is_word = |word: &&str| word.starts_with("[r") && word.ends_with(']');
    text.split_whitespace().filter(is_word).collect()
}

/// The session that the chat says it is in.
fn session(terminal: &Terminal) -> Result<String, String> {
    let screen = terminal.screen();
    let rest = screen.split_once("session ").map(|(_, rest)| rest);
    let id = rest.and_then(|rest| rest.split_whitespace().next());
    id.map(str::to_owned)
        .ok_or_else(|| format!("the chat names no session:\n{screen}"))
}

/// Words that tell where they are from, and last longer than most servers here.
fn script() -> Script {
    let word = |number: u32| {
        [
            json!({"text": format!("[${{prompt}}.{number}] ")}),
            json!({"sleepMs": 5}),
        ]
    };
    Script::new().call((0..WORDS).flat_map(word))
}
