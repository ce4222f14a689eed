//! What every connection of a process shares.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use auth::{Credential, Door, Gate, Principal, Unauthorized};
use domain::clock::Timestamp;
use domain::{FailureKind, Limits, SessionId};
use session::{Catalog, Config, ModelOption, Root, Sessions};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::acp::{ModelChoice, Settings};

use crate::roster::Roster;
pub(crate) use crate::slots::Slot;
use crate::slots::Slots;
use crate::transport::streamable::Remotes;

/// The sessions, who may reach them, and within what bounds.
pub struct Service {
    /// All sessions.
    pub sessions: Sessions,
    /// Who is let in.
    pub gate: Arc<Gate>,
    /// How it may be addressed, and by which pages.
    pub door: Door,
    /// Every bound.
    pub limits: Limits,
    /// The models that sessions can choose.
    pub catalog: Arc<dyn Catalog>,
    /// Whether there is a key for a model.
    pub model_login: Arc<dyn ModelLogin>,
    /// What no session may have as a root.
    pub data_dir: PathBuf,
    /// Beneath this, sessions of named tokens work.
    pub cwd: PathBuf,
    /// Rung when a token may have been revoked or has expired.
    pub tokens_changed: watch::Sender<()>,
    /// Fires when connections shall close, after their sessions have ended.
    pub closing: CancellationToken,
    /// Room for clients: each network connection takes a slot.
    pub slots: Slots,
    /// Clients that come by single HTTP requests.
    pub remotes: Remotes,
    /// Who is connected, to be shown.
    pub roster: Roster,
    /// The connections, so that the process can wait for them.
    pub connections: TaskTracker,
}

/// Knows whether the user has stored what a model needs.
pub trait ModelLogin: Send + Sync {
    /// How it stands now.
    fn state(&self) -> LoginState;
}

/// Whether there is a key for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginState {
    /// A model answers, with a key or without needing one.
    Ready,
    /// A key was stored since this process began, which does not know it.
    StoredSinceStart,
    /// There is none.
    Missing,
}

/// A state that does not change.
impl ModelLogin for LoginState {
    fn state(&self) -> LoginState {
        *self
    }
}

/// The directories that a client wants a new session in.
pub(crate) struct WantedRoots {
    /// The working directory first.
    pub(crate) paths: Vec<String>,
    /// Whether they must be there.
    pub(crate) must_exist: bool,
}

/// What is set in a session, to be shown.
pub(crate) struct Shown {
    config: Config,
    models: Vec<ModelChoice>,
}

impl Shown {
    /// As ACP shows it.
    pub(crate) fn settings(&self) -> Settings<'_> {
        Settings {
            mode: self.config.mode.name(),
            model: &self.config.model,
            models: &self.models,
        }
    }
}

impl Service {
    /// Admits a caller.
    ///
    /// # Errors
    /// If the credential opens nothing.
    pub fn admit(&self, credential: &Credential<'_>) -> Result<Principal, Unauthorized> {
        self.gate.admit(credential, Timestamp::now())
    }

    /// Room for one more client, if there is any.
    pub(crate) fn take_slot(&self, principal: &Principal) -> Option<Slot> {
        self.slots.take(principal)
    }

    /// Counts a request over REST.
    ///
    /// # Errors
    /// In how many milliseconds the next one is welcome, if the principal sends too many.
    pub(crate) fn count_request(&self, principal: &Principal) -> Result<(), u64> {
        self.slots.count_request(principal, Instant::now())
    }

    /// What is set in a session, with what could be.
    pub(crate) fn settings(&self, config: &Config) -> Shown {
        let choice = |option: ModelOption| ModelChoice {
            value: option.spec,
            name: option.name,
        };
        Shown {
            config: config.clone(),
            models: self.catalog.options().into_iter().map(choice).collect(),
        }
    }

    /// The directories of a new session of `principal`: each is absolute and not, even in part, the
    /// data directory. They are opened on another thread, since a disk may hang.
    ///
    /// # Errors
    /// Why it may not work there, for the client.
    pub(crate) async fn check_roots(
        self: &Arc<Self>,
        principal: &Principal,
        wanted: WantedRoots,
    ) -> Result<Vec<Root>, String> {
        let (service, principal) = (Arc::clone(self), principal.clone());
        let checking = tokio::task::spawn_blocking(move || {
            let check = |path: &String| -> Result<Root, String> {
                let root = service.check_root(&principal, path)?;
                if wanted.must_exist {
                    Self::check_directory(path)?;
                }
                Ok(root)
            };
            wanted.paths.iter().map(check).collect()
        });
        let checked = checking.await;
        checked.unwrap_or_else(|_| Err("the directory could not be looked at".to_owned()))
    }

