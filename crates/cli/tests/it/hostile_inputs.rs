//! Hostile inputs, for every tool: wrong types, missing fields, paths that lead away, text that is
//! too long or no text. Each is a failed call that says so; nothing is touched and the session goes
//! on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};

use crate::lsp::with_language_server;
use crate::rejected::furnish;
use crate::support::binary;

/// Longest answer to an input that makes no sense: a model pays for each word.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Texts that name no file of the workspace.
fn paths() -> Vec<Value> {
    let mut paths: Vec<Value> = [
        "..",
        "../outside",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "away/outside",
        "kept/../../outside",
        "secret.txt/x",
        "secret.txt\0",
        "\0",
        "a\nb\x1b[31m\u{202e}",
        "output:../../token",
        "file:///etc/passwd",
        "~/outside",
    ]
    .map(Value::from)
    .to_vec();
    paths.extend([
        json!(5),
        json!(null),
        json!(["secret.txt"]),
        json!({"a": 1}),
        json!(true),
    ]);
    paths.push(json!("x".repeat(100_000)));
    paths.push(json!("d/".repeat(10_000)));
    paths
}

/// Inputs that no tool takes.
fn shapes() -> Vec<Value> {
    vec![json!([]), json!("secret.txt"), json!(5)]
}

/// `input` once for each hostile path in place of its own.
fn with_paths(input: &Value) -> Vec<Value> {
    let with = |path| {
        let mut input = input.clone();
        input["path"] = path;
        input
    };
    paths().into_iter().map(with).collect()
}

