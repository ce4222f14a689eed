//! `lsp`: what a language server knows of a file.

mod shown;

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use domain::event::{ToolKind, ToolLocation};
use domain::limits::LSP_FILE_BYTES_MAX;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, Running, RunsCommands, Shown, Tool, one_line, running, show_file};
use crate::lsp::{Language, LanguageServers, Launch, Operation, Question};
use crate::roots::{PathError, Placed, Roots};
use crate::shell::{Shell, ShellCall};

pub(crate) struct Lsp;

#[derive(Deserialize)]
struct Input {
    operation: Operation,
    path: String,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    column: Option<u32>,
}

impl Tool for Lsp {
    fn name(&self) -> &'static str {
        "lsp"
    }

    fn description(&self) -> &'static str {
        "Asks the language server about a source file."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "operation": {
                    "type": "string",
                    "enum": ["definitions", "references", "symbols", "diagnostics", "hover"],
                    "description": "`hover` gives the type and documentation of a name; `symbols` and `diagnostics` cover the whole file",
                },
                "path": {"type": "string", "description": "The file"},
                "line": {"type": "integer", "minimum": 1, "description": "Line of the name; the first is 1"},
                "column": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Column of the name; the first is 1; default: the first name in the line",
                },
            },
            "required": ["operation", "path"],
        })
    }

    fn show(&self, input: &Value, roots: &Roots) -> Shown {
        let operation = input.get("operation").and_then(Value::as_str);
        let verb = format!("Ask for {} of", operation.unwrap_or("something"));
        let shown = show_file(&one_line(&verb), ToolKind::Search, input, roots);
        let line = input.get("line").and_then(Value::as_u64);
        let at = |location| ToolLocation {
            line: line.and_then(|line| u32::try_from(line).ok()),
            ..location
        };
        Shown {
            title: one_line(&shown.title),
            locations: shown.locations.into_iter().map(at).collect(),
            ..shown
        }
    }

    fn as_command(&self) -> Option<&dyn RunsCommands> {
        Some(self)
    }
}

impl RunsCommands for Lsp {
    fn run(&self, input: Value, call: ShellCall) -> Running {
        running(self.name(), input, |input: Input| async move {
            match ask(input, call).await {
                Ok(outcome) => outcome,
                Err(problem) => Outcome::failed(problem),
            }
        })
    }
}

async fn ask(input: Input, call: ShellCall) -> Result<Outcome, String> {
    let (operation, path) = (input.operation, input.path.clone());
    let roots = Arc::clone(&call.roots);
    let (shell, languages) = (call.shell.clone(), call.languages.clone());
    // Looking at the disk blocks.
    let prepared = tokio::task::spawn_blocking(move || prepare(&input, shell, &languages, &roots));
    let prepared = prepared.await.map_err(|error| error.to_string())??;
    let (language, launch, question) = prepared;
    let asked = call.languages.ask(language, launch, question);
    let answered = asked
        .await
        .map_err(|error| format!("{path} was not looked at: {error}."))?;
    let roots = Arc::clone(&call.roots);
    let shown = tokio::task::spawn_blocking(move || {
        let shown = shown::Shown::of(operation, &path, &answered, &roots);
        Outcome::completed(shown.text).at(shown.locations)
    });
    shown.await.map_err(|error| error.to_string())
}

