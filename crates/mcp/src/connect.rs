//! From a server as it was named to a connection, within one deadline.
//!
//! Two things about a server are found out by trying, and remembered for as long as the process
//! lives: whether it speaks the protocol of 2026-07-28 or an older one, and, where nobody said, whether
//! it speaks Streamable HTTP or the older way with server-sent events.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::limits::{MCP_GRACE, MCP_START_WAIT};
use domain::tool_server::{NamedBy, ServerProgram, ServerUrl, ServerWay, Speech, ToolServer};
use netguard::Guard;
use rmcp::model::{ProtocolVersion, Tool};
use rmcp::service::ClientLifecycleMode;
use tokio::time::timeout;
use tools::remote::{Patience, RemoteHome, RemoteSource, RemoteTools};
use tools::shell::Shell;

use crate::error::{CallError, ConnectError};
use crate::fetching::{PrivateCache, is_downloader};
use crate::handler::Handler;
use crate::hub::Hub;
use crate::life::Life;
use crate::link::Link;
use crate::oauth::{Account, Logins};
use crate::transport::http::Door;
use crate::transport::{program, sse, streamable};

/// Servers found out about that are remembered: more than one machine's sessions name.
const FINDINGS_MAX: usize = 1_024;

/// Where sessions get their tool servers from. Cheap to clone.
#[derive(Clone)]
pub struct Servers {
    /// For addresses that a guest names.
    guard: Guard,
    /// For servers that the user or the operator names, and for logins to them.
    pub(crate) trusted_guard: Guard,
    pub(crate) logins: Option<Logins>,
    /// How long a session's first turn waits for those that it does not need.
    pub(crate) grace: Duration,
    /// Where programs that download what they run keep it, each in a directory of its own.
    caches: Option<PathBuf>,
    findings: Findings,
}

impl Servers {
    /// Servers that are reached through `guard`.
    #[must_use]
    pub fn new(guard: Guard) -> Self {
        Self {
            trusted_guard: guard.clone(),
            guard,
            logins: None,
            grace: MCP_GRACE,
            caches: None,
            findings: Findings::default(),
        }
    }

    /// The same, where servers that the user or the operator names are reached through `guard`, which
    /// may use another proxy.
    #[must_use]
    pub fn with_trusted_guard(self, guard: Guard) -> Self {
        Self {
            trusted_guard: guard,
            ..self
        }
    }

    /// The same, with logins that are kept in `directory`.
    #[must_use]
    pub fn with_logins(self, directory: PathBuf) -> Self {
        let logins = Some(Logins::new(directory));
        Self { logins, ..self }
    }

    /// The same, of which those that are not needed get another time to begin.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How long one that is not needed may take to begin.
    pub(crate) fn grace(&self, patience: Patience) -> Duration {
        match patience {
            // The operator's own number counts for every turn.
            Patience::UntilStarted if self.grace == MCP_GRACE => MCP_START_WAIT,
            Patience::UntilStarted | Patience::Brief => self.grace,
        }
    }

    /// The same, whose programs keep what they download below `directory`.
    #[must_use]
    pub fn with_caches(self, directory: Option<PathBuf>) -> Self {
        Self {
            caches: directory,
            ..self
        }
    }

    /// The servers of one session, of which those that its client named are started at once.
    #[must_use]
    pub fn hub(&self, home: RemoteHome) -> Arc<Hub> {
        Arc::new(Hub::new(self.clone(), home))
    }

    pub(crate) fn connector(&self, server: &ToolServer, home: &Arc<RemoteHome>) -> Connector {
        Connector {
            server: server.clone(),
            account: self.account(server),
            home: Arc::clone(home),
            servers: self.clone(),
        }
    }
}

impl RemoteSource for Servers {
    fn open(&self, home: RemoteHome) -> Arc<dyn RemoteTools> {
        self.hub(home)
    }
}

/// What was found out about servers, by where they are.
#[derive(Clone, Debug, Default)]
struct Findings {
    known: Arc<Mutex<HashMap<String, Finding>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Finding {
    /// It speaks an older protocol.
    is_older: bool,
    speech: Option<Speech>,
}

impl Findings {
    fn of(&self, place: &str) -> Finding {
        self.known().get(place).copied().unwrap_or_default()
    }

