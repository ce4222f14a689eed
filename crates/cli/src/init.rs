//! `fastness init`: tells editors how to start us, and takes it back.
//!
//! [`editor`] knows where and what, [`merge`] edits the text, [`mod@file`] keeps what was there.

mod diff;
pub(crate) mod editor;
pub(crate) mod file;
pub(crate) mod merge;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use self::editor::{Editor, Launch};
use self::file::{Change, EditError};
use self::merge::Found;
use crate::args::InitArgs;
use crate::confirm::is_confirmed;
use crate::render::{self, Exit, Failure, Palette};
use crate::settings::Settings;

/// Sets up the editor that was named, else those that are there.
///
/// # Errors
/// If a file is not understood or not written, or there is no terminal to ask at.
pub(crate) fn run(args: &InitArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    let environment = &settings.environment;
    let editors = match args.editor {
        Some(editor) => vec![editor],
        None => {
            let found = Editor::ALL.into_iter();
            let found = found.filter(|editor| editor.is_installed(environment));
            found.collect()
        }
    };
    if editors.is_empty() {
        return Err(Failure::new("no editor that we know was found")
            .hint("name one: fastness init zed, jetbrains, neovim or vscode")
            .into());
    }
    let launch = launch(args, settings)?;
    let mut exit = Exit::Success;
    for editor in editors {
        if one(args, settings, editor, &launch)? == Exit::Refused {
            exit = Exit::Refused;
        }
    }
    Ok(exit.into())
}

fn one(
    args: &InitArgs,
    settings: &Settings,
    editor: Editor,
    launch: &Launch,
) -> anyhow::Result<Exit> {
    let form = editor.form(launch);
    let path = match &args.file {
        Some(path) => settings.environment.beside(path),
        None => {
            let file = editor.file(&settings.environment);
            file.ok_or_else(|| {
                Failure::usage("there is no home directory to look in: HOME is not set")
                    .hint("name the editor's file with --file")
            })?
        }
    };
    let palette = Palette::stdout(&settings.environment);
    let change = match args.remove {
        true => file::taking_back(&path, &form),
        false => file::setting_up(&path, &form),
    };
    let change = change.map_err(|error| advised(error, editor))?;
    if change.is_none() {
        let state = file::state(&path, &form)?;
        writeln!(
            render::stdout(),
            "{}: {}",
            editor.name(),
            unchanged(args, &state, &path)
        )?;
        return Ok(Exit::Success);
    }
    let name = palette.bold(&format!("{}: {}", editor.name(), path.display()));
    writeln!(render::stdout(), "{name}")?;
    let text = |side: &Option<String>| side.clone().unwrap_or_default();
    let shown = diff::lines(&text(&change.before), &text(&change.after), palette);
    render::stdout().write_all(shown.as_bytes())?;
    if args.dry_run {
        return Ok(Exit::Success);
    }
    if !args.yes && !is_meant()? {
        writeln!(io::stderr(), "nothing was changed")?;
        return Ok(Exit::Refused);
    }
    finish(args, editor, &change)?;
    Ok(Exit::Success)
}

fn finish(args: &InitArgs, editor: Editor, change: &Change) -> anyhow::Result<()> {
    let kept = change.carry_out()?;
    if let Some(kept) = kept {
        writeln!(
            render::stdout(),
            "what was there is kept in {}",
            kept.display()
        )?;
    }
    match args.remove {
        true => writeln!(render::stdout(), "{} was put back", change.path.display())?,
        false => writeln!(render::stdout(), "next: {}", editor.next())?,
    }
    Ok(())
}

fn unchanged(args: &InitArgs, state: &Found, path: &Path) -> String {
    let path = path.display();
    match (args.remove, state) {
        (true, _) => format!("nothing of ours is in {path}"),
        (false, Found::Other) => format!(
            "{path} names a Fastness already, with settings of its own; it was left as it is \
             (--remove takes it out)"
        ),
        (false, Found::Same | Found::Missing) => format!("{path} is set up already"),
    }
}

fn advised(error: EditError, editor: Editor) -> anyhow::Error {
    let hint = match &error {
        EditError::Merge { .. } => format!(
            "mend it and try again, or add the entry by hand: fastness init {} --dry-run --file \
             /dev/null shows it",
            editor.word()
        ),
        EditError::NotOurs { .. } => "move that file away, or name another with --file".to_owned(),
        EditError::Io { .. }
        | EditError::NotText { .. }
        | EditError::TooLarge { .. }
        | EditError::ChangedMeanwhile { .. } => {
            "look at the file, or name another with --file".to_owned()
        }
    };
    Failure::new(error.to_string()).hint(hint).into()
}

/// What the editor is to start: us, with what was said here.
fn launch(args: &InitArgs, settings: &Settings) -> anyhow::Result<Launch> {
    let mut words = vec!["acp".to_owned()];
    let mut add = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([flag.to_owned(), value]);
        }
    };
    add("--server", settings.server.server.clone());
    let token_file = settings.server.token_file.as_ref();
    let absolute = |path: &PathBuf| settings.environment.beside(path).display().to_string();
    add("--token-file", token_file.map(absolute));
    add("--ca-file", settings.server.ca_file.as_ref().map(absolute));
    add("--data-dir", args.common.data_dir.as_ref().map(absolute));
    add("--model", args.common.model.clone());
    if args.spawn {
        words.push("--spawn".to_owned());
    }
    Ok(Launch {
        command: program(settings)?,
        args: words,
    })
}

/// Where this program is: editors that were not started from a shell have another `PATH`. The place
/// in `PATH` stays right when a newer version is put there.
fn program(settings: &Settings) -> anyhow::Result<String> {
    let running = std::env::current_exe().context("this program's own path is unknown")?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let path = settings.environment.value("PATH").unwrap_or_default();
    let places = std::env::split_paths(path).map(|folder| folder.join("fastness"));
    let mut places = places.filter(|place| place.is_absolute());
    let found = places.find(|place| real(place) == real(&running));
    let found = found.unwrap_or(running);
    let text = found.into_os_string().into_string();
    text.map_err(|_| Failure::new("this program's own path is not Unicode").into())
}

/// What `doctor` asks of an editor that is there: its file, and the command that it starts for us.
pub(crate) fn look(
    editor: Editor,
    settings: &Settings,
) -> Option<(PathBuf, Result<Option<String>, EditError>)> {
    let environment = &settings.environment;
    if !editor.is_installed(environment) {
        return None;
    }
    let path = editor.file(environment)?;
    let nothing = Launch {
        command: String::new(),
        args: Vec::new(),
    };
    let found = file::command(&path, &editor.form(&nothing));
    Some((path, found))
}

fn is_meant() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Failure::refused("nobody is there to be asked")
            .hint("look at the difference, then repeat this with --yes")
            .into());
    }
    Ok(is_confirmed("Write this? [y/N] ")?)
}

#[cfg(test)]
mod tests;
