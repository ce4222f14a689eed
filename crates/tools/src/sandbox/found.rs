//! Which sandbox works on this machine, found out by trying, and the cages that are made with it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::limits::SANDBOX_PROBE_WAIT;
use rustix::fs::{Mode, OFlags};
use tokio::sync::OnceCell;

use super::cage::{Bounds, Cage, Grants, Layer};
use super::places::{self, Ground};
use super::{Exit, Ordered, supervise};
use crate::roots::Roots;
use crate::tool_chains;

/// What the operator decided about the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Whether there is one, and of which kind.
    pub mode: SandboxMode,
    /// Whether every command may reach the network.
    pub network: bool,
    /// What commands see beyond what they always do.
    pub read: Vec<PathBuf>,
    /// What they may change beyond the session's directories.
    pub write: Vec<PathBuf>,
    /// What they do not see, whatever else is said.
    pub hide: Vec<PathBuf>,
}

/// Whether commands are shut in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// By bubblewrap and Landlock, or what of it works.
    #[default]
    Auto,
    /// By Landlock alone.
    Landlock,
    /// Not at all.
    Off,
}

/// What works on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Bubblewrap, with Landlock inside as far as the kernel has it.
    Bubblewrap {
        /// The program.
        program: PathBuf,
    },
    /// Landlock alone; why bubblewrap is not used.
    Landlock(String),
    /// Nothing, and why.
    Nothing(String),
    /// It was not looked for.
    Off,
}

impl Found {
    /// Whether a command may run without anyone having been asked: it is shut in, or the operator
    /// decided that it need not be.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        match self {
            Self::Bubblewrap { .. } | Self::Landlock(_) | Self::Off => true,
            Self::Nothing(_) => false,
        }
    }
}

/// How commands are shut in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sandbox {
    machine: Arc<Machine>,
    settings: Arc<SandboxSettings>,
    is_guest: bool,
}

/// What is the same for every command.
#[derive(Debug)]
struct Machine {
    /// Variables for commands.
    environment: Arc<[(String, String)]>,
    /// The program that supervises.
    program: PathBuf,
    bounds: Bounds,
    auto: OnceCell<Found>,
    landlock: OnceCell<Found>,
}

/// Bytes of a complaint that a person is shown.
const PRINTED_BYTES_MAX: usize = 400;

impl Sandbox {
    /// A sandbox for commands that see `environment`, with `program` as their supervisor.
    #[must_use]
    pub fn new(
        environment: Arc<[(String, String)]>,
        program: PathBuf,
        bounds: Bounds,
        settings: SandboxSettings,
    ) -> Self {
        Self {
            machine: Arc::new(Machine {
                environment,
                program,
                bounds,
                auto: OnceCell::new(),
                landlock: OnceCell::new(),
            }),
            settings: Arc::new(settings),
            is_guest: false,
        }
    }

    /// The same for somebody who is not the person at this machine.
    #[must_use]
    pub fn for_guest(&self) -> Self {
        Self {
            is_guest: true,
            ..self.clone()
        }
    }

    /// The same with other settings.
    #[must_use]
    pub fn with(&self, settings: SandboxSettings) -> Self {
        Self {
            settings: Arc::new(settings),
            ..self.clone()
        }
    }

    /// What the operator decided.
    #[must_use]
    pub fn settings(&self) -> &SandboxSettings {
        &self.settings
    }

    /// What works here. Tried once for all that have it from the same [`Sandbox::new`].
    pub async fn found(&self) -> Found {
        let machine = &self.machine;
        match self.settings.mode {
            SandboxMode::Off => Found::Off,
            SandboxMode::Auto => machine.auto.get_or_init(|| self.try_all()).await.clone(),
            SandboxMode::Landlock => {
                let why = "the settings say so".to_owned();
                let found = machine.landlock.get_or_init(|| self.try_landlock(why));
                found.await.clone()
            }
        }
    }