    fn note(&self, place: &str, change: impl FnOnce(&mut Finding)) {
        let mut known = self.known();
        if known.len() < FINDINGS_MAX || known.contains_key(place) {
            change(known.entry(place.to_owned()).or_default());
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Finding>> {
        // Whole at every step, so a panic elsewhere does not spoil it.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to one server, as often as need be.
pub(crate) struct Connector {
    server: ToolServer,
    account: Option<Account>,
    home: Arc<RemoteHome>,
    servers: Servers,
}

impl Connector {
    /// Connects and asks for the server's tools. Dropped, it leaves nothing behind.
    ///
    /// # Errors
    /// If that does not come about in time.
    pub(crate) async fn connect(&self) -> Result<(Link, Vec<Tool>), ConnectError> {
        let connecting = timeout(MCP_START_WAIT, self.connect_in_time()).await;
        let too_slow = |_| Err(self.with_hint(ConnectError::TooSlow(MCP_START_WAIT)));
        connecting.unwrap_or_else(too_slow)
    }

    async fn connect_in_time(&self) -> Result<(Link, Vec<Tool>), ConnectError> {
        let named_by = self.server.named_by;
        let link = match &self.server.way {
            ServerWay::Program(_) if !named_by.is_trusted() => {
                let why = "only the person at this machine may name programs";
                return Err(ConnectError::Refused(why.to_owned()));
            }
            ServerWay::Program(program) => {
                let reached = self.to_program(program).await;
                reached.map_err(|error| self.with_hint(error))?
            }
            ServerWay::Url(at) => {
                let account = self.account.clone();
                let guard = match named_by.is_trusted() {
                    true => &self.servers.trusted_guard,
                    false => &self.servers.guard,
                };
                let door = Door::new(guard, at, named_by.is_trusted(), account)?;
                self.to_url(at, door).await?
            }
        };
        let tools = link.tools().await;
        let tools = tools.map_err(|error| match error {
            CallError::LoginNeeded(hint) => ConnectError::LoginNeeded(hint),
            CallError::Server { .. }
            | CallError::Silent(_)
            | CallError::TooLong(_)
            | CallError::Closed(_)
            | CallError::NotThere(_)
            | CallError::Unexpected(_) => {
                ConnectError::Failed(format!("its tools cannot be listed: {error}"))
            }
        })?;
        Ok((link, tools))
    }

    /// Why a program did not begin, and what to do if that is because it could not reach the network. What it
    /// says about that is in its own words, so it is always said.
    fn with_hint(&self, error: ConnectError) -> ConnectError {
        let Some(hint) = network_hint(&self.server, &self.home) else {
            return error;
        };
        match error {
            ConnectError::Failed(_) | ConnectError::TooSlow(_) => {
                ConnectError::Failed(format!("{error}; {hint}"))
            }
            ConnectError::Refused(_)
            | ConnectError::NoProgram(_)
            | ConnectError::LoginNeeded(_) => error,
        }
    }

    /// Whether somebody has logged in since the last try.
    pub(crate) async fn has_new_login(&self) -> bool {
        match &self.account {
            Some(account) => account.has_news().await,
            None => false,
        }
    }

    async fn to_program(&self, program: &ServerProgram) -> Result<Link, ConnectError> {
        let place = self.server.place();
        if !self.servers.findings.of(&place).is_older {
            let first = self.start(program, both_eras()).await;
            match first {
                Ok(link) => {
                    self.note_era(&place, Some(&link));
                    return Ok(link);
                }
                Err(ConnectError::Failed(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // Some programs end when they are asked something that they do not know.
        let started = self.start(program, ClientLifecycleMode::Initialize).await;
        self.note_era(&place, started.as_ref().ok());
        started
    }

    async fn start(
        &self,
        program: &ServerProgram,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Link, ConnectError> {
        let cwd = self.home.roots.directories().next();
        let cache = self.servers.caches.as_deref().zip(cwd);
        let cache =
            cache.and_then(|(caches, cwd)| PrivateCache::of(&self.server, program, cwd, caches));
        let pipe = program::start(program, &self.home, cache).await?;
        let life = pipe.life.clone();
        Link::begin(pipe, life, self.handler(), lifecycle).await
    }

    async fn to_url(&self, at: &ServerUrl, door: Door) -> Result<Link, ConnectError> {
        match at.speech {
            Speech::Streamable => self.streamable(door).await,
            Speech::Sse => self.sse(door).await,
            Speech::Unknown => {
                let reached = match self.servers.findings.of(&at.url).speech {
                    Some(Speech::Streamable) => self.streamable(door).await,
                    Some(Speech::Sse) => self.sse(door).await,
                    Some(Speech::Unknown) | None => return self.either(at, door).await,
                };
                if let Err(ConnectError::Failed(_)) = &reached {
                    // It may speak otherwise by now, which the next try finds out.
                    self.note_speech(at, None);
                }
                reached
            }
        }
    }

    /// Finds out what the server speaks.
    async fn either(&self, at: &ServerUrl, door: Door) -> Result<Link, ConnectError> {
        match self.streamable(door.clone()).await {
            Ok(link) => {
                self.note_speech(at, Some(Speech::Streamable));
                Ok(link)
            }
            Err(ConnectError::Failed(first)) => {
                // What it said first is what most servers are about.
                let link = self
                    .sse(door)
                    .await
                    .map_err(|_| ConnectError::Failed(first))?;
                self.note_speech(at, Some(Speech::Sse));
                Ok(link)
            }
            Err(error) => Err(error),
        }
    }

    fn note_speech(&self, at: &ServerUrl, speech: Option<Speech>) {
        let findings = &self.servers.findings;
        findings.note(&at.url, |finding| finding.speech = speech);
    }

    async fn streamable(&self, door: Door) -> Result<Link, ConnectError> {
        // Whether it may be dialled is known before a worker is set to it.
        door.check().await?;
        let place = self.server.place();
        let lifecycle = match self.servers.findings.of(&place).is_older {
            true => ClientLifecycleMode::Initialize,
            false => both_eras(),
        };
        let life = Life::default();
        let transport = streamable::open(door, life.clone());
        let begun = Link::begin(transport, life, self.handler(), lifecycle).await;
        self.note_era(&place, begun.as_ref().ok());
        begun.map(Link::over_network)
    }

    fn handler(&self) -> Handler {
        Handler::new(&self.server.name, &self.home.roots)
    }

    /// Remembers what a server speaks, or forgets it if it did not begin: it may be a newer one.
    fn note_era(&self, place: &str, link: Option<&Link>) {
        let is_older = link.is_some_and(Link::is_older);
        self.servers
            .findings
            .note(place, |finding| finding.is_older = is_older);
    }

    async fn sse(&self, door: Door) -> Result<Link, ConnectError> {
        let life = Life::default();
        let pipe = sse::open(door, life.clone()).await?;
        let lifecycle = ClientLifecycleMode::Initialize;
        let begun = Link::begin(pipe, life, self.handler(), lifecycle).await;
        begun.map(Link::over_network)
    }
}

/// What gives a program the network that has none.
fn network_hint(server: &ToolServer, home: &RemoteHome) -> Option<String> {
    let ServerWay::Program(program) = &server.way else {
        return None;
    };
    let sandbox = home.shell.as_ref().and_then(Shell::sandbox);
    let is_given = sandbox.is_none_or(|sandbox| sandbox.settings().network);
    if !program.is_caged || program.network == Some(true) || is_given {
        return None;
    }
    let name = &server.name;
    let set = match server.named_by {
        NamedBy::Operator => {
            format!(
                "`network = true` in [mcp.{name}] gives it one, as `mcp add --network` writes it"
            )
        }
        NamedBy::Project => {
            "`network = true` beside its command gives it one, once that is approved".to_owned()
        }
        NamedBy::LocalClient | NamedBy::Guest => {
            format!("`allow = [\"mcp_network({name})\"]` in [permissions] gives it one")
        }
    };
    let what = match is_downloader(&program.command) {
        true => format!(
            "{} downloads what it runs, and it has no network",
            program.command
        ),
        false => "it has no network".to_owned(),
    };
    Some(format!("{what}: {set}"))
}

/// Asks in the newest way first.
pub(crate) fn both_eras() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}
