//! Tool servers through real sessions: who may name them, how often they start, and how they end.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program, wait_for};

use crate::hooks::configure;
use crate::project::run;
use crate::support::binary;

/// A server in a few lines: `echo` says what it is told, `die` ends it, `hang` answers nothing. It notes
/// each start and each call in the session's directory.
const SERVER: &str = r#"
import json, os, sys
def note(word):
    with open("noted", "a") as file:
        file.write(word + "\n")
note("start %d" % os.getpid())
def say(message):
    print(json.dumps(message), flush=True)
tools = [{"name": name, "description": "does " + name, "inputSchema": {"type": "object"}}
         for name in ("echo", "die", "hang", "structured")]
tools[3]["outputSchema"] = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        say({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "small", "version": "1"}}})
    elif method == "tools/list":
        say({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}})
    elif method == "tools/call":
        name, given = asked["params"]["name"], asked["params"].get("arguments", {})
        note("call " + name)
        if name == "die":
            print("I have had enough", file=sys.stderr, flush=True)
            sys.exit(7)
        if name == "structured":
            say({"jsonrpc": "2.0", "id": id, "result": {"content": [],
                "structuredContent": {"n": given["n"]}}})
        if name == "echo":
            text = given["say"] * given.get("times", 1)
            say({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
    elif id is not None:
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}})
"#;

fn named() -> Value {
    json!({"name": "small", "command": "python3", "args": ["-c", SERVER], "env": []})
}

/// A home whose sandbox shows the Python that this machine has.
pub(crate) fn home_with(script: impl Into<Value>) -> Home {
    testkit::system::need("python3");
    // However slow the machine is, a server that starts at all is there for the first turn.
    let home = Home::new(binary(), script).env("FASTNESS_LIMITS_MCP_GRACE_MS", 20_000);
    #[expect(
        clippy::disallowed_methods,
        reason = "where this machine keeps its Python"
    )]
    match std::env::var("PYENV_ROOT") {
        Ok(root) => home.env("PYENV_ROOT", root),
        Err(_) => home,
    }
}

/// What the server noted that begins with `word`.
fn noted(home: &Home, word: &str) -> Vec<String> {
    let noted = home.read("noted").unwrap_or_default();
    let noted = noted.lines().filter(|line| line.starts_with(word));
    noted.map(str::to_owned).collect()
}

async fn new_session(client: &mut AcpClient, home: &Home, servers: Value) -> Value {
    let params = json!({"cwd": home.workspace(), "mcpServers": servers});
    client.call("session/new", params).await.unwrap()
}

fn session_of(result: &Value) -> String {
    result["sessionId"].as_str().unwrap().to_owned()
}

fn calling(name: &str, input: Value) -> Script {
    Script::new()
        .call([tool(&format!("mcp__small__{name}"), input)])
        .call([say("result: ${result}")])
}

#[tokio::test]
async fn a_server_that_a_client_names_belongs_to_that_session_and_ends_with_it() {
    let script = calling("echo", json!({"say": "hello"}));
    let server = Program::serve_in(home_with(script)).await;
    let home = server.home();
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let with = new_session(&mut client, home, json!([named()])).await;
    assert_eq!(with["_meta"]["fastness"]["ignored"], Value::Null, "{with}");
    let with = session_of(&with);
    let answer = client.prompt(&with, "go").await;
    assert_eq!(answer.text, "result: hello");
    let events = home.events(&with);
    let asked = events
        .iter()
        .any(|event| event["type"] == "permission.asked");
    assert!(asked, "it was asked about");
    let without = client.new_session().await;
    let answer = client.prompt(&without, "go").await;
    assert!(answer.text.contains("There is no tool"), "{}", answer.text);
    let starts = noted(home, "start");
    assert_eq!(starts.len(), 1, "{starts:?}");
    assert!(!is_gone(home), "it lives as long as the session");
    let close = json!({"sessionId": with});
    client.call("session/close", close).await.unwrap();
    wait_for("the server to end", || is_gone(home)).await;
}

/// Whether no process of the server is left. Inside the sandbox its number is another, so it is known
/// by what it runs.
fn is_gone(home: &Home) -> bool {
    let mark = home.workspace().to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    !processes.into_iter().any(|process| {
        let cwd = std::fs::read_link(process.path().join("cwd")).unwrap_or_default();
        let command = std::fs::read_to_string(process.path().join("cmdline"));
        command.is_ok_and(|line| line.contains("I have had enough"))
            && cwd.to_string_lossy().contains(&mark)
    })
}