    fn check_root(&self, principal: &Principal, root: &str) -> Result<Root, &'static str> {
        let path = Path::new(root);
        let is_plain = path
            .components()
            .all(|part| !matches!(part, Component::ParentDir));
        if !path.is_absolute() || !is_plain {
            return Err("cwd and other directories must be absolute paths");
        }
        let found = self.sessions.find_root(principal, root);
        let found = found.map_err(|_| "this token works beneath the server's directory")?;
        // A link may lead there under another name.
        if [path, found.real()]
            .iter()
            .any(|path| path.starts_with(&self.data_dir))
        {
            return Err("a session cannot work inside the data directory");
        }
        Ok(found)
    }

    /// Whether a new session can work in `path`: sessions that are there may have lost theirs.
    ///
    /// # Errors
    /// Why it cannot, for the client.
    fn check_directory(path: &str) -> Result<(), String> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(format!("{path} is not a directory")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(format!("the directory {path} does not exist"))
            }
            Err(error) => Err(format!("the directory {path} cannot be used: {error}")),
        }
    }

    /// Whether a principal that was admitted before would still be.
    pub(crate) fn still_admits(&self, principal: &Principal) -> bool {
        self.gate.still_admits(principal, Timestamp::now())
    }

    /// Deletes a session if it is the principal's, and what was handed out to look at it.
    ///
    /// # Errors
    /// If it is there and theirs but cannot be deleted.
    pub(crate) async fn delete_session(
        &self,
        principal: &Principal,
        id: SessionId,
    ) -> Result<(), FailureKind> {
        self.sessions.delete(principal, id).await?;
        // Of a stranger's session nothing was deleted; it keeps its shares.
        if self.sessions.exists(id).await {
            return Ok(());
        }
        let gate = Arc::clone(&self.gate);
        let forgetting = tokio::task::spawn_blocking(move || gate.forget_shares(id)).await;
        if !matches!(forgetting, Ok(Ok(()))) {
            // They open nothing any more, and end by themselves.
            meters::CLEANUP_FAILURES.count();
            tracing::warn!(session = %id, "shares of a deleted session are still listed");
        }
        Ok(())
    }

    /// The models that sessions can choose, the process's own first.
    pub(crate) fn models(&self) -> Vec<String> {
        let options = self.catalog.options().into_iter();
        options.map(|option| option.spec).collect()
    }

    /// The model of sessions that have chosen none.
    pub(crate) fn own_model(&self) -> String {
        self.models().into_iter().next().unwrap_or_default()
    }

    /// Looks at the named tokens again and again, so that connections of a revoked one end soon.
    /// Returns when the service closes.
    pub async fn watch_tokens(&self) {
        let mut looks = tokio::time::interval(TOKENS_LOOK);
        let mut known = self.gate.fingerprint(Timestamp::now());
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return,
                _ = looks.tick() => {}
            }
            let now = self.gate.fingerprint(Timestamp::now());
            if now != known {
                known = now;
                self.tokens_changed.send_replace(());
            }
        }
    }

    /// Ends everything in order: running turns until `limits.drain`, then the sessions, then the
    /// connections, each of which first sends what waits for it.
    pub async fn shut_down(&self) {
        self.shut_down_within(self.limits.drain).await;
    }

    /// As [`Service::shut_down`], with another time for running turns.
    pub async fn shut_down_within(&self, turns: std::time::Duration) {
        self.sessions.shut_down(Instant::now() + turns).await;
        self.closing.cancel();
        self.connections.close();
        // Connections flush within their stall time; a process that ends need not wait that long.
        let flushed = tokio::time::timeout(FLUSH_TIME_MAX, self.connections.wait()).await;
        if flushed.is_err() {
            tracing::warn!("some connections did not take their last messages in time");
        }
    }
}

/// How often the named tokens are looked at: revoking closes sockets within a second.
const TOKENS_LOOK: std::time::Duration = std::time::Duration::from_millis(250);

/// How long connections may take to send their last messages when the process ends.
pub(crate) const FLUSH_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(2);
