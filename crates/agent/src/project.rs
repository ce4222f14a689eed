//! What a session finds around it: the project's settings, instructions, skills and commands, and
//! those of the person whose machine it is.
//!
//! [`ProjectView`] belongs to one session and looks again when something on the disk has changed;
//! a [`Project`] is what one look saw, shared by the sessions at that place ([`Surveys`]).
//! Everything a project says is untrusted: see [`mod@file`] for what of its settings takes effect,
//! and [`prompt`] for how its words reach the model.

mod agents;
mod approvals;
mod file;
mod prompt;
mod servers;
mod surveys;
mod terrain;
mod variables;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::event::{HookPoint, HookRan};
use domain::limits::HOOK_END_TIME_MAX;
use domain::{SessionId, ToolServer};
use llm::Addresses;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tools::agents::Agents;
use tools::instructions::Instructions;
use tools::library::{Kept, Library, Sources};
use tools::remote::RemoteCommand;
use tools::roots::Root;
use tools::stamps::Stamps;

pub use agents::AgentSource;
pub use approvals::{Approval, Approvals};
pub use file::{FILE_NAME, ProjectFile};
pub use servers::{SERVERS_FILE_NAME, ServersFile, with_network};
pub use surveys::{Moment, Surveys};
pub use variables::Variables;

use crate::hooks::Hooks;
use crate::permissions::Rules;
use crate::settings::{FileSettings, SandboxSection};
use surveys::Survey;
use terrain::Terrain;

/// What the operator has set for every session of the process.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// From the operator's own file.
    pub settings: FileSettings,
    /// The person's home, where their own skills and commands are.
    pub home: Option<PathBuf>,
    /// The directory of the operator's file, where their own instructions are.
    pub config_dir: Option<PathBuf>,
    /// Which project files count.
    pub approvals: Option<Approvals>,
    /// Whether a model was named for this process, so that no project's counts.
    pub is_model_named: bool,
    /// Where models are by the environment, which counts more than what a project says.
    pub addresses: Addresses,
    /// What commands see of the environment: nothing secret.
    pub environment: Arc<[(String, String)]>,
    /// What a project's file may name of the environment.
    pub variables: Variables,
    /// What was seen around the sessions of the process.
    pub surveys: Surveys,
}

/// What one look saw.
#[derive(Clone, Debug, Default)]
pub struct Project {
    /// The project's own file.
    pub file: Option<ProjectFile>,
    /// What the model is told by files.
    pub instructions: Instructions,
    /// Skills and commands.
    pub library: Arc<Library>,
    /// The model of its sessions, unless another was chosen.
    pub model: Option<String>,
    /// Where models are, if the project says so, counts, and nobody says otherwise.
    pub addresses: Addresses,
    /// Agents that can be given tasks.
    pub agents: Agents,
    /// The files that describe agents, also those that do not count.
    pub agent_files: Vec<AgentSource>,
    /// What of the agents has no effect.
    pub agent_problems: Vec<String>,
    /// All hooks that run: the project's, then the operator's, who so see what will happen.
    pub hooks: Hooks,
    /// All rules about tools: the operator's, and what counts of the project's.
    pub rules: Rules,
    /// The project's `.mcp.json`.
    pub servers_file: Option<ServersFile>,
    /// All servers of tools: the operator's, and what counts of the project's.
    pub servers: Vec<ToolServer>,
    /// What of the servers has no effect.
    pub server_problems: Vec<String>,
    /// What the project says about the sandbox, as far as that takes effect.
    pub sandbox: SandboxSection,
    /// The person's home, for paths that begin there.
    pub home: Option<PathBuf>,
    /// What the model is told of all this; empty if there is nothing.
    pub prompt: Arc<str>,
}

