//! The bridge harness: an editor at `fastness acp --server local`, a server that is killed and
//! started again under it, and then the question whether the editor saw every byte once.
//!
//! [`run`] is used by a test with a few rounds and by `cargo xtask soak bridge` with many.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::client::{AcpClient, RpcError, Update, text_of};
use crate::home::Home;
use crate::program::Program;
use crate::random::Random;
use crate::rounds::{Plan, moment};
use crate::script::{Script, say, stream, think};

/// Longest time that a turn runs before the server dies.
const TURN_TIME_MAX: Duration = Duration::from_millis(300);

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Times the server was killed.
    pub rounds: u64,
    /// Prompts that were answered in full.
    pub answered: u64,
    /// Prompts that a kill interrupted.
    pub interrupted: u64,
    /// Bytes of text that the editor saw.
    pub bytes: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rounds,
            answered,
            interrupted,
            bytes,
        } = self;
        write!(
            f,
            "{rounds} kills under the bridge, {answered} prompts answered, {interrupted} \
             interrupted, {bytes} bytes seen"
        )
    }
}

/// Kills the server under the bridge again and again. Tells `progress` after every round.
///
/// # Errors
/// What the editor missed or saw twice, and how to do it again.
pub async fn run(plan: &Plan, progress: &mut dyn FnMut(&Report)) -> Result<Report, String> {
    let mut random = Random::new(plan.seed);
    let home = Home::new(&plan.binary, script())
        .env("FASTNESS_LOG", "warn")
        .env("FASTNESS_LIMITS_RECONNECT_FIRST_MS", 20);
    let mut server = Program::serve_in(home).await;
    let mut editor = AcpClient::spawn(server.home(), "acp", &["--server", "local"]);
    editor.initialize().await;
    let session = editor.new_session().await;
    let mut report = Report::default();
    let mut seen = Vec::new();
    for round in 0..plan.rounds {
        let request = editor
            .start_prompt(&session, &format!("round {round}"))
            .await;
        tokio::time::sleep(moment(&mut random, TURN_TIME_MAX)).await;
        server.kill9().await;
        server = server.restart().await;
        match editor.wait(&request).await {
            Ok(_) => report.answered += 1,
            Err(error) if is_interruption(&error) => report.interrupted += 1,
            Err(error) => return Err(format!("round {round} answered {error}")),
        }
        seen.extend(editor.take_updates(&session));
        let failure = |why| {
            format!(
                "{why}\nrepeat with: cargo xtask soak bridge --seed {} --rounds {}",
                plan.seed,
                round + 1
            )
        };
        let events = server.home().events(&session);
        report.bytes = compare(&seen, &events).map_err(failure)?;
        report.rounds += 1;
        progress(&report);
    }
    editor.leave().await;
    server.terminate().await;
    Ok(report)
}

fn is_interruption(error: &RpcError) -> bool {
    error.code == -32_603 && error.data["kind"] == "interrupted"
}

/// Holds what the editor saw against the journal; gives how many bytes that was.
fn compare(seen: &[Update], events: &[Value]) -> Result<usize, String> {
    let mut bytes = 0;
    for (kind, stored) in [
        ("agent_message_chunk", "assistant.message"),
        ("agent_thought_chunk", "assistant.thought"),
    ] {
        let text_seen = text_of(seen.iter().filter(|update| !update.is_greeting()), kind);
        let told = events.iter().filter(|event| event["type"] == stored);
        let text_stored: String = told.filter_map(|event| event["text"].as_str()).collect();
        if text_seen != text_stored {
            let same = text_seen.bytes().zip(text_stored.bytes());
            let at = same.take_while(|(a, b)| a == b).count();
            return Err(format!(
                "the editor saw {} bytes of {kind} and the journal has {}; they differ from byte {at} on",
                text_seen.len(),
                text_stored.len(),
            ));
        }
        bytes += text_seen.len();
    }
    let echoes = seen
        .iter()
        .filter(|update| update.kind == "user_message_chunk");
    match echoes.count() {
        0 => Ok(bytes),
        count => Err(format!("the editor was shown {count} of its own prompts")),
    }
}

/// Thoughts and text that tell where they are from, and last longer than most servers here.
fn script() -> Script {
    let numbered = |from: u32| {
        (from..from + 40)
            .map(|n| format!("[{n}] "))
            .collect::<String>()
    };
    Script::new().call([
        think("what was asked: ${prompt}. "),
        say("answering ${prompt}: "),
        stream("tick tock ", 20, 5),
        say(&numbered(0)),
        stream("tock tick ", 20, 5),
        say("that was ${prompt}.\n"),
    ])
}
