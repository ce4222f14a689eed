//! The session and what is around it: the view that its turns have, and the hooks of its end.

use std::sync::Arc;

use agent::permissions::Rules;
use agent::project::{Place, with_network};
use agent::settings::PermissionSettings;
use agent::{Note, ProjectView, RemoteHome, RemoteTools, Root, Roots};
use domain::{PrincipalId, ToolServer};

use super::SessionActor;
use crate::state::{Command, SessionState};

impl SessionActor {
    /// What is around the session, the same view for as long as it is in memory.
    pub(super) fn view(&mut self) -> ProjectView {
        if let Some(view) = &self.view {
            return view.clone();
        }
        let state = self.readable();
        let view = ProjectView::new(Place {
            session: self.id,
            cwd: match self.roots.as_deref() {
                Some([cwd, ..]) => cwd.clone(),
                // A damaged session has no turns, so nothing is read there.
                Some([]) | None => Root::refused(state.map(SessionState::cwd).unwrap_or_default()),
            },
            is_local: state.is_some_and(|state| *state.owner() == PrincipalId::local()),
            operator: self.engine.operator.clone(),
            hidden: self.engine.hidden.clone(),
            agent: self.role().map(|role| role.agent.name.clone()),
        });
        self.view = Some(view.clone());
        view
    }

    /// Begins with the tool servers that a client named, unless the session has its servers already;
    /// says whether it did.
    pub(super) fn take_servers(&mut self, named: Vec<ToolServer>) -> bool {
        if self.has_servers || self.role.is_some() {
            return false;
        }
        // Most sessions of a busy server wait for somebody and name none: those are begun with
        // when a turn wants what the settings name.
        self.has_servers = match named.is_empty() {
            true => self.engine.remotes.is_some() && self.readable().is_some(),
            false => self.open_servers(named),
        };
        self.has_servers
    }

    fn open_servers(&mut self, named: Vec<ToolServer>) -> bool {
        let (Some(source), Some(roots)) = (self.engine.remotes.clone(), self.roots()) else {
            return false;
        };
        let shell = self.shell();
        // ACP has no word for the network, so the operator's rules say which of them has it.
        let operator = &self.engine.operator.settings.permissions;
        let rules = Rules::new(operator, &PermissionSettings::default());
        let named = named.into_iter();
        let named = named.map(|server| with_network(server, &rules)).collect();
        self.remote = Some(source.open(RemoteHome {
            roots,
            shell,
            named,
        }));
        true
    }

    /// The tool servers that its turns use: for a sub-agent, those of the session that called.
    pub(super) fn remote(&mut self) -> Option<Arc<dyn RemoteTools>> {
        if let Some(role) = self.role() {
            return role.remote.clone();
        }
        if self.remote.is_none() {
            self.has_servers = self.open_servers(Vec::new());
        }
        self.remote.clone()
    }

    /// What the session may touch.
    pub(super) fn roots(&self) -> Option<Roots> {
        let (cwd, others) = self.roots.as_deref()?.split_first()?;
        let hidden = self.engine.hidden.clone();
        Some(Roots::of(cwd.clone(), others.iter().cloned(), hidden))
    }

    /// Runs the hooks of the session's end and stores that they ran.
    pub(super) async fn run_end_hooks(&mut self, reason: &str) {
        let Some(view) = self.view.clone() else {
            return;
        };
        for ran in view.end(reason).await {
            self.stage(Command::Note(Note::Hook(ran)));
        }
        self.commit().await;
    }
}
