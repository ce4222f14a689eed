//! MCP servers in `fastness ask`, and servers that are started by programs which download what they run.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::json;
use testkit::script::{Script, say, tool};
use testkit::{Home, Peer, Program, peers};

use crate::hooks::configure;
use crate::project::run;
use crate::support::binary;

/// A server with the tool `echo` that takes its time to start.
const SLOW: &str = r#"
import json, sys, time
time.sleep(float(sys.argv[1]))
def say(message):
    print(json.dumps(message), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        say({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "slow", "version": "1"}}})
    elif method == "tools/list":
        say({"jsonrpc": "2.0", "id": id, "result": {"tools": [
            {"name": "echo", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        text = asked["params"]["arguments"]["say"]
        say({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
    elif id is not None:
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}})
"#;

/// A home whose sandbox shows the Python of this machine, with the limits that users have.
fn home(script: Script) -> Home {
    let home = Home::new(binary(), script);
    #[expect(
        clippy::disallowed_methods,
        reason = "where this machine keeps its Python"
    )]
    match std::env::var("PYENV_ROOT") {
        Ok(root) => home.env("PYENV_ROOT", root),
        Err(_) => home,
    }
}

fn calling(server: &str) -> Script {
    Script::new()
        .call([tool(
            &format!("mcp__{server}__echo"),
            json!({"say": "hello"}),
        )])
        .call([say("got ${result}")])
}

async fn ask(home: &Home, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = home.command("ask");
    command.args(arguments).stdin(Stdio::null());
    let Output {
        stdout,
        stderr,
        status,
    } = command.output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(stdout), text(stderr), status.code())
}

/// A server that takes three seconds to start, and one that never does.
fn slow_and_broken(home: &Home) {
    testkit::system::need("python3");
    let slow = format!(
        "[mcp.slow]\ncommand = \"python3\"\nargs = {}\n",
        json!(["-c", SLOW, "3"])
    );
    let broken = "[mcp.broken]\ncommand = \"python3\"\nargs = [\"-c\", \"raise SystemExit('out of ink')\"]\n";
    configure(home, &format!("{slow}{broken}"));
}

/// Asks, and sees that the slow server was waited for in plain sight.
async fn waits_in_plain_sight(home: &Home, arguments: &[&str]) {
    let words = [&["go", "--allow", "mcp__slow__*"], arguments].concat();
    let (said, told, code) = ask(home, &words).await;
    assert_eq!((said.as_str(), code), ("got hello\n", Some(0)), "{told}");
    assert!(
        told.contains("MCP server slow: it is still starting"),
        "{told}"
    );
    assert!(told.contains("MCP server slow: it is ready"), "{told}");
    assert!(
        told.contains("MCP server broken") && told.contains("out of ink"),
        "{told}"
    );
}

#[tokio::test]
async fn ask_waits_for_slow_servers_and_says_so() {
    let home = home(calling("slow"));
    slow_and_broken(&home);
    waits_in_plain_sight(&home, &[]).await;
}

#[tokio::test]
async fn ask_through_a_server_waits_for_slow_servers_too() {
    let home = home(calling("slow"));
    slow_and_broken(&home);
    let server = Program::serve_in(home).await;
    let url = server.url().to_owned();
    waits_in_plain_sight(server.home(), &["--server", &url]).await;
}

#[tokio::test]
async fn program_that_is_not_on_path_is_named() {
    let home = home(Script::says("hi"));
    for (command, expected) in [
        ("no-such-program", "was not found on PATH"),
        ("./no/such/program", "there is no program ./no/such/program"),
        ("/no/such/uvx", "there is no program /no/such/uvx"),
    ] {
        configure(&home, &format!("[mcp.lost]\ncommand = \"{command}\"\n"));
        let (said, code) = run(&home, "mcp", &["test", "lost"]).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains(expected) && said.contains("`command`"),
            "{said}"
        );
        assert!(!said.contains("network"), "{said}");
    }
    let (said, told, code) = ask(&home, &["go"]).await;
    assert_eq!((said.as_str(), code), ("hi\n", Some(0)));
    assert!(told.contains("MCP server lost"), "{told}");
}

