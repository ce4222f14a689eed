//! What commands on the server are given: an environment without secrets, a supervisor, and a
//! place for long output.

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::CallId;

use crate::helpers::{self, Trust};
use crate::lsp::LanguageServers;
use crate::progress;
use crate::roots::Roots;
use crate::sandbox::{
    Bounds, Cage, Found, Grants, OURSELVES, Piped, PipedProgram, Sandbox, SandboxSettings,
    supervisor,
};
use crate::tool_chains;

/// How commands run on the server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shell {
    environment: Arc<[(String, String)]>,
    supervisor: Arc<[String]>,
    program: PathBuf,
    outputs: PathBuf,
    /// Git's settings for the user, as far as variables name them.
    git_settings: Arc<[PathBuf]>,
    sandbox: Option<Sandbox>,
}

/// What one call works with.
#[derive(Debug)]
pub struct ShellCall {
    /// The call.
    pub call: CallId,
    /// How commands run.
    pub shell: Shell,
    /// Where they may begin.
    pub roots: Arc<Roots>,
    /// Where their newest output is shown.
    pub place: progress::Place,
    /// What they may do beyond what every command may.
    pub grants: Grants,
    /// The session's language servers.
    pub languages: LanguageServers,
}

/// What a program that is spoken to is shut in.
#[derive(Clone, Debug)]
pub enum PipedCage {
    /// Nothing.
    Free,
    /// What commands are shut in, with a little more.
    With {
        /// It may reach the network.
        network: bool,
        /// What it sees besides.
        read: Vec<PathBuf>,
        /// What it may change besides.
        write: Vec<PathBuf>,
    },
}

/// Variables that a command sees, if they are set: what programs need to find their way. All else
/// stays with us, for keys and tokens have all kinds of names.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    // What tool chains go by, besides where they live ([`tool_chains::DIRECTORIES`]).
    "RUSTUP_TOOLCHAIN",
    "PKG_CONFIG_PATH",
    "CC",
    "CXX",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

impl Shell {
    /// Commands that see what of `variables` is harmless, in a process whose program can supervise
    /// (see [`supervisor`]); `sessions` is the directory that holds one for each session.
    pub fn new<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>, sessions: PathBuf) -> Self {
        let variables: Vec<(&str, &str)> = variables.collect();
        Self {
            git_settings: git_settings(&variables),
            environment: scrubbed(variables.into_iter()),
            supervisor: Arc::new([supervisor::ARGUMENT.to_owned()]),
            program: PathBuf::from(OURSELVES),
            outputs: sessions,
            sandbox: None,
        }
    }

    /// The same, with every command shut in, within `bounds`.
    #[must_use]
    pub fn with_sandbox(self, bounds: Bounds, settings: SandboxSettings) -> Self {
        let environment = Arc::clone(&self.environment);
        // Beside the sessions, in the data directory: no command sees it.
        let snapshots = self.outputs.parent().map(|data| data.join("snapshots"));
        let program = self.program.clone();
        let sandbox = Sandbox::new(environment, program, bounds, settings, snapshots)
            .with_git_settings(Arc::clone(&self.git_settings));
        Self {
            sandbox: Some(sandbox),
            ..self
        }
    }

    /// The same for somebody who is not the person at this machine: nothing of that person's is
    /// shown but tool chains.
    #[must_use]
    pub fn for_guest(&self) -> Self {
        Self {
            sandbox: self.sandbox.as_ref().map(Sandbox::for_guest),
            ..self.clone()
        }
    }

    /// The same, shut in as `change` says, if it is shut in at all.
    #[must_use]
    pub fn with_sandbox_changed(&self, change: impl FnOnce(&mut SandboxSettings)) -> Self {
        let sandbox = self.sandbox.as_ref().map(|sandbox| {
            let mut settings = sandbox.settings().clone();
            change(&mut settings);
            sandbox.with(settings)
        });
        Self {
            sandbox,
            ..self.clone()
        }
    }

    /// What commands are shut in by.
    pub async fn sandbox_found(&self) -> Found {
        match &self.sandbox {
            Some(sandbox) => sandbox.found().await,
            None => Found::Off,
        }
    }

    /// The sandbox, if there is to be one.
    #[must_use]
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.sandbox.as_ref()
    }

    /// Whether the last search for protected files beneath `roots` came to its end.
    pub(crate) fn was_searched(&self, roots: &Roots) -> Option<bool> {
        self.sandbox.as_ref()?.was_searched(roots)
    }

    /// What a command in a session with `roots` is shut in; nothing if that is not wanted, or
    /// nothing works here.
    ///
    /// # Errors
    /// If it cannot be made, or if there is none and the session's directories hold something hidden:
    /// then nothing may run.
    pub(crate) async fn cage(&self, roots: &Roots, grants: Grants) -> io::Result<Option<Cage>> {
        let cage = match &self.sandbox {
            Some(sandbox) => sandbox.cage(roots, grants).await?,
            None => None,
        };
        if cage.is_none() && !self.can_work_in(roots).await {
            return Err(io::Error::other(
                "the session's directory holds the server's data directory, and there is no sandbox",
            ));
        }
        Ok(cage)
    }

    /// Whether a session with `roots` is safe: its directories hold nothing that is hidden, such as
    /// the data directory, or a sandbox keeps commands from it.
    pub async fn can_work_in(&self, roots: &Roots) -> bool {
        let session = roots.clone();
        // Looking at the disk blocks.
        let looking = tokio::task::spawn_blocking(move || session.hold_hidden());
        let is_held = looking.await.unwrap_or(true);
        !is_held || self.sandbox_found().await.is_sandbox()
    }

    /// Starts a program that runs for long and is spoken to, where commands begin and shut in as
    /// they are, or free if `cage` says so.
    ///
    /// # Errors
    /// If it cannot be started, or [`io::ErrorKind::Unsupported`] if it is to be shut in and nothing
    /// here can do that.
    pub async fn start_piped(
        &self,
        words: &[String],
        environment: &[(String, String)],
        roots: &Roots,
        cage: PipedCage,
    ) -> io::Result<Piped> {
        let mut variables = self.environment.to_vec();
        variables.retain(|(name, _)| environment.iter().all(|(other, _)| other != name));
        variables.extend_from_slice(environment);
        let mut words = words.to_vec();
        let cage = match cage {
            PipedCage::Free => {
                (words, variables) = outside(words, variables).await?;
                None
            }
            PipedCage::With { .. } if !self.sandbox_found().await.is_enough() => {
                return Err(io::ErrorKind::Unsupported.into());
            }
            PipedCage::With {
                network,
                read,
                write,
            } => {
                let changed = self.with_sandbox_changed(|settings| {
                    settings.read.extend(read);
                    settings.write.extend(write);
                });
                let grants = Grants {
                    network,
                    ..Grants::default()
                };
                changed.cage(roots, grants).await?
            }
        };
        let roots = roots.clone();
        // Looking at the disk blocks.
        let opened = tokio::task::spawn_blocking(move || roots.open_directory("."));
        let directory = opened.await.map_err(io::Error::other)?;
        let directory = directory.map_err(io::Error::other)?;
        let started = Piped::start(PipedProgram {
            words: &words,
            cwd: directory.as_fd(),
            environment: &variables,
            program: &self.program,
            cage: cage.as_ref(),
        });
        started.await
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The same for one session.
    #[must_use]
    pub fn for_session(&self, session: &str) -> Self {
        Self {
            outputs: self.outputs.join(session).join("outputs"),
            ..self.clone()
        }
    }

    /// The value of a variable that commands see.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        let mut variables = self.environment.iter();
        let found = variables.find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    pub(crate) fn supervisor(&self) -> &[String] {
        &self.supervisor
    }

    pub(crate) fn outputs(&self) -> &Path {
        &self.outputs
    }

    /// Commands for tests, whose program supervises when started in this way.
    #[cfg(test)]
    pub(crate) fn of_test(
        supervisor: &[&str],
        environment: &[(&str, &str)],
        outputs: &Path,
    ) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            environment: environment.iter().map(own).collect(),
            supervisor: supervisor.iter().map(|word| (*word).to_owned()).collect(),
            program: PathBuf::from(OURSELVES),
            outputs: outputs.to_owned(),
            git_settings: Arc::default(),
            sandbox: None,
        }
    }
}

