//! `[mcp.NAME]`: a server of tools, as it is written in a file of ours or in `.mcp.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use domain::limits::{MCP_CALL_WAIT, MCP_SERVER_NAME_BYTES_MAX};
use domain::tool_server::{
    Hidden, LoginClient, NamedBy, ServerProgram, ServerUrl, ServerWay, Speech, ToolServer,
};
use serde::Deserialize;

use super::{SettingsError, wrong};

/// What a file says about one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServerSection {
    /// What it speaks: `stdio`, `http` or `sse`.
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
    /// The program, if it is one.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that it sees.
    pub env: BTreeMap<String, String>,
    /// Where it listens, if it does.
    pub url: Option<String>,
    /// Headers of every request to it.
    pub headers: BTreeMap<String, String>,
    /// What we are called where people log in to it: a name, or the address of our description.
    pub client_id: Option<String>,
    /// What shows that it is us.
    pub client_secret: Option<String>,
    /// The port on this machine to which people are sent back.
    pub redirect_port: Option<u16>,
    /// Whether it is used at all.
    pub enabled: Option<bool>,
    /// Whether a session's first turn waits for it.
    pub required: bool,
    /// The only tools of it that are offered.
    pub allow: Option<Vec<String>>,
    /// Tools of it that are not.
    pub deny: Vec<String>,
    /// Whether it may reach the network.
    pub network: Option<bool>,
    /// Whether it is shut in as commands are.
    pub sandbox: Option<bool>,
    /// What it sees beyond what commands see.
    pub read: Vec<PathBuf>,
    /// What it may change beyond the session's directories.
    pub write: Vec<PathBuf>,
    /// How long a call may be silent.
    pub timeout_ms: Option<u64>,
}

/// What a server speaks, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Kind {
    /// It is a program.
    #[serde(rename = "stdio")]
    Stdio,
    /// Streamable HTTP.
    #[serde(rename = "http", alias = "streamable-http", alias = "streamableHttp")]
    Http,
    /// HTTP with server-sent events, the older way.
    #[serde(rename = "sse")]
    Sse,
}

/// The keys of `[mcp.NAME]`.
pub(super) const KEYS: &[&str] = &[
    "allow",
    "args",
    "client_id",
    "client_secret",
    "command",
    "deny",
    "enabled",
    "env",
    "headers",
    "network",
    "read",
    "redirect_port",
    "required",
    "sandbox",
    "timeout_ms",
    "type",
    "url",
    "write",
];

impl ServerSection {
    /// The server called `name`, or none if it is not to be used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn server(&self, name: &str) -> Result<Option<ToolServer>, String> {
        check_name(name)?;
        if self.enabled == Some(false) {
            return Ok(None);
        }
        let silence_max = match self.timeout_ms.map(Duration::from_millis) {
            Some(time) if time.is_zero() || time > MCP_CALL_WAIT => {
                let longest = MCP_CALL_WAIT.as_millis();
                return Err(format!("timeout_ms is between 1 and {longest}"));
            }
            other => other,
        };
        Ok(Some(ToolServer {
            is_required: self.required,
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            silence_max,
            ..ToolServer::new(name, self.way()?, NamedBy::Operator)
        }))
    }

    fn client(&self) -> Result<Option<LoginClient>, String> {
        let Some(id) = &self.client_id else {
            return match (&self.client_secret, self.redirect_port) {
                (None, None) => Ok(None),
                _ => Err("client_secret and redirect_port need a client_id".to_owned()),
            };
        };
        Ok(Some(LoginClient {
            id: id.clone(),
            secret: self.client_secret.as_ref().map(Hidden::new),
            redirect_port: self.redirect_port,
        }))
    }

    fn way(&self) -> Result<ServerWay, String> {
        match (self.kind, &self.command, &self.url) {
            (Some(Kind::Stdio) | None, Some(command), None) => {
                let relative = self.read.iter().chain(&self.write);
                if let Some(path) = relative.into_iter().find(|path| !path.is_absolute()) {
                    return Err(format!("{} is not absolute", path.display()));
                }
                if command.trim().is_empty() {
                    return Err("command is empty".to_owned());
                }
                Ok(ServerWay::Program(ServerProgram {
                    environment: hidden(&self.env),
                    network: self.network,
                    is_caged: self.sandbox.unwrap_or(true),
                    read: self.read.clone(),
                    write: self.write.clone(),
                    ..ServerProgram::new(command.clone(), self.args.clone())
                }))
            }
            (Some(Kind::Http | Kind::Sse) | None, None, Some(url)) => {
                Ok(ServerWay::Url(ServerUrl {
                    url: url.clone(),
                    headers: hidden(&self.headers),
                    speech: match self.kind {
                        Some(Kind::Http) => Speech::Streamable,
                        Some(Kind::Sse) => Speech::Sse,
                        Some(Kind::Stdio) | None => Speech::Unknown,
                    },
                    client: self.client()?,
                }))
            }
            (_, Some(_), Some(_)) => Err("it has a command and a url; one is right".to_owned()),
            (_, None, None) => Err("it has neither a command nor a url".to_owned()),
            (Some(Kind::Stdio), None, Some(_)) => Err("stdio needs a command".to_owned()),
            (Some(Kind::Http | Kind::Sse), Some(_), None) => Err("it needs a url".to_owned()),
        }
    }
}

/// All servers of a file.
pub(super) fn servers(
    sections: &BTreeMap<String, ServerSection>,
) -> Result<Vec<ToolServer>, SettingsError> {
    let mut servers = Vec::new();
    for (name, section) in sections {
        let server = section.server(name);
        let server = server.map_err(|problem| wrong(&format!("[mcp.{name}]: {problem}")))?;
        servers.extend(server);
    }
    Ok(servers)
}

/// A name stands in the names of tools and in rules, so it is plain.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_good = (1..=MCP_SERVER_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.contains("__")
        && !name.ends_with('_');
    match is_good {
        true => Ok(()),
        false => Err(format!(
            "a name is up to {MCP_SERVER_NAME_BYTES_MAX} letters, digits, - and single _"
        )),
    }
}

fn hidden(values: &BTreeMap<String, String>) -> Vec<(String, Hidden)> {
    let hidden = values.iter();
    hidden
        .map(|(name, value)| (name.clone(), Hidden::new(value)))
        .collect()
}
