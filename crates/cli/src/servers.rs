//! `fastness mcp`: the servers of tools that a session here would have.

mod conformance;
mod edit;
mod login;
mod settings_file;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use agent::project::Project;
use domain::ToolServer;
use mcp::{Hub, Phase, ServerReport, Servers};
use tools::remote::RemoteHome;
use tools::roots::Roots;

use crate::args::{McpAction, McpArgs};
use crate::engine;
use crate::render::{self, Exit, Failure, Palette, one_line};
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
        McpAction::Login { name, no_browser } => login::login(name, !no_browser, settings).await,
        McpAction::Logout { name } => login::logout(name, settings).await,
        McpAction::Conformance { url } => conformance::run(url, settings).await,
    }
}

/// Starts every server that counts, as a session would, or `only` one, and ends them again.
async fn list(settings: &Settings, only: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut project = found(settings)?;
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
        writeln!(io::stderr(), "{}", one_line(&render::advise(&notice)))?;
    }
    let reports = tried(settings, project).await?;
    let palette = Palette::stdout(&settings.environment);
    let mut text = String::new();
    for report in &reports {
        text += &lines(report, palette);
    }
    render::stdout().write_all(render::advise(&text).as_bytes())?;
    let is_ready = reports.iter().all(|report| report.phase == Phase::Ready);
    Ok(match is_ready {
        true => Exit::Success,
        false => Exit::Failure,
    }
    .into())
}

/// How each of a project's servers does when it is started, as a session would.
///
/// # Errors
/// If the network's settings cannot be used.
pub(crate) async fn tried(
    settings: &Settings,
    project: Project,
) -> anyhow::Result<Vec<ServerReport>> {
    let hub = hub(&servers(settings)?, project.servers, settings);
    hub.begun().await;
    Ok(hub.reports())
}

/// What is set for a session here.
fn found(settings: &Settings) -> anyhow::Result<Project> {
    engine::open_store(settings)?;
    let place = engine::place(settings, &settings.cwd);
    Ok(agent::project::read(&place).0)
}

/// Where servers come from, with the logins of the person at this machine.
fn servers(settings: &Settings) -> anyhow::Result<Servers> {
    let network = web::network(settings, &[])?;
    Ok(engine::servers(&network, &settings.data_dir, settings))
}

/// Starts `named` as a session would.
fn hub(servers: &Servers, named: Vec<ToolServer>, settings: &Settings) -> Arc<Hub> {
    let hidden = engine::place(settings, &settings.cwd).hidden;
    servers.hub(RemoteHome {
        roots: Roots::new(settings.cwd.clone(), Vec::new(), hidden),
        shell: Some(engine::shell(settings, &settings.data_dir)),
        named,
    })
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
            let network = match report.network {
                Some(false) => ", without the network",
                Some(true) | None => "",
            };
            format!("{name}: ready{network} ({place})\n{tools}")
        }
        Phase::LoginNeeded => {
            let why = report.why.as_deref().unwrap_or("it needs a login");
            format!("{name}: needs a login ({place})\n  {}\n", one_line(why))
        }
        Phase::Starting | Phase::BackingOff { .. } | Phase::Failed { .. } | Phase::Disabled => {
            let why = report.why.as_deref().unwrap_or("it is still starting");
            format!("{name}: not ready ({place})\n  {}\n", one_line(why))
        }
    }
}
