//! Calls of tool servers' tools as clients and servers see them, and the processes that are left: none.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program, wait_for};

use crate::hooks::configure;
use crate::mcp::home_with;

/// A server that says how far it is and what it thinks (`work`), waits to be told to stop (`wait`), and ends for no
/// reason but a kill: not for the end of its input, not for a signal. It has a child that has left it.
const SERVER: &str = r#"
import json, os, signal, sys, time
def note(word):
    with open("noted", "a") as file:
        file.write(word + "\n")
def say(message):
    message["jsonrpc"] = "2.0"
    print(json.dumps(message), flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    for stream in (0, 1, 2):
        os.close(stream)
    note("child")
    while True:
        time.sleep(60)
for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "initialize":
        say({"id": id, "result": {"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "stubborn", "version": "1"}}})
    elif method == "tools/list":
        say({"id": id, "result": {"tools": [{"name": name, "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True, "destructiveHint": False}} for name in ("work", "wait")]}})
    elif method == "tools/call" and params["name"] == "work":
        token = params["_meta"]["progressToken"]
        say({"method": "notifications/message", "params": {"level": "warning", "data": "this is hard"}})
        say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 2,
            "message": "half way there"}})
        # A client hears of the newest only, so the end waits until this was heard.
        while not os.path.exists("heard"):
            time.sleep(0.01)
        say({"id": id, "result": {"content": [{"type": "text", "text": "worked"}]}})
    elif method == "tools/call":
        note("waits %s" % json.dumps(id))
    elif method == "notifications/cancelled":
        note("cancelled %s" % json.dumps(params["requestId"]))
    elif id is not None:
        say({"id": id, "error": {"code": -32601, "message": "unknown"}})
while True:
    time.sleep(60)
"#;

async fn serve(name: &str) -> (Program, AcpClient, String) {
    let script = Script::new()
        .call([tool(&format!("mcp__stubborn__{name}"), json!({}))])
        .call([say("result: ${result}")]);
    let home = home_with(script).env("FASTNESS_LOG", "debug");
    configure(&home, "[permissions]\nallow = [\"mcp__stubborn__wait\"]\n");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let named =
        json!({"name": "stubborn", "command": "python3", "args": ["-c", SERVER], "env": []});
    let params = json!({"cwd": server.home().workspace(), "mcpServers": [named]});
    let session = client.call("session/new", params).await.unwrap();
    let session = session["sessionId"].as_str().unwrap().to_owned();
    (server, client, session)
}

fn noted(home: &Home, word: &str) -> Option<String> {
    let noted = home.read("noted").unwrap_or_default();
    let mut noted = noted.lines().filter_map(|line| line.strip_prefix(word));
    noted.next().map(|rest| rest.trim().to_owned())
}

/// Processes of the server, and of its child.
fn processes(home: &Home) -> usize {
    let mark = home.workspace().to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let ours = all.filter(|process| {
        let cwd = std::fs::read_link(process.path().join("cwd")).unwrap_or_default();
        let command = std::fs::read_to_string(process.path().join("cmdline"));
        command.is_ok_and(|line| line.contains("this is hard"))
            && cwd.to_string_lossy().contains(&mark)
    });
    ours.count()
}

#[tokio::test]
async fn a_client_sees_how_far_a_call_is_and_the_log_has_what_the_server_says() {
    let (server, mut client, session) = serve("work").await;
    let running = client.start_prompt(&session, "go").await;
    let is_half = |update: &Value| update.to_string().contains("half way there (1 of 2)");
    client.updates_until(|update| is_half(&update.update)).await;
    server.home().write("heard", "");
    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.text, "result: worked");
    let asked = client.requests().len();
    assert_eq!(
        asked, 1,
        "what a server says of its own tool changes nothing"
    );
    wait_for("the log to have it", || {
        server.stderr().contains("a tool server says: this is hard")
    })
    .await;
}

#[tokio::test]
async fn a_server_is_told_which_call_nobody_waits_for_any_more() {
    let (server, mut client, session) = serve("wait").await;
    let running = client.start_prompt(&session, "go").await;
    let home = server.home();
    wait_for("the call to arrive", || noted(home, "waits").is_some()).await;
    client.cancel(&session).await;
    let answer = client.finish_prompt(&session, &running).await.unwrap();
    assert_eq!(answer.stop_reason, "cancelled");
    wait_for("the server to be told", || {
        noted(home, "cancelled").is_some()
    })
    .await;
    assert_eq!(noted(home, "cancelled"), noted(home, "waits"));
}

#[tokio::test]
async fn a_server_that_ends_for_no_reason_ends_with_its_session_and_so_does_its_child() {
    let (server, mut client, session) = serve("wait").await;
    let home = server.home();
    let running = client.start_prompt(&session, "go").await;
    wait_for("the call to arrive", || noted(home, "waits").is_some()).await;
    assert!(processes(home) >= 2, "it and its child");
    let close = json!({"sessionId": session});
    client.call("session/close", close).await.unwrap();
    let _ = client.finish_prompt(&session, &running).await;
    wait_for("both to end", || processes(home) == 0).await;
}

#[tokio::test]
async fn nothing_of_a_tool_server_outlives_a_server_that_is_killed() {
    let (mut server, mut client, session) = serve("wait").await;
    client.start_prompt(&session, "go").await;
    let home = server.home();
    wait_for("the call to arrive", || noted(home, "waits").is_some()).await;
    assert!(processes(home) >= 2, "it and its child");
    server.kill9().await;
    let home = server.home();
    wait_for("both to end", || processes(home) == 0).await;
}

#[tokio::test]
async fn a_program_that_never_begins_ends_with_its_session() {
    let server = Program::serve_in(home_with(Script::says("hi"))).await;
    let home = server.home();
    let mut client = AcpClient::connect_ws(&server).await;
    // It hears nothing, and says nothing.
    let deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
                open('noted', 'w').write('this is hard')\nwhile True: time.sleep(60)";
    let named = json!({"name": "deaf", "command": "python3", "args": ["-c", deaf], "env": []});
    let params = json!({"cwd": home.workspace(), "mcpServers": [named]});
    let session = client.call("session/new", params).await.unwrap();
    wait_for("the program to run", || home.read("noted").is_some()).await;
    assert!(processes(home) >= 1);
    let close = json!({"sessionId": session["sessionId"]});
    client.call("session/close", close).await.unwrap();
    wait_for("it to end", || processes(home) == 0).await;
}
