//! F26: the connection breaks after every byte of a conversation, in both directions.

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Outcome, ask, quiet, settled};
use crate::chaos::{Cut, Direction, Road};
use crate::client::AcpClient;
use crate::program::{DEADLINE, Program};
use crate::raw::{RawSocket, address};

/// Breaks the connection after every `stride`th byte; after each break the client comes back,
/// repeats its prompt by its id, and finds that it ran once.
///
/// # Errors
/// If a prompt ran twice or not at all, or something was left behind.
pub async fn resets(server: &Program, stride: usize) -> Outcome {
    let road = Road::open(address(server), None).await;
    let whole = converse(server, road.travel().await).await;
    if !whole.is_answered {
        return Err("the conversation does not work without a break".to_owned());
    }
    let baseline = settled(server).await;
    let (mut cuts, mut repeated) = (0, 0);
    for direction in [Direction::Up, Direction::Down] {
        // Beyond the last byte nothing breaks.
        for after in (0..road.passed(direction)).step_by(stride.max(1)) {
            let cut = Cut { direction, after };
            let broken = Road::open(address(server), Some(cut)).await;
            let reached = converse(server, broken.travel().await).await;
            repeated += come_back(server, reached, cut).await?;
            cuts += 1;
        }
    }
    let now = settled(server).await;
    quiet(server)?;
    if now > baseline + super::SPARE_FILES {
        return Err(format!(
            "{now} open files after {cuts} breaks, {baseline} before"
        ));
    }
    Ok(format!(
        "F26 {cuts} breaks, {repeated} prompts repeated by id: each ran once; {baseline} open files before, {now} after"
    ))
}

/// How far a conversation came.
#[derive(Default)]
struct Reached {
    session: Option<String>,
    is_answered: bool,
}

/// Upgrade, initialize, a session, a prompt: until it is answered or the connection breaks.
async fn converse(server: &Program, stream: TcpStream) -> Reached {
    let mut reached = Reached::default();
    let talking = async {
        let opened = RawSocket::try_open(stream, address(server), server.token(), "").await;
        let mut socket = opened.ok()?;
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
        ask(&mut socket, "initialize", hello).await?;
        let new = json!({"cwd": server.home().workspace(), "mcpServers": []});
        let made = ask(&mut socket, "session/new", new).await?;
        let session = made["result"]["sessionId"].as_str()?.to_owned();
        reached.session = Some(session.clone());
        ask(&mut socket, "session/prompt", prompt(&session)).await?;
        reached.is_answered = true;
        Some(())
    };
    // Broken or not, it is over then.
    let _ = timeout(DEADLINE, talking).await;
    reached
}

fn prompt(session: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": "read"}],
        "_meta": {"fastness": {"promptId": "once"}}})
}

/// Attaches anew, repeats the prompt, and counts how often it ran; gives how many were repeated.
async fn come_back(server: &Program, reached: Reached, cut: Cut) -> Result<u64, String> {
    // Whoever never heard of a session has nothing to come back to.
    let Some(session) = reached.session else {
        return Ok(0);
    };
    let mut client = AcpClient::connect_ws(server).await;
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{cut:?}: {what}: {error}");
    let loaded = client.load_session(&session).await;
    loaded.map_err(|error| failed("the session does not load", &error))?;
    let answer = client.call("session/prompt", prompt(&session)).await;
    let answer = answer.map_err(|error| failed("the repeated prompt", &error))?;
    client.leave().await;
    if answer["stopReason"] != "end_turn" {
        return Err(failed("the repeated prompt", &answer));
    }
    let events = server.home().events(&session);
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    let ran = (
        count("user.message"),
        count("turn.started"),
        count("tool.use"),
    );
    if ran != (1, 1, 1) {
        return Err(failed(
            "prompt, turn and tool ran",
            &format!("{ran:?} times"),
        ));
    }
    Ok(1)
}
