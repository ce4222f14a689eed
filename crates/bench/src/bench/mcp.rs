//! `cargo xtask bench mcp`: what a call of a tool server costs, over pipes and over HTTP, and how long fifty
//! servers take to start at once; beside the TypeScript and the Python SDK, which do the same with the
//! same servers in the same minute.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::mcp::{Hub, Phase, Servers};
use domain::CallId;
use domain::event::ToolStatus;
use domain::tool_server::{NamedBy, ServerProgram, ServerUrl, ServerWay, Speech, ToolServer};
use netguard::{Guard, Policy};
use serde_json::json;
use testkit::{Peer, peers};
use tokio::runtime::Runtime;
use tools::output::Output;
use tools::progress::Place;
use tools::remote::{RemoteCall, RemoteHome, RemoteTools as _};
use tools::roots::Roots;
use tools::sandbox::{Bounds, SandboxSettings};
use tools::shell::Shell;

use super::table::{Row, Samples, Table};
use super::{Group, Plan, because};
use crate::Failure;

/// What is measured, by the name that `--only` looks at.
pub(super) const GROUPS: &[(&str, Group)] = &[("pipes", pipes), ("http", http), ("start", start)];

/// Servers that start at once.
const SERVERS: usize = 50;

/// What the programs of the SDKs are.
const CLIENT_NODE: &str = include_str!("mcp/client.mjs");
const CLIENT_PYTHON: &str = include_str!("mcp/client.py");
const SERVER: &str = include_str!("mcp/server.py");

/// The programs that are measured beside ours, and where they run.
struct Others {
    folder: tempfile::TempDir,
    node: PathBuf,
    python: PathBuf,
}

impl Others {
    fn new(plan: &Plan) -> Result<Self, Failure> {
        let folder = plan.scratch()?;
        for (name, text) in [
            ("client.mjs", CLIENT_NODE),
            ("client.py", CLIENT_PYTHON),
            ("server.py", SERVER),
        ] {
            let path = folder.path().join(name);
            std::fs::write(path, text).map_err(because("cannot write a program"))?;
        }
        Ok(Self {
            folder,
            node: peers::ensure(Peer::McpNode),
            python: peers::ensure(Peer::McpPython).join("site"),
        })
    }

    fn server(&self) -> String {
        self.folder.path().join("server.py").display().to_string()
    }

    /// How long each of `count` calls took the SDK for TypeScript.
    fn by_node(&self, kind: &str, count: usize, words: &[&str]) -> Result<Samples, Failure> {
        let mut node = Command::new("node");
        node.arg(self.folder.path().join("client.mjs"))
            .arg(&self.node)
            .args([kind, &count.to_string()])
            .args(words);
        samples(node)
    }

    /// The same for Python.
    fn by_python(&self, kind: &str, count: usize, words: &[&str]) -> Result<Samples, Failure> {
        let mut python = Command::new("python3");
        python
            .arg(self.folder.path().join("client.py"))
            .args([kind, &count.to_string()])
            .args(words)
            .env("PYTHONPATH", &self.python);
        samples(python)
    }
}

fn samples(mut program: Command) -> Result<Samples, Failure> {
    let output = program.stderr(Stdio::inherit()).output();
    let output = output.map_err(because("an SDK's client does not start"))?;
    let took: Vec<f64> = serde_json::from_slice(&output.stdout)
        .map_err(because("an SDK's client does not say how long it took"))?;
    let took = took.iter().map(|ms| Duration::from_secs_f64(ms / 1_000.0));
    Ok(Samples::new(took.collect()))
}

fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build();
    runtime.map_err(because("cannot start the runtime"))
}

/// Our side of `named`, started.
async fn hub(named: Vec<ToolServer>, folder: &Path) -> Result<Arc<Hub>, Failure> {
    let guard = Guard::new(Policy::default()).map_err(because("there is no guard"))?;
    let variables: Vec<(String, String)> = std::env::vars().collect();
    let variables = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let bounds = Bounds {
        processes: 2_048,
        memory_bytes: 8 << 30,
        total_memory_bytes: 8 << 30,
        file_bytes: 16 << 30,
    };
    let shell = Shell::new(variables, folder.to_owned());
    let hub = Servers::new(guard).hub(RemoteHome {
        roots: Roots::new(folder.to_owned(), Vec::new(), Vec::new()),
        shell: Some(shell.with_sandbox(bounds, SandboxSettings::default())),
        named,
    });
    hub.begun().await;
    for report in hub.reports() {
        if report.phase != Phase::Ready {
            return Err(format!("{}: {:?}", report.name, report.why));
        }
    }
    Ok(hub)
}

