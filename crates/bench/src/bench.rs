//! `cargo xtask bench`: what people feel of the release binary, beside what the machine itself can do.
//!
//! Each number stands beside a bare one of the same run, because absolute times of two machines, or
//! two hours, do not compare.

mod client;
mod cold;
mod edge;
mod journal;
mod latency;
mod mcp;
mod netguard;
mod page;
mod program;
mod sockets;
mod startup;
mod store;
mod stream;
mod table;
mod tools;
mod turn;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Failure;
pub(crate) use edge::{BARE_AXUM, bare_axum};
pub(crate) use journal::{WEIGH, weigh};
use table::Table;

/// The hidden command that is the bare server to compare with.
pub(crate) const BARE: &str = "bench-bare-listener";

/// The word that asks for the journal instead of the program.
const JOURNAL: &str = "journal";

/// The word that asks for how turns flow.
const STREAM: &str = "stream";

/// The word that asks for the edge.
const EDGE: &str = "edge";

/// The word that asks for the guard of the network.
const NETGUARD: &str = "netguard";

/// The word that asks for turns with a model behind HTTP.
const TURN: &str = "turn";

/// The word that asks for what tools cost.
const TOOLS: &str = "tools";

/// The word that asks for tool servers.
const MCP: &str = "mcp";

/// The word that asks for the web page.
const PAGE: &str = "page";

/// The word that asks for large stores.
const STORE: &str = "store";

/// Longer than any honest run; a hung one must not hold a machine for ever.
const RUN_TIME_MAX: Duration = Duration::from_secs(45 * 60);

/// What one run was asked to do.
#[derive(Clone, Debug)]
struct Plan {
    program: PathBuf,
    /// Where data directories go: on the disk that is measured, not in memory.
    folder: PathBuf,
    rounds: usize,
    sockets: usize,
    cold: bool,
    /// The journal instead of the program.
    journal: bool,
    /// The edge instead of the whole.
    edge: bool,
    /// How turns flow instead of the whole.
    stream: bool,
    /// The guard of the network instead of the program.
    netguard: bool,
    /// Turns beside their floor instead of the whole.
    turn: bool,
    /// What tools cost instead of the whole.
    tools: bool,
    /// Tool servers instead of the whole.
    mcp: bool,
    /// The web page instead of the whole.
    page: bool,
    /// Large stores instead of the whole.
    store: bool,
    /// Sessions of the store with many.
    sessions: u64,
    /// Events of the large session, about 1 KB each.
    large_events: u64,
    only: String,
}

/// Measures and prints the table.
pub(crate) fn measure(arguments: &[String]) -> Result<(), Failure> {
    std::thread::spawn(|| {
        std::thread::sleep(RUN_TIME_MAX);
        eprintln!("bench: the benchmark hangs; giving up");
        std::process::exit(1);
    });
    let plan = Plan::parse(arguments)?;
    program::raise_open_files()?;
    println!("{}", table::about_machine());
    let mut table = Table::default();
    let groups: &[(&str, Group)] = if plan.journal {
        journal::GROUPS
    } else if plan.edge {
        edge::GROUPS
    } else if plan.stream {
        stream::GROUPS
    } else if plan.netguard {
        netguard::GROUPS
    } else if plan.turn {
        turn::GROUPS
    } else if plan.tools {
        tools::GROUPS
    } else if plan.mcp {
        mcp::GROUPS
    } else if plan.page {
        page::GROUPS
    } else if plan.store {
        store::GROUPS
    } else {
        &[
            ("startup", startup::measure),
            ("latency stdio", latency::over_stdio),
            ("latency websocket", latency::over_websocket),
            ("sockets", sockets::measure),
            ("cold", cold::measure),
        ]
    };
    for (name, group) in groups {
        let wanted = if *name == "cold" {
            plan.cold
        } else {
            name.contains(&plan.only)
        };
        if wanted {
            eprintln!("measuring {name} …");
            group(&plan, &mut table)?;
        }
    }
    println!("{table}");
    Ok(())
}

/// A server that does nothing: the runtime, one listener, one line when ready.
pub(crate) fn bare_listener() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(because("cannot start the runtime"))?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(because("cannot listen"))?;
        println!("{{\"ready\":true}}");
        while listener.accept().await.is_ok() {}
        Ok(())
    })
}

type Group = fn(&Plan, &mut Table) -> Result<(), Failure>;

impl Plan {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let target = target()?;
        let mut plan = Self {
            program: target.join("release/fastness"),
            folder: target.join("bench"),
            rounds: 300,
            sockets: 10_000,
            cold: false,
            journal: false,
            edge: false,
            stream: false,
            netguard: false,
            turn: false,
            tools: false,
            mcp: false,
            page: false,
            store: false,
            sessions: 100_000,
            large_events: 1_000_000,
            only: String::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let next = arguments.next();
                next.ok_or_else(|| format!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--quick" => {
                    (plan.rounds, plan.sockets) = (50, 500);
                    (plan.large_events, plan.sessions) = (100_000, 10_000);
                }
                JOURNAL => plan.journal = true,
                EDGE => plan.edge = true,
                STREAM => plan.stream = true,
                NETGUARD => plan.netguard = true,
                TURN => plan.turn = true,
                TOOLS => plan.tools = true,
                MCP => plan.mcp = true,
                PAGE => plan.page = true,
                STORE => plan.store = true,
                "--cold" => plan.cold = true,
                "--only" => value()?.clone_into(&mut plan.only),
                "--bin" => plan.program = PathBuf::from(value()?),
                other => return Err(format!("bench does not know {other}")),
            }
        }
        std::fs::create_dir_all(&plan.folder).map_err(because("cannot make target/bench"))?;
        Ok(plan)
    }

    /// A fresh folder on the measured disk.
    fn scratch(&self) -> Result<tempfile::TempDir, Failure> {
        tempfile::tempdir_in(&self.folder).map_err(because("cannot make a folder"))
    }
}

/// The folder that cargo builds in: this program is `release/fastness-bench` below it.
pub(crate) fn target() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().map_err(because("cannot find this program"))?;
    let folder = program.ancestors().nth(2).map(PathBuf::from);
    folder.ok_or_else(|| "this program is not below cargo's target folder".to_owned())
}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Turns a cause into a sentence for the person who started this.
pub(crate) fn because<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Failure {
    move |cause| format!("{what}: {cause}")
}
