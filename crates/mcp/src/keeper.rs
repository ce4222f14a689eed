//! The task that owns one server: it connects, connects again, and hears of changes.
//!
//! Only this task connects, so there is never more than one try at a time, however many calls wait.
//! Calls go straight to the [`Link`] that it shows; none is ever sent twice.

use std::sync::Arc;

use domain::ToolServer;
use domain::limits::{MCP_CHANGE_WAIT, MCP_LIST_WAIT, MCP_REST, MCP_START_WAIT, MCP_STEADY};
use rmcp::model::{Prompt, Tool};
use rmcp::service::Subscription;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::connect::Connector;
use crate::error::{CallError, ConnectError};
use crate::link::Link;
use crate::supervise::{Phase, Supervision};

/// A server that is looked after. Dropped, it is ended.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) server: ToolServer,
    pub(crate) begun: Instant,
    status: watch::Receiver<Status>,
    wanted: Arc<Notify>,
    stop: CancellationToken,
}

/// How things stand with a server, and what can be done with it.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    pub(crate) link: Option<Arc<Link>>,
    pub(crate) tools: Arc<[Tool]>,
    /// What it has prepared for people.
    pub(crate) prompts: Arc<[Prompt]>,
    /// Whether it has resources.
    pub(crate) has_resources: bool,
    /// Why it is not ready.
    pub(crate) why: Option<String>,
    /// Grows with every change of the tools.
    pub(crate) version: u64,
    /// How often it was started.
    pub(crate) starts: u64,
    /// How often it was looked whether it can be tried again: after a login, or a rest.
    looks: u64,
}

