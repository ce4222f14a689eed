//! The tools of one session.

use std::sync::Arc;

use domain::Permit;
use domain::event::ToolKind;
use serde_json::Value;

use crate::builtin::{self, Outcome, RunsHere, RunsOut, RunsThere, Shown, There, Tool};
use crate::client_side::{ClientSeat, Offers};
use crate::roots::Roots;
use crate::web::Web;

/// The tools one turn can use, on the directories it may touch: with the client that prompted
/// where it offers that, else on the server. Cheap to clone.
#[derive(Clone)]
pub struct Toolbox {
    roots: Arc<Roots>,
    seat: Option<ClientSeat>,
    web: Option<Web>,
}

/// Where a tool runs.
enum Place {
    Here(&'static dyn RunsHere),
    There(&'static dyn RunsThere, ClientSeat),
    Out(&'static dyn RunsOut, Web),
}

impl Toolbox {
    /// The built-in tools, working beneath `roots` on the server.
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self {
            roots: Arc::new(roots),
            seat: None,
            web: None,
        }
    }

    /// The same, working with the client in `seat` where it offers that.
    #[must_use]
    pub fn with_client(self, seat: Option<ClientSeat>) -> Self {
        Self { seat, ..self }
    }

    /// The same, with the network.
    #[must_use]
    pub fn with_web(self, web: Option<Web>) -> Self {
        Self { web, ..self }
    }

    /// Every tool that can run.
    pub fn tools(&self) -> impl Iterator<Item = &'static dyn Tool> {
        let can_run = |tool: &&dyn Tool| self.place(tool.name()).is_some();
        builtin::ALL.iter().copied().filter(can_run)
    }

    /// How to show a call of `name` with `input` to a person, before it runs.
    #[must_use]
    pub fn show(&self, name: &str, input: &Value) -> Shown {
        match builtin::find(name) {
            Some(tool) => tool.show(input, &self.roots),
            None => Shown {
                title: name.to_owned(),
                kind: ToolKind::Other,
                locations: Vec::new(),
            },
        }
    }

    /// Whether a call of `name` changes nothing and may run beside others like it.
    #[must_use]
    pub fn only_looks(&self, name: &str) -> bool {
        builtin::find(name).is_some_and(Tool::only_looks)
    }

    /// Runs one permitted call to its end.
    ///
    /// The permit is used up; it must have been granted for this very call, which the caller shows
    /// by handing over both together.
    pub async fn run(&self, permit: Permit, name: &str, input: Value) -> Outcome {
        let roots = Arc::clone(&self.roots);
        match self.place(name) {
            None => Outcome::failed(format!("There is no tool called {name}.")),
            Some(Place::There(tool, seat)) => {
                let call = permit.call().clone();
                tool.run(input, There { call, roots, seat }).await
            }
            Some(Place::Out(tool, web)) => {
                let outcome = tool.run(input, web).await;
                drop(permit);
                outcome
            }
            Some(Place::Here(tool)) => {
                // File work blocks, so it gets a thread; dropping the turn leaves it to end by
                // itself.
                let ran = tokio::task::spawn_blocking(move || {
                    let outcome = tool.run(input, &roots);
                    drop(permit);
                    outcome
                });
                ran.await
                    .unwrap_or_else(|_| Outcome::unknown("The tool stopped unexpectedly."))
            }
        }
    }

    /// Where the tool called `name` runs, if it can.
    fn place(&self, name: &str) -> Option<Place> {
        let tool = builtin::find(name)?;
        match (&self.seat, tool.there(self.offers())) {
            (Some(seat), Some(there)) => Some(Place::There(there, seat.clone())),
            (Some(_) | None, _) => match (&self.web, tool.out()) {
                (Some(web), Some(out)) => Some(Place::Out(out, web.clone())),
                (Some(_) | None, _) => tool.here().map(Place::Here),
            },
        }
    }

    fn offers(&self) -> Offers {
        self.seat
            .as_ref()
            .map(ClientSeat::offers)
            .unwrap_or_default()
    }
}
