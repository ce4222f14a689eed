//! `fastness mcp login` and `logout`: letting a server know who asks.

use std::io::{self, Write as _};
use std::process::ExitCode;

use domain::ToolServer;
use domain::tool_server::{NamedBy, ServerUrl, ServerWay, Speech};
use mcp::{LoginError, Phase};

use super::{found, hub, servers};
use crate::open;
use crate::render::{self, Exit, Failure, exact_line, one_line};
use crate::settings::Settings;

/// Has the person log in to the server called `name`, or at that address.
///
/// # Errors
/// If there is no such server, it wants no login, or the login does not come about.
pub(super) async fn login(
    name: &str,
    has_browser: bool,
    settings: &Settings,
) -> anyhow::Result<ExitCode> {
    let server = wanted(name, settings)?;
    let all = servers(settings)?;
    // What it wants it says when it is asked for something.
    let before = hub(&all, vec![server.clone()], settings);
    before.begun().await;
    let is_in = before.reports().iter().all(|at| at.phase == Phase::Ready);
    if is_in && !all.wants_login(&server).await {
        writeln!(render::stdout(), "{} needs no login", one_line(name))?;
        return Ok(Exit::Success.into());
    }
    if let Some(report) = before.reports().first()
        && !matches!(report.phase, Phase::Ready | Phase::LoginNeeded)
    {
        let why = report.why.as_deref().unwrap_or("it does not answer");
        return Err(Failure::new(format!("{}: {why}", one_line(name))).into());
    }
    drop(before);
    let login = all.login(&server, |address| show(address, has_browser));
    login.await.map_err(|error| failure(name, &error))?;
    let after = hub(&all, vec![server], settings);
    after.begun().await;
    let reports = after.reports();
    let is_in = reports.iter().all(|report| report.phase == Phase::Ready);
    let tools: usize = reports.iter().map(|report| report.tools.len()).sum();
    match is_in {
        true => {
            writeln!(
                render::stdout(),
                "logged in to {}: {tools} tools",
                one_line(name)
            )?;
            Ok(Exit::Success.into())
        }
        false => {
            let mut whys = reports.into_iter().filter_map(|report| report.why);
            let why = whys.next().unwrap_or_else(|| "it is not ready".to_owned());
            let what = format!("the login was stored, but {}: {why}", one_line(name));
            Err(Failure::new(one_line(&what)).into())
        }
    }
}

/// Forgets the login to the server called `name`, or at that address, and says so where it was given.
///
/// # Errors
/// If there is no such server, or its login cannot be forgotten.
pub(super) async fn logout(name: &str, settings: &Settings) -> anyhow::Result<ExitCode> {
    let server = wanted(name, settings)?;
    let logged_out = servers(settings)?.logout(&server).await;
    let logged_out = logged_out.map_err(|error| failure(name, &error))?;
    let text = match logged_out.had_login {
        true => "logged out of",
        false => "there was no login to",
    };
    writeln!(render::stdout(), "{text} {}", one_line(name))?;
    if logged_out.is_told == Some(false) {
        let note =
            "its authorization server could not be told, so what it gave is good until it runs out";
        writeln!(io::stderr(), "note: {note}")?;
    }
    Ok(Exit::Success.into())
}

/// The server that `name` means: one that is set, or one at that address.
fn wanted(name: &str, settings: &Settings) -> anyhow::Result<ToolServer> {
    let project = found(settings)?;
    let mut all = project.servers.into_iter();
    if let Some(server) = all.find(|server| server.name == name) {
        return Ok(server);
    }
    if name.starts_with("https://") || name.starts_with("http://") {
        let at = ServerUrl {
            url: name.to_owned(),
            headers: Vec::new(),
            speech: Speech::Unknown,
            client: None,
        };
        return Ok(ToolServer::new(
            name,
            ServerWay::Url(at),
            NamedBy::LocalClient,
        ));
    }
    let failure = Failure::new(format!("there is no tool server called {}", one_line(name)));
    Err(failure
        .hint("`fastness mcp list` shows which there are")
        .into())
}

fn show(address: &str, has_browser: bool) {
    let is_open = has_browser && open::browse(address.as_ref());
    let text = match is_open {
        true => "log in with your browser; if it does not open, go to",
        false => "to log in, go to",
    };
    // Where nobody reads it nobody will log in, and the wait ends.
    let _ = writeln!(io::stderr(), "{text}\n{}", exact_line(address));
}

fn failure(name: &str, error: &LoginError) -> Failure {
    Failure::new(format!(
        "{}: {}",
        one_line(name),
        one_line(&error.to_string())
    ))
}
