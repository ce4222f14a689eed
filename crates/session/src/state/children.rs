//! The rules between a session and its sub-agents.

use domain::SessionId;
use domain::event::{ChildLinked, PermissionAsked};
use domain::limits::CHILDREN_MAX;
use journal::Entry;

use super::decide::entry;
use super::{Rejected, SessionState};

impl SessionState {
    /// Whether it is a sub-agent's: then nobody prompts it but the session that made it.
    #[must_use]
    pub fn is_child(&self) -> bool {
        self.parent.is_some()
    }

    /// The sub-agents that ever worked for it.
    #[must_use]
    pub fn children(&self) -> &[SessionId] {
        &self.children
    }

    /// A sub-agent is about to work on a call that may run.
    pub(super) fn link_child(&self, linked: ChildLinked) -> Result<Vec<Entry>, Rejected> {
        let is_allowed = |id| {
            self.calls
                .iter()
                .any(|call| call.id == id && call.allowed_by.is_some())
        };
        if !is_allowed(linked.call_id.clone()) {
            return Err(Rejected::Late);
        }
        if self.children.len() >= CHILDREN_MAX {
            return Err(Rejected::QueueFull);
        }
        Ok(vec![entry(linked)])
    }

    /// A sub-agent asks; the call that it works on goes on meanwhile.
    pub(super) fn ask_for_child(&self, asked: PermissionAsked) -> Result<Vec<Entry>, Rejected> {
        let works = self.calls.iter().any(|call| call.id == asked.call_id);
        let is_new = self.question(&asked.id).is_err();
        if !works || !is_new || asked.asker.is_none() {
            return Err(Rejected::Late);
        }
        Ok(vec![entry(asked)])
    }

    /// Takes note of who works for whom.
    pub(super) fn linked(&mut self, linked: &ChildLinked) {
        if let Some(parent) = linked.parent {
            self.parent = Some(parent);
            // It talks to another program, which needs no greeting.
            self.greeted = true;
        }
        self.children.extend(linked.child);
    }
}

#[cfg(test)]
mod tests;
