//! The tools of one session.

use std::sync::Arc;

use domain::event::ToolKind;
use domain::limits::CLIENT_TOOL_RESULT_BYTES_MAX;
use domain::{CallId, Permit};
use serde_json::Value;

use crate::agents::{Agents, Delegate};
use crate::applicable::ProjectFiles;
use crate::asks::Asks;
use crate::builtin::{
    self, Outcome, PersonQuestion, Preview, RunsAgents, RunsCommands, RunsHere, RunsOnLibrary,
    RunsOut, RunsThere, Shown, TaskCall, There, Tool,
};
use crate::calls::no_such_tool;
use crate::client_side::discovery::{ClientTool, Discovered, ToolReply, ToolRequest};
use crate::client_side::{ClientError, ClientSeat, Offers};
use crate::library::Library;
use crate::lsp::LanguageServers;
use crate::output::Output;
use crate::plain::plain;
use crate::progress::Progress;
use crate::remote::{Offered, RemoteCall, RemoteTool, RemoteTools};
use crate::roots::{Roots, StopFlag};
use crate::sandbox::{Grants, SandboxSettings};
use crate::shell::{Shell, ShellCall};
use crate::touched::{self, Touched};
use crate::web::Web;

mod judged;

/// The tools one turn can use, on the directories it may touch: with the client that prompted
/// where it offers that, else on the server. Cheap to clone.
#[derive(Clone)]
pub struct Toolbox {
    roots: Arc<Roots>,
    seat: Option<ClientSeat>,
    web: Option<Web>,
    library: Arc<Library>,
    shell: Option<Shell>,
    progress: Progress,
    grants: Grants,
    languages: LanguageServers,
    agents: Agents,
    delegate: Option<Arc<dyn Delegate>>,
    remote: Option<Arc<dyn RemoteTools>>,
    asks: Option<Arc<dyn Asks>>,
    /// What of other programs' tools is offered now.
    offered: Offered,
    /// The only tools, if not all.
    only: Option<Arc<[String]>>,
    /// Tokens that the turn has left, if there is a bound.
    tokens_left: Option<u64>,
    /// Whether there is a person to ask.
    has_person: bool,
    /// Tools of the client's own.
    client_tools: Arc<[ClientTool]>,
    /// What is in the session's directories, as far as tools are for it.
    files: ProjectFiles,
}

