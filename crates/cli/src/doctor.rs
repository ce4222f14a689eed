//! `fastness doctor`: what works, what does not, and what to do about it.

mod editors;
mod keys;
mod project;
mod reach;
mod sandbox;
mod servers;

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use agent::project::Project;
use domain::Limits;
use journal::FileStore;
use llm::Catalog;
use rustix::fs::{Access, access, statvfs};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::render::{self, Exit, Palette, advise, one_line};
use crate::serve::announcement::running;
use crate::settings::{Problem, Settings};

/// How long the server may take to say that it is well: it does nothing else for that.
const HEALTH_WAIT: Duration = Duration::from_secs(1);
/// `server.json` is a few words; anything longer was not written by us.
const SERVER_FILE_BYTES_MAX: u64 = 4 * 1024;

/// Checks everything, prints a table, and fails if something is broken.
///
/// # Errors
/// If the table cannot be printed.
pub(crate) async fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut checks: Vec<Check> = settings.problems.iter().map(unusable).collect();
    if checks.is_empty() {
        checks.push(configuration(settings));
    }
    checks.extend(keys::checks(settings));
    checks.extend(models(settings).await);
    checks.extend([
        data_dir(&settings.data_dir),
        store(&settings.data_dir),
        disk(&settings.data_dir, &settings.limits),
        sandbox::check(settings).await,
        sandbox::check_memory(settings),
        server(&settings.data_dir).await,
    ]);
    checks.extend(editors::checks(settings));
    let project = seen(settings);
    checks.extend(project::checks(&project));
    checks.extend(servers::checks(settings, project).await);
    let table = table(&checks, Palette::stdout(&settings.environment));
    render::stdout().write_all(table.as_bytes())?;
    let is_broken = checks.iter().any(|check| check.state == State::Broken);
    Ok(if is_broken {
        Exit::Failure
    } else {
        Exit::Success
    }
    .into())
}

/// What a session in the directory to work in would find around it.
fn seen(settings: &Settings) -> Project {
    let place = crate::engine::place(settings, &settings.cwd);
    let (project, _) = agent::project::read(&place);
    project
}

/// One line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Check {
    name: &'static str,
    state: State,
    finding: String,
    /// What to do, if there is something.
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fine,
    /// Nothing is wrong, but something could be there that is not.
    Noted,
    Broken,
}

impl Check {
    fn new(name: &'static str, state: State, finding: impl Into<String>) -> Self {
        Self {
            name,
            state,
            finding: finding.into(),
            advice: None,
        }
    }

    fn advice(self, advice: impl Into<String>) -> Self {
        Self {
            advice: Some(advice.into()),
            ..self
        }
    }
}

/// Something that was set and cannot be used. The checks that follow do without it.
fn unusable(problem: &Problem) -> Check {
    let check = Check::new("settings", State::Broken, problem.sentence.clone());
    match &problem.advice {
        Some(advice) => check.advice(advice.clone()),
        None => check.advice("correct it; until then no other command starts"),
    }
}

/// Which file the settings come from.
fn configuration(settings: &Settings) -> Check {
    let check = |state, finding| Check::new("settings", state, finding);
    let Some(folder) = &settings.operator.config_dir else {
        return check(
            State::Noted,
            "defaults; there is no home directory".to_owned(),
        );
    };
    let path = folder.join("config.toml");
    match path.is_file() {
        true => check(State::Fine, path.display().to_string()),
        false => check(State::Noted, "defaults".to_owned())
            .advice(format!("to change them for good, write {}", path.display())),
    }
}

/// Which model answers and why, and what it could be changed to.
async fn models(settings: &Settings) -> Vec<Check> {
    let choice = match llm::choose(settings.model.clone()).await {
        Ok(choice) => choice,
        Err(error) => {
            let check = Check::new("model", State::Broken, error.to_string());
            let advice = match &settings.model.spec_from {
                Some(place) => {
                    format!("it is set by {place}; choose another there or with --model")
                }
                None => "choose another with --model or FASTNESS_MODEL".to_owned(),
            };
            return vec![check.advice(advice)];
        }
    };
    let label = choice.provider.label();
    let check = Check::new("model", State::Fine, format!("{label} ({})", choice.why));
    let is_offline = label.starts_with("offline");
    let check = if is_offline {
        check.advice(
            "for an AI model run `fastness login anthropic` (or openai), set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a local model server",
        )
    } else {
        check
    };
    choice.models.refresh().await;
    let options = choice.models.options();
    let others = options.iter().map(|option| option.spec.as_str());
    let others: Vec<&str> = others.filter(|spec| *spec != label).collect();
    let mut checks = vec![check];
    checks.extend(reach::checks(label, settings).await);
    if !others.is_empty() {
        checks.push(Check::new("other models", State::Fine, others.join(", ")));
    }
    checks
}