/// A tool, and inputs of it that must fail.
type Rows = Vec<(&'static str, Vec<Value>)>;

/// Inputs of each tool that must fail.
fn table() -> Rows {
    let groups = [
        of_files,
        of_searches,
        of_commands,
        of_the_web,
        of_the_session,
    ];
    groups.into_iter().flat_map(|group| group()).collect()
}

/// Longer than anything that is of use.
fn long() -> String {
    "x".repeat(300_000)
}

/// Of tools that read and change files.
fn of_files() -> Rows {
    vec![
        (
            "read",
            files(
                &json!({}),
                &[
                    json!({}),
                    json!({"path": ""}),
                    json!({"path": "."}),
                    json!({"path": "gone"}),
                    json!({"path": "secret.txt", "offset": -1}),
                    json!({"path": "secret.txt", "offset": 1.5}),
                    json!({"path": "secret.txt", "limit": "all"}),
                    json!({"path": "secret.txt", "limit": -5}),
                ],
            ),
        ),
        (
            "write",
            new_files(
                &json!({"content": "x"}),
                &[
                    json!({"content": "x"}),
                    json!({"path": "made"}),
                    json!({"path": "made", "content": null}),
                    json!({"path": "", "content": "x"}),
                    json!({"path": ".", "content": "x"}),
                    json!({"path": "kept", "content": "x"}),
                ],
            ),
        ),
        (
            "edit",
            files(
                &json!({"old": "s3cret", "new": "x"}),
                &[
                    json!({}),
                    json!({"path": "secret.txt"}),
                    json!({"path": "secret.txt", "old": "s3cret"}),
                    json!({"path": "secret.txt", "old": 1, "new": "x"}),
                    json!({"path": "secret.txt", "old": "", "new": "x"}),
                    json!({"path": "secret.txt", "old": "not there", "new": "x"}),
                    json!({"path": "secret.txt", "old": long(), "new": "x"}),
                    json!({"path": "secret.txt", "old": "s3cret", "new": "x", "replaceAll": "perhaps"}),
                    json!({"path": "secret.txt", "old": "s3cret", "new": "x", "replaceAll": "yes"}),
                    json!({"path": "code.py", "old": "s3cret", "new": "never read"}),
                ],
            ),
        ),
        (
            "notebook_edit",
            files(
                &json!({"cellId": "0", "source": "x"}),
                &[
                    json!({}),
                    json!({"path": "n.ipynb", "cellId": "0"}),
                    json!({"path": "n.ipynb", "cellId": "99", "source": "x"}),
                    json!({"path": "n.ipynb", "cellId": "-1", "source": "x"}),
                    json!({"path": "n.ipynb", "cellId": "0", "source": "x", "mode": "burn"}),
                    json!({"path": "n.ipynb", "cellId": "0", "source": "x", "kind": "picture"}),
                    json!({"path": "secret.txt", "cellId": "0", "source": "x"}),
                ],
            ),
        ),
    ]
}

/// Of tools that search.
fn of_searches() -> Rows {
    vec![
        ("list", list_inputs()),
        (
            "glob",
            [
                list_inputs_with(&json!({"pattern": "*"})),
                vec![
                    json!({}),
                    json!({"pattern": "["}),
                    json!({"pattern": "{a,b"}),
                    json!({"pattern": "a**b[z-a]"}),
                    json!({"pattern": "{".repeat(20_000)}),
                ],
            ]
            .concat(),
        ),
        (
            "grep",
            [
                list_inputs_with(&json!({"pattern": "s3cret"})),
                vec![
                    json!({}),
                    json!({"pattern": "("}),
                    json!({"pattern": "a\nb"}),
                    json!({"pattern": "(a{1000}){1000}{1000}"}),
                    json!({"pattern": "(".repeat(20_000)}),
                    json!({"pattern": "x", "glob": "["}),
                    json!({"pattern": "x", "context": -1}),
                    json!({"pattern": "x", "context": "all"}),
                ],
            ]
            .concat(),
        ),
    ]
}

/// Of tools that start programs.
fn of_commands() -> Rows {
    vec![
        (
            "bash",
            vec![
                json!({}),
                json!({"command": 5}),
                json!({"command": null}),
                json!({"command": {"run": "touch made"}}),
                json!({"command": "touch made", "timeoutMs": -1}),
                json!({"command": "touch made", "timeoutMs": "soon"}),
                json!({"command": "touch made", "timeoutMs": 1.5}),
                json!({"command": "touch made", "cwd": ".."}),
                json!({"command": "touch made", "cwd": "/"}),
                json!({"command": "touch made", "cwd": "away"}),
                json!({"command": "touch made", "cwd": 5}),
                json!({"command": "touch made", "cwd": "secret.txt"}),
                json!({"command": "touch made", "cwd": "kept\0"}),
                json!({"command": "touch made\0"}),
                json!({"command": format!("touch made {}", long())}),
                json!({"command": "if"}),
                json!({"command": "'"}),
            ],
        ),
        (
            "lsp",
            files(
                &json!({"operation": "symbols"}),
                &[
                    json!({}),
                    json!({"operation": "symbols"}),
                    json!({"path": "code.py"}),
                    json!({"operation": "rename", "path": "code.py"}),
                    json!({"operation": 5, "path": "code.py"}),
                    json!({"operation": "symbols", "path": "secret.txt"}),
                    json!({"operation": "definitions", "path": "code.py"}),
                    json!({"operation": "definitions", "path": "code.py", "line": 0}),
                    json!({"operation": "definitions", "path": "code.py", "line": -1}),
                    json!({"operation": "definitions", "path": "code.py", "line": 99}),
                    json!({"operation": "definitions", "path": "code.py", "line": 1e12}),
                    json!({"operation": "hover", "path": "code.py", "line": 1, "column": "x"}),
                ],
            ),
        ),
    ]
}

/// Of tools that go out.
fn of_the_web() -> Rows {
    vec![
        (
            "web_fetch",
            vec![
                json!({}),
                json!({"url": 5}),
                json!({"url": ""}),
                json!({"url": "\0"}),
                json!({"url": "file:///etc/passwd"}),
                json!({"url": "http://127.0.0.1:1/"}),
                json!({"url": "http://169.254.169.254/"}),
                json!({"url": "http://[::1]/"}),
                json!({"url": "javascript:alert(1)"}),
                json!({"url": "http://user:word@127.0.0.1/"}),
                json!({"url": format!("http://127.0.0.1/{}", long())}),
                json!({"url": "http://127.0.0.1/", "offset": -1}),
                json!({"url": "http://127.0.0.1/", "prompt": 5}),
            ],
        ),
        (
            "web_search",
            vec![
                json!({}),
                json!({"query": 5}),
                json!({"query": ""}),
                json!({"query": "x", "limit": -1}),
                json!({"query": "x", "limit": "all"}),
                json!({"query": long()}),
                json!({"query": "\0"}),
            ],
        ),
    ]
}

/// Of tools that are about the session.
fn of_the_session() -> Rows {
    vec![
        (
            "todo",
            vec![
                json!({}),
                json!({"items": 5}),
                json!({"items": [5]}),
                json!({"items": [{}]}),
                json!({"items": [{"content": "x", "status": "maybe"}]}),
                json!({"items": vec![json!({"content": "x", "status": "pending"}); 5_000]}),
            ],
        ),
        (
            "ask_user",
            vec![
                json!({}),
                json!({"question": " \n\u{7}"}),
                json!({"question": long()}),
                json!({"question": "x", "options": [long()]}),
                json!({"question": "x", "options": vec!["y"; 1_000]}),
            ],
        ),
        (
            "task",
            vec![
                json!({}),
                json!({"prompt": ""}),
                json!({"prompt": " \n"}),
                json!({"prompt": long()}),
                json!({"prompt": "x", "agent": "nobody"}),
                json!({"prompt": "x", "agent": "../general"}),
                json!({"prompt": "x", "agent": 5}),
            ],
        ),
        (
            "skill",
            vec![
                json!({}),
                json!({"name": 5}),
                json!({"name": ""}),
                json!({"name": "../../secret.txt"}),
                json!({"name": "gone"}),
                json!({"name": "\0"}),
                json!({"name": long()}),
            ],
        ),
        (
            "slash_command",
            vec![
                json!({}),
                json!({"name": 5}),
                json!({"name": ""}),
                json!({"name": "/gone"}),
                json!({"name": "../fix"}),
                json!({"name": long()}),
            ],
        ),
        (
            "no_such_tool",
            vec![json!({}), json!({"path": "secret.txt"})],
        ),
    ]
}

/// Hostile paths in `input`, and these.
fn files(input: &Value, more: &[Value]) -> Vec<Value> {
    [with_paths(input), more.to_vec()].concat()
}

/// The same for a tool that makes files: names that are only odd are names.
fn new_files(input: &Value, more: &[Value]) -> Vec<Value> {
    let odd = ["a\n", "output:", "file:", "~"];
    let mut inputs = files(input, more);
    inputs.retain(|input| {
        // A number or a truth value is taken as text, which is a name too.
        if input["path"].is_number() || input["path"].is_boolean() {
            return false;
        }
        let path = input["path"].as_str().unwrap_or_default();
        !odd.iter().any(|odd| path.starts_with(odd))
    });
    inputs
}

fn list_inputs() -> Vec<Value> {
    let mut inputs = list_inputs_with(&json!({}));
    inputs.push(json!({"path": "secret.txt"}));
    inputs
}

/// Hostile paths in `input`, but for what means the working directory.
fn list_inputs_with(input: &Value) -> Vec<Value> {
    let mut inputs = with_paths(input);
    inputs.retain(|input| !input["path"].is_null());
    inputs
}

/// Everything beneath `place`, with its content.
fn snapshot(place: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in place.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            into.insert(path.clone(), Vec::new());
            snapshot(&path, into);
        } else if kind.is_file() {
            into.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
}

fn everything(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for place in [home.workspace(), home.user_dir()] {
        snapshot(&place, &mut found);
    }
    found
}

/// Makes every call of `inputs`, allowed by the person, and holds what must hold.
async fn check(name: &str, inputs: Vec<Value>) {
    let inputs = [shapes(), inputs].concat();
    // What was read may be edited, and is not.
    let first = tool("read", json!({"path": "secret.txt"}));
    let second = tool("read", json!({"path": "n.ipynb"}));
    let script = inputs
        .iter()
        .fold(Script::new().call([first, second]), |script, input| {
            script.call([tool(name, input.clone())])
        });
    let home = with_language_server(Home::new(binary(), script.call([say("done")])))
        .env("FASTNESS_LIMITS_STEPS_MAX", 1_000)
        // A summary would be one more call of the script.
        .env("FASTNESS_LIMITS_COMPACT_PERCENT", 0)
        .env("FASTNESS_SEARCH_PROVIDER", "searxng")
        .env("FASTNESS_SEARCH_URL", "http://127.0.0.1:1");
    furnish(&home);
    std::fs::write(home.user_dir().join("outside"), "outside").unwrap();
    std::fs::write(
        home.workspace().parent().unwrap().join("outside"),
        "outside",
    )
    .unwrap();
    std::os::unix::fs::symlink(home.user_dir(), home.workspace().join("away")).unwrap();
    let before = everything(&home);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let done = client.prompt(&session, "go").await;
    assert!(done.text.ends_with("done"), "{name}: {}", done.text);
    let events = server.home().events(&session);
    let results = events.iter().filter(|event| event["type"] == "tool.result");
    let results: Vec<&Value> = results.skip(2).collect();
    assert_eq!(results.len(), inputs.len(), "{name}");
    for (result, input) in results.into_iter().zip(&inputs) {
        let input: String = input.to_string().chars().take(200).collect();
        let text = result["text"].as_str().unwrap();
        let start: String = text.chars().take(400).collect();
        assert_eq!(result["status"], "failed", "{name} {input}: {start}");
        assert!(
            !text.is_empty() && text.len() < ANSWER_BYTES_MAX,
            "{name} {input}: {start}"
        );
        assert!(!text.contains(['\0', '\x1b']), "{name} {input}: {start}");
        for secret in ["root:", "PATH="] {
            assert!(!text.contains(secret), "{name} {input}: {start}");
        }
    }
    assert_eq!(
        everything(server.home()),
        before,
        "{name}: something was touched"
    );
    let outside = server.home().workspace().parent().unwrap().join("outside");
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "outside");
    client.prompt(&session, "are you still there?").await;
}

