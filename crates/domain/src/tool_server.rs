//! A server of tools as somebody named it: how to reach it, and what it may do.
//!
//! Settings, a project's file and clients all end in a [`ToolServer`]; whoever connects reads
//! nothing else. Values that may be secret do not print.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A server of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolServer {
    /// What it is called by whoever named it.
    pub name: String,
    /// How it is reached.
    pub way: ServerWay,
    /// Who named it.
    pub named_by: NamedBy,
    /// Whether a session's first turn waits for it.
    pub is_required: bool,
    /// The only tools of it that are offered, if not all; `*` stands for anything.
    pub allow: Option<Vec<String>>,
    /// Tools of it that are not offered.
    pub deny: Vec<String>,
    /// How long a call may be silent, if not as long as usual.
    pub silence_max: Option<Duration>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerWay {
    /// It is a program that we start and speak to through pipes.
    Program(ServerProgram),
    /// It listens somewhere.
    Url(ServerUrl),
}

/// A program that serves tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProgram {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that it sees besides those that every command sees.
    pub environment: Vec<(String, Hidden)>,
    /// Whether it may reach the network, if that was said; it may not if nobody has.
    pub network: Option<bool>,
    /// Whether it is shut in as commands are.
    pub is_caged: bool,
    /// What it sees beyond what commands see.
    pub read: Vec<PathBuf>,
    /// What it may change beyond the session's directories.
    pub write: Vec<PathBuf>,
}

/// A server that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    /// Where.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, Hidden)>,
    /// What it speaks.
    pub speech: Speech,
    /// What we are called where people log in to it, if somebody said.
    pub client: Option<LoginClient>,
}

/// What we are called at an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginClient {
    /// The name, or the `https` address of our description.
    pub id: String,
    /// What shows that it is us, if anything does.
    pub secret: Option<Hidden>,
    /// The port on this machine to which people are sent back, if not any.
    pub redirect_port: Option<u16>,
}

/// What a server that listens speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// Streamable HTTP.
    Streamable,
    /// HTTP with server-sent events, as of 2024-11-05.
    Sse,
    /// Nobody said; it is tried out.
    Unknown,
}

/// Who named a server, and so what it may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The operator.
    Operator,
    /// A project whose file the operator has approved.
    Project,
    /// The client of the person at this machine.
    LocalClient,
    /// Some other client.
    Guest,
}

impl NamedBy {
    /// Whether it may be on this machine or its networks, and be a program on it.
    #[must_use]
    pub fn is_trusted(self) -> bool {
        match self {
            Self::Operator | Self::Project | Self::LocalClient => true,
            Self::Guest => false,
        }
    }
}

/// A value that may be secret. It does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Hides `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

impl ToolServer {
    /// A server as it is if nothing more is said about it.
    #[must_use]
    pub fn new(name: impl Into<String>, way: ServerWay, named_by: NamedBy) -> Self {
        Self {
            name: name.into(),
            way,
            named_by,
            is_required: false,
            allow: None,
            deny: Vec::new(),
            silence_max: None,
        }
    }

    /// Where it is, for people: the program's words, or the address without what may be secret.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.way {
            ServerWay::Program(program) => {
                let words = std::iter::once(&program.command).chain(&program.args);
                words.cloned().collect::<Vec<_>>().join(" ")
            }
            ServerWay::Url(at) => {
                let end = at.url.find(['?', '#']).unwrap_or(at.url.len());
                let plain = &at.url[..end];
                match (plain.find("://"), plain.rfind('@')) {
                    (Some(start), Some(at)) if at > start => {
                        format!("{}{}", &plain[..start + 3], &plain[at + 1..])
                    }
                    _ => plain.to_owned(),
                }
            }
        }
    }
}

impl ServerProgram {
    /// A program as it runs if nothing more is said about it: shut in.
    #[must_use]
    pub fn new(command: impl Into<String>, args: Vec<String>) -> Self {
        Self {
            command: command.into(),
            args,
            environment: Vec::new(),
            network: None,
            is_caged: true,
            read: Vec::new(),
            write: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Hidden, NamedBy, ServerUrl, ServerWay, Speech, ToolServer};

    #[test]
    fn neither_headers_nor_what_an_address_hides_are_printed() {
        let at = ServerUrl {
            url: "https://user:pw@host/mcp?key=k3y#x".to_owned(),
            headers: vec![("authorization".to_owned(), Hidden::new("Bearer t0ken"))],
            speech: Speech::Unknown,
            client: None,
        };
        assert!(!format!("{:?}", at.headers).contains("t0ken"));
        let server = ToolServer::new("s", ServerWay::Url(at), NamedBy::Guest);
        assert_eq!(server.place(), "https://host/mcp");
    }
}
