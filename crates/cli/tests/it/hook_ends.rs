//! How hooks end that do not end by themselves: with their turn, their session, their server.

use std::path::PathBuf;

use serde_json::json;
use testkit::{AcpClient, Home, Program, RequestId, wait_for};

use crate::hooks::{hook, lives, ran, serve, writing};
use crate::support::FORCED;

/// A hook that hangs, and whose child does; the child's number is in `pid`.
const STUCK: &str = "sleep 1000 & echo $! > part; mv part pid; wait";

fn stuck_at(point: &str) -> String {
    hook(point, STUCK) + "timeout_ms = 600000\n"
}

fn pid(home: &Home) -> PathBuf {
    home.workspace().join("pid")
}

/// A client with a session in which `prompt` was sent, whose hook hangs by now.
async fn stuck_in(server: &Program, prompts: &[&str]) -> (AcpClient, String, RequestId) {
    let mut client = AcpClient::connect_ws(server).await;
    let session = client.new_session().await;
    // Nobody reads questions while the hook is waited for, so none is asked.
    let edits = json!({"sessionId": session, "modeId": "acceptEdits"});
    client.call("session/set_mode", edits).await.unwrap();
    let (last, before) = prompts.split_last().unwrap();
    for prompt in before {
        client.prompt(&session, prompt).await;
    }
    let prompt = client.start_prompt(&session, last).await;
    let pid = pid(server.home());
    wait_for("the hook runs", || pid.exists()).await;
    (client, session, prompt)
}

#[tokio::test]
async fn d_07_cancel_ends_a_hook_at_any_point_and_all_that_it_started() {
    for (point, prompts) in [
        ("SessionStart", &["go"][..]),
        ("UserPromptSubmit", &["go"]),
        ("BeforeModelCall", &["go"]),
        ("AfterModelCall", &["go"]),
        ("PreToolUse", &["go"]),
        ("PostToolUse", &["go"]),
        ("Stop", &["go"]),
        ("SessionCompacting", &["go", "/compact"]),
    ] {
        let mut server = serve(writing(), &stuck_at(point)).await;
        let (mut client, session, prompt) = stuck_in(&server, prompts).await;
        client.cancel(&session).await;
        let answer = client.finish_prompt(&session, &prompt).await.unwrap();
        assert_eq!(answer.stop_reason, "cancelled", "{point}");
        let pid = pid(server.home());
        wait_for("the hook's child ends", || !lives(&pid)).await;
        let events = server.home().events(&session);
        let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(count("tool.use"), count("tool.result"), "{point}");
        assert_eq!(count("compaction"), 0, "{point}");
        let last = ran(server.home(), &session).pop().unwrap();
        assert_eq!((&*last.0, &*last.2), (point, "the turn was cancelled"));
        let log = server.whole_log().await;
        assert!(!log.contains(FORCED), "{point}: {log}");
    }
}

#[tokio::test]
async fn d_07_a_killed_server_leaves_no_hook_running() {
    let mut server = serve(writing(), &stuck_at("BeforeModelCall")).await;
    let (_client, ..) = stuck_in(&server, &["go"]).await;
    let pid = pid(server.home());
    assert!(lives(&pid));
    server.kill9().await;
    wait_for("the hook's child ends", || !lives(&pid)).await;
}

#[tokio::test]
async fn d_07_a_hook_of_the_end_that_hangs_holds_up_closing_only_for_a_while() {
    let server = serve(writing(), &stuck_at("SessionEnd")).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let edits = json!({"sessionId": session, "modeId": "acceptEdits"});
    client.call("session/set_mode", edits).await.unwrap();
    client.prompt(&session, "go").await;
    let close = json!({"sessionId": session});
    client.call("session/close", close).await.unwrap();
    let pid = pid(server.home());
    wait_for("the hook's child ends", || !lives(&pid)).await;
    let last = ran(server.home(), &session).pop().unwrap();
    assert_eq!((&*last.0, &*last.1), ("SessionEnd", "timed_out"));
    // It is closed, and can be opened again.
    let events = server.home().events(&session);
    assert_eq!(events.last().unwrap()["type"], "session.closed");
    client.load_session(&session).await.unwrap();
    assert_eq!(
        client.prompt(&session, "again").await.stop_reason,
        "end_turn"
    );
}

#[tokio::test]
async fn d_07_a_hook_of_the_end_that_hangs_holds_up_a_shutdown_only_for_a_while() {
    let mut server = serve(writing(), &stuck_at("SessionEnd")).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let edits = json!({"sessionId": session, "modeId": "acceptEdits"});
    client.call("session/set_mode", edits).await.unwrap();
    client.prompt(&session, "go").await;
    assert_eq!(server.terminate().await.code(), Some(0));
    let pid = pid(server.home());
    wait_for("the hook's child ends", || !lives(&pid)).await;
    let last = ran(server.home(), &session).pop().unwrap();
    assert_eq!((&*last.0, &*last.1), ("SessionEnd", "timed_out"));
}