#[tokio::test]
async fn a_11_of_twenty_first_prompts_one_starts_the_servers() {
    let server = Program::serve_in(home_with(Script::says("hi"))).await;
    let home = server.home();
    let mut client = AcpClient::connect_ws(&server).await;
    let session = session_of(&new_session(&mut client, home, json!([named()])).await);
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}],
            "_meta": {"fastness": {"queue": true}}});
        waiting.push(client.start("session/prompt", prompt).await);
    }
    for id in waiting {
        // More than may wait are refused; none of them starts anything.
        let _ = client.wait(&id).await;
    }
    // The one start may still be under way; what must not come is a second.
    wait_for("the server to start", || !noted(home, "start").is_empty()).await;
    client.prompt(&session, "once more").await;
    assert_eq!(noted(home, "start").len(), 1);
}

#[tokio::test]
async fn a_dead_server_is_started_again_and_its_call_is_not_repeated() {
    let script = Script::new()
        .call([tool("mcp__small__die", json!({}))])
        .call([say("first: ${result}")])
        .call([tool("mcp__small__echo", json!({"say": "back"}))])
        .call([say("second: ${result}")]);
    let home = home_with(script);
    let mcp = format!(
        "[mcp.small]\ncommand = \"python3\"\nargs = [\"-c\", '''{SERVER}''']\nrequired = true\n\
         deny = [\"hang\"]\n[permissions]\nallow = [\"mcp__small__*\"]\n"
    );
    configure(&home, &mcp);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let first = client.prompt(&session, "go").await.text;
    assert!(first.contains("may have run"), "{first}");
    assert!(
        first.contains("I have had enough"),
        "its last words: {first}"
    );
    let second = client.prompt(&session, "go").await.text;
    assert_eq!(second, "second: back");
    let home = server.home();
    assert_eq!(noted(home, "start").len(), 2);
    assert_eq!(noted(home, "call die").len(), 1, "never sent again");
    let (listed, code) = run(home, "mcp", &["list"]).await;
    assert_eq!(code, Some(0), "{listed}");
    assert!(
        listed.contains("small: ready") && listed.contains("mcp__small__echo"),
        "{listed}"
    );
    assert!(!listed.contains("mcp__small__hang"), "denied: {listed}");
}

#[tokio::test]
async fn a_long_result_goes_to_a_file_and_a_wrong_form_is_an_error() {
    let script = Script::new()
        .call([tool(
            "mcp__small__echo",
            json!({"say": "0123456789\n", "times": 50_000}),
        )])
        .call([say("long: ${result}")])
        .call([tool("mcp__small__structured", json!({"n": 5}))])
        .call([say("right: ${result}")])
        .call([tool("mcp__small__structured", json!({"n": "five"}))])
        .call([say("wrong: ${result}")]);
    let server = Program::serve_in(home_with(script)).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let created = new_session(&mut client, server.home(), json!([named()])).await;
    let session = session_of(&created);
    let long = client.prompt(&session, "go").await.text;
    assert!(
        long.len() < 200_000 && long.contains("can be read as output:"),
        "{}",
        long.len()
    );
    assert_eq!(client.prompt(&session, "go").await.text, "right: {\"n\":5}");
    let wrong = client.prompt(&session, "go").await.text;
    assert!(
        wrong.contains("not of the form that it has announced"),
        "{wrong}"
    );
}

#[tokio::test]
async fn the_servers_of_a_project_count_once_they_are_approved_and_until_they_change() {
    let home = home_with(calling("echo", json!({"say": "hello"})));
    let file = json!({"mcpServers": {"small": {"command": "python3", "args": ["-c", SERVER],
        "required": true}}});
    home.write(".mcp.json", &file.to_string());
    let server = Program::serve_in(home).await;
    let home = server.home();
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let text = client.prompt(&session, "go").await.text;
    assert!(text.contains("There is no tool"), "{text}");
    let (shown, _) = run(home, "approve", &["--yes"]).await;
    assert!(
        shown.contains("run the tool server small: python3"),
        "{shown}"
    );
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text, "result: hello");
    home.write(".mcp.json", &format!("{file} "));
    let session = client.new_session().await;
    let text = client.prompt(&session, "go").await.text;
    assert!(
        text.contains("There is no tool"),
        "changed by one byte: {text}"
    );
}