impl Project {
    /// What a person should know: what is wrong, and what waits for an approval.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let mut notices = self.file_notices();
        let waiting = self.agent_files.iter();
        let waiting = waiting.filter(|source| source.wants().is_some()).count();
        if waiting > 0 {
            notices.push(format!(
                "Agents of this project ({waiting}) are not used because nobody has approved \
                 them: `fastness approve` shows what they are"
            ));
        }
        if let Some(file) = &self.servers_file {
            if let Err(problem) = &file.servers {
                notices.push(format!("{} is not used: {problem}", file.path));
            }
            if file.is_waiting() {
                notices.push(format!(
                    "The tool servers of {} are not used because nobody has approved it: \
                     `fastness approve` shows what they are",
                    file.path
                ));
            }
        }
        notices.extend(self.server_problems.iter().cloned());
        notices
    }

    fn file_notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        let Some(file) = &self.file else {
            return notices;
        };
        if let Some(error) = file.error() {
            notices.push(format!("{} is not used: {error}", file.path));
        }
        if !file.is_approved && !file.wants().is_empty() {
            notices.push(format!(
                "Parts of {} are not used because nobody has approved it: `fastness approve` \
                 shows what they would do",
                file.path
            ));
        }
        let never = file.never();
        if !never.is_empty() {
            let tables = never.join(", ");
            notices.push(format!(
                "{}: {tables} cannot be set by a project",
                file.path
            ));
        }
        notices
    }
}

/// A session's view of what is around it. Cheap to clone.
#[derive(Clone)]
pub struct ProjectView {
    shared: Arc<Shared>,
}

struct Shared {
    place: Place,
    known: Mutex<Option<Arc<Survey>>>,
    has_begun: AtomicBool,
    told: Mutex<Vec<String>>,
    /// What can be typed of what tool servers have prepared.
    commands: Mutex<Arc<[RemoteCommand]>>,
}

/// Where a session is, and on whose behalf.
#[derive(Clone, Debug)]
pub struct Place {
    /// The session.
    pub session: SessionId,
    /// Its directory.
    pub cwd: Root,
    /// Whether it belongs to the person at this machine. A guest's session sees nothing outside
    /// its own directory, and nothing of that person.
    pub is_local: bool,
    /// What is set for all sessions.
    pub operator: Arc<Operator>,
    /// What nobody may see.
    pub hidden: Vec<PathBuf>,
    /// The agent that works in it, if it is a sub-agent's.
    pub agent: Option<String>,
}

impl ProjectView {
    /// Those of a session at `place`.
    #[must_use]
    pub fn new(place: Place) -> Self {
        Self {
            shared: Arc::new(Shared {
                place,
                known: Mutex::default(),
                has_begun: AtomicBool::new(false),
                told: Mutex::default(),
                commands: Mutex::default(),
            }),
        }
    }

    /// What is there now. Reads again only what has changed.
    pub async fn look(&self) -> Arc<Project> {
        self.look_since(Moment::now()).await
    }

    /// What was there at `asked`, or later: a look of another session since then does.
    pub async fn look_since(&self, asked: Moment) -> Arc<Project> {
        let known = lock(&self.shared.known).clone();
        if let Some(survey) = known
            && survey.held_since(asked)
        {
            return survey.project();
        }
        let shared = Arc::clone(&self.shared);
        // The disk may be slow, or far away.
        let looked = tokio::task::spawn_blocking(move || shared.look(asked)).await;
        looked.unwrap_or_default()
    }

    /// Asks the disk whether what the newest look saw still held at `asked`; if it did, a look
    /// since then need not. Blocks, and is for who waits for the disk anyway.
    pub fn recheck(&self, asked: Moment) {
        let known = lock(&self.shared.known).clone();
        if let Some(survey) = known {
            survey.holds(asked);
        }
    }

    /// What the newest look saw, if there was one. Asks nobody.
    #[must_use]
    pub fn seen(&self) -> Option<Arc<Project>> {
        let known = lock(&self.shared.known).clone();
        known.map(|survey| survey.project())
    }

    /// Where the session is.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.shared.place
    }

    /// Notes that the session has a turn; says whether it is the first since it came into memory.
    #[must_use]
    pub fn begin(&self) -> bool {
        !self.shared.has_begun.swap(true, Ordering::AcqRel)
    }

    /// What can be typed of what tool servers have prepared, as the newest turn saw it.
    #[must_use]
    pub fn commands(&self) -> Arc<[RemoteCommand]> {
        Arc::clone(&lock(&self.shared.commands))
    }

    /// Notes what can be typed of what tool servers have prepared.
    pub(crate) fn take_commands(&self, commands: Vec<RemoteCommand>) {
        let mut known = lock(&self.shared.commands);
        if **known != *commands {
            *known = commands.into();
        }
    }

    /// What a person should know of `project` and has not been told yet.
    #[must_use]
    pub fn news(&self, project: &Project) -> Vec<String> {
        let mut told = lock(&self.shared.told);
        let now = project.notices();
        let news = now.iter().filter(|notice| !told.contains(notice));
        let news = news.cloned().collect();
        *told = now;
        news
    }

    /// Runs the hooks of a session's end, if it had a turn, all within a few seconds.
    pub async fn end(&self, reason: &str) -> Vec<HookRan> {
        if !self.shared.has_begun.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let project = self.look().await;
        let deadline = Instant::now() + HOOK_END_TIME_MAX;
        let mut fields = Map::new();
        fields.insert("reason".to_owned(), Value::from(reason));
        let mut events = Vec::new();
        for hook in project.hooks.at(HookPoint::SessionEnd, None) {
            let left = deadline.saturating_duration_since(Instant::now());
            let hook = crate::settings::Hook {
                time_max: hook.time_max.min(left),
                ..hook
            };
            events.push(project.hooks.run(&hook, self.place(), &fields).await.event);
        }
        events
    }
}

