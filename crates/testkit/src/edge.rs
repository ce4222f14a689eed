//! The edge under strain: many clients that come, go, break off, dawdle and flood.
//!
//! Each function is one harness: a test runs it with small numbers, `cargo xtask soak edge` with
//! those of the fault list. All give one line that says what was measured, or what went wrong.

mod flood;
mod resets;
mod rush;
mod slow;
mod stalled;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::client::AcpClient;
use crate::home::Home;
use crate::program::Program;
use crate::raw::{Frame, Heard, RawSocket, opcode};
use crate::script::{Script, say, tool};
use crate::wait::wait_for;

pub use self::flood::{Flood, Told};
pub use self::resets::resets;
pub use self::rush::{neighbours, storm};
pub use self::slow::slow_headers;
pub use self::stalled::{is_given_up, stalled};

/// Clients that come and go at the same time.
const AT_ONCE: usize = 40;

/// Descriptors that may be open beyond those of a server that nobody uses.
const SPARE_FILES: usize = 2;

/// What a harness found, or what went wrong.
pub type Outcome = Result<String, String>;

/// A home whose sessions leave memory soon, with a model that reads a file and says what is in it.
#[must_use]
pub fn home(binary: &std::path::Path) -> Home {
    let reads = tool("read", json!({"path": "notes.txt"}));
    let script = Script::new().call([reads]).call([say("${result}")]);
    let home = Home::new(binary, script)
        .env("FASTNESS_LOG", "warn")
        .env("FASTNESS_LIMITS_GRACE_MS", 200);
    home.write("notes.txt", "what the tool reads");
    home
}

/// Lets this process, and the programs it starts, have as many open files as the system allows.
///
/// # Errors
/// If it is not enough for `wanted`.
pub fn raise_open_files(wanted: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, most).map_err(|error| format!("no more open files: {error}"))?;
    match now.maximum {
        Some(maximum) if maximum < wanted => Err(format!(
            "{wanted} open files are needed and the system allows {maximum} (`ulimit -Hn`)"
        )),
        _ => Ok(()),
    }
}

/// F21: clients come and go, one in ten runs a tool; afterwards no descriptor is left over.
///
/// # Errors
/// If one is, or a client was not served.
pub async fn churn(server: &Program, connections: usize) -> Outcome {
    // What a server opens once and keeps, it has opened after this.
    join_all((0..AT_ONCE).map(|number| visit(server, number))).await;
    let baseline = settled(server).await;
    let (mut done, mut tools) = (0, 0);
    while done < connections {
        let batch = AT_ONCE.min(connections - done);
        let visits = join_all((done..done + batch).map(|number| visit(server, number))).await;
        tools += visits.into_iter().filter(|ran_tool| *ran_tool).count();
        done += batch;
    }
    wait_for("every descriptor is free again", || {
        server.open_files() <= baseline + SPARE_FILES
    })
    .await;
    let now = server.open_files();
    quiet(server)?;
    Ok(format!(
        "F21 {done} connections, {tools} tool runs: {baseline} open files before, {now} after"
    ))
}

/// One client's visit; says whether it ran a tool. They leave in different ways.
async fn visit(server: &Program, number: usize) -> bool {
    if number.is_multiple_of(10) {
        let mut client = AcpClient::connect_ws(server).await;
        let session = client.new_session().await;
        let answer = client.prompt(&session, "read").await;
        assert_eq!(answer.text, "1\twhat the tool reads");
        client.leave().await;
        return true;
    }
    let mut socket = RawSocket::open(server).await;
    match number % 4 {
        0 => socket.reset(),
        1 => drop(socket),
        2 => {
            let hello = json!({"protocolVersion": 1});
            socket.call("initialize", hello).await;
            socket.reset();
        }
        _ => {
            socket.send(&Frame::last(opcode::CLOSE, *b"\x03\xe8")).await;
            assert_eq!(socket.close_code().await, Some(1000));
        }
    }
    false
}

/// ws-12: one client floods the server with pings and never reads.
///
/// # Errors
/// If the server grows, or no longer serves others.
pub async fn pings(server: &Program, count: usize) -> Outcome {
    const MEMORY_MAX: u64 = 8 * 1024 * 1024;
    let mut socket = RawSocket::initialized(server).await;
    let before = server.resident_bytes();
    let hundred = Frame::last(opcode::PING, vec![b'p'; 100])
        .to_bytes()
        .repeat(100);
    let mut sent = 0;
    while sent < count && socket.bytes(&hundred).await {
        sent += 100;
    }
    visit(server, 0).await;
    let grown = server.resident_bytes().saturating_sub(before);
    let end = match sent < count {
        true => format!("was closed with {:?}", socket.close_code().await),
        false => "was served to the end".to_owned(),
    };
    if grown > MEMORY_MAX {
        return Err(format!(
            "{sent} pings made the server grow by {grown} bytes"
        ));
    }
    Ok(format!(
        "ws-12 {sent} pings: {grown} bytes more, the client {end}"
    ))
}

/// Sends a request; gives its answer, or `None` if the connection breaks first.
async fn ask(socket: &mut RawSocket, method: &str, params: Value) -> Option<Value> {
    let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
    socket.text(&request.to_string()).await;
    loop {
        match socket.hear().await {
            Heard::Text(text) => {
                let message: Value = serde_json::from_str(&text).ok()?;
                if message["id"] == method {
                    return Some(message);
                }
            }
            Heard::Frame { .. } => {}
            Heard::Close(_) | Heard::End => return None,
        }
    }
}

/// The number of open files once nobody uses the server.
async fn settled(server: &Program) -> usize {
    let (mut last, mut same) = (server.open_files(), 0);
    // Sessions leave memory a moment after their clients; then the number stays.
    while same < 10 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = server.open_files();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// Fails if the server has logged something that it should not have had to.
fn quiet(server: &Program) -> Result<(), String> {
    let log = server.stderr();
    if log.contains("panicked") || log.contains("ERROR") {
        return Err(format!("the server said:\n{log}"));
    }
    Ok(())
}
