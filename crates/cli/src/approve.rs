//! `fastness approve`: what a project's files would do, and whether they may.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use agent::project::{
    AgentSource, Approvals, FILE_NAME, Project, ProjectFile, SERVERS_FILE_NAME, ServersFile,
};
use anyhow::Context;
use domain::clock::Timestamp;

use crate::args::ApproveArgs;
use crate::confirm::is_confirmed;
use crate::engine;
use crate::render::{self, Exit, Failure, Palette, exact_line};
use crate::settings::Settings;

/// Shows, approves, lists or takes back. A running server goes by it from its next turn on.
///
/// # Errors
/// If there is nothing to approve, nobody to ask, or the approval cannot be stored.
pub(crate) fn run(args: &ApproveArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    // Makes the data directory, private as it must be.
    engine::open_store(settings)?;
    let approvals = Approvals::of(&settings.data_dir);
    if args.list {
        return list(&approvals);
    }
    let directory = match &args.dir {
        Some(dir) => settings.environment.beside(dir),
        None => settings.cwd.clone(),
    };
    let project = find(settings, &directory)?;
    if args.revoke {
        return revoke(&approvals, &project);
    }
    approve(args, settings, &approvals, &project)
}

fn find(settings: &Settings, directory: &Path) -> anyhow::Result<Project> {
    let directory = directory
        .canonicalize()
        .map_err(|_| Failure::usage(format!("{} is not a directory", directory.display())))?;
    let (project, _) = agent::project::read(&engine::place(settings, &directory));
    let has_servers = project.servers_file.is_some();
    if project.file.is_none() && !has_servers && of_project(&project).next().is_none() {
        let sentence = format!(
            "there is no {FILE_NAME}, no {SERVERS_FILE_NAME} and no .claude/agents in {} or above it",
            directory.display()
        );
        let hint = "they are looked for up to the root of the repository";
        return Err(Failure::new(sentence).hint(hint).into());
    }
    Ok(project)
}

/// The files of the project's agents; the person's own need no approval.
fn of_project(project: &Project) -> impl Iterator<Item = &AgentSource> {
    project.agent_files.iter().filter(|source| !source.is_own)
}

fn approve(
    args: &ApproveArgs,
    settings: &Settings,
    approvals: &Approvals,
    project: &Project,
) -> anyhow::Result<ExitCode> {
    let file = project.file.as_ref();
    if let Some((file, error)) = file.and_then(|file| Some((file, file.error()?))) {
        return Err(Failure::new(format!("{}: {error}", file.path)).into());
    }
    let palette = Palette::stdout(&settings.environment);
    let mut text = file.map(|file| shown(file, palette)).unwrap_or_default();
    let agents: Vec<&AgentSource> = of_project(project).collect();
    text += &shown_agents(&agents, palette);
    let servers = project.servers_file.as_ref();
    text += &servers
        .map(|file| shown_servers(file, palette))
        .unwrap_or_default();
    render::stdout().write_all(text.as_bytes())?;
    let file = file.filter(|file| !file.is_approved && !file.wants().is_empty());
    let file = file.map(|file| (&file.path, &file.sha256));
    let agents = agents.iter().filter(|source| source.wants().is_some());
    let agents = agents.map(|source| (&source.path, &source.sha256));
    let servers = servers.filter(|file| file.is_waiting());
    let servers = servers.map(|file| (&file.path, &file.sha256));
    let waiting: Vec<_> = file.into_iter().chain(agents).chain(servers).collect();
    if waiting.is_empty() {
        return Ok(Exit::Success.into());
    }
    if !args.yes && !is_meant()? {
        writeln!(io::stderr(), "not approved")?;
        return Ok(Exit::Refused.into());
    }
    // What was shown is what is approved, whatever the files hold by now.
    for (path, sha256) in waiting {
        approvals
            .approve(path, sha256, Timestamp::now())
            .context("the approval was not stored")?;
    }
    writeln!(io::stderr(), "approved")?;
    Ok(Exit::Success.into())
}

/// What the agents of a project are, or would be.
fn shown_agents(agents: &[&AgentSource], palette: Palette) -> String {
    let mut text = String::new();
    for source in agents {
        text += &format!("{}\n", palette.bold(&exact_line(&source.path)));
        text += &match (&source.agent, source.wants()) {
            (Err(problem), _) => format!("It is no agent: {}\n", exact_line(problem)),
            (Ok(_), Some(wants)) => {
                format!("With your approval it would:\n  {}\n", exact_line(&wants))
            }
            (Ok(agent), None) => {
                let name = exact_line(&agent.name);
                format!("You have approved that it defines the agent {name}\n")
            }
        };
    }
    text
}

/// Which tool servers a project's `.mcp.json` names.
fn shown_servers(file: &ServersFile, palette: Palette) -> String {
    let mut text = format!("{}\n", palette.bold(&exact_line(&file.path)));
    if let Err(problem) = &file.servers {
        text += &format!("It is not used: {}\n", exact_line(problem));
    }
    let lines = file.lines();
    if !lines.is_empty() {
        text += match file.is_approved {
            true => "You have approved that it does:\n",
            false => "With your approval it would:\n",
        };
    }
    for line in lines {
        text += &format!("  {}\n", exact_line(&line));
    }
    text
}

/// What the file does, and what it would do.
fn shown(file: &ProjectFile, palette: Palette) -> String {
    let mut text = format!("{}\n", palette.bold(&exact_line(&file.path)));
    let mut part = |head: &str, lines: &[String]| {
        if !lines.is_empty() {
            text += &format!("{head}\n");
            for line in lines {
                text += &format!("  {}\n", exact_line(line));
            }
        }
    };
    let never: Vec<String> = file.never().into_iter().map(str::to_owned).collect();
    part("It cannot, as a project, set:", &never);
    part("Without approval it does:", &file.does());
    let wants = file.wants();
    if file.is_approved {
        part("You have approved that it does:", &wants);
    } else {
        part("With your approval it would:", &wants);
    }
    if wants.is_empty() {
        text += "Nothing in it needs an approval.\n";
    }
    text
}

fn is_meant() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Failure::refused("nobody is there to be asked")
            .hint("look at what it would do, then repeat this with --yes")
            .into());
    }
    Ok(is_confirmed("Approve this? [y/N] ")?)
}

fn revoke(approvals: &Approvals, project: &Project) -> anyhow::Result<ExitCode> {
    let file = project.file.iter().map(|file| &file.path);
    let servers = project.servers_file.iter().map(|file| &file.path);
    let mut is_revoked = false;
    for path in file
        .chain(servers)
        .chain(of_project(project).map(|source| &source.path))
    {
        is_revoked |= approvals
            .revoke(path)
            .context("the approval was not taken back")?;
    }
    let word = match is_revoked {
        true => "taken back",
        false => "it was not approved",
    };
    writeln!(io::stderr(), "{word}")?;
    Ok(Exit::Success.into())
}

fn list(approvals: &Approvals) -> anyhow::Result<ExitCode> {
    let all = approvals.all().context("the approvals cannot be read")?;
    for approval in &all {
        let state = match ProjectFile::digest_of(Path::new(&approval.path)) {
            Some(now) if now == approval.sha256 => "approved",
            Some(_) => "changed since",
            None => "gone",
        };
        writeln!(
            render::stdout(),
            "{state:13}  {}",
            exact_line(&approval.path)
        )?;
    }
    if all.is_empty() {
        writeln!(io::stderr(), "nothing is approved")?;
    }
    Ok(Exit::Success.into())
}
