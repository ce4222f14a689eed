//! The session and what is around it: the view that its turns have, and the hooks of its end.

use agent::project::Place;
use agent::{Note, ProjectView};
use domain::PrincipalId;

use super::SessionActor;
use crate::state::Command;

impl SessionActor {
    /// What is around the session, the same view for as long as it is in memory.
    pub(super) fn view(&mut self) -> ProjectView {
        if let Some(view) = &self.view {
            return view.clone();
        }
        let state = self.readable();
        let view = ProjectView::new(Place {
            session: self.id,
            cwd: state.map(|state| state.cwd().into()).unwrap_or_default(),
            is_local: state.is_some_and(|state| *state.owner() == PrincipalId::local()),
            operator: self.engine.operator.clone(),
            hidden: self.engine.hidden.clone(),
        });
        self.view = Some(view.clone());
        view
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
