//! A place of its own for one test: data directory, workspace and model script, all temporary.
//!
//! Programs started from a [`Home`] see none of the caller's environment: no keys, no settings.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

/// Where one test's programs live; removed when dropped.
pub struct Home {
    place: TempDir,
    binary: PathBuf,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    model: Option<String>,
    wrapper: Vec<String>,
}

impl Home {
    /// A new home for `binary` whose model follows `script`.
    ///
    /// # Panics
    /// If the temporary directory cannot be made.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>, script: impl Into<Value>) -> Self {
        let place = TempDir::with_prefix("fastness-")
            .unwrap_or_else(|error| panic!("no temporary directory: {error}"));
        let home = Self {
            place,
            binary: binary.into(),
            environment: Vec::new(),
            arguments: Vec::new(),
            model: None,
            wrapper: Vec::new(),
        };
        for folder in [home.workspace(), home.user_dir()] {
            std::fs::create_dir(&folder)
                .unwrap_or_else(|error| panic!("{} cannot be made: {error}", folder.display()));
        }
        home.set_script(script);
        home
    }

    /// Sets a variable for every program started from here, as `FASTNESS_LIMITS_GRACE_MS`.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// Uses another model than the script.
    #[must_use]
    pub fn model(mut self, spec: &str) -> Self {
        self.model = Some(spec.to_owned());
        self
    }

    /// Names no model at all: settings decide.
    #[must_use]
    pub fn without_model(mut self) -> Self {
        self.model = Some(String::new());
        self
    }

    /// Adds an argument to every program started from here.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts every program from here through another, as `unshare --mount`.
    #[must_use]
    pub fn under<'a>(mut self, wrapper: impl IntoIterator<Item = &'a &'a str>) -> Self {
        self.wrapper = wrapper.into_iter().map(ToString::to_string).collect();
        self
    }

    /// Uses another copy of the program.
    #[must_use]
    pub fn binary_at(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = binary.into();
        self
    }

    /// Changes the model of programs started from now on.
    ///
    /// # Panics
    /// If the script cannot be written.
    pub fn set_script(&self, script: impl Into<Value>) {
        write_file(&self.script_path(), &script.into().to_string());
    }

    /// The data directory; the program makes it.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// The directory that sessions work in.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.place.path().join("workspace")
    }

    /// Leaves everything where it is when this goes, for a person to look at; says where.
    pub fn keep(&mut self) -> PathBuf {
        self.place.disable_cleanup(true);
        self.place.path().to_owned()
    }

    /// The model's script, for `--model script:FILE`.
    #[must_use]
    pub fn script_path(&self) -> PathBuf {
        self.place.path().join("script.json")
    }

    /// The program under test.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The arguments that make `fastness COMMAND` use this home.
    #[must_use]
    pub fn arguments(&self, command: &str) -> Vec<String> {
        let mut arguments = vec![
            command.to_owned(),
            "--data-dir".to_owned(),
            self.data_dir().display().to_string(),
        ];
        let script = || format!("script:{}", self.script_path().display());
        let model = self.model.clone().unwrap_or_else(script);
        if !model.is_empty() {
            arguments.extend(["--model".to_owned(), model]);
        }
        arguments.extend(self.arguments.iter().cloned());
        arguments
    }

    /// `fastness COMMAND` in this home, with all streams piped; killed when dropped.
    #[must_use]
    pub fn command(&self, command: &str) -> Command {
        let mut program = match self.wrapper.split_first() {
            Some((wrapper, arguments)) => {
                let mut program = self.clean(wrapper);
                program.args(arguments).arg(&self.binary);
                program
            }
            None => self.clean(&self.binary),
        };
        program.args(self.arguments(command));
        program
    }

    /// Any program, with this home's environment and all streams piped; killed when dropped.
    #[must_use]
    pub fn clean(&self, program: impl AsRef<OsStr>) -> Command {
        crate::system::need_if_listed(program.as_ref());
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "PATH"))
            .env("HOME", self.user_dir())
            .envs(self.environment.iter().cloned())
            .current_dir(self.workspace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Writes `text` to `name` in the workspace.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        write_file(&self.workspace().join(name), text);
    }

    /// The text of `name` in the workspace, or `None` if there is no such file.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<String> {
        read_file(&self.workspace().join(name))
    }

    /// The stored events of a session, one JSON object per line of its journal. A last line without
    /// its end is being written just now and is none yet.
    ///
    /// # Panics
    /// If there is no such journal or a line of it is not JSON.
    #[must_use]
    pub fn events(&self, session: &str) -> Vec<Value> {
        let path = self
            .data_dir()
            .join("sessions")
            .join(session)
            .join("events.jsonl");
        let text = read_file(&path).unwrap_or_else(|| panic!("there is no {}", path.display()));
        text.split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'))
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("{error} in the journal line {line}"))
            })
            .collect()
    }

    /// The home of the person who runs the programs.
    #[must_use]
    pub fn user_dir(&self) -> PathBuf {
        self.place.path().join("home")
    }
}

/// The text of a file that a test looks at, or `None` if it does not exist.
///
/// # Panics
/// If it exists and cannot be read.
#[must_use]
pub fn read_file(path: &Path) -> Option<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{} cannot be read: {error}", path.display()),
    }
}

fn write_file(path: &Path, text: &str) {
    std::fs::write(path, text)
        .unwrap_or_else(|error| panic!("{} cannot be written: {error}", path.display()));
}