/// Where a tool runs.
enum Place {
    Here(&'static dyn RunsHere),
    There(&'static dyn RunsThere, ClientSeat),
    Out(&'static dyn RunsOut, Web),
    Library(&'static dyn RunsOnLibrary),
    Shell(&'static dyn RunsCommands, Shell),
    Agent(&'static dyn RunsAgents, Arc<dyn Delegate>),
    Client(ClientTool, ClientSeat),
    Remote(Arc<dyn RemoteTools>),
}

impl Toolbox {
    /// The built-in tools, working beneath `roots` on the server.
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self {
            roots: Arc::new(roots),
            seat: None,
            web: None,
            library: Arc::default(),
            shell: None,
            progress: Progress::default(),
            grants: Grants::default(),
            languages: LanguageServers::default(),
            agents: Agents::default(),
            delegate: None,
            remote: None,
            asks: None,
            offered: Offered::default(),
            only: None,
            tokens_left: None,
            has_person: true,
            client_tools: Arc::new([]),
            files: ProjectFiles::default(),
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

    /// The same, with the session's skills and commands.
    #[must_use]
    pub fn with_library(self, library: Arc<Library>) -> Self {
        Self { library, ..self }
    }

    /// The same, with commands on the server, and with what they print in a file readable.
    #[must_use]
    pub fn with_shell(self, shell: Option<Shell>) -> Self {
        let outputs = shell.as_ref().map(|shell| shell.outputs().to_owned());
        let roots = Arc::new(Roots::clone(&self.roots).with_outputs(outputs));
        Self {
            shell,
            roots,
            ..self
        }
    }

    /// The same, showing what runs in `progress`.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        Self { progress, ..self }
    }

    /// The same, with what commands may do beyond what every command may.
    #[must_use]
    pub fn with_grants(self, grants: Grants) -> Self {
        Self { grants, ..self }
    }

    /// The same, with the session's language servers.
    #[must_use]
    pub fn with_languages(self, languages: LanguageServers) -> Self {
        Self { languages, ..self }
    }

    /// The same, with commands shut in as `change` says.
    #[must_use]
    pub fn with_sandbox_changed(self, change: impl FnOnce(&mut SandboxSettings)) -> Self {
        let shell = self.shell.as_ref();
        let shell = shell.map(|shell| shell.with_sandbox_changed(change));
        Self { shell, ..self }
    }

    /// Why a call of `name` must be asked about whatever else was allowed: it would run a command on
    /// the server, and there is no sandbox for it, or a sandbox that cannot protect all that it should.
    pub async fn runs_uncontained(&self, name: &str) -> Option<&'static str> {
        match self.place(name) {
            Some(Place::Shell(_, shell)) => {
                if !shell.sandbox_found().await.is_enough() {
                    return Some("without a sandbox");
                }
                let sandbox = shell.sandbox()?;
                let is_beyond = sandbox.is_beyond_search(&self.roots).await;
                is_beyond.then_some("too many directories to protect every git repository")
            }
            Some(
                Place::Here(_)
                | Place::There(..)
                | Place::Out(..)
                | Place::Library(_)
                | Place::Agent(..)
                | Place::Client(..)
                | Place::Remote(_),
            )
            | None => None,
        }
    }

    /// The same, with somebody who has agents work.
    #[must_use]
    pub fn with_delegate(self, delegate: Option<Arc<dyn Delegate>>) -> Self {
        Self { delegate, ..self }
    }

    /// The same, with these agents to work.
    #[must_use]
    pub fn with_agents(self, agents: Agents) -> Self {
        Self { agents, ..self }
    }

    /// The same, with tools of other programs.
    #[must_use]
    pub fn with_remote(self, remote: Option<Arc<dyn RemoteTools>>) -> Self {
        Self { remote, ..self }
    }

    /// The same, with somebody whom tools of other programs can ask.
    #[must_use]
    pub fn with_asks(self, asks: Arc<dyn Asks>) -> Self {
        let asks = Some(asks);
        Self { asks, ..self }
    }

    /// Whose tools those of other programs are.
    #[must_use]
    pub fn remote(&self) -> Option<&Arc<dyn RemoteTools>> {
        self.remote.as_ref()
    }

    /// Offers what other programs have to offer by now; says whether that is something else.
    pub fn look_again(&mut self) -> bool {
        let Some(remote) = &self.remote else {
            return false;
        };
        let offered = remote.offered();
        let is_new = offered.version != self.offered.version;
        self.offered = offered;
        is_new
    }

    /// The tools of other programs that can run and that a model is told of.
    pub fn remote_tools(&self) -> impl Iterator<Item = &RemoteTool> {
        let tools = self.offered.tools.iter();
        let tools = tools.filter(|tool| tool.is_shown);
        tools.filter(|tool| self.place(&tool.name).is_some())
    }

    /// The same, without all tools but these, if there are such.
    #[must_use]
    pub fn with_only(self, only: Option<Arc<[String]>>) -> Self {
        Self { only, ..self }
    }

    /// The same for whoever talks to another program: without what asks a person.
    #[must_use]
    pub fn without_person(self) -> Self {
        Self {
            has_person: false,
            ..self
        }
    }

    /// What a call of `name` asks a person, if it is for that; then it is not to run.
    #[must_use]
    pub fn question(&self, name: &str, input: &Value) -> Option<PersonQuestion> {
        self.place(name)?;
        builtin::find(name)?.question(input)
    }

    /// Asks the client which tools of its own it has, if it offers that and is there; gives what a
    /// person should know of it.
    pub async fn discover(&mut self) -> Vec<String> {
        let seat = self.seat.as_ref().filter(|seat| seat.offers().tools);
        let Some(client) = seat.and_then(ClientSeat::present) else {
            return Vec::new();
        };
        match client.discover_tools().await {
            Ok(Discovered { tools, problems }) => {
                self.client_tools = tools;
                problems
            }
            Err(error) => vec![format!("The client's own tools are not used: {error}")],
        }
    }

    /// The tools of the client's own that can run.
    pub fn client_tools(&self) -> impl Iterator<Item = &ClientTool> {
        let can_run = |tool: &&ClientTool| self.place(&tool.name).is_some();
        self.client_tools.iter().filter(can_run)
    }

    /// Notes how many tokens the turn has left: an equal share for each agent among the tools
    /// that are `called`, since they may work at the same time.
    pub fn leave_tokens<'a>(&mut self, left: Option<u64>, called: impl Iterator<Item = &'a str>) {
        let is_agent = |name: &&str| matches!(self.place(name), Some(Place::Agent(..)));
        let agents = called.filter(is_agent).count();
        self.tokens_left = left.map(|left| left / (agents.max(1) as u64));
    }

    /// What `tool` does, for the model.
    #[must_use]
    pub fn describe(&self, tool: &dyn Tool) -> String {
        tool.described(&self.agents)
    }

    /// Every tool that can run and do something here.
    pub fn tools(&self) -> impl Iterator<Item = &'static dyn Tool> {
        let can_run = |tool: &&dyn Tool| self.can_run(tool.name()) && self.is_of_use(tool.name());
        builtin::ALL.iter().copied().filter(can_run)
    }

    /// How to show a call of `name` with `input` to a person, before it runs.
    pub async fn show(&self, name: &str, input: &Value) -> Shown {
        let unknown = || Shown {
            title: name.to_owned(),
            kind: ToolKind::Other,
            locations: Vec::new(),
            content: Vec::new(),
        };
        match builtin::find(name) {
            None => match (self.client_tool(name), self.offered.find(name)) {
                (Some(tool), _) => Shown {
                    title: format!("{} in your client", tool.own_name),
                    ..unknown()
                },
                (None, Some(tool)) => Shown {
                    title: tool.title.clone(),
                    ..unknown()
                },
                (None, None) => unknown(),
            },
            Some(tool) if tool.only_looks() => tool.show(input, &self.roots),
            // What changes a file is shown beside what stands there now, and disks block.
            Some(tool) => {
                let preview = self.preview(name, input);
                let (input, roots) = (input.clone(), Arc::clone(&self.roots));
                let shown = tokio::task::spawn_blocking(move || tool.show(&input, &roots));
                let shown = shown.await.unwrap_or_else(|_| unknown());
                match preview {
                    Some(preview) => Shown {
                        content: preview.await,
                        ..shown
                    },
                    None => shown,
                }
            }
        }
    }

    /// What a call would change there, if the client has to be asked.
    fn preview(&self, name: &str, input: &Value) -> Option<Preview> {
        match self.place(name)? {
            Place::There(tool, seat) => tool.preview(input, Arc::clone(&self.roots), seat),
            Place::Here(_)
            | Place::Out(..)
            | Place::Library(_)
            | Place::Shell(..)
            | Place::Agent(..)
            | Place::Client(..)
            | Place::Remote(_) => None,
        }
    }

    /// Which file or directory a call of `name` touches, if it is a tool for such.
    pub async fn touched(&self, name: &str, input: &Value) -> Option<Touched> {
        let path = touched::path(name, input)?.to_owned();
        let roots = Arc::clone(&self.roots);
        // Looking at the disk blocks.
        let touched = tokio::task::spawn_blocking(move || roots.touched(&path));
        touched.await.ok()
    }

    /// Whether a call of `name` changes nothing and may run beside others like it.
    #[must_use]
    pub fn only_looks(&self, name: &str) -> bool {
        builtin::find(name).is_some_and(Tool::only_looks)
    }

    /// Whether a call of `name` is somebody else's work and may run beside others like it.
    #[must_use]
    pub fn is_task(&self, name: &str) -> bool {
        builtin::find(name).is_some_and(Tool::is_task)
    }

    /// Runs one permitted call to its end.
    ///
    /// The permit is used up; it must have been granted for this very call, which the caller shows
    /// by handing over both together.
    pub async fn run(&self, permit: Permit, name: &str, input: Value) -> Outcome {
        let roots = Arc::clone(&self.roots);
        match self.place(name) {
            None => Outcome::failed(no_such_tool(name, "")),
            Some(Place::There(tool, seat)) => {
                let call = seat.shown_call(permit.call());
                tool.run(input, There { call, roots, seat }).await
            }
            Some(Place::Out(tool, web)) => {
                let outcome = tool.run(input, web).await;
                drop(permit);
                outcome
            }
            Some(Place::Shell(tool, shell)) => {
                let (call, place) = (permit.call().clone(), self.progress.of(&permit));
                let call = ShellCall {
                    call,
                    shell,
                    roots,
                    place,
                    grants: self.grants,
                    languages: self.languages.clone(),
                };
                let outcome = tool.run(input, call).await;
                drop(permit);
                outcome
            }
            Some(Place::Agent(tool, delegate)) => {
                let call = TaskCall {
                    call: permit.call().clone(),
                    agents: self.agents.clone(),
                    delegate,
                    seat: self.seat.clone(),
                    remote: self.remote.clone(),
                    tokens_left: self.tokens_left,
                    place: self.progress.of(&permit),
                };
                let outcome = tool.run(input, call).await;
                drop(permit);
                outcome
            }
            Some(Place::Client(tool, seat)) => {
                let call = seat.shown_call(permit.call());
                let outcome = run_in_client(tool, seat, call, input).await;
                drop(permit);
                outcome
            }
            Some(Place::Remote(remote)) => {
                let outcome = remote.run(self.remote_call(&permit, name, input)).await;
                drop(permit);
                outcome
            }
            Some(Place::Here(tool)) => {
                // Dropped with this call, which tells the thread that nobody waits for it.
                let (stop, stopped) = StopFlag::new();
                let roots = Roots::clone(&roots).stopped_by(stopped);
                let outcome = blocking(permit, move || tool.run(input, &roots)).await;
                drop(stop);
                outcome
            }
            Some(Place::Library(tool)) => {
                let library = Arc::clone(&self.library);
                blocking(permit, move || tool.run(input, &library)).await
            }
        }
    }

    fn remote_call(&self, permit: &Permit, name: &str, input: Value) -> RemoteCall {
        let outputs = self.shell.as_ref().map(|shell| shell.outputs().to_owned());
        RemoteCall {
            call: permit.call().clone(),
            name: name.to_owned(),
            input,
            place: self.progress.of(permit),
            output: Output::new(outputs.unwrap_or_default()),
            asks: self.asks.clone().filter(|_| self.has_person),
        }
    }

    /// Where the tool called `name` runs, if it can.
    fn place(&self, name: &str) -> Option<Place> {
        let is_left_out = |only: &Arc<[String]>| !only.iter().any(|other| other == name);
        if self.only.as_ref().is_some_and(is_left_out) {
            return None;
        }
        if let (Some(tool), Some(seat)) = (self.client_tool(name), &self.seat) {
            return Some(Place::Client(tool.clone(), seat.clone()));
        }
        let Some(tool) = builtin::find(name) else {
            let remote = self.remote.as_ref().map(Arc::clone);
            return remote
                .filter(|_| self.offered.find(name).is_some())
                .map(Place::Remote);
        };
        if tool.asks_person() && !self.has_person {
            return None;
        }
        match (&self.seat, tool.there(self.offers())) {
            (Some(seat), Some(there)) => Some(Place::There(there, seat.clone())),
            (Some(_) | None, _) => match (&self.web, tool.out()) {
                (Some(web), Some(out)) => Some(Place::Out(out, web.clone())),
                (Some(_) | None, _) => self.place_here(tool),
            },
        }
    }

    /// Where a tool runs that needs neither client nor network, if it can.
    fn place_here(&self, tool: &'static dyn Tool) -> Option<Place> {
        if let Some(reads) = tool.on_library() {
            let place = Place::Library(reads);
            return reads.has_work(&self.library).then_some(place);
        }
        if let (Some(agents), Some(delegate)) = (tool.as_agent(), &self.delegate) {
            return Some(Place::Agent(agents, Arc::clone(delegate)));
        }
        if let (Some(commands), Some(shell)) = (tool.as_command(), &self.shell) {
            return Some(Place::Shell(commands, shell.clone()));
        }
        tool.here().map(Place::Here)
    }

    /// Whether there is a tool called exactly `name`.
    pub(crate) fn can_run(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    /// Whether the client has a tool of its own that is called `name`.
    pub(crate) fn has_client_tool(&self, name: &str) -> bool {
        self.client_tool(name).is_some() && self.seat.is_some()
    }

    fn client_tool(&self, name: &str) -> Option<&ClientTool> {
        self.client_tools.iter().find(|tool| tool.name == name)
    }

    fn offers(&self) -> Offers {
        self.seat
            .as_ref()
            .map(ClientSeat::offers)
            .unwrap_or_default()
    }
}

/// Has the client run a tool of its own.
async fn run_in_client(tool: ClientTool, seat: ClientSeat, call: CallId, input: Value) -> Outcome {
    let not_done = |error: &ClientError| format!("{} did not run: {error}.", tool.own_name);
    let client = match seat.client().await {
        Ok(client) => client,
        Err(error) => return Outcome::failed(not_done(&error)),
    };
    let request = ToolRequest {
        call,
        name: tool.own_name.clone(),
        input,
    };
    match client.call_tool(request).await {
        Ok(ToolReply { text, is_error }) => {
            let text = plain(text.as_bytes());
            let end = text.floor_char_boundary(CLIENT_TOOL_RESULT_BYTES_MAX);
            let text = match end < text.len() {
                true => format!("{}\n[cut: {} bytes more]", &text[..end], text.len() - end),
                false => text,
            };
            match is_error {
                true => Outcome::failed(text),
                false => Outcome::completed(text),
            }
        }
        Err(error) if error.may_have_run() => {
            Outcome::unknown(format!("{} may have run: {error}.", tool.own_name))
        }
        Err(error) => Outcome::failed(not_done(&error)),
    }
}

/// Does work that blocks on a thread of its own; dropping the turn leaves it to end by itself, which
/// a search does soon ([`StopFlag`]).
async fn blocking(permit: Permit, work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
    let ran = tokio::task::spawn_blocking(move || {
        let outcome = work();
        drop(permit);
        outcome
    });
    ran.await
        .unwrap_or_else(|_| Outcome::unknown("The tool stopped unexpectedly."))
}
