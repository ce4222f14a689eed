//! The program `fastness`: parses, resolves, runs one command, and reports how it went.

mod acp;
mod approve;
mod args;
mod ask;
mod chat;
mod confirm;
mod doctor;
mod engine;
mod fetch;
mod init;
mod keys;
mod logging;
mod login;
mod manual;
mod open;
mod reach;
mod render;
mod safe_text;
mod serve;
mod servers;
mod sessions;
mod settings;
mod signals;
mod token;
mod trim;
mod web;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use auth::{Door, Gate};
use client::{Client, ClientError, ClientSettings, Pipe, Transport};
use tools::sandbox::supervisor;

use crate::args::{AskArgs, Cli, Command};
use crate::engine::Running;
use crate::reach::Missing;
use crate::settings::{Environment, Settings};

/// Many sessions allocate at once, and the C library's allocator has them wait for each other.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Threads for blocking work but that of the journal, which has its own.
const BLOCKING_THREADS_MAX: usize = 32;

/// How long the program waits for its own threads at the end.
const EXIT_TIME_MAX: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    if let Some(code) = supervisor::take_over(std::env::args_os()) {
        return code;
    }
    let cli = match Cli::parse_or_print() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    render::advice::remember(&cli);
    if let Some(code) = manual::answer(&cli.command) {
        return code;
    }
    let environment = Environment::of_process();
    let shown = environment.as_ref().cloned().unwrap_or_default();
    let outcome = environment
        .and_then(|environment| {
            if matches!(cli.command, Command::Doctor(_)) {
                return Settings::for_doctor(&cli, environment);
            }
            Settings::resolve(&cli, environment)
        })
        .and_then(|settings| run(&cli, &settings))
        .and_then(|code| {
            // What is still buffered is written now, or it is an error as well.
            render::stdout().flush()?;
            Ok(code)
        });
    outcome.unwrap_or_else(|error| render::report(&error, &shown))
}

fn run(cli: &Cli, settings: &Settings) -> anyhow::Result<ExitCode> {
    let _log = logging::start(settings)?;
    // What computes or waits for the disk has threads of its own.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let workers = workers(&cli.command);
    if workers > 1 {
        builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(workers);
    }
    session::disk_threads::start();
    let runtime = builder
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .enable_all()
        .build()
        .context("the runtime could not be started")?;
    let outcome = runtime.block_on(dispatch(cli, settings));
    runtime.shutdown_timeout(EXIT_TIME_MAX);
    outcome
}

/// Threads that carry sessions. For one client, one; for many, half the cores: the other half syncs,
/// runs tools and is the model's when that is local. One that finds nothing to do was woken by one
/// that had work for itself, which for a single turn on two cores was a quarter of its cost.
fn workers(command: &Command) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match command {
        Command::Serve(_) => (cores / 2).max(1),
        Command::Acp(_)
        | Command::Approve(_)
        | Command::Ask(_)
        | Command::Chat(_)
        | Command::Completions(_)
        | Command::Doctor(_)
        | Command::Fetch(_)
        | Command::Init(_)
        | Command::Login(_)
        | Command::Logout(_)
        | Command::Man(_)
        | Command::Mcp(_)
        | Command::Open(_)
        | Command::Sessions(_)
        | Command::Token(_) => 1,
    }
}

async fn dispatch(cli: &Cli, settings: &Settings) -> anyhow::Result<ExitCode> {
    signals::outlive_the_file_size_limit()?;
    match &cli.command {
        Command::Doctor(_) => doctor::run(settings).await,
        Command::Ask(args) => match &settings.server.server {
            Some(_) => match remote(settings).await {
                Ok(client) => ask::run(client, args, settings, None).await,
                Err(error) => Err(ask::not_begun(args, error)),
            },
            None => ask_here(args, settings).await,
        },
        // Answered before there were settings.
        Command::Completions(_) | Command::Man(_) => Ok(ExitCode::SUCCESS),
        Command::Init(args) => init::run(args, settings),
        Command::Login(args) => login::run(args, settings),
        Command::Logout(args) => login::log_out(args, settings),
        Command::Chat(args) => chat::run(args, settings).await,
        Command::Serve(args) => serve::run(args, settings).await,
        Command::Fetch(args) => fetch::run(args, settings).await,
        Command::Mcp(args) => servers::run(args, settings).await,
        Command::Open(args) => open::run(args, settings),
        Command::Acp(args) => acp::run(args, settings).await,
        Command::Approve(args) => approve::run(args, settings),
        Command::Sessions(args) => sessions::run(args, settings).await,
        Command::Token(args) => token::run(args, settings),
    }
}

/// Asks an agent that lives in this process as long as the answer takes.
async fn ask_here(args: &AskArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let (running, client) = match started(settings).await {
        Ok(started) => started,
        Err(error) => return Err(ask::not_begun(args, error)),
    };
    let outcome = ask::run(client, args, settings, Some(&running.model)).await;
    running.service.shut_down_within(Duration::ZERO).await;
    outcome
}

/// An agent in this process, and a client of it.
async fn started(settings: &Settings) -> anyhow::Result<(Running, Client)> {
    let running = engine::start(settings, Gate::this_process_only(), Door::default(), &[]).await?;
    let (outgoing, incoming) = server::transport::pipe::connect(&running.service)?;
    let transport = Transport::in_process(Pipe { outgoing, incoming });
    let client = Client::connect(transport, client_settings(settings)).await?;
    Ok((running, client))
}

/// One connection to the server that was named: a question in a script fails rather than waits.
async fn remote(settings: &Settings) -> anyhow::Result<Client> {
    let transport = reach::dialer(settings, Missing::IsAnError).dial().await;
    let transport = transport.map_err(ClientError::Connect)?;
    Ok(Client::connect(transport, client_settings(settings)).await?)
}

pub(crate) fn client_settings(settings: &Settings) -> ClientSettings {
    ClientSettings {
        limits: settings.limits.clone(),
        name: "fastness",
        version: env!("CARGO_PKG_VERSION"),
    }
}
