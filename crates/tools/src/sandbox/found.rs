//! Which sandbox works on this machine, found out by trying, and the cages that are made with it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::limits::{SANDBOX_PROBE_WAIT, SNAPSHOTS_MAX};
use rustix::fs::{Mode, OFlags};
use tokio::sync::OnceCell;

use super::cage::{Bounds, Cage, Grants, Layer, Places};
use super::journal::{self, Recovery};
use super::places::{self, Ground};
use super::{Exit, Ordered, held, home, supervise};
use crate::helpers::{self, HelperError, Trust};
use crate::roots::{Root, Roots};
use crate::tool_chains;

/// What the operator decided about the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Whether there is one, and of which kind.
    pub mode: SandboxMode,
    /// Whether every command may reach the network.
    pub network: bool,
    /// Whether commands may use Unix sockets: then they reach those of other programs, too.
    pub unix_sockets: bool,
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
    /// Whether commands are shut in.
    #[must_use]
    pub fn is_sandbox(&self) -> bool {
        match self {
            Self::Bubblewrap { .. } | Self::Landlock(_) => true,
            Self::Nothing(_) | Self::Off => false,
        }
    }

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
    /// Git's settings for the user, besides those in the home.
    git_settings: Arc<[PathBuf]>,
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
    /// Where snapshots of protected files are kept.
    snapshots: Option<PathBuf>,
    /// Whether all protected files beneath these directories could be found, when it was last tried.
    searched: Mutex<HashMap<Vec<Root>, bool>>,
    /// What was found after a crash, until a session in those directories is told.
    recoveries: Mutex<Vec<Recovery>>,
    auto: OnceCell<Found>,
    landlock: OnceCell<Found>,
}

/// Sets of directories for which it is remembered whether they could be searched.
const SEARCHES_MAX: usize = 1_024;

/// Bytes of a complaint that a person is shown.
const PRINTED_BYTES_MAX: usize = 400;

impl Sandbox {
    /// A sandbox for commands that see `environment`, with `program` as their supervisor.
    /// Snapshots of protected files are kept in `snapshots` while commands run.
    #[must_use]
    pub fn new(
        environment: Arc<[(String, String)]>,
        program: PathBuf,
        bounds: Bounds,
        settings: SandboxSettings,
        snapshots: Option<PathBuf>,
    ) -> Self {
        note_writable(&settings);
        Self {
            machine: Arc::new(Machine {
                environment,
                program,
                bounds,
                snapshots,
                searched: Mutex::default(),
                recoveries: Mutex::default(),
                auto: OnceCell::new(),
                landlock: OnceCell::new(),
            }),
            settings: Arc::new(settings),
            git_settings: Arc::default(),
            is_guest: false,
        }
    }

