//! The servers of one session, as its turns see them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ToolServer;
use domain::limits::{
    MCP_DESCRIPTION_BYTES_MAX, MCP_SCHEMA_BYTES_MAX, MCP_SERVERS_MAX, MCP_START_WAIT,
    MCP_TOOLS_SHOWN_MAX,
};
use domain::tool_server::ServerWay;
use rmcp::model::Tool;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tools::remote::{
    Expanding, Offered, Patience, RemoteCall, RemoteCommand, RemoteHome, RemoteTool, RemoteTools,
    Settling,
};
use tools::{Outcome, Running};

use crate::call;
use crate::callers::OnBehalf;
use crate::connect::Servers;
use crate::error::quoted;
use crate::filter::is_offered;
use crate::keeper::{Kept, Status};
use crate::names::{offered_name, server_key};
use crate::outcome;
use crate::supervise::Phase;
use crate::{prompts, resources, search};

/// The servers of one session. Dropped, they are ended.
pub struct Hub {
    servers: Servers,
    home: Arc<RemoteHome>,
    kept: Mutex<BTreeMap<String, Arc<Kept>>>,
    /// What a person was told about each server.
    told: Mutex<BTreeMap<String, String>>,
    /// The tools that are offered, and of what they were made.
    built: Mutex<(Vec<Source>, Offered)>,
    /// Tools that the model has searched for.
    found: Mutex<BTreeSet<String>>,
    changed: Arc<Notify>,
    begun: Instant,
}

/// A server at one moment: its key, when it was begun with, and the version of its tools.
type Source = (String, Instant, u64);

/// How things stand with a server, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub place: String,
    /// Whether it may reach the network, if it is a program here.
    pub network: Option<bool>,
    /// How things stand.
    pub phase: Phase,
    /// Why, if it is not ready.
    pub why: Option<String>,
    /// The names of its tools that are offered.
    pub tools: Vec<String>,
}

impl Hub {
    pub(crate) fn new(servers: Servers, home: RemoteHome) -> Self {
        let hub = Self {
            servers,
            home: Arc::new(home),
            kept: Mutex::default(),
            told: Mutex::default(),
            built: Mutex::default(),
            found: Mutex::default(),
            changed: Arc::new(Notify::new()),
            begun: Instant::now(),
        };
        hub.keep(Vec::new());
        hub
    }

    /// Waits until every server has begun or failed to.
    pub async fn begun(&self) {
        let all: Vec<Arc<Kept>> = lock(&self.kept).values().cloned().collect();
        for kept in all {
            let deadline = kept.begun + MCP_START_WAIT * 2;
            let _ = timeout_at(deadline, kept.begun()).await;
        }
    }

    /// How things stand.
    #[must_use]
    pub fn reports(&self) -> Vec<ServerReport> {
        let kept = lock(&self.kept);
        let reports = kept.values().map(|kept| {
            let status = kept.status();
            let tools = tools_of(&kept.server, &status);
            ServerReport {
                name: kept.server.name.clone(),
                place: kept.server.place(),
                network: match &kept.server.way {
                    ServerWay::Program(program) => {
                        Some(!program.is_caged || program.network == Some(true))
                    }
                    ServerWay::Url(_) => None,
                },
                phase: status.phase,
                why: status.why,
                tools: tools.into_iter().map(|(tool, _)| tool.name).collect(),
            }
        });
        reports.collect()
    }

    /// Starts what is wanted and not there, and ends what is there and not wanted. What the client
    /// named counts more than what the settings say.
    fn keep(&self, wanted: Vec<ToolServer>) {
        let mut kept = lock(&self.kept);
        let named = self.home.named.iter().cloned().chain(wanted);
        let mut all = BTreeMap::new();
        for server in named {
            all.entry(server_key(&server.name)).or_insert(server);
        }
        kept.retain(|key, kept| all.get(key) == Some(&kept.server));
        for (key, server) in all.into_iter().take(MCP_SERVERS_MAX) {
            kept.entry(key).or_insert_with(|| {
                let connector = self.servers.connector(&server, &self.home);
                Arc::new(Kept::new(server, connector, Arc::clone(&self.changed)))
            });
        }
    }

