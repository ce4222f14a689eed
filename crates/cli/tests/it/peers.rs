//! Real clients, written by others, complete a whole story against the real program.
//!
//! New session, streamed answer, allowed tool call, rejected tool call, a turn cancelled while it
//! streams and one while it asks (which acpx has no way to do); then a new connection loads the
//! session and finds all of it. Each peer is a small program under
//! `crates/cli/tests/peers`; `scripts/peers.sh` installs it if it is missing.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::script::{Script, say, stream, tool};
use testkit::{Home, Peer, Program};

/// What the model answers to the first prompt, in two chunks.
pub(crate) const HELLO: &str = "Hello from the script.";
/// The file that a permitted call writes, and what it writes.
pub(crate) const ALLOWED: &str = "allowed.txt";
pub(crate) const CONTENT: &str = "written";
/// The file that a rejected call would have written.
pub(crate) const REJECTED: &str = "rejected.txt";
/// The file that a call would have written whose turn was cancelled while it was asked about.
pub(crate) const OPEN: &str = "open.txt";
/// What the turn that gets cancelled says, over and over.
pub(crate) const ENDLESS: &str = "tick ";

/// Far above what the story takes: acpx starts a dozen processes, slowly on a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// The program under test.
pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_fastness")
}

/// The model of the story, one call after the other.
pub(crate) fn script() -> Script {
    story()
        .call([tool("write", json!({"path": OPEN, "content": "never"}))])
        .call([say(HELLO)])
}

fn script_of(peer: Peer) -> Script {
    if peer == Peer::Acpx {
        return story().call([say(HELLO)]);
    }
    script()
}

/// What all peers do.
fn story() -> Script {
    Script::new()
        .call([say("Hello "), say("from the script.")])
        .call([tool("write", json!({"path": ALLOWED, "content": CONTENT}))])
        .call([say("It is written.")])
        .call([tool("write", json!({"path": REJECTED, "content": "never"}))])
        .call([say("It is not written.")])
        .call([stream(ENDLESS, 6_000, 10)])
}

#[tokio::test]
async fn typescript_sdk_over_stdio_completes_the_story() {
    over_stdio(Peer::TypeScript).await;
}

#[tokio::test]
async fn typescript_sdk_over_websocket_completes_the_story() {
    over_websocket(Peer::TypeScript).await;
}

#[tokio::test]
async fn python_sdk_over_stdio_completes_the_story() {
    over_stdio(Peer::Python).await;
}

#[tokio::test]
async fn python_sdk_over_websocket_completes_the_story() {
    over_websocket(Peer::Python).await;
}

#[tokio::test]
async fn typescript_sdk_over_http_completes_the_story() {
    over_http(Peer::TypeScript).await;
}

#[tokio::test]
async fn python_sdk_over_http_completes_the_story() {
    over_http(Peer::Python).await;
}

#[tokio::test]
async fn acpx_over_stdio_completes_the_story() {
    over_stdio(Peer::Acpx).await;
}

#[tokio::test]
async fn typescript_sdk_over_the_bridge_completes_the_story() {
    over_bridge(Peer::TypeScript).await;
}

#[tokio::test]
async fn python_sdk_over_the_bridge_completes_the_story() {
    over_bridge(Peer::Python).await;
}

#[tokio::test]
async fn acpx_over_the_bridge_completes_the_story() {
    over_bridge(Peer::Acpx).await;
}

async fn over_bridge(peer: Peer) {
    let server = Program::serve(binary(), script_of(peer)).await;
    let mut command = vec![binary().to_owned()];
    command.extend(server.home().arguments("acp"));
    command.extend(["--server".to_owned(), "local".to_owned()]);
    if let Err(printed) = run(peer, server.home(), json!({"command": command})).await {
        panic!("{printed}--- what the server logged\n{}", server.stderr());
    }
}

async fn over_stdio(peer: Peer) {
    let home = Home::new(binary(), script_of(peer));
    let mut command = vec![binary().to_owned()];
    command.extend(home.arguments("acp"));
    if let Err(printed) = run(peer, &home, json!({"command": command})).await {
        panic!("{printed}");
    }
}

async fn over_websocket(peer: Peer) {
    let server = Program::serve(binary(), script_of(peer)).await;
    over_network(peer, &server, server.acp_url()).await;
}

async fn over_http(peer: Peer) {
    let server = Program::serve(binary(), script_of(peer)).await;
    over_network(peer, &server, format!("{}/acp", server.url())).await;
}

async fn over_network(peer: Peer, server: &Program, url: String) {
    let place = json!({"url": url, "token": server.token()});
    if let Err(printed) = run(peer, server.home(), place).await {
        panic!("{printed}--- what the server logged\n{}", server.stderr());
    }
}

/// Has a peer tell the story; if it does not end well, gives what it printed.
async fn run(peer: Peer, home: &Home, place: Value) -> Result<(), String> {
    let plan = json!({
        "hello": HELLO, "allowed": ALLOWED, "content": CONTENT, "rejected": REJECTED,
        "endless": ENDLESS, "open": OPEN,
    });
    follow(peer, home, plan, &place).await?;
    assert_eq!(home.read(ALLOWED).as_deref(), Some(CONTENT));
    assert_eq!(home.read(REJECTED), None);
    assert_eq!(home.read(OPEN), None);
    Ok(())
}

/// Runs a peer to its end; if that is not a good one, gives what it printed.
pub(crate) async fn follow(
    peer: Peer,
    home: &Home,
    mut plan: Value,
    place: &Value,
) -> Result<(), String> {
    plan["workspace"] = json!(home.workspace());
    for (key, value) in place.as_object().into_iter().flatten() {
        plan[key] = value.clone();
    }
    // Installed with the caller's environment; the peer itself runs in the clean one.
    let installed = testkit::peers::ensure(peer);
    let mut command = home.clean(testkit::peers::script());
    command.args(["run", peer.name(), &plan.to_string()]);
    command.env("FASTNESS_PEERS_DIR", installed.join(".."));
    let output = match tokio::time::timeout(DEADLINE, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(format!("{} does not start: {error}", peer.name())),
        Err(_) => return Err(format!("{} did not end in time", peer.name())),
    };
    if !output.status.success() {
        return Err(format!(
            "{} ended with {}\n--- what it printed\n{}{}",
            peer.name(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        ));
    }
    Ok(())
}
