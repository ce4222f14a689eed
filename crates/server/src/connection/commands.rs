//! What a person can type after a slash: our own commands, and the project's.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};

use session::library::{Entry, Library};
use session::{Project, RemoteCommand};
use wire::acp::AvailableCommand;

/// What a client was told of commands.
#[derive(Default)]
pub(crate) struct Offered {
    /// Where that came from.
    seen: Weak<Project>,
    /// What tool servers had prepared then.
    prepared: Arc<[RemoteCommand]>,
    /// What it was told, in short: the list itself may be long, and clients are many.
    told: Option<u64>,
}

impl Offered {
    /// Whether it was told anything so far.
    pub(super) fn is_begun(&self) -> bool {
        self.told.is_some()
    }

    /// Whether `project`, or what tool servers have `prepared`, is another than it was told of.
    pub(super) fn is_news(&self, project: &Arc<Project>, prepared: &Arc<[RemoteCommand]>) -> bool {
        !std::ptr::eq(self.seen.as_ptr(), Arc::as_ptr(project))
            || !Arc::ptr_eq(&self.prepared, prepared)
    }

    /// What it is about to be told of.
    pub(super) fn take(&mut self, project: &Arc<Project>, prepared: &Arc<[RemoteCommand]>) {
        self.seen = Arc::downgrade(project);
        self.prepared = Arc::clone(prepared);
    }

    /// Whether `frame` is what it was told last; from now on it is.
    pub(super) fn is_known(&mut self, frame: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        frame.hash(&mut hasher);
        let now = Some(hasher.finish());
        std::mem::replace(&mut self.told, now) == now
    }
}

/// The commands of a session, ours first; a skill can be typed too, unless a command has its name.
pub(super) fn of(library: &Library, prepared: &[RemoteCommand]) -> Vec<AvailableCommand> {
    let compact = AvailableCommand {
        name: "compact".to_owned(),
        description: "Make the conversation shorter, keeping what matters".to_owned(),
        hint: Some("what to keep in mind".to_owned()),
    };
    let commands = library.commands().iter();
    let skills = library.skills().iter();
    let skills = skills.filter(|skill| library.command(&skill.name).is_none());
    let theirs = commands.chain(skills).map(offered);
    let prepared = prepared.iter().map(|command| AvailableCommand {
        name: command.name.clone(),
        description: command.description.clone(),
        hint: command.hint.clone(),
    });
    [compact]
        .into_iter()
        .chain(theirs)
        .chain(prepared)
        .collect()
}

fn offered(entry: &Entry) -> AvailableCommand {
    let description = match entry.description.as_str() {
        // ACP wants something to show.
        "" => entry.name.clone(),
        description => description.to_owned(),
    };
    AvailableCommand {
        name: entry.name.clone(),
        description,
        hint: entry.hint.clone(),
    }
}
