//! Real tool servers, written by others: each lists its tools and has one called through a session.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Peer, Program, peers};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::hooks::configure;
use crate::mcp::home_with;

/// How long a program of Node may take to listen, on a busy machine too.
const START_WAIT: Duration = Duration::from_secs(60);

/// The program of a server that npm has installed, and where all of them are.
fn node_server(name: &str) -> (PathBuf, PathBuf) {
    let place = peers::ensure(Peer::McpNode);
    let packages = place.join("node_modules/@modelcontextprotocol");
    (packages.join(name).join("dist/index.js"), place)
}

/// What is set for a server in `[mcp.real]` that is a program of Node.
pub(crate) fn by_pipes(name: &str, args: &[&str]) -> String {
    let (program, place) = node_server(name);
    let words: Vec<Value> = std::iter::once(json!(program))
        .chain(args.iter().map(|word| json!(word)))
        .collect();
    format!(
        "command = \"node\"\nargs = {}\nread = [{}]\n",
        json!(words),
        json!(place)
    )
}

/// The same for one of Python.
fn by_python(args: &[&str]) -> String {
    let site = peers::ensure(Peer::McpPython).join("site");
    format!(
        "command = \"python3\"\nargs = {}\nread = [{site}]\nenv = {{ PYTHONPATH = {site} }}\n",
        json!(args),
        site = json!(site)
    )
}

/// What comes of a call of `name` in a session that has the server which `set` describes.
async fn called(set: &str, name: &str, input: Value) -> String {
    let script = Script::new()
        .call([tool(&format!("mcp__real__{name}"), input)])
        .call([say("${result}")]);
    let home = home_with(script);
    let set = set.replace("WORKSPACE", home.workspace().to_str().unwrap());
    let allow = "[permissions]\nallow = [\"mcp__real__*\"]\n";
    configure(&home, &format!("{allow}[mcp.real]\nrequired = true\n{set}"));
    home.write("hello.txt", "hello from a file");
    let made = home.clean("git").args(["init", "-q"]).status().await;
    assert!(made.unwrap().success());
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await.text
}

/// server-everything, listening; gives its base and ends it when dropped.
async fn everything(speech: &str) -> (String, tokio::process::Child) {
    let (program, _) = node_server("server-everything");
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        free.local_addr().unwrap().port()
    };
    let mut node = tokio::process::Command::new(testkit::system::program("node"));
    let mut child = node
        .arg(program)
        .arg(speech)
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let listening = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.ends_with(&format!("on port {port}")) {
                return;
            }
        }
        panic!("server-everything does not listen");
    };
    timeout(START_WAIT, listening).await.unwrap();
    // It would not go on if nobody read what it says.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (format!("http://127.0.0.1:{port}"), child)
}

#[tokio::test]
async fn server_everything_answers_over_pipes() {
    let set = by_pipes("server-everything", &["stdio"]);
    let said = called(&set, "echo", json!({"message": "over pipes"})).await;
    assert!(said.contains("over pipes"), "{said}");
}

#[tokio::test]
async fn server_everything_answers_over_streamable_http() {
    let (base, _child) = everything("streamableHttp").await;
    for set in [
        format!("url = \"{base}/mcp\"\n"),
        format!("url = \"{base}/mcp\"\ntype = \"http\"\n"),
    ] {
        let said = called(&set, "echo", json!({"message": "over http"})).await;
        assert!(said.contains("over http"), "{said}");
    }
}

#[tokio::test]
async fn server_everything_answers_over_server_sent_events() {
    let (base, _child) = everything("sse").await;
    for set in [
        format!("url = \"{base}/sse\"\n"),
        format!("url = \"{base}/sse\"\ntype = \"sse\"\n"),
    ] {
        let said = called(&set, "echo", json!({"message": "over events"})).await;
        assert!(said.contains("over events"), "{said}");
    }
}

#[tokio::test]
async fn server_filesystem_reads_a_file_of_the_session() {
    let set = by_pipes("server-filesystem", &["."]);
    let said = called(&set, "read_text_file", json!({"path": "hello.txt"})).await;
    assert!(said.contains("hello from a file"), "{said}");
}

#[tokio::test]
async fn server_memory_remembers() {
    let kept = "env = { MEMORY_FILE_PATH = \"WORKSPACE/memory.json\" }\n";
    let set = by_pipes("server-memory", &[]) + kept;
    let entity = json!({"name": "Fastness", "entityType": "program", "observations": ["fast"]});
    let said = called(&set, "create_entities", json!({"entities": [entity]})).await;
    assert!(said.contains("Fastness"), "{said}");
}

#[tokio::test]
async fn mcp_server_time_tells_the_time() {
    let set = by_python(&["-m", "mcp_server_time", "--local-timezone", "UTC"]);
    let said = called(&set, "get_current_time", json!({"timezone": "UTC"})).await;
    assert!(said.contains("datetime"), "{said}");
}

#[tokio::test]
async fn mcp_server_git_looks_at_a_repository() {
    let set = by_python(&["-m", "mcp_server_git"]);
    let said = called(&set, "git_status", json!({"repo_path": "."})).await;
    assert!(
        said.contains("hello.txt"),
        "a file it does not know: {said}"
    );
}

#[tokio::test]
async fn mcp_server_fetch_fetches_a_page() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let page = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\
                        connection: close\r\n\r\nhello page";
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(page.as_bytes()).await;
        }
    });
    let set = by_python(&[
        "-m",
        "mcp_server_fetch",
        "--ignore-robots-txt",
        "--allow-private-ips",
    ]) + "network = true\n";
    let said = called(
        &set,
        "fetch",
        json!({"url": format!("http://{address}/page")}),
    )
    .await;
    assert!(said.contains("hello page"), "{said}");
}

#[tokio::test]
async fn a_fastmcp_server_answers_with_structured_content() {
    let program = "from fastmcp import FastMCP\n\
                   mcp = FastMCP('small')\n\
                   @mcp.tool\n\
                   def add(a: int, b: int) -> int:\n    return a + b\n\
                   mcp.run(show_banner=False)\n";
    let said = called(
        &by_python(&["-c", program]),
        "add",
        json!({"a": 2, "b": 40}),
    )
    .await;
    assert!(said.contains("42"), "{said}");
}