/// A program for outside of the sandbox, with its arguments and variables: found where no session
/// can write, and with a search path that leads nowhere else.
pub(crate) async fn outside(
    mut words: Vec<String>,
    mut variables: Vec<(String, String)>,
) -> io::Result<(Vec<String>, Vec<(String, String)>)> {
    let looking = tokio::task::spawn_blocking(move || {
        let path = variables.iter_mut().find(|(name, _)| name == "PATH");
        let mut given = String::new();
        if let Some((_, path)) = path {
            given = std::mem::replace(path, helpers::safe_path(path));
        }
        if let Some(program) = words.first_mut() {
            let found = helpers::find(program, &given, Trust::User).map_err(io::Error::other)?;
            *program = found.to_string_lossy().into_owned();
        }
        Ok((words, variables))
    });
    looking.await.map_err(io::Error::other)?
}

/// Git's settings that `variables` name: commands do not see these variables, but git of the user does.
fn git_settings(variables: &[(&str, &str)]) -> Arc<[PathBuf]> {
    let named = variables.iter().filter_map(|(name, value)| match *name {
        "XDG_CONFIG_HOME" => Some(Path::new(value).join("git/config")),
        "GIT_CONFIG_GLOBAL" | "GIT_CONFIG_SYSTEM" => Some(PathBuf::from(value)),
        _ => None,
    });
    named.filter(|path| path.is_absolute()).collect()
}

/// What of `variables` a command may see.
fn scrubbed<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Arc<[(String, String)]> {
    let passed_on = variables.filter(|(name, _)| {
        let is_language = name.starts_with("LC_") && name.len() < 32;
        let is_harmless = PASSED_ON.contains(name) || tool_chains::DIRECTORIES.contains(name);
        is_language || is_harmless
    });
    let own = passed_on.map(|(name, value)| (name.to_owned(), value.to_owned()));
    // Nobody is there who could use a better terminal.
    let terminal = [("TERM".to_owned(), "dumb".to_owned())];
    own.chain(terminal).collect()
}

#[cfg(test)]
mod tests {
    use super::scrubbed;

    #[test]
    fn keys_and_tokens_stay_with_us_whatever_they_are_called() {
        let variables = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("TERM", "xterm"),
            ("ANTHROPIC_API_KEY", "k"),
            ("OPENAI_API_KEY", "k"),
            ("FASTNESS_TOKEN", "t"),
            ("GITHUB_TOKEN", "t"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("DATABASE_URL", "postgres://user:password@host"),
            ("http_proxy", "http://user:password@host"),
            ("SSH_AUTH_SOCK", "/agent"),
        ];
        let left = scrubbed(variables.into_iter());
        let names: Vec<&str> = left.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["PATH", "LC_ALL", "TERM"]);
        assert_eq!(left[2].1, "dumb");
    }
}
