//! Tools of other programs, as a session sees them.
//!
//! [`RemoteTools`] is the port: whoever speaks to tool servers implements it for one session, and a
//! turn's toolbox offers what is there. Dropping it ends the session's servers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use domain::{CallId, ToolServer};
use serde_json::Value;

use crate::asks::Asks;
use crate::builtin::Running;
use crate::output::Output;
use crate::progress::Place;
use crate::roots::Roots;
use crate::shell::Shell;

/// How long a turn waits for servers that are still starting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// A moment: the next turn has their tools.
    #[default]
    Brief,
    /// As long as they may take to start, because no other turn may follow.
    UntilStarted,
}

/// The tool servers of one session.
pub trait RemoteTools: fmt::Debug + Send + Sync {
    /// Goes on with the servers that the settings name now, besides those that the session was made
    /// with; then waits until those that just begin have begun, as long as `patience` says.
    fn settle(&self, wanted: Vec<ToolServer>, patience: Patience) -> Settling;

    /// What is there at this moment.
    fn offered(&self) -> Offered;

    /// What a person should know and has not been told.
    fn news(&self) -> Vec<String>;

    /// Calls a tool. Dropped, it takes the call back.
    fn run(&self, call: RemoteCall) -> Running;

    /// What a person can type of what servers have prepared.
    fn commands(&self) -> Vec<RemoteCommand>;

    /// What the command `name` says to the model with these arguments; none if no server can have it.
    fn expand(&self, name: &str, arguments: &str) -> Option<Expanding>;
}

/// A prompt that a server has prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCommand {
    /// What to type after the slash.
    pub name: String,
    /// In one line.
    pub description: String,
    /// What to type after it.
    pub hint: Option<String>,
}

/// A command about to be expanded; or, in words for a person, why it cannot be.
pub type Expanding = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// Servers about to begin.
pub type Settling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the tool servers of sessions come from.
pub trait RemoteSource: Send + Sync {
    /// Those of a new session, or of one that comes into memory.
    fn open(&self, home: RemoteHome) -> Arc<dyn RemoteTools>;
}

/// A session that wants tool servers.
#[derive(Debug)]
pub struct RemoteHome {
    /// What its servers may touch.
    pub roots: Roots,
    /// How programs run for it, if they do.
    pub shell: Option<Shell>,
    /// The servers that its client named.
    pub named: Vec<ToolServer>,
}

/// Tools that are there.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// Changes whenever they do.
    pub version: u64,
    /// In the order of their names.
    pub tools: Arc<[RemoteTool]>,
}

impl Offered {
    /// The tool called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&RemoteTool> {
        let at = self
            .tools
            .binary_search_by(|tool| tool.name.as_str().cmp(name));
        self.tools.get(at.ok()?)
    }
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteTool {
    /// The name a model uses.
    pub name: String,
    /// How a call of it is shown to a person: the server and the tool, in one line.
    pub title: String,
    /// What it does, as its server says.
    pub description: String,
    /// The JSON schema of its input.
    pub input_schema: Arc<Value>,
    /// Whether a model is told of it; all of them can be called.
    pub is_shown: bool,
}

/// One permitted call of such a tool.
#[derive(Debug)]
pub struct RemoteCall {
    /// The call.
    pub call: CallId,
    /// The tool, by the name a model uses.
    pub name: String,
    /// Its input.
    pub input: Value,
    /// Where to show how far it is.
    pub place: Place,
    /// Where a long result goes.
    pub output: Output,
    /// Who can be asked meanwhile.
    pub asks: Option<Arc<dyn Asks>>,
}
