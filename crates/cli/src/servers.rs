//! `fastness mcp`: the servers of tools that a session here would have.

mod edit;

use std::io::{self, Write};
use std::process::ExitCode;

use mcp::{Phase, ServerReport, Servers};
use tools::remote::RemoteHome;
use tools::roots::Roots;

use crate::args::{McpAction, McpArgs};
use crate::engine;
use crate::render::{Exit, Failure, Palette, one_line};
use crate::settings::Settings;
use crate::web;

/// Does what was asked for.
///
/// # Errors
/// If what came of it cannot be printed.
pub(crate) async fn run(args: &McpArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    match &args.action {
        McpAction::List => list(settings, None).await,
        McpAction::Test { name } => list(settings, Some(name)).await,
        McpAction::Add(args) => edit::add(args, settings),
        McpAction::Remove { name, project } => edit::remove(name, *project, settings),
    }
}

/// Starts every server that counts, as a session would, or `only` one, and ends them again.
async fn list(settings: &Settings, only: Option<&str>) -> anyhow::Result<ExitCode> {
    engine::open_store(settings)?;
    let place = engine::place(settings, &settings.cwd);
    let (mut project, _) = agent::project::read(&place);
    if let Some(only) = only {
        project.servers.retain(|server| server.name == only);
        if project.servers.is_empty() {
            let failure = Failure::new(format!("there is no tool server called {only} here"));
            return Err(failure
                .hint("`fastness mcp list` shows which there are")
                .into());
        }
    }
    if project.servers.is_empty() {
        writeln!(io::stderr(), "no tool servers are set")?;
    }
    for notice in project.notices() {
        writeln!(io::stderr(), "{}", one_line(&notice))?;
    }
    let (_, guard) = web::web(settings, &[])?;
    let hub = Servers::new(guard).hub(RemoteHome {
        roots: Roots::new(settings.cwd.clone(), Vec::new(), place.hidden),
        shell: Some(engine::shell(settings, &settings.data_dir)),
        named: project.servers,
    });
    hub.begun().await;
    let reports = hub.reports();
    let palette = Palette::stdout(&settings.environment);
    let mut text = String::new();
    for report in &reports {
        text += &lines(report, palette);
    }
    io::stdout().write_all(text.as_bytes())?;
    let is_ready = reports.iter().all(|report| report.phase == Phase::Ready);
    Ok(match is_ready {
        true => Exit::Success,
        false => Exit::Failure,
    }
    .into())
}

fn lines(report: &ServerReport, palette: Palette) -> String {
    let name = palette.bold(&one_line(&report.name));
    let place = one_line(&report.place);
    match report.phase {
        Phase::Ready => {
            let tools = report.tools.iter();
            let tools: String = tools
                .map(|tool| format!("  {}\n", one_line(tool)))
                .collect();
            format!("{name}: ready ({place})\n{tools}")
        }
        Phase::Starting | Phase::BackingOff { .. } | Phase::Failed { .. } | Phase::Disabled => {
            let why = report.why.as_deref().unwrap_or("it is still starting");
            format!("{name}: not ready ({place})\n  {}\n", one_line(why))
        }
    }
}
