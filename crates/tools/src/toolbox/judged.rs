//! What a turn asks about tools before it offers or runs them.

use std::sync::Arc;

use serde_json::Value;

use super::{Place, Toolbox};
use crate::applicable;
use crate::builtin;
use crate::freshness::{self, Freshness};

impl Toolbox {
    /// Whether a call of `name` may change something that another call reads.
    #[must_use]
    pub fn may_change(&self, name: &str) -> bool {
        let changes_nothing = ["todo", "ask_user", "skill", "slash_command", "lsp"];
        let is_own = builtin::find(name).is_some() && !self.has_client_tool(name);
        !(is_own && (self.only_looks(name) || changes_nothing.contains(&name)))
    }

    /// How a change of what a call of `name` reads would be noticed.
    pub async fn freshness(&self, name: &str, input: &Value) -> Freshness {
        match self.place(name) {
            Some(Place::Here(_)) => freshness::on_disk(Arc::clone(&self.roots), name, input).await,
            Some(Place::Out(..) | Place::Library(_)) => Freshness::Unseen,
            Some(
                Place::There(..)
                | Place::Shell(..)
                | Place::Agent(..)
                | Place::Client(..)
                | Place::Remote(_),
            )
            | None => Freshness::Unknown,
        }
    }

    /// Looks which tools can do something with what is in the session's directories.
    pub async fn look_at_files(&mut self) {
        let (roots, shell) = (Arc::clone(&self.roots), self.shell.clone());
        let languages = self.languages.clone();
        let looking = tokio::task::spawn_blocking(move || {
            applicable::look(&roots, shell.as_ref(), &languages)
        });
        self.files = looking.await.unwrap_or_default();
    }

    /// Whether a tool can do something here.
    pub(super) fn is_of_use(&self, name: &str) -> bool {
        match name {
            "web_search" => self.web.as_ref().is_some_and(|web| web.search.is_some()),
            "lsp" => self.files.has_server,
            "notebook_edit" => self.files.has_notebook,
            _ => true,
        }
    }

    /// The schema of a tool that is not ours.
    pub(crate) fn foreign_schema(&self, name: &str) -> Option<&Value> {
        let own = self.client_tool(name).map(|tool| &tool.input_schema);
        let remote = || self.offered.find(name).map(|tool| &*tool.input_schema);
        own.or_else(remote)
    }
}
