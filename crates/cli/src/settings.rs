//! What was set, put together from flags, then the environment, then the operator's file, then
//! defaults.
//!
//! [`Environment`] is the only reader of the process's environment; everything takes it as an
//! argument, so that tests bring their own.

mod commands;
mod file;
mod listening;
mod models;
mod network;
mod sandbox;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use agent::project::{Approvals, Operator, Variables};
use anyhow::Context;
use auth::Secret;
use auth::token::{self, TokenError};
use domain::Limits;
use llm::ModelSettings;
use tools::sandbox::SandboxSettings;
use tracing::level_filters::LevelFilter;

use crate::args::{self, Cli, Command, ServerArgs, Store};
use crate::render::{Failure, hint_of};

use file::ConfigFile;
pub(crate) use listening::TlsFiles;
pub(crate) use models::KeyReport;
pub(crate) use network::NetworkSettings;

/// The process's surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    current_dir: PathBuf,
}

/// Everything that was set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) environment: Environment,
    /// Absolute; it may not exist yet.
    pub(crate) data_dir: PathBuf,
    /// Absolute, without links; it exists.
    pub(crate) cwd: PathBuf,
    /// Whether `--cwd` named it.
    pub(crate) is_cwd_given: bool,
    pub(crate) model: ModelSettings,
    /// What `--model` said, to be said again to a server that we start.
    pub(crate) model_flag: Option<String>,
    pub(crate) limits: Limits,
    /// Whether the first prompt of a session is preceded by a greeting.
    pub(crate) is_greeting: bool,
    pub(crate) log: LevelFilter,
    /// Where `serve` listens on the network.
    pub(crate) listen: SocketAddr,
    /// The Unix socket that it listens on besides.
    pub(crate) unix: Option<PathBuf>,
    /// With these it speaks TLS.
    pub(crate) tls: Option<TlsFiles>,
    /// The server to go through, and the file with its token, if they were named.
    pub(crate) server: ServerArgs,
    /// What tools and `fetch` may reach.
    pub(crate) network: NetworkSettings,
    /// What commands are shut in.
    pub(crate) sandbox: SandboxSettings,
    /// What is set for every session.
    pub(crate) operator: Operator,
    /// Where API keys come from.
    pub(crate) keys: KeyReport,
    /// What could not be used, for `doctor`; every other command ends with the first of them.
    pub(crate) problems: Vec<Problem>,
}

/// Something that was set and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) sentence: String,
    /// What to do about it.
    pub(crate) advice: Option<String>,
}

/// Variables without which `doctor` would look at something else.
const KEPT_FOR_DOCTOR: &[&str] = &["FASTNESS_DATA_DIR", "FASTNESS_MODEL", "FASTNESS_TOKEN"];

impl Environment {
    /// The environment of this process. Variables that are not Unicode do not count as set.
    pub(crate) fn of_process() -> anyhow::Result<Self> {
        let unicode = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Ok(Self {
            variables: std::env::vars_os().filter_map(unicode).collect(),
            current_dir: std::env::current_dir().context("the current directory is gone")?,
        })
    }

    /// The variable `name`, if it is set to something.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// A path as it was written on the command line.
    pub(crate) fn beside(&self, path: &Path) -> PathBuf {
        self.current_dir.join(path)
    }

    /// The person's home, if there is one.
    pub(crate) fn home(&self) -> Option<&Path> {
        let home = self.value("HOME").map(Path::new);
        home.filter(|home| home.is_absolute())
    }

    /// Where tool servers keep what they download, if there is a home for it.
    pub(crate) fn caches(&self) -> Option<PathBuf> {
        // The rules of XDG: a relative path there does not count.
        let own = self.value("XDG_CACHE_HOME").map(PathBuf::from);
        let own = own.filter(|path| path.is_absolute());
        let caches = own.or_else(|| Some(self.home()?.join(".cache")));
        Some(caches?.join("fastness/mcp"))
    }

    /// The same without the variables that are about us, but those that say where things are.
    fn without_ours(&self) -> Self {
        let is_other =
            |name: &str| !name.starts_with("FASTNESS_") || KEPT_FOR_DOCTOR.contains(&name);
        let variables = self.variables.iter();
        let kept = variables.filter(|(name, _)| is_other(name));
        Self {
            variables: kept
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            current_dir: self.current_dir.clone(),
        }
    }

    /// Everything that is set.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let variables = self.variables.iter();
        variables.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            variables: pairs.iter().map(own).collect(),
            current_dir: std::env::temp_dir(),
        }
    }
}

impl Settings {
    /// Puts the settings together.
    ///
    /// # Errors
    /// If a value cannot be used; the error says which and what to do.
    pub(crate) fn resolve(cli: &Cli, environment: Environment) -> anyhow::Result<Self> {
        let file = ConfigFile::read(&environment)?;
        Self::resolve_with(cli, environment, &file)
    }