/// The inputs of one tool of the table.
fn inputs(name: &str) -> Vec<Value> {
    let found = table().into_iter().find(|(tool, _)| *tool == name);
    found.unwrap().1
}

/// One story for each tool, so that they run side by side and fail by name.
macro_rules! stories {
    ($($story:ident: $tool:literal,)*) => {
        $(
            #[tokio::test]
            async fn $story() {
                check($tool, inputs($tool)).await;
            }
        )*

        const TOLD: &[&str] = &[$($tool),*];
    };
}

stories! {
    d_05_read_takes_no_hostile_input: "read",
    d_05_write_takes_no_hostile_input: "write",
    d_05_edit_takes_no_hostile_input: "edit",
    d_05_notebook_edit_takes_no_hostile_input: "notebook_edit",
    d_05_list_takes_no_hostile_input: "list",
    d_05_glob_takes_no_hostile_input: "glob",
    d_05_grep_takes_no_hostile_input: "grep",
    d_05_bash_takes_no_hostile_input: "bash",
    d_05_web_fetch_takes_no_hostile_input: "web_fetch",
    d_05_web_search_takes_no_hostile_input: "web_search",
    d_05_todo_takes_no_hostile_input: "todo",
    d_05_task_takes_no_hostile_input: "task",
    d_05_skill_takes_no_hostile_input: "skill",
    d_05_slash_command_takes_no_hostile_input: "slash_command",
    d_05_lsp_takes_no_hostile_input: "lsp",
    d_05_ask_user_takes_no_hostile_input: "ask_user",
    d_05_a_tool_that_is_not_there_is_a_failed_call: "no_such_tool",
}

#[test]
fn d_05_every_tool_that_there_is_has_its_hostile_inputs() {
    for name in tools::names() {
        assert!(TOLD.contains(&name), "{name} has no story");
    }
    assert!(table().iter().all(|(name, _)| TOLD.contains(name)));
}