    /// A cage for one command in a session with `roots`; none if nothing works or is wanted.
    pub async fn cage(&self, roots: &Roots, grants: Grants) -> Option<Cage> {
        let layer = match self.found().await {
            Found::Bubblewrap { program } => Layer::Bubblewrap { program },
            Found::Landlock(_) => Layer::Landlock,
            Found::Nothing(_) | Found::Off => return None,
        };
        self.cage_of(layer, Some(roots), grants).await
    }

    async fn cage_of(&self, layer: Layer, roots: Option<&Roots>, grants: Grants) -> Option<Cage> {
        let network = grants.network || self.settings.network;
        let (this, roots) = (self.clone(), roots.cloned());
        // Looking around on a disk blocks.
        let found = tokio::task::spawn_blocking(move || {
            let (environment, settings) = (&this.machine.environment, &this.settings);
            let value = |name: &str| environment.iter().find(|(known, _)| known == name);
            let names = ["PATH"].iter().chain(tool_chains::DIRECTORIES);
            let tools = names.filter_map(|name| value(name));
            let tools = tools.flat_map(|(_, value)| value.split(':').map(PathBuf::from));
            let tools: Vec<PathBuf> = tools.filter(|path| path.is_absolute()).collect();
            places::find(&Ground {
                roots: roots.as_ref().map_or(&[], Roots::directories),
                hidden: roots.as_ref().map_or(&[], Roots::hidden),
                home: value("HOME").map(|(_, home)| Path::new(home)),
                is_guest: this.is_guest,
                tools: &tools,
                read: &settings.read,
                write: &settings.write,
                hide: &settings.hide,
                network,
            })
        });
        Some(Cage {
            layer,
            places: found.await.ok()?,
            network,
            bounds: self.machine.bounds,
        })
    }

    async fn try_all(&self) -> Found {
        let Some(program) = self.bubblewrap() else {
            return self
                .try_landlock("bubblewrap is not installed".to_owned())
                .await;
        };
        let layer = Layer::Bubblewrap {
            program: program.clone(),
        };
        match self.attempt(layer).await {
            Ok(()) => Found::Bubblewrap { program },
            Err(why) => self.try_landlock(format!("bubblewrap fails: {why}")).await,
        }
    }

    async fn try_landlock(&self, why_alone: String) -> Found {
        match self.attempt(Layer::Landlock).await {
            Ok(()) => Found::Landlock(why_alone),
            Err(why) => Found::Nothing(format!("{why_alone}; Landlock fails: {why}")),
        }
    }

    /// Where bubblewrap is, by the search path of commands.
    fn bubblewrap(&self) -> Option<PathBuf> {
        let path = self.machine.environment.iter();
        let path = path.filter(|(name, _)| name == "PATH");
        let directories = path.flat_map(|(_, path)| path.split(':'));
        let mut programs = directories.map(|directory| Path::new(directory).join("bwrap"));
        programs.find(|program| program.is_absolute() && program.is_file())
    }

    /// Runs a command that does nothing; says why if that fails.
    async fn attempt(&self, layer: Layer) -> Result<(), String> {
        let cage = self.cage_of(layer, None, Grants::default()).await;
        let cwd = top().map_err(|error| error.to_string())?;
        let ordered = Ordered {
            command: "exit 0",
            cwd: cwd.as_fd(),
            environment: &self.machine.environment,
            program: &self.machine.program,
            supervisor: &[super::supervisor::ARGUMENT.to_owned()],
            time_max: SANDBOX_PROBE_WAIT,
            cage: cage.as_ref(),
        };
        let mut printed = Vec::new();
        let mut sink = |more: &[u8]| {
            let room = PRINTED_BYTES_MAX.saturating_sub(printed.len());
            printed.extend_from_slice(&more[..more.len().min(room)]);
        };
        match supervise(ordered, &mut sink).await {
            Ok(Exit::Code(0)) => Ok(()),
            Ok(exit) => {
                let printed = String::from_utf8_lossy(&printed);
                let printed = crate::builtin::one_line(&printed);
                Err(if printed.is_empty() {
                    format!("{exit:?}")
                } else {
                    printed
                })
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

fn top() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/", flags, Mode::empty())?)
}
