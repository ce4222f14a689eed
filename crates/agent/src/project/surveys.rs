//! What was seen around sessions, kept once for all that stand at the same place.
//!
//! A survey lives as long as a session holds it; the process keeps only where to find it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tools::stamps::Stamps;

use super::{Place, Project, read};

/// One look at everything around a place, and how to tell whether it still holds.
#[derive(Debug)]
pub(super) struct Survey {
    stamps: Stamps,
    project: Arc<Project>,
}

impl Survey {
    /// Whether the disk still is as it was. Blocks.
    pub(super) fn is_fresh(&self) -> bool {
        self.stamps.are_fresh()
    }

    pub(super) fn project(&self) -> Arc<Project> {
        Arc::clone(&self.project)
    }
}

/// Where a session is, as far as it decides what it sees.
type Spot = (PathBuf, bool);

/// The surveys that sessions of a process hold. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Surveys {
    held: Arc<Mutex<HashMap<Spot, Weak<Survey>>>>,
}

impl Surveys {
    /// What is around `place` now: what another session there has seen, if it still holds. Blocks.
    pub(super) fn of(&self, place: &Place) -> Arc<Survey> {
        let spot = (place.cwd.clone(), place.is_local);
        let held = self.with(|held| held.get(&spot).and_then(Weak::upgrade));
        if let Some(survey) = held.filter(|survey| survey.is_fresh()) {
            return survey;
        }
        let (project, stamps) = read(place);
        let project = Arc::new(project);
        let survey = Arc::new(Survey { stamps, project });
        self.with(|held| {
            if held.len() == held.capacity() {
                // Before it grows, those go that nobody holds any more.
                held.retain(|_, survey| survey.strong_count() > 0);
                held.reserve(held.len());
            }
            held.insert(spot, Arc::downgrade(&survey));
        });
        survey
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<Spot, Weak<Survey>>) -> T) -> T {
        // The map is whole at every step, so a panic elsewhere does not spoil it.
        work(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
