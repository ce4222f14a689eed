//! Agents that a model can give a part of its work to, and the port to whoever runs them.
//!
//! An [`Agent`] is what a person wrote: a role, and how much of the session's means it may use.
//! [`Delegate`] is implemented by those who own sessions: this crate does not know what one is.

mod file;
mod names;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use domain::CallId;
use domain::limits::{AGENTS_MAX, LIBRARY_LIST_BYTES_MAX};

pub use file::{AgentFile, files};
pub use names::tool_name;

use crate::builtin::Running;
use crate::client_side::ClientSeat;
use crate::progress::Place;
use crate::remote::RemoteTools;

/// The agent that works when none is named.
pub const GENERAL: &str = "general";

/// An agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// As it is called.
    pub name: String,
    /// When to use it, in one line.
    pub description: String,
    /// What it is told first; empty for nothing in particular.
    pub prompt: Arc<str>,
    /// Its model, if not that of the session.
    pub model: Option<String>,
    /// Its tools, if not all of the session's.
    pub tools: Option<Arc<[String]>>,
    /// Model calls that one task may take, if fewer than a turn.
    pub steps_max: Option<u32>,
    /// Tokens that one task may use, if fewer than a turn.
    pub tokens_max: Option<u64>,
    /// How long one task may ask the model for more, if not as long as a turn.
    pub time_max: Option<Duration>,
}

/// The agents of a session, each name once. There is always one.
#[derive(Clone, Debug)]
pub struct Agents {
    all: Arc<[Agent]>,
}

impl Default for Agents {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Agents {
    /// Those of `found` that can be used: of two with the same name the first.
    #[must_use]
    pub fn new(found: Vec<Agent>) -> Self {
        let mut all: Vec<Agent> = Vec::new();
        for agent in found.into_iter().chain([general()]) {
            let is_new = !all.iter().any(|other| other.name == agent.name);
            if is_new && (all.len() < AGENTS_MAX || agent.name == GENERAL) {
                all.push(agent);
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Self { all: all.into() }
    }

    /// All of them, by name.
    #[must_use]
    pub fn all(&self) -> &[Agent] {
        &self.all
    }

    /// The agent called `name`, or the general one.
    ///
    /// # Errors
    /// If there is no such agent; in words for a model, with those that there are.
    pub fn find(&self, name: Option<&str>) -> Result<&Agent, String> {
        let name = name.map(str::trim).filter(|name| !name.is_empty());
        let name = name.unwrap_or(GENERAL);
        let found = self.all.iter().find(|agent| agent.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.all.iter().map(|agent| agent.name.as_str()).collect();
            format!(
                "There is no agent called {name}. There are: {}.",
                names.join(", ")
            )
        })
    }

    /// One line for each, as long as the list may be.
    #[must_use]
    pub fn list(&self) -> String {
        let mut list = String::new();
        for (index, agent) in self.all.iter().enumerate() {
            let line = format!("\n- {}: {}", agent.name, agent.description);
            if list.len() + line.len() > LIBRARY_LIST_BYTES_MAX {
                // Writing to a string cannot fail.
                let _ = write!(list, "\n- and {} more", self.all.len() - index);
                break;
            }
            list.push_str(&line);
        }
        list
    }
}

fn general() -> Agent {
    Agent {
        name: GENERAL.to_owned(),
        description: "any work that can be described in a few sentences and done without you"
            .to_owned(),
        ..Agent::default()
    }
}

/// A piece of work for an agent.
#[derive(Debug)]
pub struct Task {
    /// The call that it is.
    pub call: CallId,
    /// Who shall do it.
    pub agent: Agent,
    /// What.
    pub prompt: String,
    /// The client whose files and terminals it works with, if any.
    pub seat: Option<ClientSeat>,
    /// The tools of other programs that the turn has.
    pub remote: Option<Arc<dyn RemoteTools>>,
    /// Tokens that the turn has left, if there is a bound.
    pub tokens_left: Option<u64>,
    /// Where to show how far it is.
    pub place: Place,
}

/// Whoever can have an agent do something. Its outcome is what the agent says last.
pub trait Delegate: Send + Sync {
    /// Does it. Dropped, it ends the agent and all that this started.
    fn run(&self, task: Task) -> Running;
}

#[cfg(test)]
mod tests;