impl Kept {
    /// Begins to look after `server`.
    pub(crate) fn new(server: ToolServer, connector: Connector, changed: Arc<Notify>) -> Self {
        let [spread, ..] = *uuid::Uuid::new_v4().as_bytes();
        let (shown, status) = watch::channel(Status {
            phase: Phase::Starting,
            link: None,
            tools: Arc::new([]),
            prompts: Arc::new([]),
            has_resources: false,
            why: None,
            version: 0,
            starts: 0,
            looks: 0,
        });
        let (wanted, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let keeper = Keeper {
            connector,
            supervision: Supervision::new(spread),
            shown,
            wanted: Arc::clone(&wanted),
            changed,
            subscription: None,
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(keeper.run()));
        Self {
            server,
            begun: Instant::now(),
            status,
            wanted,
            stop,
        }
    }

    pub(crate) fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Waits until it is ready or has failed once. Cancel safe.
    pub(crate) fn begun(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut status = self.status.clone();
        async move {
            let has_begun = |status: &Status| status.phase != Phase::Starting || status.starts > 1;
            // A keeper that is gone will say no more.
            let _ = status.wait_for(has_begun).await;
        }
    }

    /// Has a server begin again that waits for a login, if there is one now, or that failed too often
    /// and has rested. None if it does neither. Cancel safe.
    pub(crate) fn looked_again(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut status = self.status.clone();
        let before = {
            let now = status.borrow();
            let may_begin = match now.phase {
                Phase::LoginNeeded => true,
                Phase::Failed { until } => Instant::now() >= until,
                Phase::Starting | Phase::Ready | Phase::BackingOff { .. } | Phase::Disabled => {
                    false
                }
            };
            may_begin.then_some(now.looks)?
        };
        self.wanted.notify_one();
        Some(async move {
            let is_known =
                |status: &Status| status.looks > before && status.phase != Phase::Starting;
            // A keeper that is gone will say no more.
            let _ = status.wait_for(is_known).await;
        })
    }

    /// Waits until it is ready or will not be for long. Cancel safe.
    pub(crate) fn settled(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut status = self.status.clone();
        async move {
            let is_settled = |status: &Status| match status.phase {
                Phase::Ready | Phase::Failed { .. } | Phase::Disabled | Phase::LoginNeeded => true,
                Phase::Starting | Phase::BackingOff { .. } => false,
            };
            let _ = status.wait_for(is_settled).await;
        }
    }

    /// The connection, once there is one; waits for it if the server is being started.
    pub(crate) fn link(
        &self,
    ) -> impl Future<Output = Result<Arc<Link>, CallError>> + Send + 'static {
        let (mut status, wanted) = (self.status.clone(), Arc::clone(&self.wanted));
        async move {
            wanted.notify_one();
            let is_known = |status: &Status| match status.phase {
                Phase::Ready => status
                    .link
                    .as_ref()
                    .is_some_and(|link| !link.life().is_over()),
                Phase::Failed { until } => Instant::now() < until,
                Phase::Disabled | Phase::LoginNeeded => true,
                Phase::Starting | Phase::BackingOff { .. } => false,
            };
            let waited = timeout(MCP_START_WAIT, status.wait_for(is_known)).await;
            let why = match waited {
                Ok(Ok(status)) => match (&status.phase, &status.link) {
                    (Phase::Ready, Some(link)) => return Ok(Arc::clone(link)),
                    _ => status.why.clone(),
                },
                Ok(Err(_)) => Some("it was ended".to_owned()),
                Err(_) => Some(format!(
                    "it did not begin within {} s",
                    MCP_START_WAIT.as_secs()
                )),
            };
            let why = why.unwrap_or_else(|| "it is not ready".to_owned());
            Err(CallError::NotThere(why))
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Keeper {
    connector: Connector,
    supervision: Supervision,
    shown: watch::Sender<Status>,
    wanted: Arc<Notify>,
    /// Rings whenever something about any server of the session has changed.
    changed: Arc<Notify>,
    /// Where a server of 2026-07-28 says what has changed, if it does.
    subscription: Option<Subscription>,
}

impl Keeper {
    async fn run(mut self) {
        loop {
            match self.supervision.phase() {
                Phase::Starting => self.start().await,
                Phase::Ready => self.attend().await,
                Phase::BackingOff { until } => {
                    sleep_until(until).await;
                    self.supervision.due(Instant::now());
                }
                Phase::Failed { .. } => {
                    self.wanted.notified().await;
                    self.supervision.wanted(Instant::now());
                    self.show(|status| status.looks += 1);
                }
                Phase::LoginNeeded => {
                    self.wanted.notified().await;
                    if self.connector.has_new_login().await {
                        self.supervision.logged_in();
                    }
                    self.show(|status| status.looks += 1);
                }
                Phase::Disabled => std::future::pending().await,
            }
            self.show(|_| {});
        }
    }

    async fn start(&mut self) {
        self.show(|status| status.starts += 1);
        match self.connector.connect().await {
            Ok((link, tools)) => {
                self.supervision.ready(Instant::now());
                let has_resources = link.has_resources();
                self.show(|status| {
                    status.has_resources = has_resources;
                    status.link = Some(Arc::new(link));
                    status.tools = tools.into();
                    status.version += 1;
                    status.why = None;
                });
                self.begin_to_listen().await;
            }
            Err(error) => {
                match &error {
                    ConnectError::LoginNeeded(_) => self.supervision.turned_away(),
                    ConnectError::Refused(_) => self.supervision.refused(),
                    ConnectError::Failed(_)
                    | ConnectError::NoProgram(_)
                    | ConnectError::TooSlow(_) => {
                        self.supervision.failed(Instant::now());
                    }
                }
                self.show(|status| status.why = Some(error.to_string()));
            }
        }
    }

    /// Asks for what takes part only in comfort: its prompts, and to be told of changes. Neither may
    /// keep its tools from being called.
    async fn begin_to_listen(&mut self) {
        let Some(link) = self.shown.borrow().link.clone() else {
            return;
        };
        self.take_prompts(&link).await;
        self.subscription = link.listen().await;
    }

    async fn take_prompts(&self, link: &Link) {
        if let Ok(Ok(prompts)) = timeout(MCP_LIST_WAIT, link.prompts()).await {
            self.show(|status| status.prompts = prompts.into());
        }
    }

    /// Stays with a connection until it ends or what the server has to offer has changed.
    async fn attend(&mut self) {
        let Some(link) = self.shown.borrow().link.clone() else {
            return self.supervision.ended(Instant::now());
        };
        tokio::select! {
            () = link.life().ended() => {
                let why = link.life().why();
                self.subscription = None;
                self.supervision.ended(Instant::now());
                self.show(|status| {
                    // Its tools are still offered: it may be back before they are called.
                    status.link = None;
                    status.why = Some(why);
                });
            }
            () = link.handler().changed() => self.look_again(&link).await,
            is_over = next(&mut self.subscription) => match is_over {
                true => self.listen_again(&link).await,
                false => self.look_again(&link).await,
            }
        }
    }

    /// Listens again after the stream of changes has ended, however often that takes: until then the
    /// server is only asked.
    async fn listen_again(&mut self, link: &Link) {
        self.subscription = None;
        let mut wait = MCP_STEADY;
        while self.subscription.is_none() {
            tokio::select! {
                () = sleep(wait) => {}
                () = link.life().ended() => return,
            }
            self.subscription = link.listen().await;
            // Whatever happened meanwhile was not told, so nothing is answered from what was kept.
            link.peer().clear_response_cache().await;
            self.look_again(link).await;
            wait = (wait * 2).min(MCP_REST);
        }
    }

    async fn look_again(&mut self, link: &Link) {
        // It often says so several times in a row.
        sleep(MCP_CHANGE_WAIT).await;
        if let Ok(tools) = link.tools().await {
            self.show(|status| {
                status.tools = tools.into();
                status.version += 1;
            });
        }
        self.take_prompts(link).await;
    }

    fn show(&self, change: impl FnOnce(&mut Status)) {
        let phase = self.supervision.phase();
        self.shown.send_modify(|status| {
            status.phase = phase;
            let is_lost = matches!(
                phase,
                Phase::Failed { .. } | Phase::Disabled | Phase::LoginNeeded
            );
            if is_lost && !status.tools.is_empty() {
                status.tools = Arc::new([]);
                status.version += 1;
            }
            change(status);
        });
        self.changed.notify_waiters();
    }
}

/// Waits for news; says whether there will be none any more. Without a subscription, never.
async fn next(subscription: &mut Option<Subscription>) -> bool {
    match subscription {
        Some(subscription) => !matches!(subscription.next().await, Ok(Some(_))),
        None => std::future::pending().await,
    }
}