    fn build(&self) -> Offered {
        let kept = lock(&self.kept);
        let statuses: Vec<(&String, &Arc<Kept>, Status)> = kept
            .iter()
            .map(|(key, kept)| (key, kept, kept.status()))
            .collect();
        let found = lock(&self.found).clone();
        let of = statuses
            .iter()
            .map(|(key, kept, status)| ((*key).clone(), kept.begun, status.version));
        // What was found is one more reason to build anew.
        let searched = (String::new(), self.begun, found.len() as u64);
        let of: Vec<Source> = of.chain([searched]).collect();
        let mut built = lock(&self.built);
        if built.0 == of {
            return built.1.clone();
        }
        let all = statuses
            .iter()
            .flat_map(|(_, kept, status)| tools_of(&kept.server, status));
        let mut tools: Vec<RemoteTool> = all.map(|(tool, _)| tool).collect();
        if tools.len() > MCP_TOOLS_SHOWN_MAX {
            for tool in &mut tools {
                tool.is_shown = found.contains(&tool.name);
            }
            tools.push(search::tool(tools.len()));
        }
        let with_resources = statuses
            .iter()
            .filter(|(_, _, status)| status.has_resources);
        let with_resources: Vec<String> = with_resources
            .map(|(_, kept, _)| kept.server.name.clone())
            .collect();
        if !with_resources.is_empty() {
            tools.push(resources::tool(&with_resources));
        }
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools.dedup_by(|one, other| one.name == other.name);
        let offered = Offered {
            version: built.1.version + 1,
            tools: tools.into(),
        };
        *built = (of, offered.clone());
        offered
    }

    /// Shows the model what it searches for.
    fn search(&self, input: &Value) -> Outcome {
        let offered = self.build();
        let others: Vec<RemoteTool> = offered
            .tools
            .iter()
            .filter(|tool| ![search::NAME, resources::NAME].contains(&tool.name.as_str()))
            .cloned()
            .collect();
        match search::find(input, &others) {
            Ok(found) => {
                let names = found.iter().map(|tool| tool.name.clone());
                lock(&self.found).extend(names);
                Outcome::completed(search::told(&found))
            }
            Err(wrong) => Outcome::failed(wrong),
        }
    }

    /// Reads a resource.
    fn read_resource(&self, call: RemoteCall) -> Running {
        let server = call.input["server"].as_str().unwrap_or_default();
        let kept = lock(&self.kept).get(&server_key(server)).cloned();
        let Some(kept) = kept else {
            let text = format!("There is no server called {}.", quoted(server));
            return Box::pin(std::future::ready(Outcome::failed(text)));
        };
        Box::pin(async move {
            let name = &kept.server.name;
            match kept.link().await {
                Ok(link) => resources::run(name, &link, &call.input, call.output).await,
                Err(error) => outcome::of_error(name, &error),
            }
        })
    }

    /// The server that has the tool `name`, and the tool.
    pub(crate) fn find(&self, name: &str) -> Option<(Arc<Kept>, Tool)> {
        let kept = lock(&self.kept);
        kept.values().find_map(|kept| {
            let tools = tools_of(&kept.server, &kept.status());
            let mut tools = tools.into_iter();
            let (_, tool) = tools.find(|(tool, _)| tool.name == name)?;
            Some((Arc::clone(kept), tool))
        })
    }
}

impl RemoteTools for Hub {
    fn settle(&self, wanted: Vec<ToolServer>, patience: Patience) -> Settling {
        self.keep(wanted);
        let grace = self.servers.grace(patience);
        let kept = lock(&self.kept);
        let waits = kept.values().map(|kept| -> (Instant, Settling) {
            let (is_required, looked) = (kept.server.is_required, kept.looked_again());
            match (looked, is_required) {
                // Somebody may have logged in since the last turn, or what was wrong may be over.
                (Some(looked), true) => (Instant::now() + MCP_START_WAIT, Box::pin(looked)),
                (Some(looked), false) => (Instant::now() + grace, Box::pin(looked)),
                // One that fails at first is waited for while it is tried again.
                (None, true) => (kept.begun + MCP_START_WAIT * 2, Box::pin(kept.settled())),
                (None, false) => (kept.begun + grace, Box::pin(kept.begun())),
            }
        });
        let waits: Vec<_> = waits.collect();
        Box::pin(async move {
            for (deadline, begun) in waits {
                let _ = timeout_at(deadline, begun).await;
            }
        })
    }

    fn offered(&self) -> Offered {
        self.build()
    }

    fn news(&self) -> Vec<String> {
        let kept = lock(&self.kept);
        let mut told = lock(&self.told);
        told.retain(|key, _| kept.contains_key(key));
        let mut news = Vec::new();
        for (key, kept) in kept.iter() {
            let status = kept.status();
            let state = words(&status);
            let is_new = told.get(key) != Some(&state);
            // That all is well from the start needs no words.
            let is_well = status.phase == Phase::Ready && !told.contains_key(key);
            if is_new {
                told.insert(key.clone(), state.clone());
            }
            if is_new && !is_well {
                news.push(format!("MCP server {}: {state}", quoted(&kept.server.name)));
            }
        }
        news
    }

