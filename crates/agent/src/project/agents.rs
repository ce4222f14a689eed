//! The agents of a session: those that its project brings along and a person has approved, then the
//! person's own.

use std::path::PathBuf;
use std::sync::Arc;

use tools::agents::{Agent, AgentFile, Agents, files};
use tools::roots::Roots;
use tools::stamps::Stamps;

use super::file::{digest, line};
use super::{Approval, Place};
use crate::settings::FileSettings;

/// A file that describes an agent, and whether that counts.
#[derive(Clone, Debug)]
pub struct AgentSource {
    /// Where it is, without links.
    pub path: String,
    /// What it holds: 64 hexadecimal digits.
    pub sha256: String,
    /// Whether it is the person's own.
    pub is_own: bool,
    /// Whether it is that, or they have approved exactly this.
    pub is_trusted: bool,
    /// What it says; or what is wrong with it.
    pub agent: Result<Agent, String>,
    /// What of it has no effect.
    pub problems: Vec<String>,
}

impl AgentSource {
    /// What it would do once approved; nothing if it is no agent or needs no approval.
    #[must_use]
    pub fn wants(&self) -> Option<String> {
        let agent = self.agent.as_ref().ok().filter(|_| !self.is_trusted)?;
        let tools = match &agent.tools {
            Some(tools) => tools.join(", "),
            None => "all tools".to_owned(),
        };
        let model = agent.model.as_ref();
        let model = model.map(|model| format!(" and the model {model}"));
        Some(line(&format!(
            "define the agent {} with {tools}{}, as {} says",
            agent.name,
            model.unwrap_or_default(),
            self.path
        )))
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// All that can work.
    pub(super) agents: Agents,
    /// All files, also those that do not count.
    pub(super) sources: Vec<AgentSource>,
    /// What of all that has no effect.
    pub(super) problems: Vec<String>,
}

/// Puts the agents together, the one that counts most first: what the project's file says in
/// `own`, its agents' files beneath `levels` directories, the operator's file, the person's files.
pub(super) fn find(
    place: &Place,
    own: &FileSettings,
    (directories, levels): (&[(PathBuf, Arc<Roots>)], usize),
    stamps: &mut Stamps,
) -> Found {
    let mut found = Found::default();
    let approvals = place.operator.approvals.as_ref();
    let approved = approvals.and_then(|approvals| approvals.all().ok());
    let approved = approved.unwrap_or_default();
    let (project, person) = directories.split_at(levels.min(directories.len()));
    let mut agents = set_in(own, &mut found.problems);
    let project = files(project, stamps).into_iter();
    found
        .sources
        .extend(project.map(|file| source(file, &approved)));
    agents.extend(usable(&found.sources));
    agents.extend(set_in(&place.operator.settings, &mut found.problems));
    let person = files(person, stamps).into_iter().map(|file| AgentSource {
        is_own: true,
        is_trusted: true,
        ..source(file, &[])
    });
    let person: Vec<AgentSource> = person.collect();
    agents.extend(usable(&person));
    found.sources.extend(person);
    found.agents = Agents::new(agents);
    found
}

fn set_in(settings: &FileSettings, problems: &mut Vec<String>) -> Vec<Agent> {
    let agents = settings.agents.iter();
    agents
        .map(|(name, agent)| agent.agent(name, problems))
        .collect()
}

fn source(file: AgentFile, approved: &[Approval]) -> AgentSource {
    let sha256 = digest(file.text.as_bytes());
    let is_it = |one: &Approval| one.path == file.path && one.sha256 == sha256;
    AgentSource {
        is_own: false,
        is_trusted: approved.iter().any(is_it),
        path: file.path,
        sha256,
        agent: file.agent,
        problems: file.problems,
    }
}

fn usable(sources: &[AgentSource]) -> impl Iterator<Item = Agent> {
    let trusted = sources.iter().filter(|source| source.is_trusted);
    trusted.filter_map(|source| source.agent.as_ref().ok().cloned())
}