    /// The same, with these files as git's settings for the user, besides those in the home.
    #[must_use]
    pub fn with_git_settings(self, git_settings: Arc<[PathBuf]>) -> Self {
        Self {
            git_settings,
            ..self
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
        note_writable(&settings);
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
    ///
    /// # Errors
    /// If it cannot be made: then nothing may run.
    pub async fn cage(&self, roots: &Roots, grants: Grants) -> io::Result<Option<Cage>> {
        let layer = match self.found().await {
            Found::Bubblewrap { program } => {
                // It was found when this process began; a session may have come to its place since.
                let checked = helpers::check(&program, Trust::System);
                let program = checked.map_err(io::Error::other)?;
                Layer::Bubblewrap { program }
            }
            Found::Landlock(_) => Layer::Landlock,
            Found::Nothing(_) | Found::Off => return Ok(None),
        };
        self.cage_of(layer, Some(roots), grants).await.map(Some)
    }

    /// Whether a command in a session with `roots` must be asked about because not all protected
    /// files could be found. Looks once for each set of directories.
    pub async fn is_beyond_search(&self, roots: &Roots) -> bool {
        if !matches!(
            self.found().await,
            Found::Bubblewrap { .. } | Found::Landlock(_)
        ) {
            return false;
        }
        if self.was_searched(roots).is_none() {
            let (this, session) = (self.clone(), roots.clone());
            // Looking around on a disk blocks.
            let places = tokio::task::spawn_blocking(move || {
                this.recover();
                this.places(Some(&session), Grants::default())
            });
            // A search that failed is tried again by the command.
            if let Ok(places) = places.await {
                self.note_search(roots, places.is_searched);
            }
        }
        self.was_searched(roots) == Some(false)
    }

    /// What the last search beneath `roots` said.
    pub(crate) fn was_searched(&self, roots: &Roots) -> Option<bool> {
        let searched = self.machine.searched.lock();
        let searched = searched.unwrap_or_else(PoisonError::into_inner);
        searched.get(roots.all()).copied()
    }

    fn note_search(&self, roots: &Roots, is_whole: bool) {
        let searched = self.machine.searched.lock();
        let mut searched = searched.unwrap_or_else(PoisonError::into_inner);
        if searched.len() >= SEARCHES_MAX {
            searched.clear();
        }
        searched.insert(roots.all().to_vec(), is_whole);
    }

    /// Looks at what commands may have done whose supervisor was killed. The next command in those
    /// directories tells the user. Gives a line for each thing, for the log. Blocks.
    pub fn recover(&self) -> Vec<String> {
        let Some(snapshots) = &self.machine.snapshots else {
            return Vec::new();
        };
        let found = journal::recover(snapshots);
        let told = found.iter().flat_map(|one| one.told.iter().cloned());
        let told = told.collect();
        let recoveries = self.machine.recoveries.lock();
        let mut recoveries = recoveries.unwrap_or_else(PoisonError::into_inner);
        recoveries.extend(found);
        recoveries.truncate(SNAPSHOTS_MAX);
        told
    }

    /// Takes what a session in `roots` is to be told of such commands.
    fn take_notes(&self, roots: &[PathBuf]) -> Vec<String> {
        let recoveries = self.machine.recoveries.lock();
        let mut recoveries = recoveries.unwrap_or_else(PoisonError::into_inner);
        let is_here = |recovery: &mut Recovery| recovery.is_about(roots);
        let here = recoveries.extract_if(.., is_here);
        here.flat_map(|recovery| recovery.told).collect()
    }

    async fn cage_of(
        &self,
        layer: Layer,
        roots: Option<&Roots>,
        grants: Grants,
    ) -> io::Result<Cage> {
        let (this, session) = (self.clone(), roots.cloned());
        // Looking around on a disk blocks.
        let found = tokio::task::spawn_blocking(move || {
            // First: what a killed command left must not be taken for what was there.
            this.recover();
            let places = this.places(session.as_ref(), grants);
            let notes = this.take_notes(&places.area.roots);
            let all = session.as_ref().map_or(&[][..], Roots::all);
            let held = held::hold(&places, all).map_err(io::Error::other)?;
            Ok::<_, io::Error>((places, held, notes))
        });
        let (places, held, notes) = found.await.map_err(io::Error::other)??;
        if let Some(roots) = roots {
            self.note_search(roots, places.is_searched);
        }
        Ok(Cage {
            layer,
            places,
            held,
            network: grants.network || self.settings.network,
            unix_sockets: self.settings.unix_sockets,
            bounds: self.machine.bounds,
            may_make_repositories: grants.repositories,
            snapshots: self.machine.snapshots.clone(),
            notes,
        })
    }

    /// What a command sees of the disk. Blocks.
    fn places(&self, roots: Option<&Roots>, grants: Grants) -> Places {
        let (environment, settings) = (&self.machine.environment, &self.settings);
        let value = |name: &str| environment.iter().find(|(known, _)| known == name);
        let names = ["PATH"].iter().chain(tool_chains::DIRECTORIES);
        let tools = names.filter_map(|name| value(name));
        let tools = tools.flat_map(|(name, value)| {
            let parts = tool_chains::parts_of_variable(name);
            let paths = value.split(':').map(PathBuf::from);
            let paths = paths.filter(|path| path.is_absolute());
            paths.flat_map(move |path| match parts {
                Some(parts) => home::needed_of(&path, parts),
                None => vec![path],
            })
        });
        let tools: Vec<PathBuf> = tools.collect();
        places::find(&Ground {
            roots: roots.map_or(&[], Roots::all),
            hidden: roots.map_or(&[], Roots::hidden),
            home: value("HOME").map(|(_, home)| Path::new(home)),
            is_guest: self.is_guest,
            tools: &tools,
            read: &settings.read,
            write: &settings.write,
            hide: &settings.hide,
            git_settings: &self.git_settings,
            network: grants.network || settings.network,
            makes_repositories: grants.repositories,
        })
    }

    async fn try_all(&self) -> Found {
        let program = match self.bubblewrap() {
            Ok(program) => program,
            Err(HelperError::Missing(_)) => {
                let why = "bubblewrap is not installed".to_owned();
                return self.try_landlock(why).await;
            }
            Err(refused @ HelperError::Refused { .. }) => {
                return self.try_landlock(refused.to_string()).await;
            }
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

    /// Where bubblewrap is, by the search path of commands; only the system's own counts.
    fn bubblewrap(&self) -> Result<PathBuf, HelperError> {
        let mut variables = self.machine.environment.iter();
        let path = variables.find(|(name, _)| name == "PATH");
        let path = path.map_or("", |(_, path)| path);
        helpers::find("bwrap", path, Trust::System)
    }

    /// Runs a command that does nothing; says why if that fails.
    async fn attempt(&self, layer: Layer) -> Result<(), String> {
        let cage = self.cage_of(layer, None, Grants::default()).await;
        let cage = cage.map_err(|error| error.to_string())?;
        let cwd = top().map_err(|error| error.to_string())?;
        let ordered = Ordered {
            command: "exit 0",
            cwd: cwd.as_fd(),
            environment: &self.machine.environment,
            program: &self.machine.program,
            supervisor: &[super::supervisor::ARGUMENT.to_owned()],
            time_max: SANDBOX_PROBE_WAIT,
            cage: Some(&cage),
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

/// Where the settings let commands write, no program may be run from without a sandbox.
fn note_writable(settings: &SandboxSettings) {
    let paths = settings.write.iter();
    let real = paths.clone().filter_map(|path| path.canonicalize().ok());
    helpers::note_paths(real.chain(paths.cloned()));
}

fn top() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/", flags, Mode::empty())?)
}
