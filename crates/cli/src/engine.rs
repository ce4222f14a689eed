//! Puts the parts together: store, model, sessions, gate, and the service around them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::project::Place;
use anyhow::Context;
use auth::{Door, Gate};
use domain::SessionId;
use journal::FileStore;
use mcp::Servers;
use server::{LoginState, ModelLogin, Service};
use session::{Catalog, Engine, Sessions};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tools::roots::RootBase;
use tools::sandbox::Bounds;
use tools::shell::Shell;

use crate::keys::{self, KeyProvider};
use crate::render::Failure;
use crate::settings::Settings;
use crate::web::{self, Network};

/// A service, and what people should know of its model.
pub(crate) struct Running {
    pub(crate) service: Arc<Service>,
    /// Which model answers, and why that one.
    pub(crate) model: String,
}

/// Starts the session engine on the current runtime, for those whom `gate` and `door` admit, in a
/// program that listens at `own`.
///
/// # Errors
/// If the store cannot be opened or the model cannot be used.
pub(crate) async fn start(
    settings: &Settings,
    gate: Gate,
    door: Door,
    own: &[SocketAddr],
) -> anyhow::Result<Running> {
    check(settings)?;
    let store = open_store(settings)?;
    let choice = llm::choose(settings.model.clone()).await?;
    let model_login = Arc::new(StoredKeys::of(settings, &choice));
    let models = Arc::clone(&choice.models);
    let catalog: Arc<dyn Catalog> = choice.models;
    let model = format!("{} ({})", choice.provider.label(), choice.why);
    let greeting = format!(
        "Fastness {}, answering with {model}.\n\n",
        env!("CARGO_PKG_VERSION")
    );
    // Tools see paths without links, so what is hidden from them is named that way too.
    let data_dir = settings
        .data_dir
        .canonicalize()
        .unwrap_or_else(|_| settings.data_dir.clone());
    let gate = Arc::new(gate);
    let shell = shell(settings, &data_dir);
    let network = web::network(settings, own)?;
    let sessions = Sessions::start(Engine {
        store,
        provider: choice.provider,
        catalog: Arc::clone(&catalog),
        limits: settings.limits.clone(),
        greeting: settings.is_greeting.then_some(greeting),
        hidden: hidden(settings, &data_dir),
        base: guests_base(&settings.cwd),
        gate: Arc::clone(&gate),
        web: Some(network.web.clone()),
        operator: Arc::new(settings.operator.clone()),
        shell: Some(shell.clone()),
        remotes: Some(Arc::new(servers(&network, &data_dir, settings))),
    });
    let service = Service {
        sessions,
        gate,
        door,
        limits: settings.limits.clone(),
        catalog,
        model_login,
        data_dir,
        cwd: settings.cwd.clone(),
        tokens_changed: tokio::sync::watch::Sender::new(()),
        slots: server::Slots::new(&settings.limits),
        closing: CancellationToken::new(),
        remotes: server::Remotes::default(),
        roster: server::Roster::default(),
        connections: TaskTracker::new(),
    };
    // What Ollama has is on offer as soon as it answers; nobody waits for that.
    service
        .connections
        .spawn(async move { models.refresh().await });
    // Which sandbox works here is known by the time somebody wants it.
    let sandbox = shell.sandbox().cloned();
    service.connections.spawn(async move {
        shell.sandbox_found().await;
    });
    // What commands did to protected files whose supervisor was killed with the server before us.
    service.connections.spawn(async move {
        let recovering =
            tokio::task::spawn_blocking(move || sandbox.map(|sandbox| sandbox.recover()));
        for line in recovering.await.ok().flatten().unwrap_or_default() {
            tracing::warn!("{line}");
        }
    });
    Ok(Running {
        service: Arc::new(service),
        model,
    })
}