/// Makes a wheel of the server, which `uvx` can install without the network.
fn wheel(folder: &Path) -> String {
    const MAKE: &str = r#"
import sys, zipfile
folder, server = sys.argv[1:]
module = "def main():\n" + "".join("    " + line + "\n" for line in server.splitlines())
info = "small_server-1.0.dist-info"
files = {
    "small_server.py": module,
    info + "/METADATA": "Metadata-Version: 2.1\nName: small-server\nVersion: 1.0\n",
    info + "/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    info + "/entry_points.txt": "[console_scripts]\nsmall-server = small_server:main\n",
}
record = "".join("%s,,\n" % name for name in files) + info + "/RECORD,,\n"
path = folder + "/small_server-1.0-py3-none-any.whl"
with zipfile.ZipFile(path, "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
    wheel.writestr(info + "/RECORD", record)
print(path)
"#;
    #[expect(clippy::disallowed_methods, reason = "a test makes its own package")]
    let made = std::process::Command::new(testkit::system::program("python3"))
        .args(["-c", MAKE, folder.to_str().unwrap(), SLOW])
        .output();
    let made = made.unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// The search path with `folder` in front.
fn path_with(folder: &Path) -> String {
    #[expect(clippy::disallowed_methods, reason = "the search path of this machine")]
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", folder.display())
}

#[tokio::test]
async fn server_of_uvx_starts_in_the_sandbox() {
    let uv = peers::ensure(Peer::Uv).join("site/bin");
    let home = home(calling("small")).env("PATH", path_with(&uv));
    let wheel = wheel(&home.workspace());
    let words = ["uvx", "--offline", "--from", &wheel, "small-server", "0"];
    let add = [&["add", "small", "--no-network", "--"], &words[..]].concat();
    let (said, code) = run(&home, "mcp", &add).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("it has no network"), "{said}");
    let (said, code) = run(&home, "mcp", &["test", "small"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("mcp__small__echo"), "{said}");
    let (said, told, code) = ask(&home, &["go", "--allow", "mcp__small__*"]).await;
    assert_eq!((said.as_str(), code), ("got hello\n", Some(0)), "{told}");
    // What it keeps is its own, and not the user's.
    let kept = home.user_dir().join(".cache/fastness/mcp/small/uv");
    assert!(kept.join("cache").is_dir() && kept.join("tools").is_dir());
    assert!(!home.user_dir().join(".local/share/uv").exists());
}

#[tokio::test]
async fn uvx_without_a_network_says_what_to_do() {
    let uv = peers::ensure(Peer::Uv).join("site/bin");
    let home = home(Script::says("hi")).env("PATH", path_with(&uv));
    let add = [
        "add",
        "far",
        "--no-network",
        "--",
        "uvx",
        "no-such-package-here",
    ];
    let (said, code) = run(&home, "mcp", &add).await;
    assert_eq!(code, Some(0), "{said}");
    let (said, code) = run(&home, "mcp", &["test", "far"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("uvx downloads what it runs"), "{said}");
    assert!(said.contains("`mcp add --network`"), "{said}");
}

#[tokio::test]
async fn server_of_npx_starts_in_the_sandbox() {
    let home = home(calling("small"));
    let server = r#"#!/usr/bin/env node
const say = (message) => console.log(JSON.stringify(message));
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { method, id, params } = JSON.parse(line);
  const answer = (result) => say({ jsonrpc: "2.0", id, result });
  if (method === "initialize")
    answer({ protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } });
  else if (method === "tools/list") answer({ tools: [{ name: "echo", inputSchema: { type: "object" } }] });
  else if (method === "tools/call") answer({ content: [{ type: "text", text: params.arguments.say }] });
  else if (id !== undefined) say({ jsonrpc: "2.0", id, error: { code: -32601, message: "unknown" } });
});
"#;
    std::fs::create_dir(home.workspace().join("small-server")).unwrap();
    home.write("small-server/cli.js", server);
    let package = json!({"name": "small-server", "version": "1.0.0", "bin": "cli.js"});
    home.write("small-server/package.json", &package.to_string());
    let packed = home
        .clean("npm")
        .args(["pack", "--silent", "./small-server"])
        .output()
        .await
        .unwrap();
    assert!(
        packed.status.success(),
        "{}",
        String::from_utf8_lossy(&packed.stderr)
    );
    let package = home.workspace().join("small-server-1.0.0.tgz");
    let package = package.to_str().unwrap();
    let words = [
        "npx",
        "-y",
        "--offline",
        "--package",
        package,
        "small-server",
    ];
    let add = [&["add", "small", "--no-network", "--"], &words[..]].concat();
    let (said, code) = run(&home, "mcp", &add).await;
    assert_eq!(code, Some(0), "{said}");
    let (said, told, code) = ask(&home, &["go", "--allow", "mcp__small__*"]).await;
    assert_eq!((said.as_str(), code), ("got hello\n", Some(0)), "{told}");
    let kept = home.user_dir().join(".cache/fastness/mcp/small/npm");
    assert!(kept.join("_npx").is_dir());
}
