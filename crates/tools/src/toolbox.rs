//! The tools of one session.

use std::sync::Arc;

use domain::Permit;
use domain::event::{ToolKind, ToolStatus};
use serde_json::Value;

use crate::builtin::{self, Outcome, Shown, Tool};
use crate::roots::Roots;

/// The tools one session can use, on the directories it may touch. Cheap to clone.
#[derive(Clone)]
pub struct Toolbox {
    roots: Arc<Roots>,
}

impl Toolbox {
    /// The built-in tools, working beneath `roots`.
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self {
            roots: Arc::new(roots),
        }
    }

    /// Every tool there is.
    pub fn tools(&self) -> impl Iterator<Item = &'static dyn Tool> {
        builtin::ALL.iter().copied()
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

    /// Runs one permitted call to its end.
    ///
    /// The permit is used up; it must have been granted for this very call, which the caller shows
    /// by handing over both together.
    pub async fn run(&self, permit: Permit, name: &str, input: Value) -> Outcome {
        let Some(tool) = builtin::find(name) else {
            return Outcome::failed(format!("There is no tool called {name}."));
        };
        let roots = Arc::clone(&self.roots);
        // File work blocks, so it gets a thread; dropping the turn leaves it to end by itself.
        let ran = tokio::task::spawn_blocking(move || {
            let outcome = tool.run(input, &roots);
            drop(permit);
            outcome
        });
        ran.await.unwrap_or_else(|_| Outcome {
            status: ToolStatus::Unknown,
            text: "The tool stopped unexpectedly.".to_owned(),
        })
    }
}
