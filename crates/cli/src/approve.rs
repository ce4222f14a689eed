//! `fastness approve`: what a project's file would do, and whether it may.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use agent::project::{Approvals, FILE_NAME, ProjectFile};
use anyhow::Context;
use domain::clock::Timestamp;

use crate::args::ApproveArgs;
use crate::engine;
use crate::render::{Exit, Failure, Palette, one_line};
use crate::settings::Settings;

/// Longest answer to a question: a word.
const ANSWER_BYTES_MAX: u64 = 256;

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
    let file = find(settings, &directory)?;
    if args.revoke {
        return revoke(&approvals, &file);
    }
    approve(args, settings, &approvals, &file)
}

fn find(settings: &Settings, directory: &Path) -> anyhow::Result<ProjectFile> {
    let directory = directory
        .canonicalize()
        .map_err(|_| Failure::usage(format!("{} is not a directory", directory.display())))?;
    let (project, _) = agent::project::read(&engine::place(settings, &directory));
    project.file.ok_or_else(|| {
        let sentence = format!(
            "there is no {FILE_NAME} in {} or above it",
            directory.display()
        );
        let hint = "it is looked for up to the root of the repository";
        Failure::new(sentence).hint(hint).into()
    })
}

fn approve(
    args: &ApproveArgs,
    settings: &Settings,
    approvals: &Approvals,
    file: &ProjectFile,
) -> anyhow::Result<ExitCode> {
    if let Some(error) = file.error() {
        return Err(Failure::new(format!("{}: {error}", file.path)).into());
    }
    let wants = file.wants();
    io::stdout().write_all(shown(file, Palette::stdout(&settings.environment)).as_bytes())?;
    if wants.is_empty() || file.is_approved {
        return Ok(Exit::Success.into());
    }
    if !args.yes && !is_meant()? {
        writeln!(io::stderr(), "not approved")?;
        return Ok(Exit::Refused.into());
    }
    // What was shown is what is approved, whatever the file holds by now.
    approvals
        .approve(&file.path, &file.sha256, Timestamp::now())
        .context("the approval was not stored")?;
    writeln!(io::stderr(), "approved")?;
    Ok(Exit::Success.into())
}

/// What the file does, and what it would do.
fn shown(file: &ProjectFile, palette: Palette) -> String {
    let mut text = format!("{}\n", palette.bold(&one_line(&file.path)));
    let mut part = |head: &str, lines: &[String]| {
        if !lines.is_empty() {
            text += &format!("{head}\n");
            for line in lines {
                text += &format!("  {line}\n");
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
    write!(io::stderr(), "Approve this? [y/N] ")?;
    let mut answer = String::new();
    let stdin = io::stdin().lock();
    io::Read::take(stdin, ANSWER_BYTES_MAX).read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn revoke(approvals: &Approvals, file: &ProjectFile) -> anyhow::Result<ExitCode> {
    let revoked = approvals
        .revoke(&file.path)
        .context("the approval was not taken back")?;
    let word = if revoked {
        "taken back"
    } else {
        "it was not approved"
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
        writeln!(io::stdout(), "{state:13}  {}", one_line(&approval.path))?;
    }
    if all.is_empty() {
        writeln!(io::stderr(), "nothing is approved")?;
    }
    Ok(Exit::Success.into())
}