/// Reads the file and finds out whom to ask.
fn prepare(
    input: &Input,
    shell: Shell,
    languages: &LanguageServers,
    roots: &Arc<Roots>,
) -> Result<(&'static Language, Launch, Question), String> {
    let path = &input.path;
    let refused = |error: PathError| format!("{path} was not looked at: {error}.");
    let Placed { file, path, root } = roots.open_placed(path).map_err(refused)?;
    let shown = &input.path;
    let (language, language_id) = Language::of(&path)
        .ok_or_else(|| format!("No language server is known for {shown}; use grep and read."))?;
    let (words, shell) = server(language, languages, shell)?;
    let mut bytes = Vec::new();
    let read = file.take(LSP_FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| refused(error.into()))?;
    if bytes.len() as u64 > LSP_FILE_BYTES_MAX {
        return Err(format!("{shown} is too large for a language server."));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8 text."))?;
    let at = match input.operation.is_about_a_place() {
        true => place(input, &text)?,
        false => (1, 1),
    };
    let question = Question {
        operation: input.operation,
        path,
        text,
        language_id,
        at,
    };
    let launch = Launch {
        words,
        shell,
        roots: Arc::clone(roots),
        root,
    };
    Ok((language, launch, question))
}

/// The place that is asked about, which must be there.
fn place(input: &Input, text: &str) -> Result<(usize, usize), String> {
    let operation = input.operation.name();
    let Some(line) = input.line else {
        return Err(format!(
            "The input of lsp is not valid: {operation} needs a line."
        ));
    };
    if line == 0 || input.column == Some(0) {
        let why = "lines and columns count from 1";
        return Err(format!("The input of lsp is not valid: {why}."));
    }
    let number = line as usize;
    let Some(found) = text.split('\n').nth(number - 1) else {
        let lines = text.split('\n').count();
        let path = &input.path;
        return Err(format!("{path} has no line {line}; it has {lines}."));
    };
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let first = found.chars().position(is_name).unwrap_or(0) + 1;
    Ok((number, input.column.map_or(first, |column| column as usize)))
}

/// Whether a server for `language` can be started.
pub(crate) fn has_server(
    language: &Language,
    languages: &LanguageServers,
    shell: Option<&Shell>,
) -> bool {
    shell.is_some_and(|shell| server(language, languages, shell.clone()).is_ok())
}

/// The server for `language` and its arguments: the operator's own, else the first that is on the path.
/// A program that the operator names by its place is shown to itself, wherever that is.
fn server(
    language: &Language,
    languages: &LanguageServers,
    shell: Shell,
) -> Result<(Vec<String>, Shell), String> {
    let name = language.name;
    match languages.command(language) {
        Some([]) => Err(format!(
            "No language server is to be started for {name} here: the settings say so."
        )),
        Some([program, arguments @ ..]) => {
            let found = find(program, shell.environment());
            let found = found.ok_or_else(|| {
                format!(
                    "The language server for {name} that the settings name is not there: {program}."
                )
            })?;
            let place = Path::new(&found).parent().map(Path::to_owned);
            let shell = shell.with_sandbox_changed(|settings| settings.read.extend(place));
            let words = [found].into_iter().chain(arguments.iter().cloned());
            Ok((words.collect(), shell))
        }
        None => {
            let known = language.servers.iter().find_map(|words| {
                let (program, arguments) = words.split_first()?;
                let found = find(program, shell.environment())?;
                let arguments = arguments.iter().map(|word| (*word).to_owned());
                Some([found].into_iter().chain(arguments).collect())
            });
            let names: Vec<&str> = language.server_names().collect();
            let missing = format!(
                "There is no language server for {name} on this machine: none of {} is on the path. \
                 To get one: {}.",
                names.join(", "),
                language.install
            );
            known.ok_or(missing).map(|words| (words, shell))
        }
    }
}

/// Where `program` is: itself if it says so, else the first of that name on the path.
fn find(program: &str, environment: &[(String, String)]) -> Option<String> {
    if program.contains('/') {
        let is_there = Path::new(program).is_absolute() && is_program(Path::new(program));
        return is_there.then(|| program.to_owned());
    }
    let path = environment.iter().find(|(name, _)| name == "PATH")?;
    let mut places = std::env::split_paths(OsStr::new(&path.1));
    let found = places.find_map(|directory| {
        let found = directory.join(program);
        (directory.is_absolute() && is_program(&found)).then_some(found)
    });
    found?.to_str().map(str::to_owned)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let found = path.metadata();
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