    /// The same for `doctor`: what cannot be used is left out and noted, so that the rest can be looked at.
    ///
    /// # Errors
    /// If nothing can be made of it.
    pub(crate) fn for_doctor(cli: &Cli, environment: Environment) -> anyhow::Result<Self> {
        let mut problems: Vec<Problem> = Vec::new();
        let mut note = |error: &anyhow::Error| {
            let problem = Problem {
                sentence: format!("{error:#}"),
                advice: hint_of(error),
            };
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        };
        let read = ConfigFile::read(&environment);
        let read = read.inspect_err(&mut note).unwrap_or_default();
        let bare = environment.without_ours();
        // One table after the other, so that one that cannot be used does not hide the others.
        let without_limits = read.clone().without("limits");
        let without_both = without_limits.clone().without("network");
        let nothing = ConfigFile::default();
        let mut last = None;
        for (environment, file) in [
            (&environment, &read),
            (&environment, &without_limits),
            (&environment, &without_both),
            (&environment, &nothing),
            (&bare, &read),
            (&bare, &nothing),
        ] {
            match Self::resolve_with(cli, environment.clone(), file) {
                Ok(settings) => {
                    return Ok(Self {
                        problems,
                        ..settings
                    });
                }
                Err(error) => {
                    note(&error);
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("nothing can be used")))
    }

    fn resolve_with(
        cli: &Cli,
        environment: Environment,
        file: &ConfigFile,
    ) -> anyhow::Result<Self> {
        let common = cli.command.common();
        let limits = limits(cli, &environment, file)?;
        // There is one store so far; this only refuses others.
        let Store::File = store(&cli.command, &environment)?;
        let cwd = match &common.cwd {
            Some(cwd) => working_dir(&environment.current_dir.join(cwd))?,
            None => working_dir(&environment.current_dir)?,
        };
        let listening = listening::resolve(&cli.command, &environment)?;
        let data_dir = data_dir(common.data_dir.as_deref(), &environment)?;
        let network = network::resolve(&environment, file)?;
        let keys = models::keys(&environment);
        Ok(Self {
            operator: Operator {
                is_model_named: common.model.is_some()
                    || environment.value("FASTNESS_MODEL").is_some(),
                addresses: models::addresses(&environment),
                ..operator(&data_dir, &environment, file)
            },
            data_dir,
            cwd,
            is_cwd_given: common.cwd.is_some(),
            model_flag: common.model.clone(),
            model: models::resolve(
                common.model.as_deref(),
                &environment,
                file,
                &limits,
                &network,
                &keys,
            )?,
            keys: keys.report,
            limits,
            is_greeting: is_greeting(&environment)?,
            log: log(&cli.command, &environment)?,
            listen: listening.address,
            unix: listening.unix,
            tls: listening.tls,
            server: cli.command.server().cloned().unwrap_or_default(),
            network,
            sandbox: sandbox::resolve(&environment, file)?,
            environment,
            problems: Vec::new(),
        })
    }

    /// The token for the server: `FASTNESS_TOKEN`, else `--token-file`, else `<data-dir>/token` if
    /// it is there.
    ///
    /// # Errors
    /// If a file that is there cannot be used, or one that was named is not there.
    pub(crate) fn token(&self) -> anyhow::Result<Option<Secret>> {
        if let Some(token) = self.environment.value("FASTNESS_TOKEN") {
            return Ok(Some(Secret::new(token.trim())));
        }
        if let Some(path) = &self.server.token_file {
            let path = self.environment.current_dir.join(path);
            let read = token::read(&path).with_context(|| path.display().to_string())?;
            return Ok(Some(read));
        }
        let path = self.data_dir.join("token");
        match token::read(&path) {
            Ok(token) => Ok(Some(token)),
            Err(TokenError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Which certificates to trust when the server speaks TLS: those of all connections, and those of
    /// `--ca-file`, else of `FASTNESS_CA_FILE`.
    ///
    /// # Errors
    /// If that file holds no certificate.
    pub(crate) fn trust(&self) -> Result<client::Trust, egress::RootsError> {
        let set = self.environment.value("FASTNESS_CA_FILE").map(Path::new);
        let named = self.server.ca_file.as_deref().or(set);
        let named = named.map(|path| self.environment.current_dir.join(path));
        client::Trust::new(self.network.roots_with(named))
    }
}

fn data_dir(flag: Option<&Path>, environment: &Environment) -> anyhow::Result<PathBuf> {
    let named = flag.or(environment.value("FASTNESS_DATA_DIR").map(Path::new));
    if let Some(named) = named {
        let path = environment.current_dir.join(named);
        return std::path::absolute(path).context("the data directory cannot be named");
    }
    // The rules of XDG: a relative path there does not count.
    let state = environment.value("XDG_STATE_HOME").map(PathBuf::from);
    let state = state
        .filter(|state| state.is_absolute())
        .or_else(|| Some(environment.home()?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::usage("there is no place for the data directory: HOME is not set")
            .hint("name one with --data-dir or FASTNESS_DATA_DIR")
    })?;
    Ok(state.join("fastness"))
}

fn working_dir(path: &Path) -> anyhow::Result<PathBuf> {
    let is_dir = |path: &PathBuf| path.is_dir();
    // Without links, so that the same directory has the same name when a session is continued.
    path.canonicalize().ok().filter(is_dir).ok_or_else(|| {
        let sentence = format!(
            "the working directory {} is not a directory",
            path.display()
        );
        Failure::usage(sentence)
            .hint("name one that exists with --cwd")
            .into()
    })
}

/// What is set for every session, and where what belongs to the person is.
fn operator(data_dir: &Path, environment: &Environment, file: &ConfigFile) -> Operator {
    // Links in it would be taken for a way out of it.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Operator {
        settings: file.settings().clone(),
        home: environment.home().map(real),
        config_dir: file::directory(environment).as_deref().map(real),
        approvals: Some(Approvals::of(data_dir)),
        environment: environment.for_commands().into(),
        variables: Variables::new(environment.variables()),
        ..Operator::default()
    }
}

/// Limits from the file, then from `FASTNESS_LIMITS_<KEY>`, then from the flags that name one.
fn limits(cli: &Cli, environment: &Environment, file: &ConfigFile) -> anyhow::Result<Limits> {
    let mut limits = Limits::default();
    for (key, value) in file.limits() {
        limits
            .set(key, value.trim())
            .map_err(|error| file.wrong(&format!("limits.{key}: {error}")))?;
    }
    for (name, value) in &environment.variables {
        if let Some(key) = name.strip_prefix("FASTNESS_LIMITS_") {
            limits
                .set(&key.to_ascii_lowercase(), value.trim())
                .map_err(|error| Failure::usage(format!("{name}: {error}")))?;
        }
    }
    if let Command::Serve(args) = &cli.command {
        limits.grace = args.grace.unwrap_or(limits.grace);
        limits.idle = args.idle_timeout.unwrap_or(limits.idle);
    }
    Ok(limits)
}

fn is_greeting(environment: &Environment) -> anyhow::Result<bool> {
    match environment.value("FASTNESS_GREETING") {
        None | Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(other) => Err(Failure::usage(format!(
            "FASTNESS_GREETING takes true or false, not `{other}`"
        ))
        .into()),
    }
}

/// What runs for long tells what it does; what a person waits for speaks up only when it must.
fn log(command: &Command, environment: &Environment) -> anyhow::Result<LevelFilter> {
    if let Some(level) = command.common().log {
        return Ok(level);
    }
    if let Some(level) = environment.value("FASTNESS_LOG") {
        return level.parse().map_err(|_| {
            Failure::usage(format!("FASTNESS_LOG does not know the level `{level}`"))
                .hint("use off, error, warn, info, debug or trace")
                .into()
        });
    }
    Ok(match command {
        Command::Serve(_) => LevelFilter::INFO,
        // Its screen is the terminal that the log would be written to.
        Command::Chat(_) => LevelFilter::OFF,
        // What its one turn fails with is printed as its error.
        Command::Ask(_) => LevelFilter::ERROR,
        Command::Acp(_)
        | Command::Approve(_)
        | Command::Completions(_)
        | Command::Doctor(_)
        | Command::Fetch(_)
        | Command::Init(_)
        | Command::Login(_)
        | Command::Logout(_)
        | Command::Man(_)
        | Command::Mcp(_)
        | Command::Open(_)
        | Command::Sessions(_)
        | Command::Token(_) => LevelFilter::WARN,
    })
}

fn store(command: &Command, environment: &Environment) -> anyhow::Result<Store> {
    let flag = match command {
        Command::Serve(args) => args.store,
        Command::Acp(_)
        | Command::Approve(_)
        | Command::Ask(_)
        | Command::Completions(_)
        | Command::Chat(_)
        | Command::Doctor(_)
        | Command::Fetch(_)
        | Command::Init(_)
        | Command::Login(_)
        | Command::Logout(_)
        | Command::Man(_)
        | Command::Mcp(_)
        | Command::Open(_)
        | Command::Sessions(_)
        | Command::Token(_) => None,
    };
    match (flag, environment.value("FASTNESS_STORE")) {
        (Some(store), _) => Ok(store),
        (None, Some(text)) => args::store(text)
            .map_err(|problem| Failure::usage(format!("FASTNESS_STORE: {problem}")).into()),
        (None, None) => Ok(Store::default()),
    }
}

#[cfg(test)]
mod tests;
