//! What was seen around sessions, kept once for all that stand at the same place.
//!
//! A survey lives as long as a session holds it; the process keeps only where to find it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tools::roots::Root;
use tools::stamps::Stamps;

use super::{Place, Project, read};

/// A point in real time, also where tests pause the runtime's.
pub type Moment = std::time::Instant;

/// One look at everything around a place, and how to tell whether it still holds.
#[derive(Debug)]
pub(super) struct Survey {
    stamps: Stamps,
    project: Arc<Project>,
    /// When the newest look began that found it to hold.
    held_at: Mutex<Moment>,
}

impl Survey {
    /// Whether it is known to have held at `asked`, or later.
    pub(super) fn held_since(&self, asked: Moment) -> bool {
        *self.lock_held_at() >= asked
    }

    /// Whether it held at `asked`, or later: asks the disk if nobody has since. Blocks.
    pub(super) fn holds(&self, asked: Moment) -> bool {
        if self.held_since(asked) {
            return true;
        }
        let began = Moment::now();
        let holds = self.stamps.are_fresh();
        if holds {
            let mut held_at = self.lock_held_at();
            *held_at = began.max(*held_at);
        }
        holds
    }

    fn lock_held_at(&self) -> std::sync::MutexGuard<'_, Moment> {
        self.held_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn project(&self) -> Arc<Project> {
        Arc::clone(&self.project)
    }
}

/// Where a session is, as far as it decides what it sees.
type Spot = (Root, bool);

/// The surveys that sessions of a process hold. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Surveys {
    held: Arc<Mutex<HashMap<Spot, Weak<Survey>>>>,
}

impl Surveys {
    /// What was around `place` at `asked`, or later: what another session there has seen, if it
    /// still holds. Blocks.
    pub(super) fn of(&self, place: &Place, asked: Moment) -> Arc<Survey> {
        let spot = (place.cwd.clone(), place.is_local);
        let held = self.with(|held| held.get(&spot).and_then(Weak::upgrade));
        if let Some(survey) = held.filter(|survey| survey.holds(asked)) {
            return survey;
        }
        let held_at = Mutex::new(Moment::now());
        let (project, stamps) = read(place);
        let survey = Arc::new(Survey {
            stamps,
            project: Arc::new(project),
            held_at,
        });
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