    fn commands(&self) -> Vec<RemoteCommand> {
        let kept = lock(&self.kept);
        let commands = kept.values().flat_map(|kept| {
            let prompts = kept.status().prompts;
            let server = &kept.server.name;
            let commands = prompts
                .iter()
                .map(|prompt| prompts::command(server, prompt));
            commands.collect::<Vec<_>>()
        });
        commands.collect()
    }

    fn expand(&self, name: &str, arguments: &str) -> Option<Expanding> {
        let key = name.strip_prefix("mcp__")?.split("__").next()?;
        let kept = Arc::clone(lock(&self.kept).get(key)?);
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        Some(Box::pin(async move {
            let server = &kept.server.name;
            let failed = |why: String| format!("/{name} of {}: {why}", quoted(server));
            let link = kept
                .link()
                .await
                .map_err(|error| failed(error.to_string()))?;
            link.expand((server.as_str(), name.as_str()), &arguments)
                .await
                .map_err(failed)
        }))
    }

    fn run(&self, call: RemoteCall) -> Running {
        if call.name == search::NAME {
            return Box::pin(std::future::ready(self.search(&call.input)));
        }
        if call.name == resources::NAME {
            return self.read_resource(call);
        }
        let Some((kept, tool)) = self.find(&call.name) else {
            let text = format!("There is no tool called {} at the moment.", call.name);
            return Box::pin(std::future::ready(Outcome::failed(text)));
        };
        Box::pin(async move {
            let name = kept.server.name.clone();
            let input = match call.input {
                Value::Object(input) => input,
                Value::Null => Map::new(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Outcome::failed("The input must be an object.");
                }
            };
            let link = match kept.link().await {
                Ok(link) => link,
                Err(error) => return outcome::of_error(&name, &error),
            };
            let place = &call.place;
            let silence_max = kept.server.silence_max;
            let (id, asks) = (call.call, call.asks);
            let on_behalf = asks.map(|asks| OnBehalf { call: id, asks });
            let params = call::params(&tool.name, input);
            let called = link.call(params, silence_max, on_behalf, |far| place.show(far));
            match called.await {
                Ok(result) => {
                    let output = call.output;
                    // Checking a form and writing a file take a thread for a while.
                    let read = tokio::task::spawn_blocking(move || {
                        outcome::of_result(result, tool.output_schema.as_deref(), output)
                    });
                    read.await
                        .unwrap_or_else(|_| Outcome::unknown("The result could not be read."))
                }
                Err(error) => outcome::of_error(&name, &error),
            }
        })
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = lock(&self.kept).keys().cloned().collect();
        f.debug_tuple("Hub").field(&names).finish()
    }
}

/// The tools of a server that are offered.
fn tools_of(server: &ToolServer, status: &Status) -> Vec<(RemoteTool, Tool)> {
    let offered = status
        .tools
        .iter()
        .filter(|tool| is_offered(server, &tool.name));
    offered
        .filter_map(|tool| Some((remote(server, tool)?, tool.clone())))
        .collect()
}

/// A tool as the model is told of it; none if its schema is too long to be told.
fn remote(server: &ToolServer, tool: &Tool) -> Option<RemoteTool> {
    let schema = Value::Object((*tool.input_schema).clone());
    if schema.to_string().len() > MCP_SCHEMA_BYTES_MAX {
        return None;
    }
    let said = tool.description.as_deref().unwrap_or_default();
    let end = said.floor_char_boundary(MCP_DESCRIPTION_BYTES_MAX);
    Some(RemoteTool {
        name: offered_name(&server.name, &tool.name),
        title: format!("{}: {}", quoted(&server.name), quoted(&tool.name)),
        description: said[..end].to_owned(),
        input_schema: Arc::new(schema),
        is_shown: true,
    })
}

fn words(status: &Status) -> String {
    let why = status.why.as_deref().unwrap_or("no reason is known");
    match status.phase {
        Phase::Starting if status.starts <= 1 => {
            let seconds = MCP_START_WAIT.as_secs();
            format!("it is still starting (it has {seconds} s for that)")
        }
        Phase::Starting => format!("it is started again ({why})"),
        Phase::Ready => "it is ready".to_owned(),
        Phase::BackingOff { .. } => format!("it failed and will be tried again: {why}"),
        Phase::Failed { .. } => format!("it failed too often: {why}"),
        Phase::Disabled => format!("it cannot be used: {why}"),
        // It says itself what to do.
        Phase::LoginNeeded => why.to_owned(),
    }
}

/// The guarded data is whole at every step, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
