//! `fastness mcp add` and `remove`: one server in a file of settings. Everything else in the file stays as it was,
//! with its comments and its format.

mod document;

use std::io::Write as _;
use std::process::ExitCode;

use agent::project::FILE_NAME;
use agent::settings::{FileSettings, SettingsError};
use anyhow::Context;

use self::document::Server;
use super::settings_file::SettingsFile;
use crate::args::McpAddArgs;
use crate::render::{self, Exit, Failure};
use crate::settings::Settings;

/// Writes a server into a file.
///
/// # Errors
/// If it is there already or is not described right, or the file cannot be written.
pub(super) fn add(args: &McpAddArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let file = file(args.project, settings)?;
    let path = file.path();
    let text = file.text();
    if document::has(text, &args.name)? {
        let failure = Failure::new(format!("{} has a server {}", path.display(), args.name));
        return Err(failure
            .hint(format!("`fastness mcp remove {}` takes it out", args.name))
            .into());
    }
    let added = document::add(text, &args.name, &described(args)?)?;
    check(&added)?;
    file.replace(&added)?;
    let mut said = format!("added {} to {}", args.name, path.display());
    said += match (args.command.first(), has_network(args)) {
        (None, _) => "",
        (Some(_), true) if args.network => "; it may reach the network",
        (Some(_), true) => {
            "; it may reach the network, because it downloads what it runs (`--no-network` keeps it from that)"
        }
        (Some(command), false) if mcp::is_downloader(command) => {
            "; it has no network, so it runs only what it has downloaded before (`--network` gives it one)"
        }
        (Some(_), false) => "; it has no network (`--network` gives it one)",
    };
    if args.project {
        said += "; it counts once `fastness approve` has approved the file";
    }
    writeln!(render::stdout(), "{}", render::advise(&said))?;
    Ok(Exit::Success.into())
}

/// Takes a server out of a file.
///
/// # Errors
/// If it is not there, or the file cannot be written.
pub(super) fn remove(name: &str, project: bool, settings: &Settings) -> anyhow::Result<ExitCode> {
    let file = file(project, settings)?;
    let path = file.path();
    let text = file.text();
    if !document::has(text, name)? {
        let sentence = format!("{} has no server {name}", path.display());
        return Err(Failure::new(sentence)
            .hint("`fastness mcp list` shows which there are")
            .into());
    }
    let removed = document::remove(text, name)?;
    check(&removed)?;
    file.replace(&removed)?;
    writeln!(render::stdout(), "removed {name} from {}", path.display())?;
    Ok(Exit::Success.into())
}

fn file(project: bool, settings: &Settings) -> anyhow::Result<SettingsFile> {
    if project {
        return SettingsFile::of_project(&settings.cwd, FILE_NAME);
    }
    let directory = settings.operator.config_dir.as_ref();
    let directory = directory.context("there is no home to keep your settings in")?;
    SettingsFile::of_user(&directory.join("config.toml"))
}

/// Whether the program that is added may reach the network.
fn has_network(args: &McpAddArgs) -> bool {
    let command = args.command.first();
    let downloads = command.is_some_and(|command| mcp::is_downloader(command));
    args.network || !args.no_network && downloads
}

/// The server that the arguments describe.
fn described(args: &McpAddArgs) -> anyhow::Result<Server> {
    let mut server = Server::default();
    match (&args.url, args.command.split_first()) {
        (Some(url), _) => {
            server.text("url", url);
            if let Some(kind) = &args.kind {
                server.text("type", kind);
            }
        }
        (None, Some((command, rest))) => {
            server.text("command", command);
            if !rest.is_empty() {
                server.list("args", rest);
            }
            if has_network(args) {
                server.yes("network");
            }
        }
        (None, None) => {
            let failure = Failure::usage("a server is a program or has an address");
            let hint = "write `-- COMMAND …` at the end, or `--url URL`";
            return Err(failure.hint(hint).into());
        }
    }
    for (key, pairs) in [("headers", &args.headers), ("env", &args.env)] {
        if !pairs.is_empty() {
            server.pairs(key, pairs);
        }
    }
    Ok(server)
}

/// Nothing is written that would not be read.
fn check(text: &str) -> anyhow::Result<()> {
    match FileSettings::parse(text) {
        Ok(_) => Ok(()),
        Err(SettingsError::Unknown { place, .. }) => {
            Err(Failure::usage(format!("{place} is not a setting")).into())
        }
        Err(SettingsError::Wrong(problem)) => Err(Failure::usage(problem).into()),
    }
}