fn program(name: String, server: &str) -> ToolServer {
    let program = ServerProgram::new("python3", vec![server.to_owned()]);
    ToolServer::new(name, ServerWay::Program(program), NamedBy::Operator)
}

/// How long each of `count` calls took us.
async fn calls(hub: &Hub, count: usize) -> Result<Samples, Failure> {
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let call = RemoteCall {
            call: CallId::random(),
            name: "mcp__s__echo".to_owned(),
            input: json!({"message": "hello"}),
            place: Place::nowhere(),
            output: Output::new(PathBuf::new()),
            asks: None,
        };
        let begun = Instant::now();
        let outcome = hub.run(call).await;
        took.push(begun.elapsed());
        if outcome.status != ToolStatus::Completed {
            return Err(format!("a call failed: {}", outcome.text));
        }
    }
    Ok(Samples::new(took))
}

fn push(table: &mut Table, what: &str, ours: &Samples, others: [(&str, &Samples); 2]) {
    for (name, other) in others {
        table.push(Row {
            what,
            measured: ours.to_string(),
            beside: format!("{name} {other}"),
            ratio: ours.ratio(other),
            aim: "≤ 1×",
        });
    }
}

fn pipes(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let others = Others::new(plan)?;
    let (server, runtime) = (others.server(), runtime()?);
    let ours = runtime.block_on(async {
        let named = vec![program("s".to_owned(), &server)];
        let hub = hub(named, others.folder.path()).await?;
        calls(&hub, plan.rounds).await
    })?;
    let words = ["python3", server.as_str()];
    let node = others.by_node("stdio", plan.rounds, &words)?;
    let python = others.by_python("stdio", plan.rounds, &words)?;
    let others = [("TypeScript", &node), ("Python", &python)];
    push(table, "a call over pipes", &ours, others);
    Ok(())
}

/// server-everything, listening until it is dropped.
struct Everything(Child);

impl Drop for Everything {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn http(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let others = Others::new(plan)?;
    let port = std::net::TcpListener::bind("127.0.0.1:0");
    let port = port.and_then(|listener| listener.local_addr());
    let port = port.map_err(because("no port is free"))?.port();
    let everything = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let mut node = Command::new("node");
    node.arg(others.node.join(everything))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _listening = Everything(node.spawn().map_err(because("node does not start"))?);
    let is_there = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let begun = Instant::now();
    while !is_there() {
        if begun.elapsed() > Duration::from_secs(30) {
            return Err("server-everything does not listen".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let url = format!("http://127.0.0.1:{port}/mcp");
    let at = ServerUrl {
        url: url.clone(),
        headers: Vec::new(),
        speech: Speech::Streamable,
        client: None,
    };
    let named = vec![ToolServer::new("s", ServerWay::Url(at), NamedBy::Operator)];
    let ours = runtime()?.block_on(async {
        let hub = hub(named, others.folder.path()).await?;
        calls(&hub, plan.rounds).await
    })?;
    let node = others.by_node("http", plan.rounds, &[&url])?;
    let python = others.by_python("http", plan.rounds, &[&url])?;
    let others = [("TypeScript", &node), ("Python", &python)];
    push(table, "a call over HTTP (server-everything)", &ours, others);
    Ok(())
}

/// Ours run in the sandbox, as they do in a session; theirs do not.
fn start(plan: &Plan, table: &mut Table) -> Result<(), Failure> {
    let others = Others::new(plan)?;
    let (server, runtime) = (others.server(), runtime()?);
    let mut took: [Vec<Duration>; 3] = Default::default();
    let words = ["python3", server.as_str()];
    for _ in 0..3 {
        let named = (0..SERVERS).map(|number| program(format!("s{number}"), &server));
        let begun = Instant::now();
        let hub = runtime.block_on(hub(named.collect(), others.folder.path()))?;
        took[0].push(begun.elapsed());
        drop(hub);
        took[1].push(others.by_node("start", SERVERS, &words)?.p50());
        took[2].push(others.by_python("start", SERVERS, &words)?.p50());
    }
    let [ours, node, python] = took.map(Samples::new);
    let others = [("TypeScript", &node), ("Python", &python)];
    push(table, "50 servers starting at once", &ours, others);
    Ok(())
}