/// Refuses to start with a stored key that cannot be used, and warns of proxies that are not used.
fn check(settings: &Settings) -> anyhow::Result<()> {
    for unusable in &settings.network.unusable_proxies {
        let variable = unusable.variable;
        tracing::warn!(variable, "not an HTTP proxy; it is not used");
    }
    let Some(problem) = &settings.keys.problem else {
        return Ok(());
    };
    let hint = "store it again with `fastness login`, or remove it with `fastness logout`";
    Err(Failure::new(problem.clone()).hint(hint).into())
}

/// Whether `fastness login` has stored a key.
struct StoredKeys {
    /// Whether a model was chosen that can answer.
    is_ready: bool,
    config_dir: Option<PathBuf>,
}

impl StoredKeys {
    fn of(settings: &Settings, choice: &llm::Choice) -> Self {
        Self {
            is_ready: !choice.is_fallback,
            config_dir: settings.operator.config_dir.clone(),
        }
    }
}

impl ModelLogin for StoredKeys {
    fn state(&self) -> LoginState {
        if self.is_ready {
            return LoginState::Ready;
        }
        let mut providers = KeyProvider::ALL.into_iter();
        let is_stored = self.config_dir.as_ref().is_some_and(|config_dir| {
            providers.any(|provider| matches!(keys::read(config_dir, provider), Ok(Some(_))))
        });
        match is_stored {
            true => LoginState::StoredSinceStart,
            false => LoginState::Missing,
        }
    }
}

/// What neither tools nor commands see: the data directory and stored keys.
fn hidden(settings: &Settings, data_dir: &Path) -> Vec<PathBuf> {
    let config_dir = settings.operator.config_dir.as_deref();
    let stored = config_dir.map(keys::directory);
    [data_dir.to_owned()].into_iter().chain(stored).collect()
}

/// The directory beneath which guests work, held from now on.
fn guests_base(cwd: &Path) -> Option<Arc<RootBase>> {
    let opened = RootBase::open(cwd);
    let opened = opened.inspect_err(|error| {
        tracing::warn!(%error, "the working directory cannot be opened; named tokens have none");
    });
    opened.ok().map(Arc::new)
}

/// Where sessions get their tool servers from, with the logins that are kept in `data_dir`.
pub(crate) fn servers(network: &Network, data_dir: &Path, settings: &Settings) -> Servers {
    let servers = Servers::new(network.guard.clone());
    let servers = servers.with_trusted_guard(network.trusted_guard.clone());
    let servers = servers.with_logins(data_dir.join("mcp-logins"));
    let servers = servers.with_grace(settings.limits.mcp_grace);
    servers.with_caches(settings.environment.caches())
}

/// How commands run on the server, with a data directory that has no links in its name.
pub(crate) fn shell(settings: &Settings, data_dir: &Path) -> Shell {
    let limits = &settings.limits;
    let bounds = Bounds {
        processes: limits.command_processes_max,
        memory_bytes: limits.command_memory_bytes_max,
        total_memory_bytes: limits.command_total_memory_bytes_max,
        file_bytes: limits.command_file_bytes_max,
    };
    Shell::new(settings.environment.variables(), data_dir.join("sessions"))
        .with_sandbox(bounds, settings.sandbox.clone())
}

/// Where a session of the person at this machine would be if it began in `cwd`.
pub(crate) fn place(settings: &Settings, cwd: &Path) -> Place {
    let data_dir = settings.data_dir.canonicalize();
    Place {
        session: SessionId::random(),
        cwd: cwd.to_owned().into(),
        is_local: true,
        operator: Arc::new(settings.operator.clone()),
        hidden: hidden(
            settings,
            &data_dir.unwrap_or_else(|_| settings.data_dir.clone()),
        ),
        agent: None,
    }
}

/// Opens the store, making the data directory if there is none.
///
/// # Errors
/// If it cannot be used.
pub(crate) fn open_store(settings: &Settings) -> anyhow::Result<FileStore> {
    FileStore::open(&settings.data_dir).with_context(|| {
        format!(
            "the data directory {} cannot be used",
            settings.data_dir.display()
        )
    })
}