fn data_dir(path: &Path) -> Check {
    let name = "data directory";
    let shown = path.display();
    let check = |state, finding| Check::new(name, state, finding);
    let Ok(metadata) = path.metadata() else {
        return match existing_ancestor(path) {
            Some(parent) if is_writable(parent) => {
                check(State::Noted, format!("{shown} is made at the first start"))
            }
            _ => check(State::Broken, format!("{shown} cannot be made"))
                .advice("name another with --data-dir or FASTNESS_DATA_DIR"),
        };
    };
    let mode = metadata.mode() & 0o777;
    if !metadata.is_dir() {
        check(State::Broken, format!("{shown} is not a directory"))
            .advice("name another with --data-dir or FASTNESS_DATA_DIR")
    } else if !is_writable(path) {
        check(State::Broken, format!("{shown} cannot be written"))
            .advice("give it to the user who runs fastness")
    } else if mode & 0o077 != 0 {
        check(
            State::Broken,
            format!("{shown} is open to others (mode {mode:o})"),
        )
        .advice(format!("close it: chmod 700 {shown}"))
    } else {
        check(State::Fine, format!("{shown} (mode {mode:o})"))
    }
}

/// What is stored. Whether each journal is whole takes longer than a look.
fn store(data_dir: &Path) -> Check {
    let check = |state, finding| Check::new("store", state, finding);
    if !data_dir.join("sessions").is_dir() {
        return check(State::Fine, "no sessions yet".to_owned());
    }
    let listed = FileStore::open(data_dir).and_then(|store| store.list());
    match listed {
        Ok(sessions) => check(State::Fine, format!("{} sessions", sessions.len())),
        Err(error) => check(State::Broken, format!("it cannot be read: {error}"))
            .advice("`fastness sessions verify` says which session is damaged"),
    }
}

fn disk(data_dir: &Path, limits: &Limits) -> Check {
    let place = existing_ancestor(data_dir).unwrap_or(data_dir);
    let check = |state, finding| Check::new("disk", state, finding);
    match statvfs(place) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let minimum = limits.disk_free_min;
            let finding = format!("{} free, {} needed", mebibytes(free), mebibytes(minimum));
            if free < minimum {
                check(State::Broken, finding)
                    .advice("free some space, or lower FASTNESS_LIMITS_DISK_FREE_MIN")
            } else {
                check(State::Fine, finding)
            }
        }
        Err(error) => check(State::Broken, format!("free space is unknown: {error}")),
    }
}

async fn server(data_dir: &Path) -> Check {
    let check = |state, finding| Check::new("server", state, finding);
    let start = "`fastness serve` starts one; commands work without";
    let Some(url) = server_url(&data_dir.join("server.json")) else {
        return check(State::Noted, "not running".to_owned()).advice(start);
    };
    let is_well = tokio::time::timeout(HEALTH_WAIT, is_healthy(&url)).await;
    // One that speaks TLS holds the lock that says it runs; that is as good.
    let is_held = url.starts_with("https://") && running(data_dir).is_some();
    if is_held || matches!(is_well, Ok(Ok(true))) {
        return check(State::Fine, format!("running at {url}"));
    }
    let finding = format!("not running (it was at {url}, and does not answer)");
    check(State::Noted, finding).advice(start)
}

/// The address in `server.json`, if there is such a file.
fn server_url(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > SERVER_FILE_BYTES_MAX {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let file: Value = serde_json::from_str(&text).ok()?;
    file["url"].as_str().map(one_line)
}

/// Asks `/health` over a bare socket: one request needs no HTTP library.
async fn is_healthy(url: &str) -> io::Result<bool> {
    let Some(host) = url
        .strip_prefix("http://")
        .map(|host| host.trim_end_matches('/'))
    else {
        return Ok(false);
    };
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    // The status says it all; the rest need not be read.
    let mut status = *b"HTTP/1.1 200";
    let expected = status;
    stream.read_exact(&mut status).await?;
    Ok(status == expected)
}

fn is_writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn existing_ancestor(path: &Path) -> Option<&Path> {
    path.ancestors().find(|ancestor| ancestor.exists())
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
}

fn table(checks: &[Check], palette: Palette) -> String {
    let width = checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or(0);
    let mut table = String::new();
    for check in checks {
        let mark = match check.state {
            State::Fine => palette.green("✔"),
            State::Noted => palette.dim("–"),
            State::Broken => palette.red("✘"),
        };
        table += &format!(
            "{mark} {:width$}  {}\n",
            check.name,
            one_line(&advise(&check.finding))
        );
        if let Some(advice) = &check.advice {
            let advice = format!("→ {}", advise(advice));
            table += &format!("  {:width$}  {}\n", "", palette.dim(&advice));
        }
    }
    table
}

#[cfg(test)]
mod tests;
