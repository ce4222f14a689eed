//! The tool servers of a session: the operator's, those of the project's file, and those of
//! `.mcp.json`, as other programs write it. What a project brings counts once a person has approved it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::ToolServer;
use domain::tool_server::{Hidden, NamedBy, ServerWay};
use serde::Deserialize;
use tools::roots::Roots;
use tools::stamps::Stamps;

use super::file::{bytes, digest, line};
use super::variables::Variables;
use super::{Approvals, Place};
use crate::permissions::Rules;
use crate::settings::{FileSettings, ServerSection};

/// The name of the file that other programs read, too.
pub const SERVERS_FILE_NAME: &str = ".mcp.json";

/// A project's `.mcp.json`, as it was read.
#[derive(Clone, Debug)]
pub struct ServersFile {
    /// Where it is, without links.
    pub path: String,
    /// What it holds: 64 hexadecimal digits. Empty if it could not be read.
    pub sha256: String,
    /// Whether a person has approved exactly this.
    pub is_approved: bool,
    /// What it names; or what is wrong with it.
    pub servers: Result<Vec<ToolServer>, String>,
}

#[derive(Deserialize)]
struct Written {
    #[serde(rename = "mcpServers", default)]
    servers: BTreeMap<String, ServerSection>,
}

impl ServersFile {
    /// The nearest file in `levels`, from the root down. Blocks.
    pub(super) fn find(
        levels: &[PathBuf],
        roots: &Roots,
        approvals: Option<&Approvals>,
        stamps: &mut Stamps,
    ) -> Option<Self> {
        for level in levels.iter().rev() {
            let path = level.join(SERVERS_FILE_NAME);
            stamps.note(path.clone());
            if path.symlink_metadata().is_err() {
                continue;
            }
            let shown = path.to_string_lossy().into_owned();
            let (sha256, servers) = match bytes(&path, roots) {
                Ok(bytes) => (digest(&bytes), parse(&bytes)),
                Err(error) => (String::new(), Err(error.to_string())),
            };
            let is_approved = !sha256.is_empty()
                && approvals.is_some_and(|approvals| approvals.cover(&shown, &sha256));
            return Some(Self {
                path: shown,
                sha256,
                is_approved,
                servers,
            });
        }
        None
    }

    /// What it does once approved, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let servers = self.servers.iter().flatten();
        servers.map(server_line).collect()
    }

    /// Whether it waits for an approval.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.is_approved
            && self
                .servers
                .as_ref()
                .is_ok_and(|servers| !servers.is_empty())
    }
}

/// A server in one line, for whoever approves it.
pub(super) fn server_line(server: &ToolServer) -> String {
    let verb = match &server.way {
        ServerWay::Program(_) => "run",
        ServerWay::Url(_) => "connect to",
    };
    let has_network = match &server.way {
        ServerWay::Program(program) => program.network == Some(true),
        ServerWay::Url(_) => false,
    };
    let network = match has_network {
        true => " (with the network)",
        false => "",
    };
    let (name, place) = (&server.name, server.place());
    line(&format!("{verb} the tool server {name}{network}: {place}"))
}

/// A server as it may run under `rules`: its program has the network if its description says so, or they do.
#[must_use]
pub fn with_network(mut server: ToolServer, rules: &Rules) -> ToolServer {
    if let ServerWay::Program(program) = &mut server.way {
        let granted = || rules.grants_network_to(&server.name);
        program.network = Some(program.network.unwrap_or_else(granted));
    }
    server
}

/// The servers that the settings around a session name, those that count most first, and what is wrong
/// with others. A guest has none of them: they are the operator's means, and run with the operator's
/// secrets.
pub(super) fn of(
    place: &Place,
    (own, rules): (&FileSettings, &Rules),
    file: Option<&ServersFile>,
) -> (Vec<ToolServer>, Vec<String>) {
    let (mut servers, mut problems): (Vec<ToolServer>, Vec<String>) = Default::default();
    if !place.is_local {
        return (servers, problems);
    }
    // The operator's first: rules about a server's tools must not come to mean another server's.
    let operator = place.operator.settings.servers.iter().cloned();
    let own = own.servers.iter().cloned().map(of_project);
    let file = file.filter(|file| file.is_approved);
    let file = file.and_then(|file| file.servers.as_ref().ok());
    let mut written = Vec::new();
    for server in file.into_iter().flatten().cloned().map(of_project) {
        let name = server.name.clone();
        match expanded(server, &place.operator.variables) {
            Ok(server) => written.push(server),
            Err(variable) => problems.push(line(&format!(
                "The tool server {name} is not used: {SERVERS_FILE_NAME} wants the variable \
                 {variable}, which is not set or not for projects"
            ))),
        }
    }
    for server in operator.chain(own).chain(written) {
        if servers.iter().all(|known| known.name != server.name) {
            servers.push(with_network(server, rules));
        }
    }
    (servers, problems)
}

fn of_project(server: ToolServer) -> ToolServer {
    let named_by = NamedBy::Project;
    ToolServer { named_by, ..server }
}

/// A server with the variables in its description put in. What was approved is the description.
///
/// # Errors
/// The variable that is not there.
fn expanded(mut server: ToolServer, variables: &Variables) -> Result<ToolServer, String> {
    let all = |pairs: &mut Vec<(String, Hidden)>| {
        for (_, value) in pairs {
            *value = Hidden::new(variables.expand(value.reveal())?);
        }
        Ok::<(), String>(())
    };
    match &mut server.way {
        ServerWay::Program(program) => {
            program.command = variables.expand(&program.command)?;
            for word in &mut program.args {
                *word = variables.expand(word)?;
            }
            all(&mut program.environment)?;
        }
        ServerWay::Url(at) => {
            at.url = variables.expand(&at.url)?;
            all(&mut at.headers)?;
        }
    }
    Ok(server)
}

fn parse(bytes: &[u8]) -> Result<Vec<ToolServer>, String> {
    let written: Written = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut servers = Vec::new();
    for (name, section) in &written.servers {
        let server = section.server(name);
        servers.extend(server.map_err(|problem| format!("{name}: {problem}"))?);
    }
    Ok(servers)
}
