//! The official conformance suite of MCP, against our program as a client: everything that a revision
//! of the protocol requires of one.

use std::sync::Arc;

use serde_json::json;
use testkit::{Home, Peer, peers};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::support::binary;

/// Scenarios at once: each is a program of Node and one of ours.
const AT_ONCE: usize = 3;

/// How long a client may take, in milliseconds: on a busy machine everything does.
const TIMEOUT: &str = "60000";

/// Runs the suite; what it prints, and whether it was content.
async fn suite(home: &Home, arguments: &[&str]) -> (String, bool) {
    let mut command = home.clean(peers::script());
    // Where the suite is installed is the script's to know.
    if let Some(peers) = std::env::var_os("FASTNESS_PEERS_DIR") {
        command.env("FASTNESS_PEERS_DIR", peers);
    }
    command.arg("conformance").args(arguments);
    let output = command.output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (text, output.status.success())
}

/// The scenarios for clients that `revision` requires.
async fn required(home: &Home, revision: &str) -> Vec<String> {
    let (listed, _) = suite(home, &["list", "--client", "--requirements", revision]).await;
    let (_, clients) = listed.split_once("Client scenarios").unwrap();
    let lines = clients.lines().skip(1).map(str::trim);
    let names = lines.map_while(|line| line.strip_prefix("- "));
    names.map(str::to_owned).collect()
}

/// One scenario by itself; what the suite says if it is not content.
async fn failure(home: &Home, revision: &str, scenario: &str) -> Option<String> {
    let ours = home.binary().to_str().unwrap().to_owned();
    let data = home.data_dir().join(scenario.replace('/', "-"));
    let ours = format!("{ours} mcp conformance --data-dir {}", data.display());
    let (text, is_content) = suite(
        home,
        &[
            "client",
            "--command",
            &ours,
            "--scenario",
            scenario,
            "--spec-version",
            revision,
            "--timeout",
            TIMEOUT,
        ],
    )
    .await;
    // One that does not apply is left out, and says so.
    let is_run = text.contains("OVERALL");
    (!is_content || !is_run).then(|| format!("== {scenario} of {revision}\n{text}"))
}

async fn check(revision: &'static str, scenarios_min: usize) {
    let installed = peers::ensure(Peer::McpConformance);
    assert!(installed.is_dir());
    let home = Arc::new(Home::new(binary(), json!([])));
    let scenarios = required(&home, revision).await;
    assert!(scenarios.len() >= scenarios_min, "{scenarios:?}");
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for scenario in scenarios {
        let (home, room) = (Arc::clone(&home), Arc::clone(&room));
        running.spawn(async move {
            let _permit = room.acquire_owned().await;
            failure(&home, revision, &scenario).await
        });
    }
    let failures: Vec<String> = running.join_all().await.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn peer_mcp_suite_is_content_with_us_as_a_client_of_2025_11_25() {
    check("2025-11-25", 18).await;
}

#[tokio::test]
async fn peer_mcp_suite_is_content_with_us_as_a_client_of_2026_07_28() {
    check("2026-07-28", 32).await;
}