impl Shared {
    fn look(&self, asked: Moment) -> Arc<Project> {
        let known = lock(&self.known).clone();
        if let Some(survey) = known
            && survey.holds(asked)
        {
            return survey.project();
        }
        let survey = self.place.operator.surveys.of(&self.place, asked);
        *lock(&self.known) = Some(Arc::clone(&survey));
        survey.project()
    }
}

/// Looks at everything around `place`. Blocks.
#[must_use]
pub fn read(place: &Place) -> (Project, Stamps) {
    let mut stamps = Stamps::default();
    let operator = &place.operator;
    let terrain = Terrain::of(place, &mut stamps);
    if let Some(approvals) = &operator.approvals {
        stamps.note(approvals.path().to_owned());
    }
    let file = ProjectFile::find(&terrain.levels, &terrain.roots, &mut stamps);
    let file = file.map(|file| file.judged_by(operator.approvals.as_ref()));
    let own = file
        .as_ref()
        .map(ProjectFile::in_effect)
        .unwrap_or_default();
    let is_wanted = |wanted: fn(&FileSettings) -> bool| wanted(&own) && wanted(&operator.settings);
    let mut instructions = Instructions::default();
    if is_wanted(|settings| settings.context.instructions) {
        instructions = Instructions::gather(&terrain.instruction_files(place), &mut stamps);
    }
    let kept = match (
        is_wanted(|settings| settings.context.skills),
        is_wanted(|settings| settings.context.commands),
    ) {
        (true, true) => Some(Kept::All),
        (true, false) => Some(Kept::Skills),
        (false, true) => Some(Kept::Commands),
        (false, false) => None,
    };
    let directories = terrain.library_directories(place);
    let levels = terrain.levels.len();
    let found = agents::find(place, &own, (&directories, levels), &mut stamps);
    let mut library = Library::default();
    if let Some(kept) = kept {
        library = Library::gather(&Sources { directories }, &mut stamps);
        library.keep(kept);
    }
    let hooks = own.hooks.iter().chain(&operator.settings.hooks);
    let hooks = Hooks::new(hooks.cloned().collect(), Arc::clone(&operator.environment));
    let approvals = operator.approvals.as_ref();
    let servers_file = ServersFile::find(&terrain.levels, &terrain.roots, approvals, &mut stamps);
    let rules = Rules::new(&operator.settings.permissions, &own.permissions);
    let (servers, server_problems) = servers::of(place, (&own, &rules), servers_file.as_ref());
    let styles = [&operator.settings.context.style, &own.context.style];
    let prompt = prompt::of(styles, &instructions, &library);
    let project = Project {
        file,
        instructions,
        library: Arc::new(library),
        addresses: addresses(&own, operator),
        model: own.models.default,
        agents: found.agents,
        agent_files: found.sources,
        agent_problems: found.problems,
        hooks,
        rules,
        servers_file,
        servers,
        server_problems,
        sandbox: own.sandbox,
        home: operator.home.clone(),
        prompt: prompt.into(),
    };
    (project, stamps)
}

/// Where the project says models are, but for what the environment says.
fn addresses(own: &FileSettings, operator: &Operator) -> Addresses {
    let named = own.models.addresses();
    let fixed = &operator.addresses;
    let unless = |fixed: &Option<String>, named| if fixed.is_some() { None } else { named };
    Addresses {
        anthropic: unless(&fixed.anthropic, named.anthropic),
        openai: unless(&fixed.openai, named.openai),
        ollama: unless(&fixed.ollama, named.ollama),
    }
}

/// The guarded data is whole at every step, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
